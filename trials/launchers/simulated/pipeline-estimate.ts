/**
 * Prediction of a pipeline from the models of its stages, before any trial: the prior of the joint
 * search. Each configuration of a stage is simulated alone, once, at a few utilisations. A
 * configuration of the pipeline then adds up latencies drawn from those of its stages, as if the
 * stages were independent and their arrivals Poisson (the product form of Jackson's networks, which
 * for batching is an approximation).
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import type { CapacityPrediction } from '../../../profiler/model/virtual-server.ts'
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration } from '../../../search/types.ts'
import { computeVisitRatios, type Pipeline } from '../../pipeline/pipeline.ts'
import { drawCallCount, mixHash } from '../../pipeline/request-draws.ts'
import { splitConfiguration } from '../../pipeline/stage-configuration.ts'
import { createStretchedSchedule } from './arrival-times.ts'
import type { BatchQueueOptions } from './batch-queue.ts'
import { SimulatedServer } from './batch-server.ts'
import { predictCapacity } from './estimated-capacity.ts'

/** The model of one replica of a stage; undefined for a configuration that cannot serve. */
type StageModelLookup = (
  stage: string,
  configuration: Configuration,
) => BatchQueueOptions | undefined

export interface PredictedPipeline extends CapacityPrediction {
  /** The stage that reaches its saturation first. */
  readonly bindingStage: string
}

/** Utilisations at which a stage is simulated; latencies between them are interpolated. */
const utilisations = [0.02, 0.2, 0.4, 0.55, 0.7, 0.8, 0.87, 0.93, 0.97] as const
/** Requests of each of these simulations; long queues need more of them to become stationary. */
const simulatedRequests = { plain: 2000, long: 10_000 } as const
/** From this utilisation on, the `long` number of requests is simulated. */
const minLongUtilisation = 0.8
/** Share of the requests before the queue is stationary, which do not count. */
const warmUpShare = 0.1
/** Quantiles that are kept of their latencies. */
const quantileCount = 400
/** Requests of the pipeline whose latencies are drawn. */
const drawCount = 1000
/** Halvings of the interval that contains the capacity, in ln(rate). */
const bisections = 11
/** Lowest rate that is tried, as a share of the saturation. */
const minRateShare = 0.01

/** Latencies of one replica of a stage. */
interface StageTable {
  readonly saturationRps: number
  /** Quantiles at each utilisation, ascending, ms. */
  readonly quantilesMs: readonly Float64Array[]
}

/** Creates a memoising predictor of configurations; undefined if a stage cannot serve. */
export function createPipelinePredictor(
  pipeline: Pipeline,
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
  lookUp: StageModelLookup,
): (configuration: Configuration) => PredictedPipeline | undefined {
  const visits = computeVisitRatios(pipeline)
  const draws = new PipelineDraws(pipeline)
  const tables = new Map<string, StageTable | undefined>()
  const predictions = new WeakMap<Configuration, { readonly found?: PredictedPipeline }>()
  const tabulate = (stage: string, configuration: Configuration): StageTable | undefined => {
    const key = `${stage} ${configurationKey(configuration)}`
    if (!tables.has(key)) {
      const model = lookUp(stage, configuration)
      tables.set(key, model && simulateStage(model))
    }
    return tables.get(key)
  }
  const predict = (configuration: Configuration): PredictedPipeline | undefined => {
    const split = new Map((splitConfiguration(configuration) ?? []).map((one) => [one.stage, one]))
    const stages: LoadedStage[] = []
    for (const { name } of pipeline.stages) {
      const one = split.get(name)
      const table = one && tabulate(name, one.configuration)
      if (table === undefined) return undefined
      stages.push({ table, perReplica: visits.get(name)! / one!.replicas })
    }
    const saturations = stages.map(({ table, perReplica }) => table.saturationRps / perReplica)
    const saturationRps = Math.min(...saturations)
    const bindingStage = pipeline.stages[saturations.indexOf(saturationRps)]!.name
    const unloadedMs = draws.computePercentileMs(stages, 0, slo.percentile)
    const maxOver = Math.floor((1 - slo.percentile) * drawCount + 1e-9)
    const isMet = (rateRps: number) => draws.countOver(stages, rateRps, slo.limitMs) <= maxOver
    let [low, high] = [Math.log(minRateShare * saturationRps), Math.log(saturationRps)]
    if (!isMet(Math.exp(low))) return { capacityRps: 0, saturationRps, unloadedMs, bindingStage }
    for (let i = 0; i < bisections; i++) {
      const middle = (low + high) / 2
      if (isMet(Math.exp(middle))) low = middle
      else high = middle
    }
    return { capacityRps: Math.exp(low), saturationRps, unloadedMs, bindingStage }
  }
  return (configuration) => {
    const memo = predictions.get(configuration) ?? { found: predict(configuration) }
    predictions.set(configuration, memo)
    return memo.found
  }
}

const schedule = createStretchedSchedule()

function simulateStage(model: BatchQueueOptions): StageTable {
  const unlimited = predictCapacity(model, { percentile: 0.5, limitMs: 1e9 })
  const saturationRps =
    unlimited.saturationRps * (model.quota?.usedBy === 'batches' ? model.cpuCores : 1)
  const server = new SimulatedServer({ ...model, schedule })
  return {
    saturationRps,
    quantilesMs: utilisations.map((utilisation) => {
      const rateRps = utilisation * saturationRps
      const requests = simulatedRequests[utilisation < minLongUtilisation ? 'plain' : 'long']
      const { latencyMs } = server.play({
        kind: 'open',
        rateRps,
        arrivals: { kind: 'poisson' },
        durationS: requests / rateRps,
        seed: 1,
      })
      const sorted = latencyMs.slice(warmUpShare * requests).sort()
      return Float64Array.from(
        { length: quantileCount },
        (_, i) => sorted[Math.floor(((i + 0.5) / quantileCount) * sorted.length)]!,
      )
    }),
  }
}

interface LoadedStage {
  readonly table: StageTable
  /** Visits to one replica for each request of the pipeline. */
  readonly perReplica: number
}

/** One visit of the drawn requests, with those that follow from it. */
interface VisitNode {
  readonly stage: number
  /** Quantile that each request draws. */
  readonly quantile: Uint16Array
  /** 1 for the requests that make the visit. */
  readonly made: Uint8Array
  readonly next: readonly VisitNode[]
  readonly parallel: boolean
  readonly latencyMs: Float64Array
}

/**
 * Samples the same requests for every configuration and rate, so that predictions differ only in
 * these.
 */
class PipelineDraws {
  readonly #root: VisitNode
  readonly #stageMs: readonly Float64Array[]

  constructor(pipeline: Pipeline) {
    const indices = new Map(pipeline.stages.map(({ name }, i) => [name, i]))
    let nodes = 0
    const build = (stage: number, made: Uint8Array): VisitNode => {
      const number = nodes++
      const { calls, parallelCalls } = pipeline.stages[stage]!
      return {
        stage,
        quantile: drawQuantiles(number),
        made,
        next: calls.flatMap(({ stage: name, ratio }, i) =>
          Array.from({ length: Math.ceil(ratio) }, (_, copy) =>
            build(
              indices.get(name)!,
              made.map((isMade, request) =>
                isMade === 1 &&
                copy < drawCallCount(ratio, mixHash(mixHash(number, 16 + i), request))
                  ? 1
                  : 0,
              ),
            ),
          ),
        ),
        parallel: parallelCalls,
        latencyMs: new Float64Array(drawCount),
      }
    }
    this.#root = build(0, new Uint8Array(drawCount).fill(1))
    this.#stageMs = pipeline.stages.map(() => new Float64Array(quantileCount))
  }

  /** Requests that take longer than the limit; all of them beyond the saturation. */
  countOver(stages: readonly LoadedStage[], rateRps: number, limitMs: number): number {
    if (!this.#load(stages, rateRps)) return drawCount
    let over = 0
    for (const ms of this.#evaluate(this.#root)) if (ms > limitMs) over++
    return over
  }

  computePercentileMs(stages: readonly LoadedStage[], rateRps: number, percentile: number): number {
    if (!this.#load(stages, rateRps)) return Number.POSITIVE_INFINITY
    const sorted = this.#evaluate(this.#root).slice().sort()
    return sorted[Math.min(drawCount - 1, Math.floor(percentile * drawCount))]!
  }

  /**
   * Sets the latencies of all stages at a rate.
   * @returns whether no stage is saturated
   */
  #load(stages: readonly LoadedStage[], rateRps: number): boolean {
    const last = utilisations.length - 1
    for (const [i, { table, perReplica }] of stages.entries()) {
      const utilisation = (rateRps * perReplica) / table.saturationRps
      if (utilisation > utilisations[last]!) return false
      let above = utilisations.findIndex((one) => one >= utilisation)
      above = Math.max(1, above)
      const [from, to] = [utilisations[above - 1]!, utilisations[above]!]
      const part = Math.max(0, (utilisation - from) / (to - from))
      const [low, high] = [table.quantilesMs[above - 1]!, table.quantilesMs[above]!]
      const stageMs = this.#stageMs[i]!
      for (let j = 0; j < quantileCount; j++) stageMs[j] = low[j]! + part * (high[j]! - low[j]!)
    }
    return true
  }

  #evaluate({ stage, quantile, next, parallel, latencyMs }: VisitNode): Float64Array {
    const stageMs = this.#stageMs[stage]!
    if (next.length === 0) {
      for (let i = 0; i < drawCount; i++) latencyMs[i] = stageMs[quantile[i]!]!
      return latencyMs
    }
    latencyMs.fill(0)
    for (const node of next) {
      const called = this.#evaluate(node)
      for (let i = 0; i < drawCount; i++) {
        const ms = node.made[i]! * called[i]!
        latencyMs[i] = parallel ? Math.max(latencyMs[i]!, ms) : latencyMs[i]! + ms
      }
    }
    for (let i = 0; i < drawCount; i++) latencyMs[i] = latencyMs[i]! + stageMs[quantile[i]!]!
    return latencyMs
  }
}

/** Each quantile equally often, in an order of its own for every visit. */
function drawQuantiles(number: number): Uint16Array {
  const order = Array.from({ length: drawCount }, (_, i) => i).sort(
    (a, b) => mixHash(number + 1, a) - mixHash(number + 1, b),
  )
  return Uint16Array.from(order, (rank) => Math.floor(((rank + 0.5) / drawCount) * quantileCount))
}
