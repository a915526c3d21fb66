/**
 * What the cluster says about an experiment's pods and Jobs: one watch of the namespace's events
 * for all of its trials.
 */
import type { CoreV1Event } from '@kubernetes/client-node'
import { type Api, ApiError } from './api.ts'
import { ResourceWatch, type WatchPatience } from './resource-watch.ts'

/** Kept of one object, and objects of which any are kept: the last ones. */
const [mostOfOne, mostObjects] = [20, 500]

export class EventWatch extends ResourceWatch<CoreV1Event> {
  /** Name of an object → name of an event → it, the newest last. */
  private readonly about = new Map<string, Map<string, CoreV1Event>>()
  /** Events from before are of no interest: only the version is. */
  protected override readonly listQuery = { limit: 1 }
  protected override readonly endsWithoutLeave = true

  /** @param prefix of the names of objects that are listened for */
  constructor(
    api: Api,
    private readonly prefix: string,
    patience?: WatchPatience,
  ) {
    super(api, 'events', {}, patience)
  }

  /**
   * Of an object that was made after `begin` had resolved, the newest last.
   * @throws ApiError where events may not be seen
   */
  async of(name: string, signal: AbortSignal): Promise<CoreV1Event[]> {
    const { problem } = this
    if (!(problem instanceof ApiError) || problem.status !== 403)
      return [...(this.about.get(name)?.values() ?? [])]
    // Who may not watch may still list.
    const query = { fieldSelector: `involvedObject.name=${name}` }
    return (await this.api.request<{ items: CoreV1Event[] }>('GET', this.path, { query, signal }))
      .items
  }

  /** What was said of an object that is gone, and of a Job's pods. */
  forget(name: string): void {
    for (const key of this.about.keys())
      if (key === name || key.startsWith(`${name}-`)) this.about.delete(key)
  }

  protected override listed(): void {}

  protected override told(event: CoreV1Event, gone: boolean): void {
    const { name = '' } = event.involvedObject ?? {}
    if (gone || !name.startsWith(this.prefix)) return
    const events = this.about.get(name) ?? new Map<string, CoreV1Event>()
    const key = event.metadata?.name ?? ''
    events.delete(key)
    events.set(key, event)
    if (events.size > mostOfOne) events.delete(events.keys().next().value!)
    this.about.set(name, events)
    if (this.about.size > mostObjects) this.about.delete(this.about.keys().next().value!)
  }
}
