/** Compares the speed that open windows showed with the throughput of closed loops. */
import type { CapacityPosterior } from './queue-model/posterior.ts'
import type { LoopThroughput } from './session.ts'

/**
 * Share of the throughput of closed loops that the queue model must reach for both to show the same
 * speed.
 */
const minShareOfLoops = 0.9

/** Standard errors that make a difference significant; many loops are compared. */
const minStandardErrors = 4

/**
 * Whether open windows show about the speed of the closed loops. Else the server is slow now and
 * then, and more windows have to show how often.
 */
export const isAsFastAsLoops = (
  { saturationRps }: Pick<CapacityPosterior, 'saturationRps'>,
  loopsRps: number,
): boolean => saturationRps >= minShareOfLoops * loopsRps

/**
 * Throughput of the queue model relative to the fastest closed loop, where it is significantly
 * smaller. Undefined for a server that refuses, which is idle meanwhile.
 */
export function computeShareOfLoops(
  model: Pick<CapacityPosterior, 'saturationRps' | 'saturationError' | 'refusesWhenFull'>,
  loops: LoopThroughput,
): number | undefined {
  const chance = 1 + (minStandardErrors * model.saturationError) / Math.sqrt(loops.answers)
  return model.refusesWhenFull ||
    isAsFastAsLoops(model, loops.rps) ||
    model.saturationRps * chance >= loops.rps
    ? undefined
    : model.saturationRps / loops.rps
}

export const describeShareOfLoops = (share: number): string =>
  `open windows reached ${(100 * share).toFixed(0)} % of the throughput of closed loops: the server is slow now and then, or some of its workers are away; the interval allows for as much again`
