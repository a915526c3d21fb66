/** The pods of one experiment as the cluster has them, and what it says about them. */
import type { V1Pod } from '@kubernetes/client-node'
import type { Api } from './api.ts'
import { EventWatch } from './event-watch.ts'
import { ResourceWatch, type WatchPatience } from './resource-watch.ts'

export class PodWatch extends ResourceWatch<V1Pod> {
  /** Of the experiment's pods and Jobs. */
  readonly events: EventWatch
  /** Trials whose load generator has no place on a node yet. */
  readonly trialsWaitingForLoad = new Set<number>()
  private readonly pods = new Map<string, V1Pod>()
  private readonly listeners = new Set<() => void>()
  /** Pods that were known when a list was asked for: one made meanwhile may not be in it. */
  private asked: ReadonlySet<string> = new Set()

  /** @param prefix what names of the experiment's pods and Jobs begin with */
  constructor(api: Api, labelSelector: string, prefix: string, patience?: WatchPatience) {
    super(api, 'pods', { labelSelector }, patience)
    this.events = new EventWatch(api, prefix, patience)
  }

  get(name: string): V1Pod | undefined {
    return this.pods.get(name)
  }

  all(): V1Pod[] {
    return [...this.pods.values()]
  }

  /** Calls back after every change. Returns what ends it. */
  listen(listener: () => void): () => void {
    void this.begin()
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /**
   * Resolves with what `decide` returns once it returns something. @throws what it throws; the
   * signal's reason
   */
  async until<T>(decide: () => T | undefined, signal: AbortSignal): Promise<T> {
    signal.throwIfAborted()
    return new Promise<T>((resolve, reject) => {
      const settle = (act: () => void) => {
        unlisten()
        signal.removeEventListener('abort', aborted)
        act()
      }
      const aborted = () => settle(() => reject(signal.reason))
      const look = () => {
        try {
          const found = decide()
          if (found !== undefined) settle(() => resolve(found))
        } catch (error) {
          settle(() => reject(error))
        }
      }
      const unlisten = this.listen(look)
      signal.addEventListener('abort', aborted, { once: true })
      look()
    })
  }

  /** What the server returned for a pod just made or changed, ahead of the watch. */
  note(pod: V1Pod): void {
    if (!this.pods.has(pod.metadata!.name!)) this.keep(pod)
    this.changed()
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.events.close()])
  }

  protected override asks(): void {
    this.asked = new Set(this.pods.keys())
  }

  protected override listed(items: readonly V1Pod[]): void {
    const there = new Set(items.map((pod) => pod.metadata!.name!))
    for (const name of this.asked) if (!there.has(name)) this.pods.delete(name)
    for (const pod of items) this.keep(pod)
    this.changed()
  }

  protected override told(pod: V1Pod, gone: boolean): void {
    if (gone) this.pods.delete(pod.metadata!.name!)
    else this.keep(pod)
    this.changed()
  }

  private keep(pod: V1Pod): void {
    // Who set which field is most of a pod's text, and nobody here asks for it.
    delete pod.metadata!.managedFields
    this.pods.set(pod.metadata!.name!, pod)
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener()
  }
}
