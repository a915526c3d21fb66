/**
 * Content of a deployment spec, independent of its format: the recommended configuration, how it is
 * started, the number of replicas, and the source of each figure.
 */
import type { Slo } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import type { DraOptions } from '../../trials/launchers/kubernetes/gpus/dra.ts'
import type { GpuScheme } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import type { PodOverlay } from '../../trials/launchers/kubernetes/manifests/pod-policy.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import type { Resources } from '../../trials/resources.ts'
import type { TritonModel } from '../../trials/servers/server-start.ts'
import type { Deployed, Figures } from '../figures.ts'
import type { ScalingBehaviour } from '../plan/hpa.ts'
import type { Status } from '../recommendation/status.ts'
import type { ReplicaRequirements } from './requirements.ts'

/** Container of one replica. Tuned values are already in `args`, `env` and `files`. */
export interface Container {
  readonly image: string
  /** The user named the image. */
  readonly isImageNamed?: boolean
  readonly command?: readonly string[]
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Variables whose values a Secret gives; `$(NAME)` in other texts stands for them. */
  readonly secretEnv?: readonly string[]
  /** Like `secretEnv`, but the container also starts if the Secret does not exist. */
  readonly optionalSecretEnv?: readonly string[]
  /** Absolute paths in the container. */
  readonly files?: readonly { readonly path: string; readonly contents: string }[]
  readonly port: number
  /** Port for gRPC, beside `port`. */
  readonly grpcPort?: number
  readonly readyPath: string
  /** Path of the liveness probe; absent: the ready path. */
  readonly livePath?: string
  /** Timeout of both probes, seconds; absent: Kubernetes' default for readiness, 5 for liveness. */
  readonly probeSeconds?: number
  /** Prometheus counter of answered requests; absent: none is known to be exported. */
  readonly requestsMetric?: string
  /** Address of the metrics; absent: /metrics of `port`. */
  readonly metrics?: { readonly port: number; readonly path: string }
  /** Notes that a user must read before the container is started. */
  readonly notes?: readonly string[]
  /** Names in `env` whose values were tuned: all that a patch sets. */
  readonly tunedEnv?: readonly string[]
  /** Arguments whose values were tuned: all that a patch sets. */
  readonly tunedArgs?: readonly string[]
  /** Parameters that reach the server by other means: in files, or while it runs. */
  readonly tunedElsewhere?: readonly string[]
}

/** A container with the tuned values in its server's own settings. */
export interface ServerContainer extends Container {
  readonly notes: readonly string[]
  /** Whether its processes need much shared memory (/dev/shm). */
  readonly sharedMemory: boolean
  /** Folder of downloads and compiled code, which should survive a restart. */
  readonly cachePath?: string
}

/** The user's own pod. Its container has the tuned values; the rest is as the user wrote it. */
export interface OwnPod {
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly spec: Readonly<Record<string, unknown>>
}

/** The measurement behind a spec. */
export interface Evidence {
  readonly experimentId: string
  /** Description of a table row, if the figures come from a table instead of an experiment. */
  readonly table?: string
  readonly seed: number
  readonly slo: Slo
  /** Verdict on the deployed configuration. */
  readonly verdict: string
  /** Status of the deployed configuration. */
  readonly status: Status
  readonly measuredAt?: string
  /** Server and requests of the measurement. */
  readonly measured: MeasuredWith
  /** How the built-in predictor gathered batches, tuned or not; absent: another server, or none. */
  readonly batching?: { readonly instances: number; readonly maxDelayMs: number }
  /** Seconds from start to ready, of a pod without its wait for a node, where measured. */
  readonly launchSeconds?: number
  /** Seconds that a pod waited for its node before that. */
  readonly nodeWaitSeconds?: number
  /** Cores busy at the capacity, where measured. */
  readonly cpuCoresBusy?: number
  /** Peak memory of all processes together, where measured. */
  readonly peakRssMiB?: number
  /** Slowest whole answer in open load, whether it met the SLO or not, ms, where measured. */
  readonly slowestMs?: number
  /** Mean latency of whole answers at about the capacity, ms, where measured. */
  readonly meanMsAtCapacity?: number
}

/** Replicas that a plan of several models placed: their GPUs have room for exactly these. */
export interface ReplicaPlan {
  readonly replicas: number
  /** For each of the 24 hours of the day in `timezone`; absent: always `replicas`. */
  readonly byHour?: readonly number[]
  /** The claim, by dynamic resource allocation, on a GPU that other models share. */
  readonly claim?: string
  /** Memory limit on that GPU under MPS, set by environment variables of the container. */
  readonly mps?: { readonly memoryMiB: number }
  /** A name of the IANA database. */
  readonly timezone: string
}

/** How the figures of a stage follow from those of the pipeline that was measured. */
export interface StageShare {
  /** Capacity of the pipeline, requests per second. */
  readonly pipelineRps: number
  /** Mean visits to the stage for each request of the pipeline. */
  readonly visits: number
  /** Replicas of the stage while the pipeline was measured. */
  readonly trialReplicas: number
}

/** A call of one stage to another. */
export interface StageCall {
  /** Name of the called stage's serving. */
  readonly serving: string
  /** Mean calls for each request of the caller. */
  readonly ratio: number
  readonly url: string
  /** The caller's container has the address; otherwise its server calls nothing. */
  readonly isWired: boolean
}

/** Place of a serving in a pipeline, whose SLO holds at the entry. */
interface StagePlace {
  readonly name: string
  readonly calls: readonly StageCall[]
  /** Of the entry alone: the rate that all stages together serve, to verify the SLO at. */
  readonly verifyRps?: number
}

export interface ServingOptions {
  /** Absent: a predictor of its own. */
  readonly stageShare?: StageShare
  /** Name of the deployment, converted to a DNS label; absent: the model's. */
  readonly name?: string
  /** Set instead of `demandRps`, by a plan of several models. */
  readonly replicaPlan?: ReplicaPlan
  /** Requests per second to serve; absent: one replica. */
  readonly demandRps?: number
  /** Share of the capacity that stays free. */
  readonly headroom: number
  readonly minReplicas?: number
  readonly maxReplicas?: number
  /** How fast an autoscaler may change the number of replicas; absent: by the measured start. */
  readonly scaling?: ScalingBehaviour
  readonly gpuScheme?: GpuScheme
  /** Options of GPU scheme dra. */
  readonly dra?: DraOptions
  /** Location of the weights: s3://bucket/model, gs://..., a path of a volume. */
  readonly modelUri?: string
  readonly modelVersion?: string
  /** Namespace of the cluster; absent: wherever the objects are applied. */
  readonly namespace?: string
  /** Used instead of a pod made from the container; for Kubernetes only. */
  readonly pod?: OwnPod
  /** The user's overlay for the pods of trials. */
  readonly overlay?: PodOverlay
}

/** A figure of a spec, and where it comes from. */
export interface Source {
  readonly value: string
  readonly from: string
}

export interface Serving {
  readonly trial: number
  /** DNS label (RFC 1123). */
  readonly name: string
  readonly model: string
  /** All models of an ensemble or BLS model of Triton, callers first. */
  readonly tritonModels?: readonly TritonModel[]
  readonly modelUri?: string
  readonly modelVersion?: string
  readonly namespace?: string
  /** Host name within the cluster; absent: the platform assigns an address. */
  readonly host?: string
  /** Absent: a predictor of its own. */
  readonly stage?: StagePlace
  readonly deployed: Deployed
  /** Whether the measured figures apply to what is deployed. */
  readonly figures: Figures
  /**
   * The capacity was measured on what is deployed, and is more than an upper bound: scaling targets
   * may rest on it.
   */
  readonly isScalable: boolean
  readonly container: Container
  readonly pod?: OwnPod
  /** The user's overlay for the pods of trials, applied to what is deployed too. */
  readonly overlay?: PodOverlay
  readonly configuration: Configuration
  readonly resources: Resources
  /** Cores and memory of one replica; what was neither tuned nor measured is absent. */
  readonly requirements: ReplicaRequirements
  readonly gpuScheme?: GpuScheme
  readonly dra?: DraOptions
  readonly replicas: number
  /**
   * Nodes that the price was for, by their label `node.kubernetes.io/instance-type`; absent: the
   * price is of no instance.
   */
  readonly instanceType?: string
  readonly replicaPlan?: ReplicaPlan
  /** Whether a demand or the user sets the number of replicas; otherwise there is one. */
  readonly isSized: boolean
  readonly minReplicas: number
  readonly maxReplicas: number
  /** Absent bounds are computed. */
  readonly requestedBounds: Pick<ServingOptions, 'minReplicas' | 'maxReplicas'>
  readonly scaling?: ScalingBehaviour
  readonly headroom: number
  /** Planned rate of one replica: capacity × (1 − headroom). */
  readonly perReplicaRps: number
  /**
   * Requests in flight at the capacity, by Little's law (rate × mean latency); absent if the
   * latency is unknown.
   */
  readonly inFlight?: number
  readonly evidence: Evidence
  /** Sources of the configuration, the capacity and the replicas. */
  readonly sources: readonly Source[]
  /** Sources of the price and the nodes. */
  readonly priceSources: readonly Source[]
}
