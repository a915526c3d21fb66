/**
 * Judges a verification: whether the SLO was met at the requested rate, as text and as a document.
 */

import type { LoadPoint } from '../../../../profiler/model/load-point.ts'
import { isInvalidWindow, meetsSlo, type Slo } from '../../../../profiler/model/slo.ts'
import { latency, rate, sloFigure, sloText } from '../../../../reports/format.ts'
import { formatVariation } from '../../../../reports/recommendation/words.ts'
import type { FinishedTrial } from '../../../../trials/types.ts'

export interface Verification {
  readonly schema: 'tune.verify/v1'
  /** Absent for a running service. */
  readonly experimentId?: string
  /** Trial whose configuration was verified. */
  readonly trial?: number
  /** Number under which the measurement was stored. */
  readonly verification?: number
  /** What was measured, in words. */
  readonly label: string
  readonly slo: Slo
  readonly askedRps: number
  /** `unknown`: the measurement was inconclusive. */
  readonly finding: 'holds' | 'does not hold' | 'unknown'
  /** Highest rate at which the SLO was met; 0 if none. */
  readonly provenRps: number
  /** The SLO's percentile in the window at the asked rate, ms. Absent: there was none. */
  readonly sloMs?: number
  readonly verdict: string
  readonly caveats: readonly string[]
}

/** Fields of the result that repeat the request. */
type VerificationQuestion = Pick<
  Verification,
  'experimentId' | 'trial' | 'label' | 'slo' | 'askedRps'
>

/** Relative tolerance for equal rates, which covers rounding. */
const rateTolerance = 1e-6

export function judgeVerification(
  question: VerificationQuestion,
  trial: FinishedTrial,
): Verification {
  const { slo, askedRps, label, experimentId } = question
  const common = {
    schema: 'tune.verify/v1',
    ...question,
    ...(experimentId !== undefined && { verification: trial.number }),
  } as const
  if (trial.state === 'failed')
    return {
      ...common,
      finding: 'unknown',
      provenRps: 0,
      verdict: `Inconclusive: ${label} could not be measured: ${trial.error}`,
      caveats: [],
    }
  if (trial.state === 'infeasible') {
    const verdict = `SLO violated: ${label} no longer serves: ${trial.detail}`
    return { ...common, finding: 'does not hold', provenRps: 0, verdict, caveats: [] }
  }
  const { measurement } = trial
  const { capacityRps: provenRps, outcome, variation } = measurement
  const caveats = [...measurement.caveats, ...(variation ? [formatVariation(slo, variation)] : [])]
  const windows = measurement.points.filter((point) => hasRate(point, askedRps))
  const clean = windows.findLast(
    ({ generatorSaturated, invalid }) => !generatorSaturated && !invalid,
  )
  const at = clean ?? windows.findLast((point) => !isInvalidWindow(point, slo)) ?? windows.at(-1)
  const figures = { provenRps, ...(at && { sloMs: at.sloMs }), caveats }
  const figure = at ? `: ${sloFigure(slo, at.sloMs)}` : ''
  const limit = slo.limits ? sloText(slo) : latency(slo.limitMs)
  if (outcome === 'converged' && provenRps >= askedRps * (1 - rateTolerance))
    return {
      ...common,
      ...figures,
      finding: 'holds',
      verdict: `SLO met: ${label} serves ${rate(askedRps)}${figure} (SLO ${limit})`,
    }
  // A violation at the requested rate counts, whatever happened at lower rates.
  const missed = at !== undefined && !meetsSlo(at, slo) && !isInvalidWindow(at, slo)
  if (!missed && (outcome === 'generator-limit' || outcome === 'host-interference')) {
    const verdict = `Inconclusive: the load on ${label} was disturbed${measurement.detail ? `: ${measurement.detail}` : ''}`
    return { ...common, ...figures, finding: 'unknown', verdict }
  }
  const instead =
    provenRps > 0
      ? `it is met at ${rate(provenRps)}`
      : (measurement.detail ?? 'no lower rate that was tried met it')
  return {
    ...common,
    ...figures,
    finding: 'does not hold',
    verdict: `SLO violated: ${label} at ${rate(askedRps)}${figure} (SLO ${limit}); ${instead}`,
  }
}

/** Whether an open-loop window had this nominal rate. */
const hasRate = ({ load }: LoadPoint, rateRps: number): boolean =>
  load.kind === 'open' && Math.abs(load.rateRps / rateRps - 1) < rateTolerance
