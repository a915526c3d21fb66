/**
 * `npm run bench:pipelines [-- --seeds N]`: what a pipeline costs that `tune` finds in virtual time,
 * beside the cheapest of all its configurations, the greedy planner of InferLine (Crankshaw et al.,
 * SoCC 2020, section 4.3), and stages that are tuned one by one, each under an equal part of the
 * SLO. Costs are true ones: every configuration is simulated under load.
 *
 * `npm run bench:pipelines -- --real [--only NAME] [--seconds 10] [--seeds N]` runs real servers on
 * this machine, whose configurations a plain client in Python measures (real-pipelines.ts). It needs
 * two quiet cores, permission to limit CPU time, and about two hours; `--only tiny` takes minutes.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { median } from 'simple-statistics'
import { computeCost } from '../../search/objective.ts'
import { configurationKey, enumerateConfigurations } from '../../search/space/space.ts'
import type { Configuration, Problem } from '../../search/types.ts'
import { computeVisitRatios } from '../../trials/pipeline/pipeline.ts'
import { joinConfiguration } from '../../trials/pipeline/stage-configuration.ts'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import { createSimulatedBackend } from '../backends/simulated-backend.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { ExperimentInput } from '../config/schema/experiment-schema.ts'
import type { Experiment } from '../config/types.ts'
import { tune } from '../library/tune-experiment.ts'
import { createProblem } from '../problem/problem.ts'
import { benchRealPipeline, realPipelines } from './pipelines/real-pipelines.ts'

const { values: options } = parseArgs({
  options: {
    seeds: { type: 'string', default: '5' },
    real: { type: 'boolean', default: false },
    only: { type: 'string' },
    seconds: { type: 'string', default: '10' },
  },
})
const folder = mkdtempSync(join(tmpdir(), 'tune-bench-pipelines-'))

const gpuMemoryPercent = 100
const common = { backend: 'simulated', headroom: 0, history: false, confirm: false } as const
const pipelines = {
  'two stages': {
    ...common,
    slo: '45ms',
    demand: '350 rps',
    stages: {
      embed: {
        model: 'bert',
        calls: ['classify'],
        replicas: [1, 2],
        space: { cpuCores: 1, gpu: ['T4', 'L4'], gpuMemoryPercent, batchSize: [1, 8, 32] },
      },
      classify: {
        model: 'resnet50',
        replicas: [1, 2],
        space: { cpuCores: [2, 4, 8], gpu: 'T4', gpuMemoryPercent, batchSize: [1, 8] },
      },
    },
  },
  'three, batches in the middle': {
    ...common,
    slo: '75ms',
    demand: '350 rps',
    stages: {
      prepare: {
        model: 'resnet50',
        calls: ['embed'],
        space: { cpuCores: [4, 8], gpu: 'T4', gpuMemoryPercent, batchSize: 1 },
      },
      embed: {
        model: 'bert',
        calls: ['classify'],
        replicas: [1, 2],
        space: { cpuCores: 1, gpu: ['T4', 'L4'], gpuMemoryPercent, batchSize: [1, 8, 32] },
      },
      classify: {
        model: 'resnet50',
        space: { cpuCores: [4, 8], gpu: 'T4', gpuMemoryPercent, batchSize: [1, 8] },
      },
    },
  },
  'a branch of 30 %': {
    ...common,
    slo: '60ms',
    demand: '350 rps',
    stages: {
      embed: {
        model: 'bert',
        calls: ['classify'],
        space: { cpuCores: 1, gpu: ['T4', 'L4'], gpuMemoryPercent, batchSize: [1, 8] },
      },
      classify: {
        model: 'resnet50',
        calls: { ocr: '30%' },
        replicas: [1, 2],
        space: { cpuCores: [2, 4, 8], gpu: 'T4', gpuMemoryPercent, batchSize: [1, 8] },
      },
      ocr: {
        model: 'resnet50',
        space: { cpuCores: [2, 4], gpu: 'T4', gpuMemoryPercent, batchSize: 4 },
      },
    },
  },
} as const satisfies Record<string, ExperimentInput>

const machine = { cpuCores: 2, gpus: [] }
const load = (given: ExperimentInput): Experiment => loadExperiment({ given, cwd: folder, machine })

/** The true cost of every configuration, by its key. */
async function measureAll(
  experiment: Experiment,
  problem: Problem,
): Promise<ReadonlyMap<string, number>> {
  const { launcher, measure } = createSimulatedBackend(experiment)
  const { signal } = new AbortController()
  const costs = new Map<string, number>()
  for (const configuration of enumerateConfigurations(problem.space)) {
    const predictor = await launcher.launch(configuration, 1, signal)
    const { capacityRps } = await measure(
      predictor,
      { kind: 'trial' },
      { number: 1, onStep: () => {} },
      signal,
    )
    costs.set(
      configurationKey(configuration),
      computeTotalCost(problem, configuration, capacityRps),
    )
  }
  return costs
}

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

/**
 * InferLine's planner: from batches of one, the fastest hardware and most replicas, it takes the
 * step that saves most while the prediction still meets the SLO at the demand. Steps are one value
 * less of a hardware parameter or of the replicas, and one value more of the batch size.
 */
function planGreedily(problem: Problem, demandRps: number): Configuration | undefined {
  const { space, pricePerHour, priorLogRate } = problem
  const all = enumerateConfigurations(space)
  const isFeasible = (configuration: Configuration) =>
    Math.exp(priorLogRate!(configuration) ?? Number.NEGATIVE_INFINITY) >= demandRps
  const isBatchSize = (name: string) => name.endsWith('.batchSize')
  const listValues = (name: string) => [...new Set(all.map((one) => one[name]!))]
  const values = new Map(
    space.parameters.map(({ name }) => [
      name,
      listValues(name).sort((a, b) => rankValue(problem, all[0]!, name, a, b)),
    ]),
  )
  let current: Configuration = Object.fromEntries(
    [...values].map(([name, ordered]) => [name, isBatchSize(name) ? ordered[0]! : ordered.at(-1)!]),
  )
  if (!isFeasible(current)) return undefined
  for (;;) {
    const steps = [...values].flatMap(([name, ordered]) => {
      const at = ordered.indexOf(current[name]!)
      const next = ordered[isBatchSize(name) ? at + 1 : at - 1]
      return next === undefined ? [] : [{ ...current, [name]: next }]
    })
    // A larger batch saves nothing by itself, but makes room for the next step.
    const [best] = steps
      .filter(isFeasible)
      .map((one) => ({ one, price: pricePerHour(one), rate: priorLogRate!(one)! }))
      .sort((a, b) => a.price - b.price || b.rate - a.rate)
    const gains =
      best !== undefined &&
      (best.price < pricePerHour(current) || best.rate > priorLogRate!(current)! + 0.01)
    if (!gains) return current
    current = best.one
  }
}

/** Ascending: numbers by size, GPUs by price. */
function rankValue(
  { pricePerHour }: Problem,
  base: Configuration,
  name: string,
  a: number | string,
  b: number | string,
): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b
  return pricePerHour({ ...base, [name]: a }) - pricePerHour({ ...base, [name]: b })
}

/** Each stage alone, under an equal part of the SLO, for its share of the demand. */
async function tuneStages(
  given: ExperimentInput,
  experiment: Experiment,
  demandRps: number,
  seed: number,
): Promise<{ readonly configuration?: Configuration; readonly trials: number }> {
  const stages = experiment.stages!
  const visits = computeVisitRatios({ stages })
  const chosen = []
  let trialCount = 0
  for (const { name } of stages) {
    const { model, space, replicas } = given.stages![name]! as {
      model: string
      space: ExperimentInput['space']
      replicas?: readonly number[]
    }
    const { recommendation, trials } = await tune({
      experiment: {
        ...common,
        model,
        space,
        slo: `${experiment.slo.limitMs / stages.length}ms`,
        demand: `${demandRps * visits.get(name)!} rps`,
        seed,
        db: join(folder, `${seed}-${name}-${Math.random()}.db`),
      },
    })
    trialCount += trials.length
    const { best } = recommendation
    if (best === undefined) return { trials: trialCount }
    const most = Math.max(...(replicas ?? [1]))
    chosen.push({
      stage: name,
      replicas: Math.min(best.replicas ?? 1, most),
      configuration: best.configuration,
    })
  }
  return { configuration: joinConfiguration(chosen), trials: trialCount }
}

const describeExcess = (cost: number | undefined, cheapest: number): string =>
  cost === undefined ? 'none' : `+${(100 * (cost / cheapest - 1)).toFixed(0)} %`

async function benchVirtual(): Promise<void> {
  const rows = []
  for (const [name, given] of Object.entries(pipelines)) {
    const experiment = load(given)
    const problem = createProblem(experiment, defaultPriceBook)
    const costs = await measureAll(experiment, problem)
    const cheapest = Math.min(...costs.values())
    const costOf = (configuration: Configuration | undefined) => {
      if (configuration === undefined) return undefined
      // The order of the parameters belongs to the key.
      const ordered = Object.fromEntries(
        problem.space.parameters.map((one) => [one.name, configuration[one.name]!]),
      )
      return costs.get(configurationKey(ordered))
    }
    const demandRps = Number.parseFloat(given.demand)
    const greedy = costOf(planGreedily(problem, demandRps))
    for (let seed = 1; seed <= Number(options.seeds); seed++) {
      const { recommendation, trials } = await tune({
        experiment: { ...given, seed, db: join(folder, `${name}-${seed}.db`) },
      })
      const single = await tuneStages(given, experiment, demandRps, seed)
      rows.push({
        pipeline: name,
        configurations: costs.size,
        seed,
        trials: trials.length,
        'above the cheapest': describeExcess(costOf(recommendation.best?.configuration), cheapest),
        'InferLine greedy': describeExcess(greedy, cheapest),
        'stage by stage': describeExcess(costOf(single.configuration), cheapest),
        'its trials': single.trials,
      })
    }
  }
  console.table(rows)
  console.log(
    `median trials: ${median(rows.map(({ trials }) => trials))} together, ${median(rows.map((row) => row['its trials']))} stage by stage`,
  )
}

async function benchReal(): Promise<void> {
  const names = Object.keys(realPipelines).filter((name) => name !== 'tiny')
  const rows = []
  for (const name of options.only === undefined ? names : [options.only])
    rows.push(
      ...(await benchRealPipeline(name, {
        folder,
        seeds: Number(options.seeds),
        seconds: Number(options.seconds),
      })),
    )
  console.table(rows)
}

await (options.real ? benchReal() : benchVirtual())
rmSync(folder, { recursive: true })
