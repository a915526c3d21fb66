/**
 * Usage of the models of a Triton server, by its statistics extension: the mean batch of one model,
 * or what each stage of a pipeline did during the last load.
 */
import { sum } from 'simple-statistics'
import type { TritonModel } from '../../servers/server-start.ts'
import type { ModelConfig } from '../../servers/triton.ts'
import type { StageUsage, Usage } from '../../types.ts'
import { requestTriton, TritonRefusal } from './triton-api.ts'

interface ServedModels {
  readonly url: string
  /** The model that receives the load. */
  readonly entry: string
  readonly models: readonly TritonModel[]
  /** Loaded configurations by model. */
  readonly configs: ReadonlyMap<string, ModelConfig>
}

/** Counters of a model since its load. */
interface Counters {
  readonly items: number
  readonly batches: number
  readonly requests: number
  /** Time that requests waited and were computed, ms. */
  readonly requestMs: number
  /** Time that instances computed batches, ms. */
  readonly busyMs: number
}

/** Counters by model, and when they were read. */
interface Reading {
  readonly atMs: number
  readonly counters: ReadonlyMap<string, Counters>
}

export class ModelUsageMeter {
  /** Around the last load; its end is undefined while it runs. */
  private before: Promise<Reading | undefined>
  private after: Promise<Reading | undefined> | undefined

  private constructor(
    private readonly served: ServedModels,
    first: Reading | undefined,
  ) {
    this.before = Promise.resolve(first)
  }

  static async start(served: ServedModels, signal: AbortSignal): Promise<ModelUsageMeter> {
    return new ModelUsageMeter(served, await readCounters(served, signal))
  }

  /** For `HttpTarget.observeLoad`. */
  observeLoad(): () => void {
    this.before = this.read()
    this.after = undefined
    return () => {
      this.after = this.read()
    }
  }

  /** Mean batch of the entry; undefined without statistics. */
  async readBatch(): Promise<Pick<Usage, 'realisedBatch'>> {
    const { before, after } = await this.readBoth()
    const change = before && after && subtract(before, after, this.served.entry)
    return {
      realisedBatch: change && change.batches > 0 ? change.items / change.batches : undefined,
    }
  }

  /** Usage of the stages, callers first; none without statistics. */
  async readStages(): Promise<Pick<Usage, 'stages'>> {
    const { before, after } = await this.readBoth()
    const stages = before && after ? computeStages(this.served, before, after) : []
    return stages.length > 0 ? { stages } : {}
  }

  private async readBoth() {
    const before = await this.before
    return { before, after: await (this.after ?? this.read()) }
  }

  /** A server that ended has no statistics. */
  private read(): Promise<Reading | undefined> {
    return readCounters(this.served, AbortSignal.timeout(2_000)).catch(() => undefined)
  }
}

interface Duration {
  readonly count: number | string
  readonly ns: number | string
}
type Computation = Readonly<Record<(typeof computeSteps)[number], Duration>>
interface ModelStats {
  readonly inference_count: number | string
  readonly execution_count: number | string
  readonly inference_stats?: Computation & { readonly success: Duration; readonly queue: Duration }
  readonly batch_stats?: readonly Computation[]
}
const computeSteps = ['compute_input', 'compute_infer', 'compute_output'] as const

function sumCounters(versions: readonly ModelStats[]): Counters {
  const total = (read: (version: ModelStats) => number) => sum(versions.map(read))
  return {
    items: total(({ inference_count: count }) => Number(count)),
    batches: total(({ execution_count: count }) => Number(count)),
    requests: total(({ inference_stats: stats }) => Number(stats?.success.count ?? 0)),
    requestMs: total(({ inference_stats: stats }) =>
      stats === undefined ? 0 : toMs(stats.queue) + sumComputation(stats),
    ),
    busyMs: total(({ batch_stats: batches = [] }) => sum(batches.map(sumComputation))),
  }
}

/** Sums over versions; undefined if the server has no statistics. */
async function readCounters(
  { url, models }: ServedModels,
  signal: AbortSignal,
): Promise<Reading | undefined> {
  const readModel = async ({ name }: TritonModel): Promise<[string, Counters]> => {
    const path = `/v2/models/${encodeURIComponent(name)}/stats`
    const { model_stats: versions } = (await requestTriton(url, path, signal)) as {
      model_stats: readonly ModelStats[]
    }
    return [name, sumCounters(versions)]
  }
  try {
    const counters = new Map(await Promise.all(models.map(readModel)))
    return { atMs: performance.now(), counters }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof TritonRefusal) return undefined
    throw error
  }
}

const toMs = ({ ns }: Duration): number => Number(ns) / 1e6
const sumComputation = (stats: Computation): number =>
  sum(computeSteps.map((step) => toMs(stats[step])))

/** The change of a model's counters; undefined if it was loaded again in between. */
function subtract(before: Reading, after: Reading, model: string): Counters | undefined {
  const [from, to] = [before.counters.get(model)!, after.counters.get(model)!]
  if (to.requests < from.requests || to.batches < from.batches) return undefined
  return {
    items: to.items - from.items,
    batches: to.batches - from.batches,
    requests: to.requests - from.requests,
    requestMs: to.requestMs - from.requestMs,
    busyMs: to.busyMs - from.busyMs,
  }
}

/**
 * A BLS model computes while it waits for its calls: its own time is that of its visits less the
 * visits of all others, and its busy share that of its instances.
 */
function computeStages(
  { entry, models, configs }: ServedModels,
  before: Reading,
  after: Reading,
): StageUsage[] {
  const requests = subtract(before, after, entry)?.requests ?? 0
  if (requests === 0) return []
  const stages = models.flatMap(({ name, stage }) => {
    const change = stage === undefined ? undefined : subtract(before, after, name)
    if (change === undefined) return []
    const instances = sum(listGroups(configs.get(name)!).map(countInstances))
    return [
      {
        stage: stage!,
        visits: change.requests / requests,
        meanMs: change.requests === 0 ? 0 : change.requestMs / change.requests,
        busyShare: change.busyMs / (Math.max(1, instances) * (after.atMs - before.atMs)),
        busier: 'instances' as const,
      },
    ]
  })
  const bls = models.find(({ name, stage }) => name === entry && stage !== undefined)?.stage
  return stages.map((one) => {
    if (one.stage !== bls) return one
    const calls = stages.filter(({ stage }) => stage !== bls)
    const calledMs = sum(calls.map(({ visits, meanMs }) => visits * meanMs))
    return { ...one, meanMs: Math.max(0, one.meanMs - calledMs) }
  })
}

interface InstanceGroup {
  readonly count?: number
  readonly gpus?: readonly number[]
}

const listGroups = ({ instance_group }: ModelConfig) =>
  [instance_group ?? []].flat() as readonly InstanceGroup[]

/** A group has its instances on each of its GPUs. */
const countInstances = ({ count = 1, gpus = [] }: InstanceGroup): number =>
  count * Math.max(1, gpus.length)
