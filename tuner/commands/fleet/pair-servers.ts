/**
 * How a model of a fleet is started to be measured beside others: the built-in predictor in its
 * place, or the server of an experiment file of its own.
 */
import { join } from 'node:path'
import { protocolFor } from '../../../profiler/index.ts'
import { FleetError, type Segment } from '../../../reports/fleet/packing.ts'
import type { Configuration, Parameter } from '../../../search/types.ts'
import { createLocalLauncher } from '../../../trials/launchers/local/local-launcher.ts'
import type { BuiltinTemplate } from '../../../trials/launchers/template.ts'
import type { MachineFacts } from '../../../trials/machine/machine-facts.ts'
import { spoken } from '../../../trials/predictor/protocol/spoken.ts'
import type { Launcher } from '../../../trials/types.ts'
import { protocolOf } from '../../backends/predictor-protocol.ts'
import { loadExperiment } from '../../experiment/load-experiment.ts'
import { surroundings } from '../../experiment/surroundings.ts'
import type { FleetModelEntry } from './fleet-file.ts'

/** Where it runs: of so many servers on one GPU, the one of that number, from 0. */
export interface Place {
  readonly folder: string
  readonly machine: MachineFacts
  readonly number: number
  readonly of: number
}

interface PairServer {
  readonly launcher: Launcher
  readonly configuration: Configuration
  /** That keep it busy. */
  readonly connections: number
  /** It counts its batches, and for how long each kept its GPU busy. Else its answers tell. */
  readonly countsBatches: boolean
}

/** @throws FleetError for a file that starts nothing, and a row that does not say how; ConfigError for what is wrong in the file */
export const pairServerOf = (entry: FleetModelEntry, segment: Segment, place: Place): PairServer =>
  entry.server === undefined
    ? builtinServer(entry.builtin!, segment, place)
    : ownServer(entry, segment, place)

/** Batches under way: one that is computed, and others on their way. */
const batchesUnderWay = 4

function builtinServer(
  model: string,
  segment: Segment,
  { folder, machine, number }: Place,
): PairServer {
  const template: BuiltinTemplate = {
    kind: 'builtin',
    model,
    engine: 'auto',
    env: { EMULATED_NEIGHBOURS: join(folder, 'neighbours') },
  }
  const told = toldOf(segment)
  const launcher = createLocalLauncher({
    template,
    parameters: [],
    protocol: protocolFor(spoken.tensors[0], {}),
    // A request is a batch: of another size it would take another time, however slow.
    payload: {
      kind: 'generated',
      seed: 1,
      count: 64,
      items: { kind: 'fixed', items: Number(told.batchSize ?? 1) },
    },
    runDirectory: join(folder, `server-${number}`),
    // A core of its own as long as there are some: launchers do not know of one another.
    machine: {
      ...machine,
      affinity: [machine.affinity.at(-1 - (number % machine.affinity.length))!],
    },
  })
  return {
    launcher,
    configuration: { ...onShare(segment), sharing: 'mps', ...told },
    connections: batchesUnderWay,
    countsBatches: true,
  }
}

function ownServer(
  { name, server }: FleetModelEntry,
  segment: Segment,
  { folder, machine, number, of }: Place,
): PairServer {
  const experiment = loadExperiment({ file: server!, ...surroundings(machine) })
  const { predictor: template, load, space, own } = experiment
  if (template.kind !== 'command')
    throw new FleetError(
      `--measure-pairs: ${server}, which ${name} names, starts no command`,
      'name an experiment file whose predictor is a command: predictor: {command: [...], protocol: ...}',
    )
  if (!machine.mps)
    throw new FleetError(
      `--measure-pairs: no MPS daemon runs here to give ${name} its share of a ${segment.gpu}`,
      'start it on the machine with the GPU: nvidia-cuda-mps-control -d',
    )
  const cores = coresOf(machine.affinity, number, of)
  const { batchSize = 1, instances = 1 } = toldOf(segment)
  const launcher = createLocalLauncher({
    template,
    parameters: space.parameters,
    ownGpus: own.gpus,
    protocol: protocolOf(experiment).protocol,
    payload: load.payload,
    runDirectory: join(folder, `server-${number}`),
    machine: { ...machine, affinity: cores },
  })
  return {
    launcher,
    configuration: {
      ...valuesOf(name, space.parameters, segment),
      cpuCores: cores.length,
      ...onShare(segment),
    },
    // A request may be one of a batch: as many as fill the batches that are under way.
    connections: Math.max(batchesUnderWay, 2 * Number(batchSize) * Number(instances)),
    countsBatches: false,
  }
}

const onShare = ({ gpu, share }: Segment): Configuration => ({
  gpu,
  gpuMemoryPercent: 100 * share!,
})

/**
 * Cores but the first, which is the load generator's, in equal parts; where there are too few, one
 * each.
 */
function coresOf(affinity: readonly number[], number: number, of: number): readonly number[] {
  const each = Math.floor((affinity.length - 1) / of)
  return each > 0
    ? affinity.slice(1 + number * each, 1 + (number + 1) * each)
    : [affinity.at(-1 - (number % affinity.length))!]
}

const plain = (name: string): string => name.toLowerCase().replace(/[\s_-]/g, '')
const cellValue = (cell: string): number | string =>
  Number.isNaN(Number(cell)) ? cell : Number(cell)

/** Columns of tables by what the predictor calls them. */
const settingOf: Readonly<Record<string, string>> = {
  batch: 'batchSize',
  batchsize: 'batchSize',
  processes: 'instances',
  instances: 'instances',
  precision: 'precision',
  sequencelength: 'sequenceLength',
  maxdelayms: 'maxDelayMs',
}

const toldOf = ({ row }: Segment): Configuration =>
  Object.fromEntries(
    Object.entries(row?.values ?? {}).flatMap(([column, value]) => {
      const name = settingOf[plain(column)]
      return name === undefined ? [] : [[name, cellValue(value)] as const]
    }),
  )

/** What the launcher holds for it. */
const held: ReadonlySet<string> = new Set([
  'cpuCores',
  'gpu',
  'gpus',
  'gpuMemoryPercent',
  'migProfile',
])

/** What the server is started with: of each parameter what the row tells, or its only value. */
function valuesOf(
  model: string,
  parameters: readonly Parameter[],
  { row }: Segment,
): Configuration {
  const told = new Map(
    Object.entries(row?.values ?? {}).map(([column, value]) => [plain(column), value]),
  )
  return Object.fromEntries(
    parameters.flatMap((parameter): [string, number | string][] => {
      const { name } = parameter
      if (held.has(name)) return []
      const cell = told.get(plain(name))
      const [only, ...others] = 'values' in parameter ? parameter.values : []
      if (cell !== undefined) return [[name, cellValue(cell)]]
      if (only !== undefined && others.length === 0) return [[name, only]]
      throw new FleetError(
        `--measure-pairs: line ${row?.line} of the table of ${model} does not say its ${name}`,
        `add a column ${name}, or give the experiment file one value of it`,
      )
    }),
  )
}
