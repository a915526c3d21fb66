/** Streams of known times as the load generator and the plain client tell of them, side by side. */
import { once } from 'node:events'
import { schedule } from '../load/arrivals.ts'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import { summariseRun } from '../load/load-point.ts'
import type { Load } from '../model/load.ts'
import type { LatencySummary } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import { forkEntry } from '../module-entry.ts'
import type { KnownStream } from '../testing/token-server.ts'
import { plainStreams } from './plain-stream.ts'

/**
 * How the streams of a case are drawn: evenly from the least to the most, first tokens and gaps
 * each in an order of its own.
 */
export interface StreamCase {
  readonly rateRps: number
  readonly seconds: number
  readonly firstMs: readonly [number, number]
  readonly eachMs: readonly [number, number]
  readonly tokens: number
}

type Percentiles = Pick<LatencySummary, 'p50Ms' | 'p90Ms' | 'p99Ms'>

/** NaN where some request had no answer. */
interface Figures {
  readonly ttft: Percentiles
  readonly tpot: Percentiles
}

export interface SeenStreams {
  /** What the server was told to do. */
  readonly truth: Figures
  readonly ours: Figures
  readonly plain: Figures
  /** Of the generator, while both were at it. */
  readonly run: LoadRun
}

/**
 * Both send the same requests at the same times to the same server, at once: what disturbs the one
 * disturbs the other.
 */
export async function seenStreams({
  rateRps,
  seconds,
  firstMs,
  eachMs,
  tokens,
}: StreamCase): Promise<SeenStreams> {
  const load: Load = {
    kind: 'open',
    rateRps,
    arrivals: { kind: 'constant' },
    durationS: seconds,
    seed: 1,
  }
  const sendsMs = [...schedule(load)]
  const asked = sendsMs.map((_, i): KnownStream => {
    // Steps that have no divisor in common with the number of requests: every share of the range
    // once, in no order.
    const share = (step: number) => ((i * step) % sendsMs.length) / Math.max(1, sendsMs.length - 1)
    const between = ([least, most]: readonly [number, number], at: number) =>
      least + at * (most - least)
    return { first_ms: between(firstMs, share(37)), each_ms: between(eachMs, share(53)), tokens }
  })
  const bodies = asked.map((one) => JSON.stringify(one))
  const child = forkEntry('../testing/token-server', import.meta.url)
  const generator = new HttpLoadGenerator()
  try {
    child.send({})
    const [{ port }] = (await once(child, 'message')) as [{ port: number }]
    const target: Target = {
      kind: 'http',
      transport: 'sse',
      url: `http://127.0.0.1:${port}`,
      path: '/v1/chat/completions',
      headers: {},
      bodies: bodies.map((body) => ({ contentType: 'application/json', body })),
      timeoutMs: 60_000,
      serverPids: () => [child.pid!],
    }
    const { signal } = new AbortController()
    const [run, plain] = await Promise.all([
      generator.play(target, load, signal),
      plainStreams(`${target.url}${target.path}`, bodies, sendsMs),
    ])
    const of = (ttftMs: readonly number[], tpotMs: readonly number[]): Figures => ({
      ttft: percentiles(ttftMs),
      tpot: percentiles(tpotMs),
    })
    return {
      truth: of(
        asked.map((one) => one.first_ms),
        asked.map((one) => one.each_ms),
      ),
      ours: summariseRun(run, slo).stream!,
      plain: of(plain.ttftMs, plain.tpotMs),
      run,
    }
  } finally {
    child.kill('SIGKILL')
    await generator.close()
  }
}

/** Any that none of them misses. */
const slo: Slo = { percentile: 0.99, limitMs: 60_000, maxErrorRate: 0, metric: 'ttft' }

/** By nearest rank, apart from the product's own. */
function percentiles(ms: readonly number[]): Percentiles {
  const sorted = ms.toSorted((a, b) => a - b)
  const at = (share: number) =>
    ms.some(Number.isNaN) ? Number.NaN : sorted[Math.ceil(share * sorted.length) - 1]!
  return { p50Ms: at(0.5), p90Ms: at(0.9), p99Ms: at(0.99) }
}
