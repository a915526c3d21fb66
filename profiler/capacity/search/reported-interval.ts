/** What may be claimed of a capacity, beside what was seen of it. */
import type { Capacity } from '../../model/measurement.ts'
import type { LoopsSeen } from '../session.ts'
import type { Evidence } from './evidence.ts'
import { between } from '../capacity-bounds.ts'
import type { CapacityPosterior } from '../queue-model/posterior.ts'

/**
 * A capacity is claimed up to this much beyond the highest rate that was seen to be served, and an
 * interval up to that much: the rest is the twin's imagination.
 */
const claimed = 1.15
const imagined = 1.5

type Windows = Pick<Evidence, 'heldRps' | 'surelyHeldRps'> &
  Partial<Pick<Evidence, 'surelyMissedRps' | 'keptRps' | 'brieflyKeptRps'>>
type Interval = Pick<CapacityPosterior, 'capacityCi90Rps'>

/**
 * Whether all of a twin's interval lies beyond a rate from which on every window missed: it is
 * another server's.
 */
const tooHigh = (
  { capacityCi90Rps: [low] }: Interval,
  { surelyMissedRps = Number.POSITIVE_INFINITY }: Windows,
) => low > surelyMissedRps
/** What a window kept, where all of it lies so far below that it would have shown; else 0. */
const farKept = (
  { capacityCi90Rps: [, high] }: Interval,
  { keptRps = 0, brieflyKeptRps = 0 }: Windows,
): number =>
  Math.max(
    farBelow * high < keptRps ? keptRps : 0,
    farBelowFew * high < brieflyKeptRps ? brieflyKeptRps : 0,
  )
export const farBelow = 1.25
/** Of a few requests. */
const farBelowFew = 2

/** Whether windows contradict a twin. */
export const contradicted = (estimate: Interval, windows: Windows): boolean =>
  tooHigh(estimate, windows) || farKept(estimate, windows) > 0

/**
 * Where the capacity is looked for: where the twin puts it, or a little beyond what was kept where
 * that lies far below.
 */
export const believedRps = (
  estimate: Interval & { readonly capacityRps: number },
  windows: Windows,
): number => claimed * farKept(estimate, windows) || estimate.capacityRps

/**
 * The estimate beside what was seen: its lower end was held by an open window, and its upper end
 * lies below none that was held with room to spare. Of a twin that is contradicted the figure lies
 * halfway between what held and what did not, or between the twin's and what was kept.
 */
export function withEvidence(
  estimate: Pick<CapacityPosterior, 'capacityRps' | 'capacityCi90Rps'>,
  windows: Windows,
): Capacity {
  const { heldRps, surelyHeldRps, surelyMissedRps = Number.POSITIVE_INFINITY } = windows
  const [low, high] = estimate.capacityCi90Rps
  const keptRps = farKept(estimate, windows)
  if (keptRps > 0)
    return between(
      Math.min(low, heldRps),
      Math.max(claimed * keptRps, surelyHeldRps),
      Math.sqrt(estimate.capacityRps * keptRps),
    )
  const capacityRps = tooHigh(estimate, windows)
    ? Math.sqrt(heldRps * surelyMissedRps)
    : estimate.capacityRps
  return between(Math.min(low, heldRps), Math.max(high, surelyHeldRps), capacityRps)
}

/**
 * Share of what closed loops got that the twin must serve for open windows to have met the server
 * as fast as they did.
 */
const asLoops = 0.9

/**
 * Whether open windows show about the speed that closed loops had: else the server is slow now and
 * then, and more windows have to tell how often.
 */
export const servesAsLoops = (
  { saturationRps }: Pick<CapacityPosterior, 'saturationRps'>,
  loopsRps: number,
): boolean => saturationRps >= asLoops * loopsRps

/** Standard errors, for there are many loops to compare. */
const certain = 4

/**
 * What open windows met of the speed of closed loops, where that is less, beyond chance; else
 * undefined. One that refuses is idle while it does.
 */
export function shareOfLoops(of: CapacityPosterior, loops: LoopsSeen): number | undefined {
  const chance = 1 + (certain * of.saturationError) / Math.sqrt(loops.answers)
  return of.refuses || servesAsLoops(of, loops.rps) || of.saturationRps * chance >= loops.rps
    ? undefined
    : of.saturationRps / loops.rps
}

/**
 * Of a server that is slow now and then a few seconds seldom meet the worst: the interval has as
 * much again as they lost of what closed loops got.
 */
export function withWhatIsLost(of: CapacityPosterior, loops: LoopsSeen): CapacityPosterior {
  const [low, high] = of.capacityCi90Rps
  return { ...of, capacityCi90Rps: [low * (shareOfLoops(of, loops) ?? 1), high] }
}

export const becomingRarer =
  'long answers became ever rarer while it was measured, as those of a cache that fills: the figure is nearly that without them, the interval has both'

export const lostBeside = (share: number): string =>
  `open windows were served at ${(100 * share).toFixed(0)} % of what closed loops got: the server is slow now and then, or some of its workers are away; the interval allows for as much again`

/**
 * What a cold server or merged reads make the twin imagine beyond what was served is no capacity.
 */
export function withinReach(
  { capacityRps, capacityCi90Rps: [low, high], ...rest }: CapacityPosterior,
  servedRps: number,
): CapacityPosterior {
  const median = Math.min(capacityRps, claimed * servedRps)
  return {
    capacityRps: median,
    capacityCi90Rps: [
      Math.min(low, median, servedRps),
      Math.max(median, Math.min(high, imagined * servedRps)),
    ],
    ...rest,
    ...(median < capacityRps && { beyondReach: true }),
  }
}
