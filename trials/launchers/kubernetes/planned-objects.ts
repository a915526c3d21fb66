/** Plans the objects of a trial before any is created. */
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { type ProtocolName, protocolTable } from '../../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../../search/types.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import { type Resources, readResources } from '../../resources.ts'
import { InfeasibleError } from '../../types.ts'
import type { TunedParameter } from '../fill.ts'
import type { BuiltinTemplate, CommandTemplate } from '../template.ts'
import type { Api } from './api.ts'
import { type ClusterGpu, memoryOnNodes, schemeFor } from './cluster-facts.ts'
import { claimTemplate, type DeviceClaim, type DraOptions, type DraVersion } from './dra.ts'
import { type GpuScheme, GpuSchemeError, type GpuSelection, gpuSelection } from './gpu-selection.ts'
import type { LeaseOptions } from './lease.ts'
import {
  type Json,
  labelsOf,
  type Owner,
  ownerReferences,
  type PodTemplate,
  runningEngine,
  trialPod,
} from './manifests.ts'
import type { PodOverlay } from './pod-policy.ts'
import { withPodSecrets } from './pod-secrets.ts'
import type { UsageSource } from './pod-usage.ts'
import type { Reach } from './reach.ts'
import type { StartPatience } from './start.ts'
import { trialService } from './trial-service.ts'

export interface KubernetesLauncherOptions {
  readonly api: Api
  readonly experimentId: string
  readonly template: BuiltinTemplate | CommandTemplate
  /** With a command template: the user's pod. */
  readonly own?: PodTemplate
  /** With the built-in predictor: an image whose entry point is the `tune` command. */
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
  /** The GPUs of the nodes, where one scheme may not fit every GPU of the search. */
  readonly offers?: readonly ClusterGpu[]
  /** The GPUs of the nodes, for their memory, where the scheme is given. Default: `offers`. */
  readonly boards?: readonly ClusterGpu[]
  readonly dra?: DraOptions
  /** The version of DRA that the server has. Default v1. */
  readonly draVersion?: DraVersion
  /** Where the usage of pods is read. Absent: it stays unknown. */
  readonly usageSource?: UsageSource
  /** The cluster itself ends a trial's pod after this long, even without the tuner. Default 1 h. */
  readonly podDeadlineS?: number
  readonly patience?: Partial<StartPatience>
  /** Load goes through a Service of the trial. Absent: to the pod's own address. */
  readonly throughService?: true
  /** Options of the Job that owns the experiment's objects. */
  readonly lease?: Partial<Omit<LeaseOptions, 'api' | 'experimentId'>>
}

export interface TrialObjects {
  readonly pod: Json
  /** Where the pod needs secrets. */
  readonly secret?: Json
  /** With GPUs by DRA: the devices that the pod claims, and the template of its claim. */
  readonly claim?: DeviceClaim
  readonly claimTemplate?: Json
  /** Where load goes through a Service. */
  readonly service?: Json
}

/** @throws InfeasibleError where no scheme can give the GPU; LaunchError for an invalid configuration */
export function plannedObjects(
  options: KubernetesLauncherOptions,
  configuration: Configuration,
  trialNumber: number,
  owner: Owner,
  name: string,
): TrialObjects {
  const all = { ...options.defaults, ...configuration }
  const asked = readResources(all, {}, options.ownGpus)
  const gpu = selectionFor(asked, options)
  const labels = labelsOf(options.experimentId, 'predictor', trialNumber)
  const deadlineS = options.podDeadlineS ?? 3600
  const metadata = { name, labels, ownerReferences: ownerReferences(owner) }
  const onGpu =
    asked.gpu !== undefined &&
    (options.template.kind !== 'builtin' || runningEngine(options.template) !== 'emulated')
  const image = (onGpu && options.gpuImage) || options.image
  const whole = trialPod({
    ...options,
    image,
    name,
    labels,
    owner,
    configuration: all,
    trialNumber,
    asked,
    gpu,
    deadlineS,
  })
  const objects = {
    ...withPodSecrets(whole, metadata),
    ...(options.throughService && {
      service: trialService(
        { name, labels, owner, port: options.port },
        protocolTable[options.protocol.name as ProtocolName].transport,
      ),
    }),
  }
  if (gpu.claim === undefined) return objects
  return {
    ...objects,
    claim: gpu.claim,
    claimTemplate: claimTemplate(gpu.claim, metadata, options.draVersion),
  }
}

/** Bounds the memory by what the driver reports, which is less than the GPU's name says. */
function boundByNodes(asked: Resources, gpus: readonly ClusterGpu[]): Resources {
  const memoryMiB =
    asked.gpu === undefined || asked.migProfile !== undefined
      ? undefined
      : memoryOnNodes(gpus, asked.gpu)
  if (memoryMiB === undefined || asked.gpuMemoryMiB === undefined) return asked
  return {
    ...asked,
    gpuMemoryMiB: Math.min(asked.gpuMemoryMiB, Math.floor(memoryMiB * asked.gpuShare)),
  }
}

const noGpu: GpuSelection = { limits: {}, requirements: [], annotations: {}, needs: [] }

function selectionFor(
  given: Resources,
  { template, gpuScheme, offers, boards, dra }: KubernetesLauncherOptions,
): GpuSelection {
  if (
    given.gpu === undefined ||
    (template.kind === 'builtin' && runningEngine(template) === 'emulated')
  )
    return noGpu
  const asked = boundByNodes(given, boards ?? offers ?? [])
  try {
    if (gpuScheme !== undefined || offers === undefined) return gpuSelection(asked, gpuScheme, dra)
    const choice = schemeFor(offers, asked, dra)
    return gpuSelection(asked, choice.scheme, choice.dra)
  } catch (error) {
    if (error instanceof GpuSchemeError)
      throw new InfeasibleError('no-such-gpu', `${error.message}; ${error.hint}`)
    throw error
  }
}
