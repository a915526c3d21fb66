/**
 * Rate limits by token bucket (Turner 1986): a sustained number of requests per second, and a burst
 * after a time without load.
 *
 * A short window begins with a full bucket, and so meets the SLO far above the sustained limit.
 * Where refusals reveal a bucket, the capacity is the rate of Poisson arrivals at which it refuses
 * the tolerated share.
 */

import type { LoadRun } from '../../model/load-run.ts'
import { createUniform } from '../../seeded-random.ts'
import { boundSystemCapacity } from '../service-log/service-log.ts'

export interface TokenBucket {
  /** Refill rate: requests admitted per second in the long run. */
  readonly perSecond: number
  /** Size of the bucket: requests admitted at once when it is full. */
  readonly burst: number
  /** Requests admitted while the bucket was empty, from which `perSecond` was estimated. */
  readonly admitted: number
}

/** Refusals of a run, and admitted requests in total, that a fit needs. Assumed. */
const minRefusals = 5
const minAdmitted = 8
/**
 * With a smaller burst, refusals do not look like those of a bucket, so they have another cause.
 */
const minBurst = 2

/**
 * Fits a token bucket to refusals. Between the first and the last refusal of a run the bucket is
 * empty, so the admitted rate is its refill rate. Undefined with few refusals, or where a run had
 * significantly fewer refusals than the bucket implies.
 * @param runs open and closed loads in time order
 */
export function fitTokenBucket(runs: readonly LoadRun[]): TokenBucket | undefined {
  /** Requests admitted while the bucket was empty, and for how long it was. */
  let admitted = 0
  let emptyMs = 0
  /** Requests admitted before the first refusal, and the time they took. */
  const starts: { inMs: number; admittedCount: number }[] = []
  for (const { sentMs, latencyMs, cutMs = Number.POSITIVE_INFINITY } of runs) {
    const order = [...sentMs.keys()]
      .filter((i) => sentMs[i]! < cutMs)
      .sort((a, b) => sentMs[a]! - sentMs[b]!)
    const refused = order.filter((i) => Number.isNaN(latencyMs[i]!))
    // The first runs emptied the full bucket, so later ones begin with what has been refilled
    // since.
    if (refused.length === 0 && order.length > 0 && emptyMs === 0)
      starts.push({ inMs: sentMs[order.at(-1)!]!, admittedCount: order.length })
    if (refused.length < minRefusals) continue
    const [fromMs, toMs] = [sentMs[refused[0]!]!, sentMs[refused.at(-1)!]!]
    const admittedMs = order.filter((i) => !Number.isNaN(latencyMs[i]!)).map((i) => sentMs[i]!)
    admitted += admittedMs.filter((ms) => ms > fromMs && ms <= toMs).length
    emptyMs += toMs - fromMs
    starts.push({ inMs: fromMs, admittedCount: admittedMs.filter((ms) => ms < fromMs).length })
  }
  // A bucket also refuses requests that find an empty server; a full queue does not.
  if (admitted < minAdmitted || boundSystemCapacity(runs)![0] >= 2) return undefined
  const perSecond = (1000 * admitted) / emptyMs
  const burst = starts.reduce(
    (max, { inMs, admittedCount }) => Math.max(max, admittedCount - (perSecond * inMs) / 1000),
    1,
  )
  const bucket = { perSecond, burst, admitted }
  return burst >= minBurst && !runs.some((run) => hasFewerRefusals(run, bucket))
    ? bucket
    : undefined
}

/** Whether a run had significantly fewer refusals than by a bucket that was full at its start. */
function hasFewerRefusals(
  { sentMs, latencyMs }: LoadRun,
  { perSecond, burst }: TokenBucket,
): boolean {
  let tokens = burst
  let lastMs = 0
  let expectedRefusals = 0
  let observedRefusals = 0
  for (const [i, atMs] of sentMs.entries()) {
    tokens = Math.min(burst, tokens + ((atMs - lastMs) * perSecond) / 1000)
    lastMs = atMs
    if (tokens < 1) expectedRefusals++
    else tokens--
    if (Number.isNaN(latencyMs[i]!)) observedRefusals++
  }
  return (
    expectedRefusals - observedRefusals > maxMissingDeviations * (1 + Math.sqrt(expectedRefusals))
  )
}
/** Poisson standard deviations by which refusals may fall short of the expected number. Assumed. */
const maxMissingDeviations = 3

/** Requests of a simulation: enough for a share of 0.1 % to 14 %. */
const simulatedRequests = 50_000
/** Halvings of the rate: to 0.002 % of the range. */
const bisectionSteps = 16

/** Finds the highest rate of Poisson arrivals at which the bucket refuses at most this share. */
export function findBucketRate(
  { perSecond, burst }: Pick<TokenBucket, 'perSecond' | 'burst'>,
  share: number,
): number {
  const refusesMore = (rateRps: number): boolean => {
    const uniform = createUniform(1)
    let tokens = burst
    let refused = 0
    for (let i = 0; i < simulatedRequests; i++) {
      tokens = Math.min(Math.max(1, burst), tokens - (Math.log(uniform()) * perSecond) / rateRps)
      if (tokens < 1) refused++
      else tokens--
    }
    return refused > share * simulatedRequests
  }
  // In the long run a bucket refuses 1 - perSecond / rate, so the upper end refuses the share or
  // more.
  let low = 0.001 * perSecond
  let high = perSecond / (1 - Math.min(0.99, share))
  for (let i = 0; i < bisectionSteps; i++) {
    const middle = (low + high) / 2
    if (refusesMore(middle)) high = middle
    else low = middle
  }
  return low
}

/**
 * Half width of the 90 % interval, in units of 1 / √admitted. It would be 1.645 for Poisson
 * admissions; about half of that, because the refill makes admissions more regular. Assumed.
 */
const intervalFactor = 0.8
/** Error of the size of the bucket, in requests. Assumed. */
const burstError = 2

/** Estimates the rate that `findBucketRate` finds, with its 90 % interval. */
export function estimateBucketCapacity(
  bucket: TokenBucket,
  share: number,
): { rateRps: number; ci90Rps: readonly [number, number] } {
  const error = intervalFactor / Math.sqrt(bucket.admitted)
  const findRate = (rateFactor: number, burstShift: number) =>
    findBucketRate(
      {
        perSecond: bucket.perSecond * rateFactor,
        burst: Math.max(1, bucket.burst + burstShift),
      },
      share,
    )
  return {
    rateRps: findRate(1, 0),
    ci90Rps: [findRate(1 - error, -burstError), findRate(1 + error, burstError)],
  }
}
