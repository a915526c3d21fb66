/**
 * What the plain client in C finds of the built-in predictor: open load from a program that shares
 * no code with the generator, and leaves more of the cores to the server.
 */
import type { compilePlainClient } from '../../profiler/bench/plain-client.ts'
import { protocolFor, schedule } from '../../profiler/index.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import { selectQuantile } from '../../profiler/statistics/percentile.ts'
import type { Configuration } from '../../search/types.ts'
import { onBuiltin } from './built-predictor.ts'

type PlainClient = NonNullable<ReturnType<typeof compilePlainClient>>
/**
 * The percentile of the SLO at a rate, ms; Infinity where more requests fail than it leaves out.
 */
type PercentileMs = (rateRps: number, durationS: number) => Promise<number>

interface PlainlyAsked {
  readonly model: string
  readonly configuration: Configuration
  readonly engine: 'emulated' | 'tfjs'
  readonly percentile: number
}

/** Asks a predictor that is started anew. */
export function underPlainLoad<T>(
  play: PlainClient,
  { model, configuration, engine, percentile }: PlainlyAsked,
  work: (percentileMs: PercentileMs) => Promise<T>,
): Promise<T> {
  const { signal } = new AbortController()
  const asked = async (url: string) => {
    const { path, bodies } = await protocolFor('oip-v2').prepare(
      url,
      model,
      { kind: 'generated', count: 1, seed: 1 },
      signal,
    )
    let seed = 0
    return work(async (rateRps, durationS) => {
      const times = schedule({
        kind: 'open',
        rateRps,
        durationS,
        seed: ++seed,
        arrivals: { kind: 'poisson' },
      })
      const tookMs = await play(url, path, String(bodies[0]!.body), times)
      const sorted = tookMs.map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms)).sort()
      return selectQuantile(sorted, percentile)
    })
  }
  return onBuiltin(model, configuration, asked, engine)
}

/** Of one rate to the next, and of the first one to what is expected. */
const STEP = 1.02
const FIRST = 0.94
const WINDOW_S = 10
const WARM_UP_S = 5
/** As far as it is looked for below what is expected, and above. */
const REACH = 2

/**
 * The highest of rates two percent apart at which ten seconds of load keep the SLO, from near what
 * is expected on; a window that misses has a second one, for machines have their moments.
 * @throws Error where none does down to half of what is expected
 */
export async function plainlyHeldRps(
  percentileMs: PercentileMs,
  { limitMs }: Pick<Slo, 'limitMs'>,
  expectedRps: number,
): Promise<number> {
  const misses = async (rateRps: number) => (await percentileMs(rateRps, WINDOW_S)) > limitMs
  const holds = async (rateRps: number) => !(await misses(rateRps)) || !(await misses(rateRps))
  let rateRps = FIRST * expectedRps
  await percentileMs(rateRps / REACH, WARM_UP_S)
  if (await holds(rateRps)) {
    while (rateRps < REACH * expectedRps && (await holds(STEP * rateRps))) rateRps *= STEP
    return rateRps
  }
  do {
    rateRps /= STEP
    if (rateRps < expectedRps / REACH)
      throw new Error(
        `the plain client finds the SLO kept at no rate down to ${rateRps.toFixed(1)} req/s`,
      )
  } while (!(await holds(rateRps)))
  return rateRps
}
