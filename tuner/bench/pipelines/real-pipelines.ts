/**
 * Pipelines of real servers on this machine: all their configurations measured by a plain client in
 * Python, beside what `tune` finds of the pipeline and of its stages one by one.
 */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { quantile } from 'simple-statistics'
import { computeCost } from '../../../search/objective.ts'
import { configurationKey, enumerateConfigurations } from '../../../search/space/space.ts'
import type { Configuration, Problem } from '../../../search/types.ts'
import { createLearnedPipelinePredictor } from '../../../trials/launchers/simulated/learned-pipeline.ts'
import { inspectMachine } from '../../../trials/machine/machine-facts.ts'
import { computeVisitRatios } from '../../../trials/pipeline/pipeline.ts'
import { joinConfiguration } from '../../../trials/pipeline/stage-configuration.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import type { Backend } from '../../backends/backend.ts'
import { createLocalBackend } from '../../backends/local-backend.ts'
import { createHostContext } from '../../config/host-context.ts'
import { loadExperiment } from '../../config/load-experiment.ts'
import type { ExperimentInput } from '../../config/schema/experiment-schema.ts'
import type { Experiment } from '../../config/types.ts'
import { tune } from '../../library/tune-experiment.ts'
import { createProblem } from '../../problem/problem.ts'

const run = promisify(execFile)
const here = fileURLToPath(new URL('.', import.meta.url))
const server = join(here, 'stage.mjs')
const client = join(here, 'plain_client.py')

interface StageOfBench {
  /** Thousands of multiplications for a request, and for a batch. */
  readonly work: number
  readonly batchWork?: number
  readonly maxBatch?: readonly number[]
  readonly cpuCores: readonly number[]
  readonly replicas?: readonly number[]
  /** Shares of the requests that call another stage. */
  readonly calls?: Readonly<Record<string, number>>
}
interface PipelineOfBench {
  readonly sloMs: number
  readonly demandRps: number
  readonly stages: Readonly<Record<string, StageOfBench>>
}

export const realPipelines: Readonly<Record<string, PipelineOfBench>> = {
  'two stages': {
    sloMs: 150,
    demandRps: 80,
    stages: {
      first: { work: 60, cpuCores: [0.25, 0.5], calls: { second: 1 } },
      second: { work: 30, batchWork: 120, maxBatch: [1, 8], cpuCores: [0.2, 0.4] },
    },
  },
  'three, batches in the middle': {
    sloMs: 200,
    demandRps: 80,
    stages: {
      first: { work: 40, cpuCores: [0.2, 0.4], calls: { middle: 1 } },
      middle: {
        work: 30,
        batchWork: 120,
        maxBatch: [1, 8],
        cpuCores: [0.2, 0.4],
        calls: { last: 1 },
      },
      last: { work: 40, cpuCores: [0.1, 0.2] },
    },
  },
  'a branch of 30 %': {
    sloMs: 200,
    demandRps: 80,
    stages: {
      first: { work: 60, cpuCores: [0.25, 0.4], calls: { second: 1, branch: 0.3 } },
      second: { work: 30, batchWork: 120, maxBatch: [1, 8], cpuCores: [0.3] },
      branch: { work: 150, cpuCores: [0.1], replicas: [1, 2, 3] },
    },
  },
  // Not part of the proof: shows that the bench works.
  tiny: {
    sloMs: 250,
    demandRps: 50,
    stages: {
      first: { work: 60, cpuCores: [0.3, 0.6], calls: { second: 1 } },
      second: { work: 60, cpuCores: [0.2] },
    },
  },
}

const common = { headroom: 0, history: false, backend: 'local' } as const

const describeStage = (
  { work, batchWork = 0, maxBatch, cpuCores }: StageOfBench,
  name: string,
  calls: readonly string[],
) => ({
  model: name,
  predictor: {
    command: [process.execPath, server, '${port}', String(work), ...calls],
    env: { BATCH_WORK: String(batchWork) },
    protocol: 'json' as const,
    path: '/',
    body: '{}',
  },
  space: {
    cpuCores: [...cpuCores],
    ...(maxBatch && { maxBatch: { values: [...maxBatch], category: 'env' as const } }),
  },
})

const describePipeline = ({ sloMs, demandRps, stages }: PipelineOfBench): ExperimentInput => ({
  ...common,
  slo: `${sloMs}ms`,
  demand: `${demandRps} rps`,
  stages: Object.fromEntries(
    Object.entries(stages).map(([name, stage]) => {
      const calls = Object.entries(stage.calls ?? {})
      const called = calls.map(([other, share]) => `\${stages.${other}.url}:${share}`)
      return [
        name,
        {
          ...describeStage(stage, name, called),
          calls: Object.fromEntries(calls),
          replicas: [...(stage.replicas ?? [1])],
        },
      ]
    }),
  ),
})

interface RealBenchOptions {
  readonly folder: string
  readonly seeds: number
  /** Seconds of one load of the plain client. */
  readonly seconds: number
}

/** Compares one pipeline; one row for each seed. */
export async function benchRealPipeline(
  name: string,
  { folder, seeds, seconds }: RealBenchOptions,
): Promise<readonly Record<string, unknown>[]> {
  const bench = realPipelines[name]!
  const given = describePipeline(bench)
  const machine = await inspectMachine()
  const db = (what: string) => join(folder, `${name}-${what}.db`)
  const experiment = loadExperiment({
    given: { ...given, db: db('brute-force') },
    ...createHostContext(machine),
  })
  const backend = createLocalBackend(
    experiment,
    experiment.predictor as Parameters<typeof createLocalBackend>[1],
    'brute-force',
    machine,
  )
  const problem = createProblem({ ...experiment, space: backend.space }, defaultPriceBook)
  const capacities = await measureAll(experiment, backend, seconds)
  const costs = new Map(
    [...capacities].map(([key, { configuration, capacityRps }]) => [
      key,
      computeTotalCost(problem, configuration, capacityRps),
    ]),
  )
  const cheapest = Math.min(...costs.values())
  const describeExcess = (configuration: Configuration | undefined): string => {
    const cost = configuration && costs.get(createKey(problem, configuration))
    return cost === undefined ? 'none' : `+${(100 * (cost / cheapest - 1)).toFixed(0)} %`
  }
  const rows: Record<string, unknown>[] = []
  for (let seed = 1; seed <= seeds; seed++) {
    const { recommendation, trials } = await tune({
      experiment: { ...given, seed, db: db(`tune-${seed}`) },
    })
    const { best } = recommendation
    const searched = trials.filter(({ purpose }) => purpose !== 'confirmation')
    const errors = comparePredictions(experiment, capacities, searched)
    const plainMs =
      best && (await playOn(backend, experiment, best.configuration, best.capacityRps, 60, seed))
    const single = await tuneStages(bench, seed, db)
    rows.push({
      pipeline: name,
      configurations: costs.size,
      seed,
      trials: searched.length,
      'above the cheapest': describeExcess(best?.configuration),
      'confirmed, req/s': best?.capacityRps.toFixed(0),
      'plain client 60 s, ms': plainMs?.toFixed(0),
      'its limit, ms': bench.sloMs,
      'prediction off (median, p90)': errors,
      'stage by stage': describeExcess(single.configuration),
      'its trials': single.trials,
    })
  }
  await backend.close()
  return rows
}

const createKey = ({ space }: Problem, configuration: Configuration): string =>
  configurationKey(
    Object.fromEntries(space.parameters.map(({ name }) => [name, configuration[name]!])),
  )

const computeTotalCost = (
  { objective, pricePerHour }: Problem,
  configuration: Configuration,
  capacityRps: number,
): number =>
  computeCost(objective, {
    pricePerHour: pricePerHour(configuration),
    capacityRps,
    unloadedMs: 1,
  })

type Capacities = ReadonlyMap<
  string,
  { readonly configuration: Configuration; readonly capacityRps: number }
>

const lowestRps = 5
const highestRps = 1000
const bisections = 8

/** The highest rate that meets the SLO under the plain client, of every configuration. */
async function measureAll(
  experiment: Experiment,
  backend: Backend,
  seconds: number,
): Promise<Capacities> {
  const capacities = new Map()
  const all = enumerateConfigurations(backend.space)
  for (const [i, configuration] of all.entries()) {
    let [low, high] = [Math.log(lowestRps), Math.log(highestRps)]
    await withPredictor(backend, configuration, async (url) => {
      await play(url, lowestRps * 4, seconds, experiment, 0)
      for (let step = 0; step < bisections; step++) {
        const middle = (low + high) / 2
        const ms = await play(url, Math.exp(middle), seconds, experiment, step)
        if (ms <= experiment.slo.limitMs) low = middle
        else high = middle
      }
    })
    const capacityRps = Math.exp(low)
    capacities.set(configurationKey(configuration), { configuration, capacityRps })
    process.stderr.write(`${i + 1} of ${all.length}: ${capacityRps.toFixed(0)} req/s\n`)
  }
  return capacities
}

async function withPredictor<T>(
  { launcher }: Backend,
  configuration: Configuration,
  work: (url: URL) => Promise<T>,
): Promise<T> {
  const predictor = await launcher.launch(configuration, 1, new AbortController().signal)
  try {
    if (predictor.target.kind !== 'http') throw new TypeError('not a process')
    return await work(new URL(predictor.target.path, predictor.target.url))
  } finally {
    await predictor.stop()
  }
}

const playOn = (
  backend: Backend,
  experiment: Experiment,
  configuration: Configuration,
  rateRps: number,
  seconds: number,
  seed: number,
): Promise<number> =>
  withPredictor(backend, configuration, async (url) => {
    await play(url, rateRps / 2, 5, experiment, 0)
    return play(url, rateRps, seconds, experiment, seed)
  })

async function play(
  { hostname, port, pathname }: URL,
  rateRps: number,
  seconds: number,
  { slo }: Experiment,
  seed: number,
): Promise<number> {
  const numbers = [rateRps, seconds, slo.percentile, seed].map(String)
  try {
    const { stdout } = await run('python3', [client, hostname, port, pathname, ...numbers])
    return stdout.trim() === 'inf' ? Number.POSITIVE_INFINITY : Number(stdout)
  } catch {
    // Overloaded: not all requests were answered in time.
    return Number.POSITIVE_INFINITY
  }
}

/** How far the trials of a search predict all configurations, as the plain client measured them. */
function comparePredictions(
  { stages = [], slo }: Experiment,
  capacities: Capacities,
  trials: readonly FinishedTrial[],
): string {
  const parameters = new Map(
    stages.map(({ name, experiment }) => [name, experiment.space.parameters]),
  )
  const predict = createLearnedPipelinePredictor({ stages }, parameters, slo, trials)
  const errors = [...capacities.values()].flatMap(({ configuration, capacityRps }) => {
    const predicted = predict(configuration)
    return predicted ? [Math.abs(predicted.capacityRps / capacityRps - 1)] : []
  })
  const percent = (share: number) => `${(100 * quantile(errors, share)).toFixed(0)} %`
  return errors.length === 0 ? 'none' : `${percent(0.5)}, ${percent(0.9)} of ${errors.length}`
}

/** Each stage alone, without its calls, under an equal part of the SLO. */
async function tuneStages(
  { sloMs, demandRps, stages }: PipelineOfBench,
  seed: number,
  db: (what: string) => string,
): Promise<{ readonly configuration?: Configuration; readonly trials: number }> {
  const entries = Object.entries(stages)
  const visits = computeVisitRatios({
    stages: entries.map(([name, { calls = {} }]) => ({
      name,
      calls: Object.entries(calls).map(([stage, ratio]) => ({ stage, ratio })),
      parallelCalls: false,
    })),
  })
  const chosen = []
  let count = 0
  for (const [name, stage] of entries) {
    const { recommendation, trials } = await tune({
      experiment: {
        ...common,
        ...describeStage(stage, name, []),
        slo: `${sloMs / entries.length}ms`,
        demand: `${demandRps * visits.get(name)!} rps`,
        confirm: false,
        seed,
        db: db(`${name}-${seed}`),
      },
    })
    count += trials.length
    const { best } = recommendation
    if (best === undefined) return { trials: count }
    const replicas = Math.min(best.replicas ?? 1, Math.max(...(stage.replicas ?? [1])))
    chosen.push({ stage: name, replicas, configuration: best.configuration })
  }
  return { configuration: joinConfiguration(chosen), trials: count }
}
