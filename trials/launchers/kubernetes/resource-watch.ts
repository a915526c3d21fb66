/**
 * Objects of one kind as the cluster has them, kept up to date by a list and a watch:
 *
 *     list ──version──► watch ──ends, or fails (then a pause)──► watch from the last version
 *       ▲                                                               │
 *       └──────────────── 410 Gone: the version is too old ◄────────────┘
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseUntrustedJson, readLines } from '../../../profiler/bounded-reader.ts'
import { type Api, ApiError, pauseBefore } from './api.ts'

interface Watched {
  readonly metadata?: { readonly name?: string; readonly resourceVersion?: string }
}

interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'
  readonly object: T & { readonly code?: number; readonly message?: string }
}

export interface WatchPatience {
  /**
   * A watch is begun anew from where it stood after this long: what a silent one missed is told
   * then.
   */
  readonly renewMs: number
  readonly firstBackoffMs: number
}

const defaultPatience: WatchPatience = { renewMs: 15_000, firstBackoffMs: 250 }
const steadyMs = 1_000

export abstract class ResourceWatch<T extends Watched> {
  private readonly end = new AbortController()
  private running: Promise<void> | undefined
  private answered = (): void => {}
  private readonly answer = new Promise<void>((resolve) => {
    this.answered = resolve
  })
  /** The version up to which all is known; undefined: a list is needed. */
  private version: string | undefined
  /** Why the last list or watch failed; undefined while they work. */
  problem: Error | undefined

  constructor(
    protected readonly api: Api,
    private readonly kind: 'pods' | 'events',
    private readonly query: { readonly labelSelector?: string },
    private readonly patience: WatchPatience = defaultPatience,
  ) {}

  /** Called before each list. */
  protected asks(): void {}
  /** Called with all objects. */
  protected abstract listed(items: readonly T[]): void
  /** Called with an object that changed, or that is gone. */
  protected abstract told(object: T, gone: boolean): void
  /** Parameters of the list, beside its selector. */
  protected readonly listQuery: { readonly limit?: number } = {}

  /** Whether the watch ends where the tuner may not see the objects. */
  protected readonly endsWithoutLeave: boolean = false

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
        (this.endsWithoutLeave && error instanceof ApiError && error.status === 403)
      )
        return
      // Some proxies end every watch within seconds: one that lasted so long was no failure,
      // whatever its end.
      failures = performance.now() - sinceMs > steadyMs ? 0 : failures + 1
      if (failures > 0)
        await sleep(pauseBefore(failures, this.patience.firstBackoffMs, error), undefined, {
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
      // Too old to go on from: all is listed anew.
      if (error instanceof ApiError && error.status === 410) this.version = undefined
      throw error
    }
  }

  /** Of the kind, in the namespace. */
  protected get path(): string {
    return `/api/v1/namespaces/${this.api.namespace}/${this.kind}`
  }

  private async list(signal: AbortSignal): Promise<string> {
    this.asks()
    const { metadata, items } = await this.api.request<{
      metadata: { resourceVersion: string }
      items: T[]
    }>('GET', this.path, {
      query: { ...this.query, ...this.listQuery },
      signal,
    })
    this.listed(items)
    return metadata.resourceVersion
  }

  /** Resolves when the server ends the watch in its time, or when nothing came beyond it. */
  private async watch(resourceVersion: string, signal: AbortSignal): Promise<void> {
    const { renewMs } = this.patience
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
    if (type !== 'BOOKMARK') this.told(object, type === 'DELETED')
  }
}
