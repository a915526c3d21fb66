/** Plans the objects of a trial before any is created. */
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
  type Json,
  type Owner,
  type PodTemplate,
  resolveEngine,
} from '../manifests/manifests.ts'
import type { PodOverlay } from '../manifests/pod-policy.ts'
import { extractSecrets } from '../manifests/pod-secrets.ts'
import { createTrialService } from '../manifests/trial-service.ts'
import type { UsageSource } from '../watch/pod-usage.ts'
import type { Reach } from './reach.ts'
import type { StartTimeouts } from './wait-until-running.ts'

export interface KubernetesLauncherOptions {
  readonly api: Api
  readonly experimentId: string
  readonly template: BuiltinTemplate | CommandTemplate
  /** Command template: the user's pod. */
  readonly own?: PodTemplate
  /** Built-in predictor: an image whose entry point is the `tune` command. */
  readonly image?: string
  /** The image of its trials on a GPU; absent: the same. */
  readonly gpuImage?: string
  /** The user's overlay over its pod. */
  readonly overlay?: PodOverlay
  readonly port: number
  readonly parameters: readonly TunedParameter[]
  readonly defaults?: Configuration
  readonly ownGpus?: readonly Gpu[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
  /** Logs of trial n go to trials/n below it. */
  readonly runDirectory: string
  /** How this process reaches the pods. */
  readonly reach: Reach
  /** The scheme for every GPU. Absent: chosen by `offers`, or by what is tuned. */
  readonly gpuScheme?: GpuScheme
  /**
   * GPUs of the nodes that the search may use, each with its scheme: that of a trial is chosen
   * among them. Absent with `gpuScheme`.
   */
  readonly offers?: readonly ClusterGpu[]
  /** GPUs of the nodes, to limit the memory of a trial to theirs. Default: `offers`. */
  readonly nodeGpus?: readonly ClusterGpu[]
  readonly dra?: DraOptions
  /** The version of DRA that the server has. Default v1. */
  readonly draVersion?: DraVersion
  /** Source of the pods' usage. Absent: usage is unknown. */
  readonly usageSource?: UsageSource
  /** The cluster itself ends a trial's pod after this long, even without the tuner. Default 1 h. */
  readonly podDeadlineS?: number
  readonly timeouts?: Partial<StartTimeouts>
  /** Load goes through a Service of the trial. Absent: to the pod's own address. */
  readonly throughService?: true
  /** Options of the Job that owns the experiment's objects. */
  readonly lease?: Partial<Omit<LeaseOptions, 'api' | 'experimentId'>>
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

/**
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
  const complete = { ...options.defaults, ...configuration }
  const requested = readResources(complete, {}, options.ownGpus)
  const gpu = chooseGpuSelection(requested, options)
  const labels = createLabels(options.experimentId, 'predictor', trialNumber)
  const deadlineS = options.podDeadlineS ?? 3600
  const metadata = { name, labels, ownerReferences: createOwnerReferences(owner) }
  const onGpu =
    requested.gpu !== undefined &&
    (options.template.kind !== 'builtin' || resolveEngine(options.template) !== 'emulated')
  const image = (onGpu && options.gpuImage) || options.image
  const podWithSecrets = createTrialPod({
    ...options,
    image,
    name,
    labels,
    owner,
    configuration: complete,
    trialNumber,
    requested,
    gpu,
    deadlineS,
  })
  const objects = {
    ...extractSecrets(podWithSecrets, metadata),
    ...(options.throughService && {
      service: createTrialService(
        { name, labels, owner, port: options.port },
        protocolTable[options.protocol.name as ProtocolName].transport,
      ),
    }),
  }
  if (gpu.claim === undefined) return objects
  return {
    ...objects,
    claim: gpu.claim,
    claimTemplate: createClaimTemplate(gpu.claim, metadata, options.draVersion),
  }
}

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
  given: Resources,
  { template, gpuScheme, offers, nodeGpus, dra }: KubernetesLauncherOptions,
): GpuSelection {
  if (
    given.gpu === undefined ||
    (template.kind === 'builtin' && resolveEngine(template) === 'emulated')
  )
    return noGpu
  const requested = limitMemoryByNodes(given, nodeGpus ?? offers ?? [])
  try {
    if (gpuScheme !== undefined || offers === undefined) return selectGpu(requested, gpuScheme, dra)
    const choice = chooseScheme(offers, requested, dra)
    return selectGpu(requested, choice.scheme, choice.dra)
  } catch (error) {
    if (error instanceof GpuSchemeError)
      throw new InfeasibleError('no-such-gpu', `${error.message}; ${error.hint}`)
    throw error
  }
}
