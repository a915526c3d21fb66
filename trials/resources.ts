/** Parses the resources of a configuration, by the standard parameter names. */
import type { Configuration } from '../search/types.ts'
import {
  computeUsableMemoryMiB,
  findGpu,
  type Gpu,
  type Precision,
  precisions,
  type Sharing,
  sharings,
} from './devices/catalogue.ts'
import { DeviceModelError } from './devices/device-model-error.ts'
import { computePaidFraction, findMigProfile } from './devices/mig.ts'
import { suggestNames } from './near-names.ts'
import {
  splitConfiguration,
  splitServerConfiguration,
  sumOverStages,
} from './pipeline/stage-configuration.ts'
import { LaunchError } from './types.ts'

/** Servers of a replica where prompts and answers are computed apart. */
interface Pools {
  readonly prefill: number
  readonly decode: number
  /** GPUs of each prefill server, and of each decode server. */
  readonly prefillGpus: number
  readonly decodeGpus: number
}

/** Resources that one replica reserves and pays for; with pools, the sum over its servers. */
export interface Resources {
  readonly cpuCores: number
  readonly memoryMiB: number
  /** Catalogue name; absent: no GPU. */
  readonly gpu?: string
  /** How many of them; 0 without a GPU. */
  readonly gpus: number
  /**
   * Its servers, each with as many cores and as much memory; absent: it is one that computes
   * prompts and answers.
   */
  readonly pools?: Pools
  /** Reserved share of each GPU, in (0, 1]; 0 without a GPU. */
  readonly gpuShare: number
  /** GPU memory of the share, of each GPU. */
  readonly gpuMemoryMiB?: number
  readonly migProfile?: string
}

/** The parameters of serving that are no resources but that the device model reads. */
export interface ServingParameters {
  readonly batchSize: number
  readonly maxDelayMs: number
  readonly instances: number
  readonly precision: Precision
  readonly sequenceLength?: number
  readonly imageSize?: number
  readonly sharing: Sharing
  /** Requests that may wait for a batch; beyond it they are refused. */
  readonly queueLimit: number
}

/**
 * Default instances of the built-in server on CPU: one for each core, because threads of one
 * instance synchronise at every operation.
 */
export const countCpuInstances = (cpuCores: number): number => Math.min(Math.ceil(cpuCores), 64)

/** Defaults: one core, 4 GiB, no GPU; a named GPU is reserved whole. */
const resourceDefaults = {
  cpuCores: 1,
  memoryMiB: 4096,
  gpu: 'none',
  gpuMemoryPercent: 100,
  gpus: 1,
} as const
const servingDefaults = {
  batchSize: 1,
  maxDelayMs: 2,
  instances: 1,
  precision: 'fp16',
  sharing: 'time-slice',
  queueLimit: 1024,
} as const

/** Parameters that `readServingParameters` reads. */
export const servingParameters: readonly (keyof ServingParameters)[] = [
  'batchSize',
  'maxDelayMs',
  'instances',
  'precision',
  'sequenceLength',
  'imageSize',
  'sharing',
  'queueLimit',
]

/** Parameters for the number of prefill and decode servers in a replica. */
export const poolParameters = ['prefillReplicas', 'decodeReplicas'] as const

/**
 * @throws DeviceModelError for numbers of servers and GPUs that cannot be, and for one kind of
 * servers alone
 */
function readPools(values: Configuration): Pools | undefined {
  const [prefill, decode] = poolParameters.map((name) => readServerCount(values, name)) as [
    number,
    number,
  ]
  if (prefill === 0 && decode === 0) return undefined
  if (prefill === 0 || decode === 0)
    throw new DeviceModelError(
      `prefillReplicas is ${prefill} and decodeReplicas ${decode}`,
      'set at least one of each, or both to 0',
    )
  const prefillGpus = readPositive(values, 'gpus')
  return {
    prefill,
    decode,
    prefillGpus,
    decodeGpus: values.decodeGpus === undefined ? prefillGpus : readPositive(values, 'decodeGpus'),
  }
}

/** GPUs of all its servers together. */
export const countPoolGpus = ({ prefill, decode, prefillGpus, decodeGpus }: Pools): number =>
  prefill * prefillGpus + decode * decodeGpus

/** Servers of a replica. */
export const countServers = ({ pools }: Pick<Resources, 'pools'>): number =>
  pools === undefined ? 1 : pools.prefill + pools.decode

/**
 * Reads `cpuCores`, `memoryMiB`, `gpu` ('none' or a catalogue name), `gpuMemoryPercent` (25 = a
 * quarter of one GPU's memory, of its time where it is time-sliced, and of its price), `gpus`,
 * `migProfile` ('none' or a profile, which then decides share and memory), and `prefillReplicas`
 * and `decodeReplicas`: each server has these cores, memory and GPUs, except `decodeGpus` for
 * decode servers.
 * @param defaults values of missing parameters
 * @throws DeviceModelError for an unknown GPU or profile or a number out of range.
 */
export function parseResources(
  configuration: Configuration,
  defaults: Configuration = {},
  ownGpus: readonly Gpu[] = [],
): Resources {
  const all = { ...resourceDefaults, ...defaults, ...configuration }
  const pools = readPools(all)
  const servers = countServers({ pools })
  const held = {
    cpuCores: servers * readPositive(all, 'cpuCores'),
    memoryMiB: servers * readPositive(all, 'memoryMiB'),
    ...(pools && { pools }),
  }
  if (isNone(all.gpu)) return { ...held, gpus: 0, gpuShare: 0 }
  const gpu = findGpu(String(all.gpu), ownGpus)
  const gpus = pools === undefined ? readPositive(all, 'gpus') : countPoolGpus(pools)
  const slice: unknown = (all as Configuration).migProfile
  if (!isNone(slice)) {
    const mig = findMigProfile(gpu, String(slice))
    return {
      ...held,
      gpu: gpu.name,
      gpus,
      gpuShare: computePaidFraction(mig),
      gpuMemoryMiB: mig.memoryMiB,
      migProfile: mig.name,
    }
  }
  const percent = readPositive(all, 'gpuMemoryPercent')
  if (percent > 100)
    throw new DeviceModelError(
      `gpuMemoryPercent is ${percent}`,
      'it is a share of one GPU: use at most 100',
    )
  return {
    ...held,
    gpu: gpu.name,
    gpus,
    gpuShare: percent / 100,
    gpuMemoryMiB: Math.round((computeUsableMemoryMiB(gpu) * percent) / 100),
  }
}

/**
 * Parses resources like `parseResources`, with the errors of a launch.
 * @throws LaunchError for a configuration that cannot be read
 */
export function readResources(...args: Parameters<typeof parseResources>): Resources {
  try {
    return parseResources(...args)
  } catch (error) {
    throw new LaunchError(
      `configuration: ${(error as Error).message}`,
      'correct the search space of the experiment',
    )
  }
}

/**
 * Number of GPUs that a configuration reserves, shares as fractions; 0 without a GPU.
 * @throws DeviceModelError for an unknown slice
 */
export const countGpus = (configuration: Configuration): number =>
  sumOverStages(configuration, countReplicaGpus)

function countReplicaGpus(configuration: Configuration): number {
  const all: Configuration = { ...resourceDefaults, ...configuration }
  const { gpu, gpus, gpuMemoryPercent, migProfile } = all
  if (isNone(gpu)) return 0
  const share = isNone(migProfile)
    ? Number(gpuMemoryPercent) / 100
    : computePaidFraction(findMigProfile(findGpu(String(gpu)), String(migProfile)))
  const pools = readPools(all)
  return (pools === undefined ? Number(gpus) : countPoolGpus(pools)) * share
}

/**
 * Reads `batchSize`, `maxDelayMs`, `instances`, `precision`, `sequenceLength`, `imageSize`,
 * `sharing` and `queueLimit`.
 * @throws DeviceModelError for a value out of range or an unknown precision.
 */
export function readServingParameters(
  configuration: Configuration,
  defaults: Configuration = {},
): ServingParameters {
  const all: Configuration = { ...servingDefaults, ...defaults, ...configuration }
  const maxDelayMs = Number(all.maxDelayMs)
  if (!(maxDelayMs >= 0))
    throw new DeviceModelError(
      `maxDelayMs is ${all.maxDelayMs}`,
      'use a number of milliseconds, 0 or more',
    )
  return {
    batchSize: readPositive(all, 'batchSize'),
    maxDelayMs,
    instances: readPositive(all, 'instances'),
    precision: readChoice(all, 'precision', precisions),
    sequenceLength:
      all.sequenceLength === undefined ? undefined : readPositive(all, 'sequenceLength'),
    imageSize: all.imageSize === undefined ? undefined : readPositive(all, 'imageSize'),
    sharing: readChoice(all, 'sharing', sharings),
    queueLimit: readPositive(all, 'queueLimit'),
  }
}

const isNone = (value: unknown) =>
  value === undefined || value === 'none' || value === 'cpu' || value === ''

function readPositive(values: Configuration, name: string): number {
  const value = Number(values[name])
  if (!(value > 0 && Number.isFinite(value)))
    throw new DeviceModelError(`${name} is ${values[name]}`, 'use a number above 0')
  return value
}

function readServerCount(values: Configuration, name: (typeof poolParameters)[number]): number {
  const value = Number(values[name] ?? 0)
  if (!(value >= 0 && Number.isInteger(value)))
    throw new DeviceModelError(`${name} is ${values[name]}`, 'use a whole number, or 0 for none')
  return value
}

/**
 * One of the allowed values of a parameter.
 * @throws DeviceModelError for any other
 */
export function readChoice<T extends string>(
  values: Configuration,
  name: string,
  allowed: readonly T[],
): T {
  const value = allowed.find((candidate) => candidate === values[name])
  if (value === undefined)
    throw new DeviceModelError(
      `${name} is '${values[name]}'`,
      suggestNames(String(values[name]), allowed),
    )
  return value
}

/**
 * The parameter that names, wherever figures of another tool are shown, the files that they are
 * from.
 */
export const sourceParameter = 'importedFrom'

/**
 * Describes a configuration for people: '2 cores, 1/4 T4 (4 GiB), batch 8', '3 cores, 1 prefill + 2
 * decode of 2 x H100', '1 prefill of H100 + 2 decode of 2 x H100'. Parameters of any other name
 * follow as 'name value'. Of a pipeline: 'detect: 2 × 1 core, batch 8; classify: 2 cores'; of models
 * that share a server: '2 cores; detect: batch 8; classify: batch 4'.
 */
export function describeConfiguration(
  configuration: Configuration,
  defaults: Configuration = {},
  ownGpus: readonly Gpu[] = [],
): string {
  const stages = splitConfiguration(configuration)
  if (stages !== undefined)
    return stages
      .map(({ stage, replicas, configuration }) => {
        const one = describeConfiguration(configuration, defaults, ownGpus) || 'as it runs'
        return `${stage}: ${replicas === 1 ? '' : `${replicas} × `}${one}`
      })
      .join('; ')
  const shared = splitServerConfiguration(configuration)
  if (shared.stages.length > 0)
    return [
      describeConfiguration(shared.server, defaults, ownGpus),
      ...shared.stages.map(
        ({ stage, configuration }) => `${stage}: ${describeConfiguration(configuration)}`,
      ),
    ]
      .filter((text) => text !== '')
      .join('; ')
  const held = parseResources(configuration, defaults, ownGpus)
  const parts: string[] = []
  if ('cpuCores' in configuration || 'cpuCores' in defaults)
    parts.push(held.cpuCores === 1 ? '1 core' : `${formatExact(held.cpuCores)} cores`)
  if ('memoryMiB' in configuration) parts.push(`${describeMemory(held.memoryMiB)} memory`)
  if (held.gpu !== undefined) parts.push(describeGpu(held, findGpu(held.gpu, ownGpus)))
  else if ('gpu' in configuration) parts.push('no GPU')
  for (const [name, value] of Object.entries(configuration))
    if (!resourceNames.has(name)) parts.push(describeParameter(name, value))
  return parts.join(', ')
}

/** Every parameter that `parseResources` reads. */
export const resourceParameters = [
  'cpuCores',
  'memoryMiB',
  'gpu',
  'gpuMemoryPercent',
  'gpus',
  'migProfile',
  ...poolParameters,
  'decodeGpus',
] as const
const resourceNames: ReadonlySet<string> = new Set(resourceParameters)

function describeGpu({ pools, ...held }: Resources, gpu: Gpu): string {
  if (pools !== undefined) {
    const of = (gpus: number) => describeGpu({ ...held, gpus }, gpu)
    const prefill = pools.prefillGpus === pools.decodeGpus ? '' : ` of ${of(pools.prefillGpus)}`
    return `${pools.prefill} prefill${prefill} + ${pools.decode} decode of ${of(pools.decodeGpus)}`
  }
  const many = held.gpus > 1 ? `${held.gpus} x ` : ''
  if (held.migProfile) return `${many}${gpu.name} slice ${held.migProfile}`
  return held.gpuShare === 1
    ? `${many}${gpu.name}`
    : `${many}${formatFraction(held.gpuShare)} ${gpu.name} (${formatNumber(gpu.memoryGiB * held.gpuShare)} GiB)`
}

/** 0.25 → '1/4'; shares that are no simple fraction in percent. */
function formatFraction(share: number): string {
  for (const whole of [2, 3, 4, 5, 8, 10, 20])
    for (let part = 1; part < whole; part++)
      if (Math.abs(share - part / whole) < 1e-3 && (part === 1 || whole <= 4))
        return `${part}/${whole}`
  return `${formatNumber(share * 100)} % of a`
}

/** '16 MiB', '1.5 GiB'. */
const describeMemory = (mebibytes: number): string =>
  mebibytes < 1024 ? `${formatExact(mebibytes)} MiB` : `${formatExact(mebibytes / 1024)} GiB`

/** Formats a value to three decimals, so that different configurations have different texts. */
const formatExact = (value: number) => String(Number(value.toFixed(3)))

const formatNumber = (value: number) => String(Number(value.toFixed(value < 10 ? 1 : 0)))

function describeParameter(name: string, value: number | string): string {
  switch (name) {
    case 'batchSize':
      return `batch ${value}`
    case 'sequenceLength':
      return `${value} tokens`
    case sourceParameter:
      return `imported from ${value}`
    case 'instances':
      return `${value} instance${value === 1 ? '' : 's'}`
    case 'maxDelayMs':
      return `delay ${value} ms`
    case 'precision':
      return String(value)
    case 'quantization':
      return value === 'none' ? 'weights not quantised' : `${value} weights`
    default:
      return `${name} ${value}`
  }
}
