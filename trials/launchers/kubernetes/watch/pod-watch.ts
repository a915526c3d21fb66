/** The pods of one experiment, with their events. */
import type { V1Pod } from '@kubernetes/client-node'
import type { Api } from '../api/api.ts'
import { EventWatch } from './event-watch.ts'
import { ResourceWatch, type WatchTimeouts } from './resource-watch.ts'

export class PodWatch extends ResourceWatch<V1Pod> {
  /** Events of the experiment's pods and Jobs. */
  readonly events: EventWatch
  /** Trials that need further pods: a stage of their pipeline, or their load generator. */
  readonly trialsWaitingForPods = new Set<number>()
  private readonly pods = new Map<string, V1Pod>()
  private readonly listeners = new Set<() => void>()
  /** Pods known when the list was requested: pods created later may be missing from it. */
  private knownAtList: ReadonlySet<string> = new Set()

  /** @param prefix prefix of the names of the experiment's pods and Jobs */
  constructor(api: Api, labelSelector: string, prefix: string, timeouts?: WatchTimeouts) {
    super(api, 'pods', { labelSelector }, timeouts)
    this.events = new EventWatch(api, prefix, timeouts)
  }

  get(name: string): V1Pod | undefined {
    return this.pods.get(name)
  }

  all(): V1Pod[] {
    return [...this.pods.values()]
  }

  /**
   * Calls `listener` after every change.
   * @returns a function that removes the listener
   */
  listen(listener: () => void): () => void {
    void this.begin()
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /**
   * Resolves with the first result of `decide` that is not undefined.
   * @throws errors of `decide`; the signal's reason
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
      const check = () => {
        try {
          const result = decide()
          if (result !== undefined) settle(() => resolve(result))
        } catch (error) {
          settle(() => reject(error))
        }
      }
      const unlisten = this.listen(check)
      signal.addEventListener('abort', aborted, { once: true })
      check()
    })
  }

  /** Stores a pod that the server returned on creation, ahead of the watch. */
  record(pod: V1Pod): void {
    if (!this.pods.has(pod.metadata!.name!)) this.store(pod)
    this.notifyListeners()
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.events.close()])
  }

  protected override beforeList(): void {
    this.knownAtList = new Set(this.pods.keys())
  }

  protected override applyList(items: readonly V1Pod[]): void {
    const listedNames = new Set(items.map((pod) => pod.metadata!.name!))
    for (const name of this.knownAtList) if (!listedNames.has(name)) this.pods.delete(name)
    for (const pod of items) this.store(pod)
    this.notifyListeners()
  }

  protected override applyChange(pod: V1Pod, isGone: boolean): void {
    if (isGone) this.pods.delete(pod.metadata!.name!)
    else this.store(pod)
    this.notifyListeners()
  }

  private store(pod: V1Pod): void {
    // Managed fields are most of a pod's size, and unused here.
    delete pod.metadata!.managedFields
    this.pods.set(pod.metadata!.name!, pod)
  }

  private notifyListeners(): void {
    for (const listener of [...this.listeners]) listener()
  }
}
