/** Events about an experiment's pods and Jobs: one watch of the namespace for all trials. */
import type { CoreV1Event } from '@kubernetes/client-node'
import { type Api, ApiError } from '../api/api.ts'
import { ResourceWatch, type WatchTimeouts } from './resource-watch.ts'

/** Limits of the stored events: the last ones of each object, and of the last objects. */
const [maxEventsPerObject, maxObjects] = [20, 500]

export class EventWatch extends ResourceWatch<CoreV1Event> {
  /** Name of an object → name of an event → event, newest last. */
  private readonly eventsByObject = new Map<string, Map<string, CoreV1Event>>()
  /** Only the resource version matters: earlier events are ignored. */
  protected override readonly listQuery = { limit: 1 }
  protected override readonly stopsWhenForbidden = true

  /** @param prefix prefix of the names of watched objects */
  constructor(
    api: Api,
    private readonly prefix: string,
    timeouts?: WatchTimeouts,
  ) {
    super(api, 'events', {}, timeouts)
  }

  /**
   * Events of an object that was created after `begin` had resolved, newest last.
   * @throws ApiError if events may not be read
   */
  async listEvents(name: string, signal: AbortSignal): Promise<CoreV1Event[]> {
    const { problem } = this
    if (!(problem instanceof ApiError) || problem.status !== 403)
      return [...(this.eventsByObject.get(name)?.values() ?? [])]
    // Permission to list may exist without permission to watch.
    const query = { fieldSelector: `involvedObject.name=${name}` }
    return (await this.api.request<{ items: CoreV1Event[] }>('GET', this.path, { query, signal }))
      .items
  }

  /** Drops the events of a removed object, and of a Job's pods. */
  forget(name: string): void {
    for (const key of this.eventsByObject.keys())
      if (key === name || key.startsWith(`${name}-`)) this.eventsByObject.delete(key)
  }

  protected override applyList(): void {}

  protected override applyChange(event: CoreV1Event, isGone: boolean): void {
    const { name = '' } = event.involvedObject ?? {}
    if (isGone || !name.startsWith(this.prefix)) return
    const events = this.eventsByObject.get(name) ?? new Map<string, CoreV1Event>()
    const key = event.metadata?.name ?? ''
    events.delete(key)
    events.set(key, event)
    if (events.size > maxEventsPerObject) events.delete(events.keys().next().value!)
    this.eventsByObject.set(name, events)
    if (this.eventsByObject.size > maxObjects)
      this.eventsByObject.delete(this.eventsByObject.keys().next().value!)
  }
}
