/** Plans the objects of a trial before any is created. */
import { randomBytes } from 'node:crypto'
import type { PayloadSource } from '../../../../profiler/payload-source.ts'
import type { Protocol } from '../../../../profiler/protocols/protocol.ts'
import { type ProtocolName, protocolTable } from '../../../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../../../search/types.ts'
import type { Gpu } from '../../../devices/catalogue.ts'
import { type Resources, readResources } from '../../../resources.ts'
import { InfeasibleError } from '../../../types.ts'
import type { TunedParameter } from '../../placeholders.ts'
import type { BuiltinTemplate, CommandTemplate } from '../../template.ts'
import type { Api } from '../api/api.ts'
import type { LeaseOptions } from '../cleanup/lease.ts'
import { type ClusterGpu, chooseScheme, findNodeMemoryMiB } from '../gpus/cluster-facts.ts'
import {
  createClaimTemplate,
  type DeviceClaim,
  type DraOptions,
  type DraVersion,
} from '../gpus/dra.ts'
import {
  type GpuScheme,
  GpuSchemeError,
  type GpuSelection,
  selectGpu,
} from '../gpus/gpu-selection.ts'
import {
  createLabels,
  createOwnerReferences,
  createTrialPod,
  formatOwnerName,
  type Json,
  type Owner,
  type PodTemplate,
  resolveEngine,
} from '../manifests/manifests.ts'
import type { PodOverlay } from '../manifests/pod-policy.ts'
import { extractSecrets } from '../manifests/pod-secrets.ts'
import { createTrialService } from '../manifests/trial-service.ts'
import type { UsageSource } from '../watch/pod-usage.ts'
import type { PodConnectivity } from './pod-connection.ts'
import type { StartTimeouts } from './wait-until-running.ts'

export interface KubernetesLauncherOptions {
  readonly api: Api
  readonly experimentId: string
  readonly template: BuiltinTemplate | CommandTemplate
  /** For a command template: the user's pod. */
  readonly own?: PodTemplate
  /** For the built-in predictor: an image whose entry point is the `tune` command. */
  readonly image?: string
  /** Image of the built-in predictor for trials on a GPU. Default: `image`. */
  readonly gpuImage?: string
  /** User-supplied overlay for the pod of the built-in predictor. */
  readonly overlay?: PodOverlay
  readonly port: number
  readonly parameters: readonly TunedParameter[]
  readonly defaults?: Configuration
  readonly ownGpus?: readonly Gpu[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
  /** Logs of trial n go to trials/n below it. */
  readonly runDirectory: string
  /** How this process connects to the pods. */
  readonly connectivity: PodConnectivity
  /**
   * The scheme for every GPU. Absent: chosen from `availableGpus`, else by the tuned parameters.
   */
  readonly gpuScheme?: GpuScheme
  /**
   * GPUs of the nodes that the search may use, each with its scheme. The launcher chooses a scheme
   * among them for each trial. Absent with `gpuScheme`.
   */
  readonly availableGpus?: readonly ClusterGpu[]
  /** GPUs of the nodes, whose reported memory limits that of a trial. Default: `availableGpus`. */
  readonly nodeGpus?: readonly ClusterGpu[]
  readonly dra?: DraOptions
  /** Version of the DRA API on the API server. Default v1. */
  readonly draVersion?: DraVersion
  /** Source of the pods' usage. Absent: usage is unknown. */
  readonly usageSource?: UsageSource
  /**
   * The cluster ends a trial's pod after this time, even without the tuner, seconds. Default 1 h.
   */
  readonly podDeadlineS?: number
  readonly timeouts?: Partial<StartTimeouts>
  /** Sends load through a Service of the trial. Absent: to the address of the pod. */
  readonly usesService?: true
  /** Options of the Job that owns the experiment's objects. */
  readonly lease?: Partial<Omit<LeaseOptions, 'api' | 'experimentId'>>
  /** Present: the pod is a replica of a stage of a pipeline. */
  readonly stage?: PodStage
}

/** A replica of a stage of a pipeline. */
interface PodStage {
  readonly name: string
  /** Folder of its log below that of the trial. */
  readonly folder: string
  /** Addresses of the stages that it calls, by name. */
  readonly urls: ReadonlyMap<string, string>
}

export interface TrialObjects {
  readonly pod: Json
  /** If the pod needs secrets. */
  readonly secret?: Json
  /** With GPUs by DRA: the devices that the pod claims, and the template of its claim. */
  readonly claim?: DeviceClaim
  readonly claimTemplate?: Json
  /** If load goes through a Service. */
  readonly service?: Json
}

/** Time after which Kubernetes ends a pod (activeDeadlineSeconds), even if the tuner is gone. */
const defaultPodDeadlineS = 3600

/**
 * Plans the objects of one trial.
 * @throws InfeasibleError if no scheme can provide the GPU; LaunchError for an invalid
 * configuration
 */
export function planObjects(
  options: KubernetesLauncherOptions,
  configuration: Configuration,
  trialNumber: number,
  owner: Owner,
  name: string,
): TrialObjects {
  const completeConfiguration = { ...options.defaults, ...configuration }
  const requested = readResources(completeConfiguration, {}, options.ownGpus)
  const gpu = chooseGpuSelection(requested, options)
  const labels = createPredictorLabels(options, trialNumber)
  const deadlineS = options.podDeadlineS ?? defaultPodDeadlineS
  const metadata = { name, labels, ownerReferences: createOwnerReferences(owner) }
  const usesRealGpu =
    requested.gpu !== undefined &&
    (options.template.kind !== 'builtin' || resolveEngine(options.template) !== 'emulated')
  const image = (usesRealGpu && options.gpuImage) || options.image
  const podWithSecrets = createTrialPod({
    ...options,
    image,
    name,
    labels,
    owner,
    configuration: completeConfiguration,
    trialNumber,
    requested,
    gpu,
    stageUrls: options.stage?.urls,
    deadlineS,
  })
  const objects = {
    ...extractSecrets(podWithSecrets, metadata),
    ...(options.usesService && { service: planService(options, trialNumber, owner, name) }),
  }
  if (gpu.claim === undefined) return objects
  return {
    ...objects,
    claim: gpu.claim,
    claimTemplate: createClaimTemplate(gpu.claim, metadata, options.draVersion),
  }
}

const createPredictorLabels = (
  { experimentId, stage }: KubernetesLauncherOptions,
  trialNumber: number,
): Record<string, string> => createLabels(experimentId, 'predictor', trialNumber, stage?.name)

/** Plans the Service of a trial's pod, or of all replicas of a stage. */
export const planService = (
  options: KubernetesLauncherOptions,
  trialNumber: number,
  owner: Owner,
  name: string,
): Json =>
  createTrialService(
    { name, labels: createPredictorLabels(options, trialNumber), owner, port: options.port },
    protocolTable[options.protocol.name as ProtocolName].transport,
  )

/** Creates a name for the objects of a trial that no other object has. */
export const createObjectName = (experimentId: string, trialNumber: number): string =>
  `${formatOwnerName(experimentId)}-${trialNumber}-${randomBytes(3).toString('hex')}`

/** Limits the memory to what the driver reports, which is less than the nominal size. */
function limitMemoryByNodes(requested: Resources, gpus: readonly ClusterGpu[]): Resources {
  const memoryMiB =
    requested.gpu === undefined || requested.migProfile !== undefined
      ? undefined
      : findNodeMemoryMiB(gpus, requested.gpu)
  if (memoryMiB === undefined || requested.gpuMemoryMiB === undefined) return requested
  return {
    ...requested,
    gpuMemoryMiB: Math.min(requested.gpuMemoryMiB, Math.floor(memoryMiB * requested.gpuShare)),
  }
}

const noGpu: GpuSelection = { limits: {}, requirements: [], annotations: {}, needs: [] }

function chooseGpuSelection(
  requested: Resources,
  { template, gpuScheme, availableGpus, nodeGpus, dra }: KubernetesLauncherOptions,
): GpuSelection {
  if (
    requested.gpu === undefined ||
    (template.kind === 'builtin' && resolveEngine(template) === 'emulated')
  )
    return noGpu
  const limited = limitMemoryByNodes(requested, nodeGpus ?? availableGpus ?? [])
  try {
    if (gpuScheme !== undefined || availableGpus === undefined)
      return selectGpu(limited, gpuScheme, dra)
    const choice = chooseScheme(availableGpus, limited, dra)
    return selectGpu(limited, choice.scheme, choice.dra)
  } catch (error) {
    if (error instanceof GpuSchemeError)
      throw new InfeasibleError('no-such-gpu', `${error.message}; ${error.hint}`)
    throw error
  }
}
