/** Records requests one by one for a LoadRun, and classifies their errors. */
import type { Load } from '../model/load.ts'
import type { LoadRun, StreamRun } from '../model/load-run.ts'
import { selectQuantile } from '../statistics/percentile.ts'
import type { StreamTimes } from './sender.ts'

/** Collects requests as they end, in any order, and returns them in send order. */
export class Recorder {
  private readonly sent: number[] = []
  private readonly latency: number[] = []
  private readonly late: number[] = []
  private readonly kinds: Record<string, number> = {}
  private readonly classes = new Map<number, string>()
  private readonly streams = new Map<number, StreamTimes & { readonly e2eMs: number }>()

  /**
   * Reserves an entry for a request with this intended send time, ms from the start, sent `lateMs`
   * later. Returns its index.
   */
  addRequest(sentMs: number, lateMs = 0): number {
    this.sent.push(sentMs)
    this.late.push(lateMs)
    return this.latency.push(Number.NaN) - 1
  }

  /** @param e2eMs time from the intended send to the last byte */
  recordAnswer(index: number, e2eMs: number, stream?: StreamTimes): void {
    if (stream !== undefined) this.streams.set(index, { ...stream, e2eMs })
    this.latency[index] = e2eMs
  }

  /** Records the class of a request. */
  setClass(index: number, requestClass: string): void {
    this.classes.set(index, requestClass)
  }

  recordFailure(index: number, kind: string): void {
    this.latency[index] = Number.NaN
    this.kinds[kind] = (this.kinds[kind] ?? 0) + 1
  }

  buildRun(
    load: Load,
    totals: Pick<
      LoadRun,
      'seconds' | 'elapsedS' | 'generatorCores' | 'cutMs' | 'generatorPausesMs' | 'connections'
    > & { planned?: number },
  ): LoadRun {
    const isOpen = load.kind === 'open'
    const order = Uint32Array.from(this.sent.keys()).sort(
      (a, b) => this.sent[a]! - this.sent[b]! || a - b,
    )
    return {
      load,
      sentMs: Float64Array.from(order, (i) => this.sent[i]!),
      latencyMs: Float64Array.from(order, (i) => this.latency[i]!),
      errorKinds: this.kinds,
      planned: totals.planned ?? this.sent.length,
      lateMs: isOpen ? Float64Array.from(order, (i) => this.late[i]!) : undefined,
      latenessP99Ms:
        isOpen && this.late.length > 0
          ? selectQuantile(Float64Array.from(this.late).sort(), 0.99)
          : 0,
      seconds: totals.seconds,
      elapsedS: totals.elapsedS,
      generatorCores: totals.generatorCores,
      cutMs: totals.cutMs,
      generatorPausesMs: totals.generatorPausesMs,
      ...(totals.connections && { connections: totals.connections }),
      ...(this.streams.size > 0 && { stream: this.buildStreamRun(order) }),
    }
  }

  private buildStreamRun(order: Uint32Array): StreamRun {
    const collect = (
      value: (stream: StreamTimes & { readonly e2eMs: number }, index: number) => number,
    ) =>
      Float64Array.from(order, (i) =>
        this.streams.has(i) ? value(this.streams.get(i)!, i) : Number.NaN,
      )
    const streams = [...this.streams.values()]
    return {
      latenciesMs: {
        // From the intended send, as `e2eMs` is; `firstTokenMs` counts from the actual one.
        ttft: collect((stream, i) => stream.firstTokenMs + this.late[i]!),
        tpot: collect(computeTpotMs),
        e2e: collect((stream) => stream.e2eMs),
      },
      tokens: collect((stream) => stream.tokens),
      inputTokens: collect((stream) => stream.inputTokens ?? Number.NaN),
      ...(this.classes.size > 0 && { classes: Array.from(order, (i) => this.classes.get(i)) }),
      gapsMs: Float64Array.from(streams.flatMap((stream) => stream.gapsMs)),
    }
  }
}

/**
 * Time per output token after the first, ms; 0 for an answer of one token, NaN for tokens that came
 * all at once. Hidden tokens precede the first observed one, so they do not count.
 */
function computeTpotMs({
  firstTokenMs,
  lastTokenMs,
  tokens,
  hiddenTokens = 0,
  arrivedAtOnce,
}: StreamTimes): number {
  if (arrivedAtOnce) return Number.NaN
  const observedTokens = tokens - hiddenTokens
  return observedTokens < 2 ? 0 : (lastTokenMs - firstTokenMs) / (observedTokens - 1)
}

/** Error class of a failed request, as in the load point's `errorKinds`. */
export function classifyError(error: unknown): string {
  const code = (error as { code?: unknown }).code
  switch (code) {
    case 'ECONNREFUSED':
    case 'ENOENT': // of a socket
      return 'refused'
    case 'ECONNRESET':
    case 'EPIPE':
      return 'reset'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'no such host'
    case 'ETIMEDOUT':
      return 'connect timeout'
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'CERT_HAS_EXPIRED':
      return `tls ${code}`
    default:
      return typeof code === 'string'
        ? code
        : error instanceof Error
          ? error.message.slice(0, 60)
          : String(error)
  }
}
