/**
 * `tune calibrate`: measures a server at a few batch sizes and stores the result; lists and removes
 * stored calibrations.
 */

import { protocolTable } from '../../../../profiler/protocols/protocol-table.ts'
import { latency, rate } from '../../../../reports/format.ts'
import type { Configuration, Parameter } from '../../../../search/types.ts'
import { findArchitecture } from '../../../../trials/devices/architecture.ts'
import { findGpu } from '../../../../trials/devices/catalogue.ts'
import type { CalibratedServer } from '../../../../trials/devices/device-model.ts'
import {
  fitCalibration,
  type ServerCalibration,
} from '../../../../trials/devices/server-calibration.ts'
import { inspectMachine, type MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import { describeConfiguration } from '../../../../trials/resources.ts'
import {
  deleteCalibrations,
  readCalibrations,
  saveCalibration,
} from '../../../../trials/store/index.ts'
import { measureBatches } from '../../../backends/measure-batches.ts'
import { createProtocol } from '../../../backends/predictor-protocol.ts'
import type { FlagValues } from '../../../config/flags/flags.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import type { Experiment } from '../../../config/types.ts'
import { createDamageReporter } from '../../../damage-reporter.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { nameServer } from '../../../problem/calibration.ts'
import { openBackend } from '../../../run/assemble.ts'
import { formatTable } from '../../render/columns.ts'
import { listenForInterrupts } from '../../signals.ts'

export interface CalibrateFlags extends FlagValues {
  readonly file?: string
  readonly gpu?: string
  readonly batches?: string
  readonly list?: boolean
  readonly clear?: boolean | string
  readonly json?: boolean
}

/** Placeholder: a calibration needs no SLO, but an experiment requires one. */
const placeholderSlo = '10s'

/** Returns the exit code. */
export async function calibrate(flags: CalibrateFlags): Promise<number> {
  const machine = await inspectMachine()
  const slo = flags.file === undefined && flags.slo === undefined ? { slo: placeholderSlo } : {}
  const placeholderModel =
    flags.model === undefined && flags.file === undefined && isStoreOnly(flags)
      ? { model: 'bert' }
      : {}
  const experiment = loadExperiment({
    file: flags.file,
    flags: { ...slo, ...placeholderModel, ...flags },
    environment: process.env,
    ...createHostContext(machine),
  })
  if (flags.list) return listCalibrations(experiment.dbPath, flags.json)
  if (flags.clear !== undefined)
    return removeCalibrations(experiment.dbPath, flags.clear, flags.json)
  return measureServer(experiment, flags, machine)
}

/** Whether the command only lists or removes stored calibrations, which needs no model. */
const isStoreOnly = ({ list, clear }: CalibrateFlags) => list === true || clear !== undefined

async function measureServer(
  experiment: Experiment,
  flags: CalibrateFlags,
  machine: MachineFacts,
): Promise<number> {
  if (experiment.stages !== undefined)
    throw new UserError(
      'a pipeline cannot be calibrated as a whole',
      'calibrate the server of each stage by itself: --model, --command',
      exitCodes.usage,
    )
  const batches = parseBatches(flags.batches ?? '')
  const configuration = chooseConfiguration(experiment, flags.gpu, Math.max(...batches))
  const architecture = findArchitecture(experiment.model.architecture, experiment.own.architectures)
  const { name: protocolName, protocol } = createProtocol(experiment)
  if (protocolTable[protocolName].streams || architecture.kind === 'decoder')
    throw new UserError(
      'language models cannot be calibrated',
      'run trials instead: their requests do not form fixed batches',
      exitCodes.usage,
    )
  const device = describeConfiguration(pickDevice(configuration), {}, experiment.own.gpus)
  const server = nameServer(experiment.predictor)
  const { signal, dispose } = listenForInterrupts(() => process.stderr.write('stopping\n'))
  const backend = await openBackend(experiment, 'calibration', machine)
  try {
    process.stderr.write(`starting ${server} on ${device}\n`)
    const predictor = await backend.launcher.launch(configuration, 1, signal)
    try {
      const { points, memory, saturation, refused, faster } = await measureBatches(
        predictor,
        {
          protocol,
          model: experiment.model.name,
          payload: experiment.load.payload,
          batches,
          processes: Number(configuration.instances ?? 1),
          onPoint: (p) =>
            process.stderr.write(
              `  batch ${p.batch}${p.processes > 1 ? ', two concurrent' : ''}: ${latency(p.latencyMs)}\n`,
            ),
        },
        signal,
      )
      if (refused !== undefined) process.stderr.write(`  the server rejected batch ${refused}\n`)
      if (faster !== undefined)
        process.stderr.write(
          `warning: the server was still speeding up (${(100 * faster).toFixed(0)} % in the last round), so it will be faster than this once it is warm\n`,
        )
      if (points.length < minSizes)
        throw new UserError(
          `only ${points.length} of the sizes ${batches.join(', ')} were served`,
          `a calibration needs ${minSizes}: --batches 1,2,4`,
          exitCodes.failure,
        )
      const model = architecture.name
      const name = [server, model, device].map(slugify).join('-')
      const calibration = {
        name,
        server,
        model,
        device,
        measuredAt: new Date().toISOString(),
        configuration,
        points,
        memory,
        ...(saturation && { saturation }),
      }
      // Reject a calibration that cannot be fitted before it is stored.
      const calibratedServer = fitCalibration(calibration, architecture, experiment.own.gpus)
      await saveCalibration(experiment.dbPath, calibration)
      if (flags.json) process.stdout.write(`${JSON.stringify(calibration, null, 2)}\n`)
      else process.stdout.write(`${formatCalibration(calibration, calibratedServer).join('\n')}\n`)
      return exitCodes.ok
    } finally {
      await predictor.stop()
    }
  } catch (error) {
    if (signal.aborted) return exitCodes.interrupted
    throw error
  } finally {
    dispose()
    await backend.close()
  }
}

/** Minimum number of batch sizes of a calibration. */
const minSizes = 3

function parseBatches(text: string): number[] {
  const sizes = [...new Set(text.split(',').map(Number))].sort((a, b) => a - b)
  if (sizes.length >= minSizes && sizes.every((size) => Number.isInteger(size) && size >= 1))
    return sizes
  throw new UserError(
    `--batches: '${text}' is not a list of at least ${minSizes} sizes`,
    '--batches 1,4,16,64',
    exitCodes.usage,
  )
}

/** The largest values, one GPU, and two instances if the space allows. */
function chooseConfiguration(
  { space, own }: Experiment,
  gpu: string | undefined,
  largest: number,
): Configuration {
  const configuration: Record<string, number | string> = {}
  for (const parameter of space.parameters)
    configuration[parameter.name] = chooseValue(parameter, largest)
  if (gpu !== undefined) configuration.gpu = findGpu(gpu, own.gpus).name
  if (configuration.gpu === undefined || configuration.gpu === 'none')
    throw new UserError(
      'the GPU of the server is unknown',
      'set it: --gpu A10 (tune doctor lists the GPUs of this machine)',
      exitCodes.usage,
    )
  return configuration
}

function chooseValue(parameter: Parameter, largest: number): number | string {
  if (parameter.kind === 'categorical')
    return parameter.values.find((value) => value !== 'none') ?? parameter.values[0]!
  const values =
    parameter.kind === 'ordinal'
      ? [...parameter.values].sort((a, b) => a - b)
      : [parameter.min, parameter.max]
  const [least, most] = [values[0]!, values.at(-1)!]
  if (parameter.name === 'instances') return values.find((value) => value >= 2) ?? least
  if (parameter.name === 'batchSize') return values.find((value) => value >= largest) ?? most
  if (parameter.name === 'maxDelayMs' || parameter.name === 'gpus') return least
  return most
}

const pickDevice = ({ gpu, migProfile, gpuMemoryPercent }: Configuration): Configuration => ({
  gpu: gpu!,
  ...(migProfile !== undefined && { migProfile }),
  ...(gpuMemoryPercent !== undefined && { gpuMemoryPercent }),
})

const slugify = (text: string) =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9.]+/g, '-')
    .replace(/^-+|-+$/g, '')

function formatCalibration(
  { name, points, memory, saturation }: ServerCalibration,
  { parameters, perRequest }: CalibratedServer,
): string[] {
  const [host, perItem, floor, level] = parameters as readonly [number, number, number, number]
  return [
    `Saved as ${name}: ${points.map(formatPoint).join(', ')}${memory.length > 1 ? ', with GPU memory' : ''}.`,
    `Host ${latency(Math.exp(host))} plus ${latency(Math.exp(perItem))} per item, floor ${latency(Math.exp(floor))}, GPU ${Math.exp(level).toFixed(2)} times the device model's time.`,
    ...(saturation === undefined ? [] : [formatSaturation(saturation, perRequest)]),
    `tune and tune estimate use it for this server and model; --calibration ${name} uses it elsewhere.`,
  ]
}

const formatSaturation = (
  { connections, rps }: NonNullable<ServerCalibration['saturation']>,
  perRequest: CalibratedServer['perRequest'],
) =>
  `${connections} concurrent requests: ${rate(rps)}${perRequest === undefined ? '' : `, less than its batches allow, because the host needs about ${latency(perRequest.ms)} per request`}.`

const formatPoint = ({ batch, latencyMs, processes }: ServerCalibration['points'][number]) =>
  `${latency(latencyMs)} for ${batch} ${batch === 1 ? 'item' : 'items'}${processes > 1 ? ', two concurrent' : ''}`

async function listCalibrations(path: string, json: boolean | undefined): Promise<number> {
  const storedCalibrations = await readCalibrations(path, createDamageReporter(path))
  const rows = storedCalibrations.map((c) => [
    c.name,
    c.server,
    c.model,
    c.device,
    `${c.points.length} sizes`,
    c.measuredAt.slice(0, 10),
  ])
  const text =
    rows.length > 0
      ? formatTable([['name', 'server', 'model', 'device', '', 'measured'], ...rows]).join('\n')
      : 'no calibrations'
  process.stdout.write(json ? `${JSON.stringify(storedCalibrations, null, 2)}\n` : `${text}\n`)
  return exitCodes.ok
}

async function removeCalibrations(
  path: string,
  which: boolean | string,
  json: boolean | undefined,
): Promise<number> {
  const names = (await readCalibrations(path)).map(({ name }) => name)
  if (typeof which === 'string' && !names.includes(which))
    throw new UserError(
      `no calibration '${which}' in ${path}`,
      names.length > 0 ? `the store has: ${names.join(', ')}` : '',
      exitCodes.usage,
    )
  const removed = typeof which === 'string' ? [which] : names
  if (removed.length > 0) await deleteCalibrations(path, removed)
  process.stdout.write(
    json
      ? `${JSON.stringify({ removed })}\n`
      : `${removed.length > 0 ? `removed ${removed.join(', ')}` : 'no calibrations'}\n`,
  )
  return exitCodes.ok
}
