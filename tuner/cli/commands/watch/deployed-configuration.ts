/** Resolves the deployed configuration that a watch compares with production. */
import { resolveLimits, sloText } from '../../../../profiler/model/slo.ts'
import type { RankedCandidate } from '../../../../reports/recommendation/ranked-candidate.ts'
import { rankCandidates } from '../../../../reports/recommendation/ranking.ts'
import type { ReplanOption } from '../../../../reports/watch/replan.ts'
import type { WatchTarget } from '../../../../reports/watch/watch.ts'
import { parseCount, parseDurationMs, parseShare } from '../../../config/values/units.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { createRankingCriteria } from '../../../problem/problem.ts'
import type { ReopenedExperiment } from '../reopen-experiment.ts'
import type { WatchFlags } from './watch-flags.ts'

/** The configuration in production. */
export interface DeployedConfiguration extends WatchTarget {
  readonly trial: number
  readonly label: string
  /** Trial that the experiment recommends today. */
  readonly recommended?: number
}

type StoredCandidate = { readonly trial?: unknown; readonly pricePerHour?: unknown }

/**
 * @param previousTrial the trial that was watched until now; a newer recommendation is not deployed yet
 * @throws UserError if the trial does not serve within the SLO, has no load curve, or if the SLO has
 * several limits
 */
export function resolveDeployed(
  reopened: ReopenedExperiment,
  flags: WatchFlags,
  previousTrial: number | undefined,
): DeployedConfiguration {
  const { record, experiment, recommendation } = reopened
  const { slo } = experiment
  if (resolveLimits(slo).length > 1 || slo.classes !== undefined)
    throw new UserError(
      `tune watch follows one latency, but ${sloText(slo)} limits several`,
      'watch an experiment with a single limit',
      exitCodes.usage,
    )
  const result = (record.result ?? {}) as {
    readonly best?: StoredCandidate
    readonly alternatives?: readonly StoredCandidate[]
  }
  const requestedTrial = flags.trial === undefined ? undefined : parseCount(flags.trial, 1)
  const recommended = (result.best?.trial as number | undefined) ?? recommendation.best?.trial
  const trial = requestedTrial ?? previousTrial ?? recommended
  const servingCandidates = rankAtSlowness(reopened, 1).filter(
    ({ candidate, curve }) => candidate.capacityRps > 0 && curve !== undefined,
  )
  const match = servingCandidates.find(({ candidate }) => candidate.trial === trial)
  if (!match) {
    const what =
      trial === undefined
        ? 'recommends nothing'
        : `has no trial ${trial} that serves within its SLO under load`
    const hint =
      servingCandidates.length > 0
        ? `trials that do: ${servingCandidates.map(({ candidate }) => candidate.trial).join(', ')}`
        : `to see why: tune show ${record.id}`
    throw new UserError(`experiment ${record.id} ${what}`, hint, exitCodes.usage)
  }
  const { candidate, measurement, curve } = match
  const stored = [result.best, ...(result.alternatives ?? [])].find(
    (one) => one?.trial === candidate.trial,
  )?.pricePerHour
  return {
    trial: candidate.trial,
    label: candidate.label,
    recommended,
    server: {
      capacityRps: candidate.capacityRps,
      saturationRps: measurement?.saturationRps,
      curve: curve!,
    },
    slo,
    headroom: flags.headroom === undefined ? experiment.headroom : parseShare(flags.headroom),
    ...(flags.replicas !== undefined && { replicas: parseCount(flags.replicas, 1) }),
    ...(experiment.model.version !== undefined && { version: experiment.model.version }),
    pricePerHour: {
      stored: typeof stored === 'number' ? stored : candidate.pricePerHour,
      today: candidate.pricePerHour,
    },
    ...(candidate.bundles && { bundles: candidate.bundles }),
    drift: {
      tolerance: parseShare(flags.tolerance),
      falseAlarmDays: parseCount(flags.falseAlarmDays, 1),
    },
    ingressMs: flags.detour === undefined ? 0 : parseDurationMs(flags.detour),
  }
}

/**
 * Ranks the trials as if every server were `slowness` times slower: meeting a limit at a rate then
 * means meeting limit × slowness at rate ÷ slowness.
 */
const rankAtSlowness = (
  { experiment, trials, pricePerHour, label }: ReopenedExperiment,
  slowness: number,
): readonly RankedCandidate[] =>
  rankCandidates(trials, {
    ...createRankingCriteria(experiment, { pricePerHour, label }),
    slo: { ...experiment.slo, limitMs: experiment.slo.limitMs / slowness },
  })

/** Lists all measured configurations, with capacities scaled to the speed of production. */
export const listReplanOptions = (
  reopened: ReopenedExperiment,
  slowness: number,
): readonly ReplanOption[] =>
  rankAtSlowness(reopened, slowness).map(
    ({ candidate: { trial, label, capacityRps, pricePerHour, bundles, feasible } }) => ({
      trial,
      label,
      capacityRps: feasible ? capacityRps / slowness : 0,
      pricePerHour,
      ...(bundles && { bundles }),
    }),
  )
