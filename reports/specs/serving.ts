/**
 * What every deployment spec says, whatever its format: the recommended configuration, how it is
 * started, how many, and where each figure comes from.
 */
import type { Slo } from '../../profiler/model/slo.ts'
import { countReplicas } from '../../search/objective.ts'
import { type Bundle, findCheapestBundles } from '../../search/replica-price.ts'
import type { Configuration } from '../../search/types.ts'
import type { DraOptions } from '../../trials/launchers/kubernetes/dra.ts'
import type { GpuScheme } from '../../trials/launchers/kubernetes/gpu-selection.ts'
import type { PodOverlay } from '../../trials/launchers/kubernetes/pod-policy.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import type { Resources } from '../../trials/resources.ts'
import { type Deployed, type Figures, figuresOf } from '../figures.ts'
import { money, percent, rate, rateInterval, sloLimit } from '../format.ts'
import type { ScalingBehaviour } from '../plan/hpa.ts'
import { describeStatus } from '../recommendation/describe-status.ts'
import type { Status } from '../recommendation/status.ts'
import type { Candidate } from '../recommendation/types.ts'
import { atCapacityText, capacityText, estimateText } from '../recommendation/words.ts'
import { type Held, heldOf } from './held.ts'
import { withSecretVariables } from './secret-variables.ts'
import { SpecError } from './spec-error.ts'

/** How one replica is started. Tuned values are already in `args`, `env` and `files`. */
export interface Container {
  readonly image: string
  /** The user named it. */
  readonly imageNamed?: boolean
  readonly command?: readonly string[]
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Variables whose values a Secret gives; `$(NAME)` in other texts stands for them. */
  readonly secretEnv?: readonly string[]
  /** Likewise, where the Secret is there: it starts without them too. */
  readonly optionalSecretEnv?: readonly string[]
  /** Absolute paths in the container. */
  readonly files?: readonly { readonly path: string; readonly contents: string }[]
  readonly port: number
  /** Where it speaks gRPC beside. */
  readonly grpcPort?: number
  readonly readyPath: string
  /** Absent: the ready path. */
  readonly livePath?: string
  /** Seconds that an answer of either may take; absent: what any server has. */
  readonly probeSeconds?: number
  /** Prometheus counter of answered requests; absent: none is known to be exported. */
  readonly requestsMetric?: string
  /** Where Prometheus reads it; absent: /metrics of the port. */
  readonly metrics?: { readonly port: number; readonly path: string }
  /** What the reader must know of it. */
  readonly notes?: readonly string[]
  /** Names in `env` whose values were tuned: all that a patch sets. */
  readonly tunedEnv?: readonly string[]
  /** Those of the arguments that were tuned, likewise. */
  readonly tunedArgs?: readonly string[]
  /** Parameters that reach its server by neither: in files, or once it runs. */
  readonly tunedElsewhere?: readonly string[]
}

/** With what its server takes of what was tuned. */
export interface WholeContainer extends Container {
  readonly notes: readonly string[]
  /** It shares large memory between processes. */
  readonly sharedMemory: boolean
  /** Where it keeps what it downloads and compiles, beyond its own restart. */
  readonly cachePath?: string
}

/**
 * A pod of the user's own whose container holds the tuned values already: metadata and spec as the
 * user wrote the rest of them.
 */
export interface OwnPod {
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly spec: Readonly<Record<string, unknown>>
}

/** The measurement that stands behind a spec. */
export interface Evidence {
  readonly experimentId: string
  /** Of no experiment, but a line of a table: which. */
  readonly table?: string
  readonly seed: number
  readonly slo: Slo
  readonly verdict: string
  /** Of the configuration that is deployed. */
  readonly status: Status
  readonly measuredAt?: string
  /** What it was taken of. */
  readonly measured: MeasuredWith
  /** How the built-in predictor gathered batches, tuned or not; absent: another server, or none. */
  readonly batching?: { readonly instances: number; readonly maxDelayMs: number }
  /** Seconds from start to ready, of a pod without its wait for a node, where measured. */
  readonly launchSeconds?: number
  /** Seconds that a pod waited for its node before that. */
  readonly nodeWaitSeconds?: number
  /** Cores busy at the capacity, where measured. */
  readonly cpuCoresBusy?: number
  /** Of all processes together, where measured. */
  readonly peakRssMiB?: number
  /** Of whole answers in open load that kept the SLO or missed it, ms, where measured. */
  readonly slowestMs?: number
  /** Mean latency of whole answers at about the capacity, ms, where measured. */
  readonly meanMsAtCapacity?: number
}

/** Replicas that a plan of several models placed: their GPUs have room for exactly these. */
export interface Placed {
  readonly replicas: number
  /** Of each hour of the day, by the clock of `timezone`, 24; absent: all the same. */
  readonly byHour?: readonly number[]
  /**
   * The claim, by dynamic resource allocation, on the GPU that it has together with other models.
   */
  readonly claim?: string
  /** There under MPS, held to its part by the variables of its container. */
  readonly mps?: { readonly memoryMiB: number }
  /** Of the IANA database. */
  readonly timezone: string
}

export interface ServingOptions {
  /** Of what is deployed, made a DNS label; absent: the model's. */
  readonly name?: string
  /** In place of a demand. */
  readonly placed?: Placed
  /** Requests per second to serve; absent: one replica. */
  readonly demandRps?: number
  /** Share of the capacity kept free. */
  readonly headroom: number
  readonly minReplicas?: number
  readonly maxReplicas?: number
  /** How fast an autoscaler may change the number of replicas; absent: by the measured start. */
  readonly scaling?: ScalingBehaviour
  readonly gpuScheme?: GpuScheme
  /** With GPU scheme dra. */
  readonly dra?: DraOptions
  /** Where the weights are: s3://bucket/model, gs://..., a volume's path. */
  readonly modelUri?: string
  readonly modelVersion?: string
  /** Of the cluster; absent: wherever the objects are applied. */
  readonly namespace?: string
  /** In place of a pod made from the container. Kubernetes alone. */
  readonly pod?: OwnPod
  /** What the trials' pods of the built-in predictor were made with. */
  readonly overlay?: PodOverlay
}

/** A figure of a spec, and where it comes from. */
interface Source {
  readonly value: string
  readonly from: string
}

export interface Serving {
  readonly trial: number
  /** DNS label (RFC 1123). */
  readonly name: string
  readonly model: string
  readonly modelUri?: string
  readonly modelVersion?: string
  readonly namespace?: string
  /** Where it is called from within the cluster; absent: by an address that its platform gives. */
  readonly host?: string
  readonly deployed: Deployed
  /** Whether the measurement's figures hold of it. */
  readonly figures: Figures
  /**
   * Its capacity was measured of what is deployed, and is no mere 'at most': scaling targets may
   * rest on it.
   */
  readonly scalable: boolean
  readonly container: Container
  readonly pod?: OwnPod
  /** What the user lays over the pods of trials, and of what is deployed. */
  readonly overlay?: PodOverlay
  readonly configuration: Configuration
  readonly resources: Resources
  /** Cores and memory of one replica; what was neither tuned nor measured is absent. */
  readonly held: Held
  readonly gpuScheme?: GpuScheme
  readonly dra?: DraOptions
  readonly replicas: number
  /**
   * Nodes that the price was for, by their label `node.kubernetes.io/instance-type`; absent: the
   * price is of no instance.
   */
  readonly instanceType?: string
  readonly placed?: Placed
  /** Whether a demand, or the user, says how many. */
  readonly sized: boolean
  readonly minReplicas: number
  readonly maxReplicas: number
  /** Bounds that the user requested; absent: computed. */
  readonly requestedBounds: Pick<ServingOptions, 'minReplicas' | 'maxReplicas'>
  readonly scaling?: ScalingBehaviour
  readonly headroom: number
  /** Capacity × (1 − headroom): what one replica is planned to carry. */
  readonly perReplicaRps: number
  /**
   * Requests in flight at the capacity, by Little's law (rate × mean latency); absent where the
   * latency is not known.
   */
  readonly inFlight?: number
  readonly evidence: Evidence
  readonly sources: readonly Source[]
}

/** What is deployed, and what was found of it. */
interface Found {
  readonly model: string
  readonly candidate: Candidate
  readonly resources: Resources
  readonly deployed: Deployed
  readonly container: Container
  readonly evidence: Evidence
}

/**
 * Everything a renderer needs, from a candidate.
 * @throws SpecError for a candidate that cannot serve, and for numbers that cannot be.
 */
export function servingOf(
  { model, candidate, resources, deployed, container, evidence }: Found,
  options: ServingOptions,
): Serving {
  const { headroom } = options
  if (!(candidate.capacityRps > 0)) {
    throw new SpecError(
      `trial ${candidate.trial} (${candidate.label}) cannot be deployed: ${candidate.reason ?? 'it has no capacity'}`,
      'choose another trial with --trial',
    )
  }
  if (!(headroom >= 0 && headroom < 1))
    throw new SpecError(`headroom is ${headroom}`, 'give a share from 0 to below 1, such as 20%')
  if (
    options.namespace !== undefined &&
    !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(options.namespace)
  )
    throw new SpecError(
      `${JSON.stringify(options.namespace)} is not a valid namespace`,
      'use lower-case letters, digits and dashes, such as --namespace ml',
    )
  const perReplicaRps = candidate.capacityRps * (1 - headroom)
  const { placed } = options
  const replicas =
    placed?.replicas ??
    (options.demandRps === undefined
      ? (candidate.replicas ?? 1)
      : countReplicas({ demandRps: options.demandRps, headroom }, candidate.capacityRps))
  const minReplicas = options.minReplicas ?? replicas
  const maxReplicas =
    options.maxReplicas ?? (placed ? replicas : Math.max(2 * replicas, minReplicas))
  if (
    !(
      Number.isInteger(minReplicas) &&
      Number.isInteger(maxReplicas) &&
      minReplicas >= 1 &&
      maxReplicas >= minReplicas
    )
  ) {
    throw new SpecError(
      `replicas from ${minReplicas} to ${maxReplicas} are not a valid range`,
      'give whole numbers: --min-replicas of at least 1, and --max-replicas not below it',
    )
  }
  // A plan of several models has nodes of its own.
  const bought = placed ? undefined : findCheapestBundles(candidate.bundles ?? [], replicas)?.bundle
  const figures = figuresOf(evidence.measured, deployed)
  const serving = {
    trial: candidate.trial,
    name: dnsLabel(options.name ?? model),
    model,
    modelUri: options.modelUri,
    modelVersion: options.modelVersion,
    ...(options.namespace === undefined ? {} : { namespace: options.namespace }),
    deployed,
    figures,
    scalable: figures.hold && candidate.bound !== 'upper' && !doubtful.has(evidence.status),
    ...(options.pod ? { pod: options.pod } : {}),
    ...(options.overlay && !options.pod ? { overlay: options.overlay } : {}),
    container: withSecretVariables(container),
    configuration: candidate.configuration,
    resources,
    held: heldOf(
      evidence,
      deployed,
      figures.hold,
      resources,
      candidate.configuration,
      options.modelUri,
    ),
    gpuScheme: options.gpuScheme,
    ...(options.dra ? { dra: options.dra } : {}),
    replicas,
    ...(bought?.instanceType !== undefined && { instanceType: bought.instanceType }),
    ...(placed ? { placed } : {}),
    sized: [
      placed,
      options.demandRps,
      candidate.replicas,
      options.minReplicas,
      options.maxReplicas,
    ].some((given) => given !== undefined),
    minReplicas,
    maxReplicas,
    requestedBounds: {
      minReplicas: options.minReplicas,
      maxReplicas: options.maxReplicas,
    },
    ...(options.scaling ? { scaling: options.scaling } : {}),
    headroom,
    perReplicaRps,
    ...(evidence.meanMsAtCapacity
      ? { inFlight: Math.ceil((candidate.capacityRps * evidence.meanMsAtCapacity) / 1000) }
      : {}),
    evidence,
  } as const
  return { ...serving, sources: sourcesOf(candidate, serving, options, bought) }
}

/**
 * Why these nodes, and what they lack where the price counts replicas that fill them to the last
 * core or byte.
 */
function nodesFrom(bought: Bundle | undefined, replicas: number): string {
  const why = `the cheapest instances for ${replicas} replica${replicas === 1 ? '' : 's'}, price book`
  if (!bought?.isFull) return why
  return `${why}; ${bought.replicas} per node leave${bought.replicas === 1 ? 's' : ''} no core or no memory for the node's own system: reduce the container's request`
}

/** Of a capacity without an estimate: '90 % interval 221 to 249', of imported results 'loads …'. */
const rangeText = (candidate: Candidate): string =>
  candidate.status === 'imported'
    ? `between loads ${rateInterval(candidate.capacityCi90Rps)}`
    : `90 % interval ${rateInterval(candidate.capacityCi90Rps)}`

function sourcesOf(
  candidate: Candidate,
  serving: Omit<Serving, 'sources'>,
  { demandRps, headroom, ...options }: ServingOptions,
  bought: Bundle | undefined,
): Source[] {
  const { slo, measured } = serving.evidence
  const trial = `trial ${candidate.trial}`
  const origin = candidate.status === 'imported' ? 'imported' : 'tuned'
  return [
    ...Object.entries(serving.configuration).map(([name, value]) => ({
      value: `${name} = ${value}`,
      from: `${origin}, ${trial}`,
    })),
    {
      value: `safe capacity ${capacityText(candidate)}${candidate.estimateRps === undefined ? '' : ` (estimate ${estimateText(candidate)})`}`,
      from: `${trial}, ${describeStatus(candidate.status, measured.how).name}: ${atCapacityText(slo, candidate)}, SLO ${sloLimit(slo)}${candidate.estimateRps === undefined ? `, ${rangeText(candidate)}` : ''}`,
    },
    {
      value: `replicas ${serving.replicas}`,
      from: options.placed
        ? 'as many as the fleet has room for'
        : demandRps === undefined && candidate.replicas === undefined
          ? 'one, because no demand is configured'
          : `demand${demandRps === undefined ? '' : ` ${rate(demandRps)}`} / (safe capacity x (1 - headroom ${percent(headroom)})), rounded up`,
    },
    ...serving.held.sources,
    { value: `price ${money(candidate.pricePerHour)} per hour and replica`, from: 'price book' },
    ...(serving.instanceType === undefined
      ? []
      : [{ value: `nodes ${serving.instanceType}`, from: nodesFrom(bought, serving.replicas) }]),
  ]
}

/** Statuses whose figures are unknown or refuted. */
const doubtful: ReadonlySet<Status> = new Set(['refuted', 'inconclusive', 'infeasible', 'failed'])

/** Characters of such a name. */
export const mostOfLabel = 50

/**
 * A name that Kubernetes takes: lower case letters, digits and dashes, at most 50 characters
 * (suffixes follow).
 */
export function dnsLabel(text: string): string {
  const label = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, '')
    .slice(0, mostOfLabel)
    .replace(/-+$/, '')
  return label || 'model'
}
