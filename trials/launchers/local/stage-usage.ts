/** Usage of the stages of a launched pipeline during its last load. */
import { mean, sum } from 'simple-statistics'
import type { LoadRun } from '../../../profiler/model/load-run.ts'
import { computeVisitRatios, type Pipeline } from '../../pipeline/pipeline.ts'
import type { Resources } from '../../resources.ts'
import type { StageUsage } from '../../types.ts'
import { computeBusyShare, type StagePredictors, type StageUsages } from '../stage-predictors.ts'
import type { RelayTotals, StageRelay } from './stage-relay.ts'

/** A stage that serves. */
export interface ServingStage extends StagePredictors {
  /** Resources of one replica. */
  readonly resources: Resources
  /** Relay before the stage; the entry has none. */
  readonly relay?: StageRelay
}

/** Visits to a stage during one load. */
interface StageVisits {
  /** Mean visits of a request. */
  readonly visits: number
  /** Mean time of a visit, with the calls that it makes, ms. */
  readonly totalMs: number
}

/** Observes the loads of a pipeline, and computes what its stages did during the last one. */
export class StageUsageMeter {
  private lastVisits: ReadonlyMap<string, StageVisits> = new Map()

  constructor(
    private readonly pipeline: Pipeline,
    private readonly stages: readonly ServingStage[],
  ) {}

  /** For `HttpTarget.observeLoad`: the usage of the replicas counts from here, too. */
  observeLoad(): (run: LoadRun) => void {
    for (const { replicas } of this.stages) for (const one of replicas) one.restartUsage?.()
    const before = this.stages.map(({ relay }) => relay?.read())
    return (run) => {
      this.lastVisits = new Map(
        this.stages.flatMap(({ name, relay }, i) => {
          const visits =
            relay === undefined ? summariseEntry(run) : compare(before[i], relay.read(), run)
          return visits === undefined ? [] : [[name, visits]]
        }),
      )
    }
  }

  /** @param usages of the replicas of each stage; stages whose visits are unknown are left out */
  computeUsage(usages: StageUsages): StageUsage[] {
    const ownMs = computeOwnTimes(this.pipeline, this.lastVisits)
    return this.stages.flatMap(({ name, resources }) => {
      const visits = this.lastVisits.get(name)
      if (visits === undefined) return []
      return [
        {
          stage: name,
          visits: visits.visits,
          meanMs: ownMs.get(name)!,
          ...computeBusyShare(usages.get(name)!, resources),
        },
      ]
    })
  }
}

/** The load generator calls the entry directly, so that its record has all visits. */
function summariseEntry({ latencyMs }: LoadRun): StageVisits | undefined {
  const answered = [...latencyMs].filter((ms) => !Number.isNaN(ms))
  return answered.length === 0 ? undefined : { visits: 1, totalMs: mean(answered) }
}

/** Undefined without answers, and where visits cannot be counted. */
function compare(
  before: RelayTotals | undefined,
  after: RelayTotals | undefined,
  { sentMs }: LoadRun,
): StageVisits | undefined {
  if (before === undefined || after === undefined || sentMs.length === 0) return undefined
  const answers = after.answers - before.answers
  if (answers === 0) return undefined
  return {
    visits: (after.requests - before.requests) / sentMs.length,
    totalMs: (after.answerMs - before.answerMs) / answers,
  }
}

/**
 * Mean time of a visit without the calls that it makes, ms. Declared numbers of calls are scaled to
 * the counted visits, since the callers of a visit are not known.
 */
function computeOwnTimes(
  pipeline: Pipeline,
  visitsByStage: ReadonlyMap<string, StageVisits>,
): ReadonlyMap<string, number> {
  const declared = computeVisitRatios(pipeline)
  const callMs = ({ stage, ratio }: { stage: string; ratio: number }): number => {
    const called = visitsByStage.get(stage)
    return called === undefined
      ? 0
      : ((ratio * called.visits) / declared.get(stage)!) * called.totalMs
  }
  return new Map(
    pipeline.stages.flatMap(({ name, calls, parallelCalls }) => {
      const visits = visitsByStage.get(name)
      if (visits === undefined) return []
      const times = calls.map(callMs)
      const callsMs = parallelCalls ? Math.max(0, ...times) : sum(times)
      return [[name, Math.max(0, visits.totalMs - callsMs)]]
    }),
  )
}
