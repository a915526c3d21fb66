/**
 * Reports each stage's share of time and price in a recommended pipeline, and which stage is the
 * bottleneck.
 */
import { sum } from 'simple-statistics'
import { pickStage, splitConfiguration } from '../../trials/pipeline/stage-configuration.ts'
import type { StageUsage } from '../../trials/types.ts'
import { latency, percent } from '../format.ts'
import type { RankedCandidate, RankingCriteria } from './ranked-candidate.ts'
import type { Recommendation, StageReport } from './types.ts'

/**
 * Reports the stages, callers first, as in the configuration. Stages of one server are those whose
 * usage it reports. Undefined for a single predictor.
 */
export function reportStages(
  { trial, confirmation }: RankedCandidate,
  { pricePerHour, label }: Pick<RankingCriteria, 'pricePerHour' | 'label'>,
): readonly StageReport[] | undefined {
  const usage = confirmation?.trial.usage?.stages ?? trial.usage?.stages ?? []
  const stages = splitConfiguration(trial.configuration)
  if (stages === undefined && usage.length === 0) return undefined
  const totalMs = sum(usage.map(computeTimeOfRequest))
  const totalPrice = pricePerHour(trial.configuration)
  const shared = usage.map(({ stage }) => ({
    stage,
    replicas: 1,
    configuration: pickStage(trial.configuration, stage),
  }))
  return (stages ?? shared).map(({ stage, replicas, configuration }): StageReport => {
    const stageUsage = usage.find((one) => one.stage === stage)
    return {
      stage,
      replicas,
      label: label(configuration),
      ...(stages && { priceShare: (replicas * pricePerHour(configuration)) / totalPrice }),
      ...(stageUsage && {
        visits: stageUsage.visits,
        meanMs: stageUsage.meanMs,
        ...(stageUsage.visits !== undefined && {
          timeShare: totalMs > 0 ? computeTimeOfRequest(stageUsage) / totalMs : 0,
        }),
        busyShare: stageUsage.busyShare,
      }),
    }
  })
}

/** Time of a request in a stage, ms; 0 where it is unknown. */
const computeTimeOfRequest = ({ visits = 0, meanMs = 0 }: StageUsage): number => visits * meanMs

/**
 * Finds the busiest stage of a pipeline that serves; undefined if no stage's usage was measured.
 */
export function findStageBinding(
  { trial, confirmation }: RankedCandidate,
  stages: readonly StageReport[],
): Recommendation['binding'] | undefined {
  const usage = confirmation?.trial.usage?.stages ?? trial.usage?.stages ?? []
  const [busiest] = [...usage].sort((a, b) => b.busyShare - a.busyShare)
  const report = stages.find(({ stage }) => stage === busiest?.stage)
  if (busiest === undefined || report === undefined) return undefined
  return {
    what: busiest.busier,
    evidence: `stage ${report.stage} is the busiest: ${describeStage(report)}`,
  }
}

/** '41 % busy, 12 ms a visit, 63 % of the time, 70 % of the price'. */
export const describeStage = ({
  busyShare,
  visits,
  meanMs,
  timeShare,
  priceShare,
}: StageReport): string =>
  [
    ...(busyShare === undefined ? [] : [`${percent(busyShare)} busy`]),
    ...(visits === undefined || Math.abs(visits - 1) < 0.005
      ? []
      : [`${Number(visits.toFixed(2))} visits a request`]),
    ...(meanMs === undefined ? [] : [`${latency(meanMs)} a visit`]),
    ...(timeShare === undefined ? [] : [`${percent(timeShare)} of the time`]),
    ...(priceShare === undefined ? [] : [`${percent(priceShare)} of the price`]),
  ].join(', ')
