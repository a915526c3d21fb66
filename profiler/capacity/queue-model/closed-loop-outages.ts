/**
 * Stalls in closed loops: they tell how often a server stalls, whatever they tell of its capacity.
 */
import { sum } from 'simple-statistics'
import { binomialCdf, quantileOfSorted } from '../../statistics/percentile.ts'
import { changeOfSteps } from '../changes/speed-change.ts'
import { type SeparatedStalls, type Stall, separateStalls } from './outages.ts'
import { servedBy } from '../service-log/typical-durations.ts'
import { joinSteps, type Steps } from '../service-log/service-log.ts'

/** Probability of counts further apart by chance, below which two rates of stalls differ. */
const chance = 0.01

/**
 * Stalls of closed loops, and how likely those seen, here and in open windows, are the server's
 * own.
 */
interface StallsBeside extends SeparatedStalls {
  readonly likely: number
}

/**
 * What closed loops show of stalls beside the open windows: stalls, and steps without any. Those
 * since which the server's speed changed no more; nothing where they stall otherwise than the
 * windows do, beyond chance. Where no window stalled they may have been a cold server's, or a
 * generator's that was busy with it: as likely as not, but for the chance that so many of the
 * server's own all fell on loops. The first is left out: it meets a cold server.
 * @param loops in order of time
 */
export function stallsBeside(open: SeparatedStalls, loops: readonly Steps[]): StallsBeside {
  let steady = loops.slice(1)
  for (let half = steady.length >> 1; half > 0; half = steady.length >> 1) {
    if (changeOfSteps(joinSteps(steady.slice(0, half)), joinSteps(steady.slice(half))) === 1) break
    steady = steady.slice(half)
  }
  const separated = separateStalls(steady)
  const beside = { ...separated, stalls: joined(separated.usual, separated.stalls) }
  if (beside.mixed || chanceOf(open, beside) < chance)
    return { usual: [], stalls: [], mixed: false, likely: 1 }
  return { ...beside, likely: likelyOwn(open, beside) }
}

/** How likely stalls of loops are the server's own: certainly where windows stalled as well. */
export function likelyOwn(open: SeparatedStalls, loops: SeparatedStalls): number {
  if (countOf(open) > 0 || countOf(loops) === 0) return 1
  const byChance = chanceOf(open, loops)
  return byChance / (1 + byChance)
}

/**
 * A loop is of the server as it is now where its middle step is so many times as long as now at
 * most; a step is long from `long` times on.
 */
const warm = 1.2
const long = 1.5
/**
 * Probability of so few later ones by chance, below which they became rarer, and the part of their
 * frequency before that they have since: those of a cache end.
 */
const fades = 0.05
const rarer = 1 / 3

/**
 * Whether long steps became rarer with what was served, as those of a cache that fills: a third as
 * frequent in the later half as in the quarter before it at most, and beyond chance, since the
 * middle step was as long as now.
 * @param history all that was seen of the server, in order of time
 * @param usualMs time of a step now, by the number it served
 */
export function longOnesFade(history: readonly Steps[], usualMs: readonly number[]): boolean {
  const ratios = (steps: Steps) =>
    steps.tookMs.map((ms, i) => ms / usualMs[Math.min(usualMs.length - 1, servedBy(steps, i))]!)
  const all = history.map(ratios)
  const since = all.findIndex(
    (of) => of.length > 0 && quantileOfSorted(Float64Array.from(of).sort(), 0.5) <= warm,
  )
  if (since < 0) return false
  const counted = all.slice(since).flat()
  // Several in a row are one: of a slow time, or a stall.
  const longIn = (from: number, to: number) =>
    counted
      .slice(from * counted.length, to * counted.length)
      .filter((ratio, i, all) => ratio > long && !(all[i - 1]! > long)).length
  const [before, after] = [longIn(0.25, 0.5), longIn(0.5, 1)]
  return after <= 2 * rarer * before && binomialCdf(after, before + after, 2 / 3) < fades
}

/** Stalls that went on from the last step of one loop to the first of the next are one. */
function joined(runs: readonly Steps[], stalls: SeparatedStalls['stalls']): Stall[][] {
  const all = stalls.map((of) => [...of])
  for (let r = all.length - 1; r > 0; r--) {
    const [before, after] = [all[r - 1]!.at(-1), all[r]![0]]
    if (before === undefined || after === undefined) continue
    const endedMs = before.atMs + sum([...before.excessesMs, ...before.usualMs])
    if (
      endedMs < runs[r - 1]!.endedMs.at(-1)! - near ||
      after.atMs > runs[r]!.endedMs[0]! - runs[r]!.tookMs[0]! + near
    )
      continue
    all[r]!.shift()
    all[r - 1]!.splice(-1, 1, {
      atMs: before.atMs,
      excessesMs: [...before.excessesMs, ...after.excessesMs],
      usualMs: [...before.usualMs, ...after.usualMs],
    })
  }
  return all
}
const near = 1e-3

const countOf = ({ stalls }: SeparatedStalls): number => sum(stalls.map((each) => each.length))

/**
 * Probability of counts of stalls as far apart, or further, were they as frequent in both, by the
 * step or by the time.
 */
function chanceOf(a: SeparatedStalls, b: SeparatedStalls): number {
  const steps = ({ usual }: SeparatedStalls) => sum(usual.map(({ tookMs }) => tookMs.length))
  const ms = ({ usual }: SeparatedStalls) => sum(usual.map(({ tookMs }) => sum(tookMs)))
  const all = countOf(a) + countOf(b)
  const chances = [steps, ms].map((exposure) => {
    const share = exposure(a) / Math.max(Number.MIN_VALUE, exposure(a) + exposure(b))
    return 2 * Math.min(0.5, binomialCdf(countOf(a), all, share), binomialCdf(countOf(b), all, 1 - share))
  })
  return Math.max(...chances)
}
