/**
 * Four built-in language encoders on emulated A30s that are cut by MIG: measured in virtual time,
 * packed by `tune fleet`, with what to launch where.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { seeded } from '../../../../profiler/seeded-random.ts'
import type { Configuration } from '../../../../search/types.ts'
import type { CliResult } from '../../../testing/run-cli.ts'
import { type Reopened, reopen } from '../../reopened.ts'

/**
 * Slow models at low rates, so that the emulated GPUs are the limit and not this machine's cores: a
 * request of them takes the emulated GPU 30 to 200 ms, and a core some 2.
 */
const models = {
  'bert-large': { sloMs: 2000, middayRps: 6 },
  'bert-base': { sloMs: 600, middayRps: 18 },
  'roberta-base': { sloMs: 800, middayRps: 12 },
  distilbert: { sloMs: 300, middayRps: 20 },
} as const
type ModelName = keyof typeof models
const names = Object.keys(models) as ModelName[]
const gpu = 'A30'
const pricePerHour = 0.9
const percentile = 0.99

export interface Placement {
  readonly gpuNumber: number
  readonly slice: string
  readonly rateRps: number
  readonly configuration: Configuration
}

export interface PlayedModel {
  readonly name: ModelName
  readonly sloMs: number
  readonly percentile: number
  /** Text of a CSV: seconds, requests per second. */
  readonly trace: string
  readonly experiment: Reopened
  readonly placements: readonly Placement[]
}

export interface PlayedFleet {
  readonly models: readonly PlayedModel[]
  /** Cut so. */
  readonly gpus: readonly (readonly string[])[]
  readonly saidPerHour: number
  /** Counted from what is launched and the price of the fleet's file alone. */
  readonly countedPerHour: number
}

type Run = (args: readonly string[]) => Promise<CliResult>

/** A day in steps of ten minutes: a wave, at another hour for each model, with bursts. */
function traceOf(name: ModelName): string {
  const i = names.indexOf(name)
  const uniform = seeded(11 + i)
  const rows = Array.from({ length: 144 }, (_, step) => {
    const wave = 0.55 - 0.45 * Math.cos((2 * Math.PI * (step - 18 * i)) / 144)
    return `${step * 600},${(models[name].middayRps * wave * (0.85 + 0.3 * uniform())).toFixed(2)}`
  })
  return `${rows.join('\n')}\n`
}

const experimentOf = (name: ModelName) => ({
  model: name,
  slo: `p99<${models[name].sloMs}ms`,
  backend: 'simulated',
  devices: 'emulated',
  space: {
    cpuCores: [1],
    memoryMiB: [1024],
    gpu: [gpu],
    migProfile: ['none', '1g.6gb', '2g.12gb'],
    batchSize: [1, 4],
    precision: ['fp32'],
    sequenceLength: [512],
  },
  sampler: 'grid',
  // Every slice is measured, whatever is cheapest.
  stop: { tolerance: '0.01%', certainty: '99.99%', yearlyBill: 1e9 },
  budget: { maxTrials: 6 },
  confirm: false,
})

/** @param run the command line in that folder @throws where it fails, or a placement is of nothing that was measured */
export async function playedFleet(folder: string, run: Run): Promise<PlayedFleet> {
  const path = (name: string) => join(folder, name)
  const checked = async (args: readonly string[]) => {
    const { code, stdout, stderr } = await run(args)
    if (code !== 0) throw new Error(`tune ${args.join(' ')} ended with ${code}: ${stderr}`)
    return stdout
  }
  writeFileSync(
    path('prices.yaml'),
    `name: made up\ncurrency: USD\nvcpu: 0.03\nmemoryGiB: 0.004\ngpus: {${gpu}: ${pricePerHour}}\n`,
  )
  const db = path('fleet.db')
  const experiments = new Map<ModelName, Reopened>()
  for (const name of names) {
    writeFileSync(path(`${name}.yaml`), JSON.stringify(experimentOf(name)))
    writeFileSync(path(`${name}.csv`), traceOf(name))
    await checked([
      '-f',
      path(`${name}.yaml`),
      '--prices',
      path('prices.yaml'),
      '--plain',
      '--db',
      db,
    ])
    experiments.set(name, await reopen(undefined, { db }))
  }
  const entries = names.map(
    (name) =>
      `  ${name}: {experiment: ${experiments.get(name)!.record.id}, demand: {trace: ${name}.csv}}`,
  )
  writeFileSync(
    path('fleet.yaml'),
    `gpus: {${gpu}: {count: 2, price: ${pricePerHour}}}\nheadroom: 15%\nmodels:\n${entries.join('\n')}\n`,
  )
  const said = JSON.parse(
    await checked([
      'fleet',
      '-f',
      path('fleet.yaml'),
      '--json',
      '--db',
      db,
      '--solver-time',
      '10s',
    ]),
  ) as Said
  const placements = said.gpus.flatMap(({ slices }, i) =>
    slices.flatMap(({ slice, model, configuration, rateRps }) =>
      model === undefined
        ? []
        : [
            {
              model,
              placement: {
                gpuNumber: i,
                slice,
                rateRps: rateRps!,
                configuration: configurationOf(experiments.get(model)!, configuration!),
              },
            },
          ],
    ),
  )
  return {
    models: names.map((name) => ({
      ...{
        name,
        sloMs: models[name].sloMs,
        percentile,
        trace: readFileSync(path(`${name}.csv`), 'utf8'),
      },
      experiment: experiments.get(name)!,
      placements: placements.flatMap(({ model, placement }) => (model === name ? [placement] : [])),
    })),
    gpus: said.gpus.map(({ slices }) => slices.map(({ slice }) => slice)),
    saidPerHour: said.pricePerHour,
    countedPerHour:
      new Set(placements.map(({ placement }) => placement.gpuNumber)).size * pricePerHour,
  }
}

interface Said {
  readonly pricePerHour: number
  readonly gpus: readonly {
    readonly slices: readonly {
      readonly slice: string
      readonly model?: ModelName
      readonly configuration?: string
      readonly rateRps?: number
    }[]
  }[]
}

/** Of the trial that the plan names by its words. */
function configurationOf({ trials, label }: Reopened, words: string): Configuration {
  const found = trials.find(({ configuration }) => label(configuration) === words)
  if (!found) throw new Error(`no trial is '${words}'`)
  return found.configuration
}
