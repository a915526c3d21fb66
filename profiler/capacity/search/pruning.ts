/** Decides whether a trial cannot beat the incumbent, so that its search may end. */
import { rate } from '../../format.ts'
import type { SearchResult } from '../capacity-bounds.ts'
import { boundPruned, isContradicted, minContradictionFactor } from '../interval.ts'
import type { SearchPass } from './search-pass.ts'

/**
 * Posterior probability of a lower capacity from which a trial is pruned: one-sided 2 %. Assumed.
 */
const minPruningProbability = 0.98

/** Result of a window at a higher rate. */
export type Probe = 'met' | 'violated'

/** The result of a pruned trial, or the rate of a window that has to be played first. */
type Pruning =
  | { readonly result: SearchResult }
  | { readonly probe: { readonly rateRps: number; readonly highRps: number } }

/**
 * Prunes the trial where it cannot win. Where no window up to the rate to beat violated the SLO,
 * and the caller's expectation does not support the model, one window at a higher rate checks
 * first. Undefined where the trial may win.
 * @param probe result of that window, if it was played
 */
export function decidePruning(pass: SearchPass, probe: Probe | undefined): Pruning | undefined {
  const result = pruneIfCannotWin(pass)
  if (result === undefined) return undefined
  const { capacityToBeatRps: toBeatRps = 0 } = pass.context.options
  const { rates, offered } = pass.evidence
  const [, highRps] = result.capacityCi90Rps
  // A higher rate that met the SLO would contradict the interval (`isContradicted`).
  const probeRps = Math.min(offered.maxGeneratorRps, minContradictionFactor * highRps)
  if (
    // A violation there would not show that the trial cannot win.
    probeRps >= toBeatRps ||
    probe === 'violated' ||
    rates.violatedRps <= toBeatRps ||
    pass.matchesExpectation
  )
    return { result }
  // A probe that met the SLO refutes the model, so nothing is pruned.
  return probe === undefined ? { probe: { rateRps: probeRps, highRps } } : undefined
}

/**
 * Prunes the trial after two windows, as one may have been disturbed. One window suffices where it
 * agrees with an expectation below the rate to beat. A window that met the SLO at the rate to beat
 * prevents pruning.
 */
function pruneIfCannotWin(pass: SearchPass): SearchResult | undefined {
  const { posterior, evidence } = pass
  const { capacityToBeatRps: toBeatRps = 0, expectedRps = toBeatRps } = pass.context.options
  const minWindows = expectedRps < toBeatRps && pass.matchesExpectation ? 1 : 2
  if (
    posterior === undefined ||
    evidence.windows.length < minWindows ||
    posterior.computeProbabilityBelow(toBeatRps) <= minPruningProbability ||
    pass.isSaturationTooLow ||
    isContradicted(posterior, evidence.windowRates)
  )
    return undefined
  const boundRps = Math.max(posterior.capacityCi90Rps[1], evidence.rates.ciMetRps)
  if (boundRps * (1 + pass.remainingGain) >= toBeatRps) return undefined
  return pass.buildResult(
    'pruned',
    `stopped early: cannot reach the ${rate(toBeatRps)} needed to win`,
    boundPruned(posterior, boundRps, evidence.rates.violatedRps, toBeatRps),
  )
}
