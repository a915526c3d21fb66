/** Starts of the built-in predictor: its command, environment and announcement of its address. */

import { resolveProcessEntry } from '../../profiler/module-entry.ts'
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../search/types.ts'
import type { Gpu } from '../devices/catalogue.ts'
import { findCatalogueName } from '../machine/gpu-offer.ts'
import type { MachineFacts } from '../machine/machine-facts.ts'
import { bindingInstall, bindingName } from '../predictor/llm/gguf/gguf-knobs.ts'
import { nodeFlags } from '../predictor/node-flags.ts'
import { type BuiltinProtocol, spoken } from '../predictor/protocol/spoken.ts'
import { type Resources, readServingParameters, resourceParameters } from '../resources.ts'
import { LaunchError } from '../types.ts'
import type { Cause } from './diagnosis.ts'
import type { FilledTemplate } from './fill.ts'
import { formatEnvironmentName } from './placeholders.ts'
import type { BuiltinTemplate } from './template.ts'

type RunningEngine = Exclude<BuiltinTemplate['engine'], 'auto'>

/**
 * Chooses the engine of a configuration. `auto` selects TensorFlow.js without a GPU, and where this
 * machine has the GPU and its package; else the emulated engine.
 * @throws LaunchError if a real engine lacks the package for the GPU
 */
export const chooseEngine = (
  template: BuiltinTemplate,
  requested: Resources,
  machine: MachineFacts,
  ownGpus: readonly Gpu[] = [],
): RunningEngine => {
  const requestedEngine = template.engine === 'auto' ? 'tfjs' : template.engine
  if (requestedEngine === 'emulated' || requested.gpu === undefined) return requestedEngine
  const missing = findGpuSupportFault(requestedEngine, machine)
  if (template.engine === 'auto')
    return missing === undefined &&
      machine.gpus.some((gpu) => findCatalogueName(gpu.name, ownGpus) === requested.gpu)
      ? 'tfjs'
      : 'emulated'
  if (missing !== undefined)
    throw new LaunchError(
      `engine ${requestedEngine} on a ${requested.gpu}: ${missing.what}`,
      `${missing.install}, or use the emulated engine`,
    )
  return requestedEngine
}

/** Engines that compute, on a GPU each through its own package. */
export type ComputingEngine = Exclude<RunningEngine, 'emulated'>

/**
 * `minDriver`: oldest NVIDIA driver for the CUDA release of the package ("CUDA Compatibility",
 * table of minor version compatibility).
 */
const gpuPackages: Readonly<
  Record<
    ComputingEngine,
    { readonly name: string; readonly install: string; readonly minDriver?: number }
  >
> = {
  tfjs: {
    name: '@tensorflow/tfjs-node-gpu',
    install: 'npm install @tensorflow/tfjs-node-gpu@4.22.0 (CUDA 11.2, cuDNN 8.1)',
    minDriver: 450,
  },
  onnx: {
    name: 'onnxruntime-node',
    install:
      'ONNXRUNTIME_NODE_INSTALL=cuda12 npm install onnxruntime-node@1.30.0 (CUDA 12, cuDNN 9)',
    minDriver: 525,
  },
  // llama.cpp supports Vulkan in addition to CUDA.
  gguf: { name: bindingName, install: `${bindingInstall} (CUDA, Vulkan or Metal)` },
}

/** Why an engine cannot use the GPUs of this machine, and what to install; undefined: it can. */
export const findGpuSupportFault = (
  engine: ComputingEngine,
  { packages, gpus }: Pick<MachineFacts, 'packages' | 'gpus'>,
): { readonly what: string; readonly install: string } | undefined => {
  const { name, install, minDriver = 0 } = gpuPackages[engine]
  if (engine !== 'gguf' && gpus.length > 0 && gpus.every(({ vendor }) => vendor === 'amd'))
    return {
      what: `${name} supports only NVIDIA GPUs`,
      install: 'start a server built for ROCm with --command',
    }
  const old = gpus.find(
    (gpu) => gpu.vendor === 'nvidia' && Number.parseInt(gpu.driver, 10) < minDriver,
  )
  if (old !== undefined)
    return {
      what: `the CUDA release of ${name} needs driver ${minDriver} or later, but this machine has ${old.driver}`,
      install: 'update the NVIDIA driver',
    }
  const installed = packages.find((one) => one.name === name)
  if (installed?.state === 'ok')
    return installed.gpuProblem === undefined
      ? undefined
      : { what: `${name} cannot use it: ${installed.gpuProblem}`, install }
  return {
    what:
      installed?.state === 'broken'
        ? `${name} cannot be imported: ${installed.problem}`
        : `${name} is not installed`,
    install,
  }
}

/** Why this machine cannot serve GGUF files, and what to install; undefined: it can. */
export const findMissingGguf = ({
  packages,
}: Pick<MachineFacts, 'packages'>):
  | { readonly what: string; readonly install: string }
  | undefined => findGpuSupportFault('gguf', { packages, gpus: [] })

/** Exit codes of the built-in predictor other than 0 and 1; its help lists them. */
export const builtinExitCodes: Readonly<Record<number, Cause['kind']>> = {
  2: 'misconfigured',
  12: 'out-of-memory',
  98: 'port-taken',
}

/**
 * @param configuration defaults included
 * @param gpuMemoryFraction share of GPU memory reserved for the trial, 0-1
 */
export const createBuiltinCommand = (
  template: BuiltinTemplate,
  configuration: Configuration,
  requested: Resources,
  gpuMemoryFraction: number | undefined,
  machine: MachineFacts,
  ownGpus: readonly Gpu[] = [],
): FilledTemplate => {
  const entry = resolveProcessEntry('../predictor/main', import.meta.url)
  const engine = chooseEngine(template, requested, machine, ownGpus)
  const traits = protocolTable[getBuiltinProtocol(template)]
  return {
    argv: [process.execPath, ...nodeFlags, ...entry.execArgv, entry.path],
    env: {
      ...createPredictorEnvironment(template, configuration, engine, requested, gpuMemoryFraction),
      ...(engine === 'emulated' &&
        template.gpuCatalogue !== undefined && { GPU_CATALOGUE: template.gpuCatalogue }),
      ...(engine === 'emulated' &&
        template.architectureFile !== undefined && {
          ARCHITECTURE_FILE: template.architectureFile,
        }),
      HOST: '127.0.0.1',
      PORT: '0',
      ...(traits.transport === 'grpc' && { GRPC_PORT: '0' }),
      ...(traits.streams && requested.gpus > 1 && { TENSOR_PARALLEL_SIZE: String(requested.gpus) }),
      ...(engine === 'emulated' && !traits.streams && { MODEL_CONTROL: 'explicit' }),
      EXIT_WITH_PARENT: 'true',
    },
    files: [],
  }
}

/** Environment that selects model, engine and devices, on this machine and in pods. */
export const createPredictorEnvironment = (
  template: BuiltinTemplate,
  configuration: Configuration,
  engine: RunningEngine,
  requested: Resources,
  gpuShare = requested.gpuShare,
): Record<string, string> => ({
  ...createServingEnvironment(template, configuration, engine),
  MODEL: template.model,
  ENGINE: engine,
  CPU_CORES: String(Math.ceil(requested.cpuCores)),
  ...(requested.gpu !== undefined && {
    GPU: requested.gpu,
    GPU_MEMORY_PERCENT: String(100 * gpuShare),
  }),
  ...(requested.migProfile !== undefined && { MIG_PROFILE: requested.migProfile }),
  ...(engine === 'emulated' &&
    template.standsFor !== undefined && { EMULATED_SERVER: template.standsFor }),
  ...(engine === 'emulated' &&
    template.acceptance !== undefined && { SPECULATIVE_ACCEPTANCE: String(template.acceptance) }),
})

/**
 * Environment of the tuned values. Untuned values are those of the device model, so that the
 * launched predictor is the modelled one.
 */
export const createServingEnvironment = (
  template: BuiltinTemplate,
  configuration: Configuration,
  engine: RunningEngine,
): Record<string, string> => {
  const { sharing, precision, ...serving } = readServingParameters(configuration)
  const assumed: Record<string, string> = {
    BATCH_SIZE: String(serving.batchSize),
    MAX_DELAY_MS: String(serving.maxDelayMs),
    QUEUE_LIMIT: String(serving.queueLimit),
    // The default on CPU is one instance per core.
    ...(engine === 'emulated' && { PRECISION: precision, INSTANCES: String(serving.instances) }),
  }
  const tuned = Object.entries(configuration)
    .filter(([name]) => !resourceNames.has(name))
    .map(([name, value]) => [formatEnvironmentName(name), String(value)])
  return { ...assumed, GPU_SHARING: sharing, ...template.env, ...Object.fromEntries(tuned) }
}

/** Parameters that reach the predictor by other names, or through the launcher. */
const resourceNames: ReadonlySet<string> = new Set([...resourceParameters, 'sharing'])

/** Gets the protocol of the requests. */
export const getBuiltinProtocol = ({ protocol }: BuiltinTemplate): BuiltinProtocol =>
  protocol ?? spoken.tensors[0]

/**
 * The line that the built-in predictor prints once it serves:
 * {"ready":true,"port":43211,"provenance":"emulated",...}
 */
export interface Announcement {
  readonly port: number
  /** Port of gRPC, where that is its protocol. */
  readonly grpcPort?: number
  readonly provenance: 'measured' | 'emulated'
}

export const createAnnouncement = (): {
  readonly received: Promise<Announcement>
  readonly read: (line: string) => void
} => {
  let resolveAnnouncement: (announcement: Announcement) => void
  const received = new Promise<Announcement>((resolve) => {
    resolveAnnouncement = resolve
  })
  return {
    received,
    read: (line) => {
      if (!line.startsWith('{"ready":true')) return
      const { port, grpcPort, provenance } = JSON.parse(line) as Announcement
      resolveAnnouncement({
        port,
        grpcPort,
        provenance: provenance === 'emulated' ? 'emulated' : 'measured',
      })
    },
  }
}
