/**
 * Servers that refuse by a rate limit: a token bucket (Turner 1986), which lets so many requests a
 * second in, and some more after a rest.
 *
 * A short window begins with a full bucket, and holds at rates far above what the limit stands for
 * long. So where refusals tell of a limit, the capacity is that of the bucket under arrivals at
 * random: the rate at which it refuses as large a share as may fail.
 */
import { seeded } from '../../seeded-random.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { placesBetween } from '../service-log/service-log.ts'

interface RateLimit {
  readonly perSecond: number
  /** Requests let in at once after a rest. */
  readonly burst: number
  /** Requests that were let in while the bucket was empty: what `perSecond` rests on. */
  readonly seen: number
}

const fewestRefused = 5
const fewestSeen = 8
/**
 * With less than that at once nothing that comes at random gets through: then refusals are no
 * bucket's.
 */
const leastBurst = 2

/**
 * The limit that refusals of runs tell of: while some are refused the bucket is empty, and what is
 * let in is what flows into it. Undefined where few were refused, or a run was refused less than
 * such a limit would.
 * @param runs of open or closed load, in order of time
 */
export function rateLimitOf(runs: readonly LoadRun[]): RateLimit | undefined {
  let [seen, ms] = [0, 0]
  const first: { inMs: number; letIn: number }[] = []
  for (const { sentMs, latencyMs, cutMs = Number.POSITIVE_INFINITY } of runs) {
    const order = [...sentMs.keys()]
      .filter((i) => sentMs[i]! < cutMs)
      .sort((a, b) => sentMs[a]! - sentMs[b]!)
    const refused = order.filter((i) => Number.isNaN(latencyMs[i]!))
    // What the first runs got of a full bucket is gone when others begin, with what has flowed in
    // since.
    if (refused.length === 0 && order.length > 0 && ms === 0)
      first.push({ inMs: sentMs[order.at(-1)!]!, letIn: order.length })
    if (refused.length < fewestRefused) continue
    const [fromMs, toMs] = [sentMs[refused[0]!]!, sentMs[refused.at(-1)!]!]
    const letIn = order.filter((i) => !Number.isNaN(latencyMs[i]!))
    seen += letIn.filter((i) => sentMs[i]! > fromMs && sentMs[i]! <= toMs).length
    ms += toMs - fromMs
    first.push({ inMs: fromMs, letIn: letIn.filter((i) => sentMs[i]! < fromMs).length })
  }
  if (seen < fewestSeen || placesBetween(runs)![0] >= 2) return undefined
  const perSecond = (1000 * seen) / ms
  const burst = first.reduce(
    (most, { inMs, letIn }) => Math.max(most, letIn - (perSecond * inMs) / 1000),
    1,
  )
  const limit = { perSecond, burst, seen }
  return burst >= leastBurst && !runs.some((run) => refusesFewer(run, limit)) ? limit : undefined
}

/**
 * Whether a run was refused far less than the bucket would have, had it been full when the run
 * began.
 */
function refusesFewer({ sentMs, latencyMs }: LoadRun, { perSecond, burst }: RateLimit): boolean {
  let [tokens, lastMs, wouldBe, was] = [burst, 0, 0, 0]
  for (const [i, atMs] of sentMs.entries()) {
    tokens = Math.min(burst, tokens + ((atMs - lastMs) * perSecond) / 1000)
    lastMs = atMs
    if (tokens < 1) wouldBe++
    else tokens--
    if (Number.isNaN(latencyMs[i]!)) was++
  }
  return wouldBe - was > fewer * (1 + Math.sqrt(wouldBe))
}
const fewer = 3

const requests = 50_000

/** The highest rate at which a bucket refuses at most this share of Poisson arrivals. */
export function rateWithin(
  { perSecond, burst }: Pick<RateLimit, 'perSecond' | 'burst'>,
  share: number,
): number {
  const refuses = (rateRps: number): boolean => {
    const uniform = seeded(1)
    let [tokens, refused] = [burst, 0]
    for (let i = 0; i < requests; i++) {
      tokens = Math.min(Math.max(1, burst), tokens - (Math.log(uniform()) * perSecond) / rateRps)
      if (tokens < 1) refused++
      else tokens--
    }
    return refused > share * requests
  }
  let [low, high] = [0.001 * perSecond, perSecond / (1 - Math.min(0.99, share))]
  for (let i = 0; i < 16; i++) {
    const middle = (low + high) / 2
    if (refuses(middle)) high = middle
    else low = middle
  }
  return low
}

/**
 * Ninety in a hundred, were what was let in a matter of chance; as it is mostly regular, half of
 * that.
 */
const errors = 0.8

/** That rate, and its 90 % interval. */
export function capacityWithin(
  limit: RateLimit,
  share: number,
): { rateRps: number; ci90Rps: readonly [number, number] } {
  const error = errors / Math.sqrt(limit.seen)
  const under = (factor: number, more: number) =>
    rateWithin(
      { perSecond: limit.perSecond * factor, burst: Math.max(1, limit.burst + more) },
      share,
    )
  return { rateRps: under(1, 0), ci90Rps: [under(1 - error, -2), under(1 + error, 2)] }
}
