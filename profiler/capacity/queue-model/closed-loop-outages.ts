/**
 * Outages in closed loops. Closed loops do not calibrate the queue model, but they too show how
 * often the server has outages.
 */
import { sum } from 'simple-statistics'
import { findSteadyStart } from '../../statistics/change-detector.ts'
import { binomialCdf, computeMedian } from '../../statistics/percentile.ts'
import { computeStepSpeeds } from '../changes/speed-change.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { countServed } from '../service-log/typical-durations.ts'
import { type Outage, type SeparatedOutages, separateOutages } from './outages.ts'

/** Two outage rates differ significantly where the p-value of their counts is below this. */
const maxPValue = 0.01

/** Outages of closed loops, with the probability that the observed outages belong to the server. */
interface ClosedLoopOutages extends SeparatedOutages {
  readonly probability: number
}

/**
 * Finds the outages of closed loops since the last change of speed, and their logs without them.
 * Empty where their outage rate differs significantly from that of the open windows. Where no
 * window had an outage, those of the loops may stem from a cold server or a busy generator.
 * `probability` then starts from even odds, weighed by the p-value that all outages fell on loops
 * by chance. The first loop is left out, as the server was cold.
 * @param loops in time order
 */
export function findClosedLoopOutages(
  open: SeparatedOutages,
  loops: readonly ServiceLog[],
): ClosedLoopOutages {
  const warm = loops.slice(1)
  const steady = warm.slice(findSteadyStart(computeStepSpeeds(warm)))
  const separated = separateOutages(steady)
  const inLoops = { ...separated, outages: mergeAcrossLoops(separated.typical, separated.outages) }
  if (inLoops.isInseparable || computePValue(open, inLoops) < maxPValue)
    return { typical: [], outages: [], isInseparable: false, probability: 1 }
  return { ...inLoops, probability: probabilityOfOwnOutages(open, inLoops) }
}

/**
 * Probability that outages of closed loops belong to the server: 1 where windows had outages as
 * well.
 */
export function probabilityOfOwnOutages(open: SeparatedOutages, loops: SeparatedOutages): number {
  if (countOutages(open) > 0 || countOutages(loops) === 0) return 1
  const pValue = computePValue(open, loops)
  return pValue / (1 + pValue)
}

/**
 * A server was warm from the first log whose median step takes at most this multiple of the typical
 * duration.
 */
const maxWarmFactor = 1.2
/** A step is long from this multiple of its typical duration. */
const minLongFactor = 1.5
/**
 * Long steps fade where their later number is significantly small at this p-value, and their later
 * frequency is at most `maxFadingRatio` of the earlier one. Misses of a filling cache fade so.
 */
const maxFadingPValue = 0.05
const maxFadingRatio = 1 / 3

export const fadingOutagesCaveat =
  'slow answers became rarer during the measurement, as with a filling cache: the capacity is close to that without them, and the interval covers both'

/**
 * Whether long steps become rarer as the server serves requests, as misses of a filling cache do.
 * Among all steps since the server was warm, the second half is compared with the second quarter.
 * @param history all service logs, in time order
 * @param typicalMs typical duration at present, by number of requests served, ms
 */
export function areLongStepsFading(
  history: readonly ServiceLog[],
  typicalMs: readonly number[],
): boolean {
  const ratios = (log: ServiceLog) =>
    log.tookMs.map((ms, i) => ms / typicalMs[Math.min(typicalMs.length - 1, countServed(log, i))]!)
  const all = history.map(ratios)
  const since = all.findIndex((of) => of.length > 0 && computeMedian(of) <= maxWarmFactor)
  if (since < 0) return false
  const counted = all.slice(since).flat()
  // Consecutive long steps count once, as one slow period or outage.
  const countLong = (from: number, to: number) =>
    counted
      .slice(from * counted.length, to * counted.length)
      .filter((ratio, i, all) => ratio > minLongFactor && !(all[i - 1]! > minLongFactor)).length
  const [before, after] = [countLong(0.25, 0.5), countLong(0.5, 1)]
  return (
    after <= 2 * maxFadingRatio * before &&
    binomialCdf(after, before + after, 2 / 3) < maxFadingPValue
  )
}

/** Merges an outage that lasts from the last step of a loop to the first step of the next one. */
function mergeAcrossLoops(
  runs: readonly ServiceLog[],
  outages: SeparatedOutages['outages'],
): Outage[][] {
  const all = outages.map((of) => [...of])
  for (let r = all.length - 1; r > 0; r--) {
    const [before, after] = [all[r - 1]!.at(-1), all[r]![0]]
    if (before === undefined || after === undefined) continue
    const endedMs = before.atMs + sum([...before.excessesMs, ...before.typicalMs])
    if (
      endedMs < runs[r - 1]!.endedMs.at(-1)! - adjacencyMs ||
      after.atMs > runs[r]!.endedMs[0]! - runs[r]!.tookMs[0]! + adjacencyMs
    )
      continue
    all[r]!.shift()
    all[r - 1]!.splice(-1, 1, {
      atMs: before.atMs,
      excessesMs: [...before.excessesMs, ...after.excessesMs],
      typicalMs: [...before.typicalMs, ...after.typicalMs],
    })
  }
  return all
}
const adjacencyMs = 1e-3

const countOutages = ({ outages }: SeparatedOutages): number =>
  sum(outages.map((each) => each.length))

/**
 * Two-sided p-value of the outage counts if both had the same outage rate: per step or per time,
 * whichever gives the larger p-value.
 */
function computePValue(a: SeparatedOutages, b: SeparatedOutages): number {
  const countSteps = ({ typical }: SeparatedOutages) =>
    sum(typical.map(({ tookMs }) => tookMs.length))
  const sumMs = ({ typical }: SeparatedOutages) => sum(typical.map(({ tookMs }) => sum(tookMs)))
  const all = countOutages(a) + countOutages(b)
  const pValues = [countSteps, sumMs].map((exposure) => {
    const share = exposure(a) / Math.max(Number.MIN_VALUE, exposure(a) + exposure(b))
    return (
      2 *
      Math.min(
        0.5,
        binomialCdf(countOutages(a), all, share),
        binomialCdf(countOutages(b), all, 1 - share),
      )
    )
  })
  return Math.max(...pValues)
}
