/** Confirms that a server meets the SLO at a rate. */
import { summarise } from '../../load/load-point.ts'
import { resolveGenerator } from '../../load/resolve-generator.ts'
import type { LoadGenerator } from '../../model/load-generator.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { CapacityOutcome } from '../../model/measurement.ts'
import { percentileName, type Slo } from '../../model/slo.ts'
import { describeViolation } from '../capacity-bounds.ts'
import { collectCaveats } from '../caveats.ts'
import { boundByConfirmation } from '../interval.ts'
import { describeErrors, type PlayedLoad, Session } from '../session.ts'
import { MeasurementAgreement } from './agreement.ts'
import {
  type Confirmation,
  type ConfirmationPlan,
  type ConfirmOptions,
  resolvePlan,
} from './confirm-options.ts'
import {
  chooseNextRate,
  emptyHistory,
  type RateHistory,
  recordRate,
  type TriedRate,
} from './next-rate.ts'
import { computeFillS, hasTooFewToProve } from './proof-time.ts'
import { RateTrials } from './rate-trial.ts'
import { warmServer } from './warm-server.ts'

/**
 * Typical duration of a confirmation, as a share of its time limit (`seconds`), by
 * `npm run bench:confirmation`.
 */
const typicalTimeShare = 0.5

/**
 * Confirms a rate by open load, window after window, until they prove that the SLO is met or
 * violated, or the time is up. After a violation it tries lower rates until one meets the SLO, then
 * rates between that and the lowest violated one. Throws as `measureCapacity` does.
 */
export async function confirmCapacity(options: ConfirmOptions): Promise<Confirmation> {
  const generator = resolveGenerator(options.target, options.generator)
  try {
    return await confirmWith(resolvePlan(options), generator)
  } finally {
    if (options.generator === undefined) await generator.close()
  }
}

/**
 * Estimates the duration of a confirmation in seconds. Without a rate, assumes enough requests to
 * prove the SLO.
 */
export const estimateConfirmationS = (
  slo: Slo,
  seconds: number,
  rateRps: number | undefined,
): number =>
  Math.max(
    typicalTimeShare * seconds,
    rateRps !== undefined && hasTooFewToProve({ rateRps, seconds, slo })
      ? computeFillS(slo, seconds)
      : 0,
  )

async function confirmWith(
  plan: ConfirmationPlan,
  generator: LoadGenerator,
): Promise<Confirmation> {
  const { target, slo, rateRps, signal, onStep = () => {}, earlier = [] } = plan
  const session = new Session(target, slo, generator, signal, onStep)
  const { unloaded, unloadedPoints, death } = await warmServer(session, plan)
  const agreement = new MeasurementAgreement({ slo, rateRps, unloaded: unloaded.point, earlier })
  const tried: TriedRate[] = []
  // Summarises `tried` for the choice of the next rate.
  let history = emptyHistory
  const conclude = (outcome: CapacityOutcome, last: PlayedLoad) =>
    summariseConfirmation(
      { plan, session, unloaded, unloadedPoints, agreement },
      outcome,
      last,
      history,
      tried,
    )
  if (death !== undefined) return conclude('server-died', death)
  const trials = new RateTrials(session, plan, unloaded.point, agreement)
  let last = unloaded
  for (;;) {
    const nextRps = chooseNextRate(history, plan)
    if (nextRps === undefined) break
    const triedRate = await trials.try(nextRps, history)
    tried.push(triedRate)
    last = triedRate.played
    if (await session.hasDied(last.point)) return conclude('server-died', last)
    history = recordRate(history, triedRate, unloaded.point.p50Ms)
  }
  // If no rate is confirmed, report the highest one that met the SLO without proof.
  const metRate = history.metRate ?? history.unprovenRate
  if (metRate !== undefined) return conclude('converged', metRate.played)
  if (history.consecutiveInvalidRates === 0) return conclude('budget', last)
  return conclude(last.point.invalid ? 'host-interference' : 'generator-limit', last)
}

/** Observations of a confirmation, apart from the rates that it tried. */
interface ConfirmationObservations {
  readonly plan: ConfirmationPlan
  readonly session: Session
  readonly unloaded: PlayedLoad
  readonly unloadedPoints: readonly LoadPoint[]
  readonly agreement: MeasurementAgreement
}

/**
 * Builds the result of a confirmation.
 * @param last load behind the outcome
 */
function summariseConfirmation(
  { plan, session, unloaded, unloadedPoints, agreement }: ConfirmationObservations,
  outcome: CapacityOutcome,
  last: PlayedLoad,
  history: RateHistory,
  tried: readonly TriedRate[],
): Confirmation {
  const { target, slo, rateRps } = plan
  const met = outcome === 'converged' ? (history.metRate ?? history.unprovenRate) : undefined
  const metRps = met?.rps ?? 0
  const proven = met?.evidence.isProven ?? false
  const nEff = met?.evidence.nEff ?? 0
  const reportedRate = met ?? tried.at(-1)
  const variation =
    reportedRate && agreement.describeVariation(reportedRate.rps, reportedRate.evidence.spanS)
  const isBounded = outcome === 'converged' || outcome === 'budget'
  const violatedRps = isBounded ? history.violatedRps : Number.POSITIVE_INFINITY
  return {
    outcome,
    ...boundByConfirmation(metRps, violatedRps, proven),
    ...(met && { confidence: met.evidence.confidence }),
    ...(variation && { variation }),
    slo,
    unloaded: summarise(unloaded.run.latencyMs),
    // A confirmation applies no saturating closed loop: this is the throughput of the load
    // behind the outcome.
    saturationRps: last.point.achievedRps,
    points: [...unloadedPoints, ...tried.map(({ played }) => played.point)],
    requests: session.requests,
    seconds: session.totalS,
    detail: metRps > 0 ? undefined : explainFailure(outcome, last.point, history.violatedRps),
    caveats: [
      ...collectCaveats(target, session),
      ...tried.flatMap(({ decision, evidence }) =>
        decision === 'met' ? evidence.listCaveats() : [],
      ),
      ...(metRps > 0 && !proven ? [describeUnproven(nEff, slo)] : []),
    ],
    met: metRps === rateRps,
    rateRps,
    point: last.point,
    nEff,
    proven,
  }
}

/** Explains why no rate met the SLO. */
function explainFailure(outcome: CapacityOutcome, point: LoadPoint, violatedRps: number): string {
  if (point.errors > 0) return describeErrors(point)
  if (outcome === 'generator-limit')
    return 'the load generator could not sustain the rate: this machine was busy with other work'
  if (outcome === 'host-interference') return 'other work on this machine disturbed every window'
  return describeViolation(violatedRps)
}

const describeUnproven = (nEff: number, { percentile, classes }: Slo) =>
  `the SLO was met, but ${Math.round(nEff)} effective requests${classes ? ' of the class with the fewest' : ''} do not prove ${percentileName(percentile)} at 95 %; a longer confirmation may`
