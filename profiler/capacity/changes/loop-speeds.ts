/**
 * Throughput of parts of a closed loop: the speeds by which a warm-up and a saturation are judged.
 */
import type { LoadRun } from '../../model/load-run.ts'
import { detectChange } from '../../statistics/change-detector.ts'

/** Parts of a loop, each of at least `minAnswers` answers; one where it has fewer. Assumed. */
const maxParts = 8
const minAnswers = 4
/**
 * Departures closer than this share of their mean distance belong to one batch, which is not cut.
 * Assumed.
 */
const closeDeparturesShare = 0.1
/** Minimum share of the answers of a part in the last one; below 1 only to allow for rounding. */
const minLastPartShare = 0.999

/**
 * Computes the throughput of consecutive parts of a loop with about as many answers each, requests
 * per second.
 * Answers after the end of sending count only where there are no others.
 */
export function computeLoopSpeeds({
  sentMs,
  latencyMs,
  stream,
  seconds,
}: Pick<LoadRun, 'sentMs' | 'latencyMs' | 'stream' | 'seconds'>): number[] {
  const sojournMs = stream?.latenciesMs.e2e ?? latencyMs
  const answeredMs = sojournMs.map((ms, i) => sentMs[i]! + ms).filter((ms) => !Number.isNaN(ms))
  const whileSendingMs = answeredMs.filter((ms) => ms <= 1000 * seconds)
  const endedMs = (whileSendingMs.length > 0 ? whileSendingMs : answeredMs).sort()
  const minPartAnswers = Math.max(Math.min(minAnswers, endedMs.length), endedMs.length / maxParts)
  const closeMs = (closeDeparturesShare * (endedMs.at(-1) ?? 0)) / endedMs.length
  const speeds: number[] = []
  /** Start of the current part, and the index of its first answer. */
  let fromMs = 0
  let first = 0
  for (let next = 1; next < endedMs.length; next++) {
    if (next - first < minPartAnswers || endedMs[next]! - endedMs[next - 1]! < closeMs) continue
    const untilMs = endedMs[next - 1]!
    speeds.push((1000 * (next - first)) / (untilMs - fromMs))
    fromMs = untilMs
    first = next
  }
  // A smaller last part is left out.
  const lastAnswers = endedMs.length - first
  if (lastAnswers > 0 && lastAnswers >= minLastPartShare * minPartAnswers)
    speeds.push((1000 * lastAnswers) / (endedMs.at(-1)! - fromMs))
  return speeds
}

/**
 * Smallest relevant growth: a server that compiles or fills caches grows for many loops. Assumed.
 */
export const minLoopGrowth = 0.02

/**
 * Whether the throughput of closed loops has grown.
 * @param loops speeds of each loop, in time order
 */
export const hasGrown = (loops: readonly (readonly number[])[]): boolean =>
  detectChange(loops, minLoopGrowth).direction === 'faster'
