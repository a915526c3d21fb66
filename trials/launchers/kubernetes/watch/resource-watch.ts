/**
 * Objects of one kind, kept up to date by a list and a watch:
 *
 *     list ──version──► watch ──ends, or fails (then a pause)──► watch from the last version
 *       ▲                                                               │
 *       └──────────────── 410 Gone: the version is too old ◄────────────┘
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseUntrustedJson, readLines } from '../../../../profiler/bounded-reader.ts'
import { type Api, ApiError, computeBackoffMs } from '../api/api.ts'

interface WatchedObject {
  readonly metadata?: { readonly name?: string; readonly resourceVersion?: string }
}

interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: T & { readonly code?: number; readonly message?: string }
}

export interface WatchTimeouts {
  /** A watch is renewed after this time, from its last version: a stalled watch then catches up. */
  readonly renewMs: number
  readonly firstBackoffMs: number
}

const defaultTimeouts: WatchTimeouts = { renewMs: 15_000, firstBackoffMs: 250 }
/** A watch that lasted longer is no failure. */
const minHealthyWatchMs = 1_000

export abstract class ResourceWatch<T extends WatchedObject> {
  private readonly end = new AbortController()
  private running: Promise<void> | undefined
  private answered = (): void => {}
  private readonly answer = new Promise<void>((resolve) => {
    this.answered = resolve
  })
  /** The last known resource version; undefined: a list is needed. */
  private version: string | undefined
  /** Why the last list or watch failed; undefined while they work. */
  problem: Error | undefined

  constructor(
    protected readonly api: Api,
    private readonly kind: 'pods' | 'events',
    private readonly query: { readonly labelSelector?: string },
    private readonly timeouts: WatchTimeouts = defaultTimeouts,
  ) {}

  /** Called before each list. */
  protected beforeList(): void {}
  /** Called with all objects. */
  protected abstract applyList(items: readonly T[]): void
  /** Called with a changed or deleted object. */
  protected abstract applyChange(object: T, isGone: boolean): void
  /** Parameters of the list, in addition to its selector. */
  protected readonly listQuery: { readonly limit?: number } = {}

  /** Whether the watch ends if the tuner has no permission (403). */
  protected readonly stopsWhenForbidden: boolean = false

  /** Starts the watch. Resolves when the server has answered, with a list or an error. */
  begin(): Promise<void> {
    this.running ??= this.run()
    return this.answer
  }

  async close(): Promise<void> {
    this.end.abort(new Error('closed'))
    await this.running
  }

  private async run(): Promise<void> {
    const { signal } = this.end
    for (let failures = 0; !signal.aborted; ) {
      const sinceMs = performance.now()
      const error = await this.once(signal).then(
        () => undefined,
        (error: unknown) => error as Error,
      )
      this.problem = error
      this.answered()
      if (
        signal.aborted ||
        (this.stopsWhenForbidden && error instanceof ApiError && error.status === 403)
      )
        return
      // Some proxies end every watch within seconds: a watch of this length was no failure, however
      // it ended.
      failures = performance.now() - sinceMs > minHealthyWatchMs ? 0 : failures + 1
      if (failures > 0)
        await sleep(computeBackoffMs(failures, this.timeouts.firstBackoffMs, error), undefined, {
          signal,
        }).catch(() => {}) // closed: the loop ends
    }
  }

  private async once(signal: AbortSignal): Promise<void> {
    try {
      this.version ??= await this.list(signal)
      this.problem = undefined
      this.answered()
      await this.watch(this.version, signal)
    } catch (error) {
      // The version is too old: list again.
      if (error instanceof ApiError && error.status === 410) this.version = undefined
      throw error
    }
  }

  /** API path of the kind in the namespace. */
  protected get path(): string {
    return `/api/v1/namespaces/${this.api.namespace}/${this.kind}`
  }

  private async list(signal: AbortSignal): Promise<string> {
    this.beforeList()
    const { metadata, items } = await this.api.request<{
      metadata: { resourceVersion: string }
      items: T[]
    }>('GET', this.path, {
      query: { ...this.query, ...this.listQuery },
      signal,
    })
    this.applyList(items)
    return metadata.resourceVersion
  }

  /** Resolves when the server ends the watch on time, or when it is overdue. */
  private async watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { renewMs } = this.timeouts
    const overdue = AbortSignal.timeout(renewMs + 2_000)
    const query = {
      ...this.query,
      watch: true,
      resourceVersion,
      allowWatchBookmarks: true,
      timeoutSeconds: Math.max(1, Math.ceil(renewMs / 1000)),
    }
    try {
      const response = await this.api.stream(this.path, query, AbortSignal.any([signal, overdue]))
      for await (const line of readLines(response))
        if (line !== '') this.apply(parseUntrustedJson(line) as WatchEvent<T>)
    } catch (error) {
      if (!overdue.aborted || signal.aborted) throw error
    }
  }

  private apply({ type, object }: WatchEvent<T>): void {
    if (type === 'ERROR')
      throw new ApiError(object.code ?? 500, 'WatchError', object.message ?? 'the watch failed')
    this.version = object.metadata?.resourceVersion ?? this.version
    if (type !== 'BOOKMARK') this.applyChange(object, type === 'DELETED')
  }
}
