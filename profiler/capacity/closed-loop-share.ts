/** Compares the speed that open windows showed with the throughput of closed loops. */
import { computeCriticalStandardErrors } from '../statistics/change-detector.ts'
import type { LoopThroughput } from './load-record.ts'
import type { CapacityPosterior } from './queue-model/posterior.ts'
import { maxLoops } from './saturation.ts'

/**
 * Open windows and closed loops show the same speed where the saturation of the queue model reaches
 * this share of the throughput of closed loops. Assumed.
 */
const minShareOfLoops = 0.9

/**
 * Whether open windows show about the speed of the closed loops. Otherwise the server is slow now
 * and then, and further windows must show how often.
 */
export const isAsFastAsLoops = (
  { saturationRps }: Pick<CapacityPosterior, 'saturationRps'>,
  loopsRps: number,
): boolean => saturationRps >= minShareOfLoops * loopsRps

/**
 * Computes the saturation of the queue model relative to the fastest closed loop. Undefined where
 * it is not significantly smaller, and for a server that refuses requests, which is idle at times.
 */
export function computeClosedLoopShare(
  model: Pick<CapacityPosterior, 'saturationRps' | 'saturationError' | 'refusesWhenFull'>,
  loops: LoopThroughput,
): number | undefined {
  // The fastest of up to `maxLoops` loops is compared, so the significance level is shared among
  // them.
  const errorFactor =
    1 +
    (computeCriticalStandardErrors(maxLoops) * model.saturationError) / Math.sqrt(loops.requests)
  return model.refusesWhenFull ||
    isAsFastAsLoops(model, loops.rps) ||
    model.saturationRps * errorFactor >= loops.rps
    ? undefined
    : model.saturationRps / loops.rps
}

export const describeClosedLoopShare = (share: number): string =>
  `open windows reached ${(100 * share).toFixed(0)} % of the throughput of closed loops: the server is slow now and then, or some of its workers are away; the lower end of the interval is reduced by the same share`
