/** Usage of the stages of a launched pipeline: of its last load, and the load curve of each stage. */
import { mean, sum } from 'simple-statistics'
import type { LoadRun } from '../../../profiler/model/load-run.ts'
import { computeVisitRatios, type Pipeline } from '../../pipeline/pipeline.ts'
import type { Resources } from '../../resources.ts'
import type { StageLoad, StageUsage } from '../../types.ts'
import {
  computeBusyShare,
  computeMeanCores,
  computeMeanGpuShare,
  readUsages,
  type StagePredictors,
  type StageUsages,
} from '../stage-predictors.ts'
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
  readonly count: number
  /** Mean visits of a request. */
  readonly visits: number
  /** Mean time of a visit, with the calls that it makes, ms. */
  readonly totalMs: number
}

/** What was observed of one load. */
interface ObservedLoad {
  readonly seconds: number
  readonly isOpen: boolean
  /** By stage; without those whose visits are unknown. */
  readonly visits: ReadonlyMap<string, StageVisits>
  readonly usages: Promise<StageUsages>
}

/** Shorter loads have few ticks of the clock by which the kernel counts CPU time. Assumed. */
const minLoadSeconds = 0.2

/** Observes the loads of a pipeline, and computes what its stages did. */
export class StageUsageMeter {
  private readonly observed: ObservedLoad[] = []

  constructor(
    private readonly pipeline: Pipeline,
    private readonly stages: readonly ServingStage[],
  ) {}

  /** For `HttpTarget.observeLoad`: the usage of the replicas counts from here, too. */
  observeLoad(): (run: LoadRun) => void {
    const startedMs = performance.now()
    for (const { replicas } of this.stages) for (const one of replicas) one.restartUsage?.()
    const before = this.stages.map(({ relay }) => relay?.read())
    return (run) => {
      const visits = new Map(
        this.stages.flatMap(({ name, relay }, i) => {
          const seen =
            relay === undefined ? summariseEntry(run) : compare(before[i], relay.read(), run)
          return seen === undefined ? [] : [[name, seen]]
        }),
      )
      const seconds = (performance.now() - startedMs) / 1000
      this.observed.push({
        seconds,
        isOpen: run.load.kind === 'open',
        visits,
        usages: readUsages(this.stages),
      })
    }
  }

  /** @returns the stages whose visits are known */
  async computeUsage(): Promise<StageUsage[]> {
    const loads = await Promise.all(
      this.observed.map(async (load) => ({ ...load, usages: await load.usages })),
    )
    const last = loads.at(-1)
    if (last === undefined) return []
    const curves = loads.map((load) => this.#describeLoad(load))
    return this.stages.flatMap(({ name, resources }) => {
      const at = curves.at(-1)!.get(name)
      if (at === undefined) return []
      return [
        {
          stage: name,
          visits: at.visits,
          meanMs: at.meanMs,
          ...computeBusyShare(last.usages.get(name)!, resources),
          loads: curves.flatMap((curve) => {
            const load = curve.get(name)
            return load === undefined || load.seconds < minLoadSeconds ? [] : [load]
          }),
        },
      ]
    })
  }

  #describeLoad({
    seconds,
    isOpen,
    visits,
    usages,
  }: Omit<ObservedLoad, 'usages'> & { readonly usages: StageUsages }): ReadonlyMap<
    string,
    StageLoad
  > {
    const ownMs = computeOwnTimes(this.pipeline, visits)
    return new Map(
      [...visits].map(([name, seen]) => {
        const replicas = usages.get(name)!
        const visitRps = seen.count / seconds / replicas.length
        return [
          name,
          {
            visitRps,
            visits: seen.visits,
            meanMs: ownMs.get(name)!,
            cpuMs: (1000 * computeMeanCores(replicas)) / visitRps,
            gpuMs: (1000 * computeMeanGpuShare(replicas)) / visitRps,
            isOpen,
            seconds,
          },
        ]
      }),
    )
  }
}

/** The load generator calls the entry directly, so that its record has all visits. */
function summariseEntry({ latencyMs }: LoadRun): StageVisits | undefined {
  const answered = [...latencyMs].filter((ms) => !Number.isNaN(ms))
  return answered.length === 0
    ? undefined
    : { count: answered.length, visits: 1, totalMs: mean(answered) }
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
    count: answers,
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
  seen: ReadonlyMap<string, StageVisits>,
): ReadonlyMap<string, number> {
  const declared = computeVisitRatios(pipeline)
  const callMs = ({ stage, ratio }: { stage: string; ratio: number }): number => {
    const called = seen.get(stage)
    return called === undefined
      ? 0
      : ((ratio * called.visits) / declared.get(stage)!) * called.totalMs
  }
  return new Map(
    pipeline.stages.flatMap(({ name, calls, parallelCalls }) => {
      const visits = seen.get(name)
      if (visits === undefined) return []
      const times = calls.map(callMs)
      const callsMs = parallelCalls ? Math.max(0, ...times) : sum(times)
      return [[name, Math.max(0, visits.totalMs - callsMs)]]
    }),
  )
}
