/** The pods of one experiment as the cluster has them: list, watch, and list again, whatever breaks in between. */
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { V1Pod } from '@kubernetes/client-node'
import { type Api, ApiError, pauseBefore } from './api.ts'

interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: V1Pod & { readonly code?: number }
}

interface WatchPatience {
  /** A watch is ended and the pods listed anew after this long: what a silent watch missed is seen then. */
  readonly relistMs: number
  readonly firstBackoffMs: number
}

const defaultPatience: WatchPatience = { relistMs: 15_000, firstBackoffMs: 250 }

export class PodWatch {
  private readonly pods = new Map<string, V1Pod>()
  private readonly listeners = new Set<() => void>()
  private readonly end = new AbortController()
  private running: Promise<void> | undefined
  /** Why the last list or watch failed; undefined while they work. */
  problem: string | undefined

  constructor(
    private readonly api: Api,
    private readonly labelSelector: string,
    private readonly patience: WatchPatience = defaultPatience,
  ) {}

  get(name: string): V1Pod | undefined {
    return this.pods.get(name)
  }

  all(): V1Pod[] {
    return [...this.pods.values()]
  }

  /** Calls back after every change. Returns what ends it. */
  listen(listener: () => void): () => void {
    this.running ??= this.run()
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  /** Resolves with what `decide` returns once it returns something. @throws what it throws; the signal's reason */
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
    const name = pod.metadata!.name!
    if (!this.pods.has(name)) this.pods.set(name, pod)
    this.changed()
  }

  async close(): Promise<void> {
    this.end.abort(new Error('closed'))
    await this.running
  }

  private async run(): Promise<void> {
    const { signal } = this.end
    let failures = 0
    while (!signal.aborted) {
      try {
        const version = await this.list(signal)
        this.problem = undefined
        await this.watch(version, signal)
        failures = 0
      } catch (error) {
        if (signal.aborted) return
        this.problem = (error as Error).message
        // A version that is too old is listed anew at once; anything else waits.
        if (error instanceof ApiError && error.status === 410) continue
        await sleep(pauseBefore(++failures, this.patience.firstBackoffMs, error), undefined, { signal }).catch(() => {}) // closed: the loop ends
      }
    }
  }

  private get path(): string {
    return `/api/v1/namespaces/${this.api.namespace}/pods`
  }

  private async list(signal: AbortSignal): Promise<string> {
    const asked = new Set(this.pods.keys())
    const list = await this.api.request<{ metadata: { resourceVersion: string }; items: V1Pod[] }>('GET', this.path, {
      query: { labelSelector: this.labelSelector },
      signal,
    })
    const there = new Set(list.items.map((pod) => pod.metadata!.name!))
    // A pod made while the list was under way may not be in it.
    for (const name of asked) if (!there.has(name)) this.pods.delete(name)
    for (const pod of list.items) this.pods.set(pod.metadata!.name!, pod)
    this.changed()
    return list.metadata.resourceVersion
  }

  /** Resolves when the server ends the watch in its time. */
  private async watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { relistMs } = this.patience
    const overdue = AbortSignal.timeout(relistMs + 2_000)
    const either = AbortSignal.any([signal, overdue])
    const query = {
      watch: true,
      labelSelector: this.labelSelector,
      resourceVersion,
      allowWatchBookmarks: true,
      timeoutSeconds: Math.max(1, Math.ceil(relistMs / 1000)),
    }
    try {
      const response = await this.api.stream(this.path, query, either)
      for await (const line of createInterface(response)) this.apply(JSON.parse(line) as WatchEvent)
    } catch (error) {
      // Silent beyond its time: list anew.
      if (!overdue.aborted || signal.aborted) throw error
    }
  }

  private apply({ type, object }: WatchEvent): void {
    if (type === 'ERROR')
      throw new ApiError(object.code ?? 500, 'WatchError', (object as { message?: string }).message ?? 'the watch failed')
    if (type === 'BOOKMARK') return
    const name = object.metadata!.name!
    if (type === 'DELETED') this.pods.delete(name)
    else this.pods.set(name, object)
    this.changed()
  }

  private changed(): void {
    for (const listener of [...this.listeners]) listener()
  }
}
