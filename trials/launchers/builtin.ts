/** How the built-in predictor is started, and how it says where it serves. */

import { processEntry } from '../../profiler/module-entry.ts'
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../search/types.ts'
import type { Gpu } from '../devices/catalogue.ts'
import { catalogueName } from '../machine/gpu-offer.ts'
import type { MachineFacts } from '../machine/machine-facts.ts'
import { bindingInstall, bindingName } from '../predictor/llm/gguf/gguf-knobs.ts'
import { nodeFlags } from '../predictor/node-flags.ts'
import { type BuiltinProtocol, spoken } from '../predictor/protocol/spoken.ts'
import { type Resources, resourceParameters, servingParametersOf } from '../resources.ts'
import { LaunchError } from '../types.ts'
import type { Cause } from './diagnosis.ts'
import {
  boundsGpuMemory,
  environmentName,
  type FilledTemplate,
  type TunedParameter,
} from './fill.ts'
import type { GpuUse, Holding } from './local/holdings.ts'
import type { BuiltinTemplate, CommandTemplate } from './template.ts'

type RunningEngine = Exclude<BuiltinTemplate['engine'], 'auto'>

/**
 * The engine that `auto` comes to: real ones where the machine has what the configuration asks for,
 * else the emulated one.
 * @throws LaunchError when a real engine is asked for on a GPU and the package that drives it is
 * not there
 */
export const engineFor = (
  template: BuiltinTemplate,
  asked: Resources,
  machine: MachineFacts,
  ownGpus: readonly Gpu[] = [],
): RunningEngine => {
  const wanted = template.engine === 'auto' ? 'tfjs' : template.engine
  if (wanted === 'emulated' || asked.gpu === undefined) return wanted
  const missing = missingGpuDriver(wanted, machine)
  if (template.engine === 'auto')
    return missing === undefined &&
      machine.gpus.some((gpu) => catalogueName(gpu.name, ownGpus) === asked.gpu)
      ? 'tfjs'
      : 'emulated'
  if (missing !== undefined)
    throw new LaunchError(
      `engine ${wanted} on a ${asked.gpu}: ${missing.what}`,
      `${missing.install}, or use the emulated engine`,
    )
  return wanted
}

/** Engines that compute, each through a package of its own where it uses a GPU. */
export type ComputingEngine = Exclude<RunningEngine, 'emulated'>

/**
 * `leastDriver`: NVIDIA's that its CUDA release runs with ("CUDA Compatibility", table of minor
 * version compatibility).
 */
const gpuPackages: Readonly<
  Record<
    ComputingEngine,
    { readonly name: string; readonly install: string; readonly leastDriver?: number }
  >
> = {
  tfjs: {
    name: '@tensorflow/tfjs-node-gpu',
    install: 'npm install @tensorflow/tfjs-node-gpu@4.22.0 (CUDA 11.2, cuDNN 8.1)',
    leastDriver: 450,
  },
  onnx: {
    name: 'onnxruntime-node',
    install:
      'ONNXRUNTIME_NODE_INSTALL=cuda12 npm install onnxruntime-node@1.30.0 (CUDA 12, cuDNN 9)',
    leastDriver: 525,
  },
  // llama.cpp has Vulkan beside CUDA.
  gguf: { name: bindingName, install: `${bindingInstall} (CUDA, Vulkan or Metal)` },
}

/**
 * What keeps an engine of the built-in predictor from the GPUs of this machine, and what to
 * install; undefined: nothing.
 */
export const missingGpuDriver = (
  engine: ComputingEngine,
  { packages, gpus }: Pick<MachineFacts, 'packages' | 'gpus'>,
): { readonly what: string; readonly install: string } | undefined => {
  const { name, install, leastDriver = 0 } = gpuPackages[engine]
  if (engine !== 'gguf' && gpus.length > 0 && gpus.every(({ vendor }) => vendor === 'amd'))
    return {
      what: `${name} supports only NVIDIA GPUs`,
      install: 'start a server built for ROCm with --command',
    }
  const old = gpus.find(
    (gpu) => gpu.vendor === 'nvidia' && Number.parseInt(gpu.driver, 10) < leastDriver,
  )
  if (old !== undefined)
    return {
      what: `the CUDA release of ${name} needs driver ${leastDriver} or later, but this machine has ${old.driver}`,
      install: 'update the NVIDIA driver',
    }
  const driver = packages.find((one) => one.name === name)
  if (driver?.state === 'ok')
    return driver.gpuProblem === undefined
      ? undefined
      : { what: `${name} cannot use it: ${driver.gpuProblem}`, install }
  return {
    what:
      driver?.state === 'broken'
        ? `${name} cannot be imported: ${driver.problem}`
        : `${name} is not installed`,
    install,
  }
}

/**
 * What keeps GGUF files from being served on this machine, and what to install; undefined: nothing.
 */
export const missingGguf = ({
  packages,
}: Pick<MachineFacts, 'packages'>):
  | { readonly what: string; readonly install: string }
  | undefined => missingGpuDriver('gguf', { packages, gpus: [] })

/**
 * Whether a configuration's GPU must be one of this machine's, and whether the predictor keeps to a
 * share of it by itself.
 */
export const gpuUseOf = (
  template: BuiltinTemplate | CommandTemplate,
  parameters: readonly TunedParameter[],
  asked: Resources,
  { machine, ownGpus }: { readonly machine: MachineFacts; readonly ownGpus?: readonly Gpu[] },
): GpuUse => {
  if (template.kind === 'command')
    return { real: asked.gpu !== undefined, boundsMemory: boundsGpuMemory(template, parameters) }
  return {
    real: asked.gpu !== undefined && engineFor(template, asked, machine, ownGpus) !== 'emulated',
    boundsMemory: false,
  }
}

/** Exit codes of the built-in predictor beside 0 and 1; its help lists them. */
export const builtinExitCodes: Readonly<Record<number, Cause['kind']>> = {
  2: 'misconfigured',
  12: 'out-of-memory',
  98: 'port-taken',
}

/** @param configuration defaults included */
export const builtinCommand = (
  template: BuiltinTemplate,
  configuration: Configuration,
  asked: Resources,
  holding: Holding,
  machine: MachineFacts,
  ownGpus: readonly Gpu[] = [],
): FilledTemplate => {
  const entry = processEntry('../predictor/main', import.meta.url)
  const engine = engineFor(template, asked, machine, ownGpus)
  const traits = protocolTable[builtinProtocol(template)]
  return {
    argv: [process.execPath, ...nodeFlags, ...entry.execArgv, entry.path],
    env: {
      ...predictorEnvironment(template, configuration, engine, asked, holding.gpuMemoryFraction),
      ...(engine === 'emulated' &&
        template.gpuCatalogue !== undefined && { GPU_CATALOGUE: template.gpuCatalogue }),
      ...(engine === 'emulated' &&
        template.architectureFile !== undefined && {
          ARCHITECTURE_FILE: template.architectureFile,
        }),
      HOST: '127.0.0.1',
      PORT: '0',
      ...(traits.transport === 'grpc' && { GRPC_PORT: '0' }),
      ...(traits.streams && asked.gpus > 1 && { TENSOR_PARALLEL_SIZE: String(asked.gpus) }),
      ...(engine === 'emulated' && !traits.streams && { MODEL_CONTROL: 'explicit' }),
      EXIT_WITH_PARENT: 'true',
    },
    files: [],
  }
}

/**
 * Everything that says what the built-in predictor serves and on which devices, wherever it is
 * started.
 */
export const predictorEnvironment = (
  template: BuiltinTemplate,
  configuration: Configuration,
  engine: RunningEngine,
  asked: Resources,
  gpuShare = asked.gpuShare,
): Record<string, string> => ({
  ...servingEnvironment(template, configuration, engine),
  MODEL: template.model,
  ENGINE: engine,
  CPU_CORES: String(Math.ceil(asked.cpuCores)),
  ...(asked.gpu !== undefined && { GPU: asked.gpu, GPU_MEMORY_PERCENT: String(100 * gpuShare) }),
  ...(asked.migProfile !== undefined && { MIG_PROFILE: asked.migProfile }),
  ...(engine === 'emulated' &&
    template.standsFor !== undefined && { EMULATED_SERVER: template.standsFor }),
  ...(engine === 'emulated' &&
    template.acceptance !== undefined && { SPECULATIVE_ACCEPTANCE: String(template.acceptance) }),
})

/**
 * Tuned values as the environment of the built-in predictor, and for what is not tuned the values
 * that the device model assumes: what is launched is what was modelled.
 */
export const servingEnvironment = (
  template: BuiltinTemplate,
  configuration: Configuration,
  engine: RunningEngine,
): Record<string, string> => {
  const { sharing, precision, ...serving } = servingParametersOf(configuration)
  const assumed: Record<string, string> = {
    BATCH_SIZE: String(serving.batchSize),
    MAX_DELAY_MS: String(serving.maxDelayMs),
    QUEUE_LIMIT: String(serving.queueLimit),
    // Without a GPU the predictor has an instance for each core unless told otherwise.
    ...(engine === 'emulated' && { PRECISION: precision, INSTANCES: String(serving.instances) }),
  }
  const tuned = Object.entries(configuration)
    .filter(([name]) => !resourceNames.has(name))
    .map(([name, value]) => [environmentName(name), String(value)])
  return { ...assumed, GPU_SHARING: sharing, ...template.env, ...Object.fromEntries(tuned) }
}

/** Reach the predictor by other names, or through what the launcher holds for it. */
const resourceNames: ReadonlySet<string> = new Set([...resourceParameters, 'sharing'])

/** What the predictor is asked with. */
export const builtinProtocol = ({ protocol }: BuiltinTemplate): BuiltinProtocol =>
  protocol ?? spoken.tensors[0]

/**
 * What the built-in predictor says of itself once it serves:
 * {"ready":true,"port":43211,"provenance":"emulated",...} on a line of its own.
 */
export interface Announcement {
  readonly port: number
  /** Where it speaks gRPC, which it does when it is asked with it. */
  readonly grpcPort?: number
  readonly provenance: 'measured' | 'emulated'
}

export const createAnnouncement = (): {
  readonly heard: Promise<Announcement>
  readonly read: (line: string) => void
} => {
  let hear: (announcement: Announcement) => void
  const heard = new Promise<Announcement>((resolve) => {
    hear = resolve
  })
  return {
    heard,
    read: (line) => {
      if (!line.startsWith('{"ready":true')) return
      const { port, grpcPort, provenance } = JSON.parse(line) as Announcement
      hear({ port, grpcPort, provenance: provenance === 'emulated' ? 'emulated' : 'measured' })
    },
  }
}
