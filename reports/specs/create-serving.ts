/** A serving from a candidate of a recommendation. */
import { countReplicas } from '../../search/objective.ts'
import { type Bundle, findCheapestBundles } from '../../search/replica-price.ts'
import type { Resources } from '../../trials/resources.ts'
import type { TritonModel } from '../../trials/servers/server-start.ts'
import { classifyFigures, type Deployed } from '../figures.ts'
import { money, percent, rate, rateInterval, significant, sloLimit } from '../format.ts'
import { describeStatus } from '../recommendation/describe-status.ts'
import type { Status } from '../recommendation/status.ts'
import type { Candidate } from '../recommendation/types.ts'
import { estimateText, formatCapacity, formatLatencyAtCapacity } from '../recommendation/words.ts'
import { computeRequirements } from './requirements.ts'
import { replaceSecrets } from './secret-variables.ts'
import type { Container, Evidence, Serving, ServingOptions, Source, StageShare } from './serving.ts'
import { SpecError } from './spec-error.ts'

/** A candidate, its container, and the measurement behind it. */
interface MeasuredCandidate {
  readonly model: string
  readonly tritonModels?: readonly TritonModel[]
  readonly candidate: Candidate
  readonly resources: Resources
  readonly deployed: Deployed
  readonly container: Container
  readonly evidence: Evidence
}

/**
 * Everything that a renderer needs, from a candidate.
 * @throws SpecError for a candidate that cannot serve, and for impossible options
 */
export function createServing(
  { model, tritonModels, candidate, resources, deployed, container, evidence }: MeasuredCandidate,
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
  const { replicaPlan } = options
  const replicas =
    replicaPlan?.replicas ??
    (options.demandRps === undefined
      ? (candidate.replicas ?? 1)
      : countReplicas({ demandRps: options.demandRps, headroom }, candidate.capacityRps))
  const minReplicas = options.minReplicas ?? replicas
  const maxReplicas =
    options.maxReplicas ?? (replicaPlan ? replicas : Math.max(2 * replicas, minReplicas))
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
  // With a plan of several models, the plan chooses the nodes.
  const bundle = replicaPlan
    ? undefined
    : findCheapestBundles(candidate.bundles ?? [], replicas)?.bundle
  const instanceType = bundle?.instanceType
  const figures = classifyFigures(evidence.measured, deployed)
  return {
    trial: candidate.trial,
    name: toDnsLabel(options.name ?? model),
    model,
    tritonModels,
    modelUri: options.modelUri,
    modelVersion: options.modelVersion,
    namespace: options.namespace,
    deployed,
    figures,
    isScalable: figures.apply && candidate.bound !== 'upper' && !doubtful.has(evidence.status),
    pod: options.pod,
    overlay: options.pod ? undefined : options.overlay,
    container: replaceSecrets(container),
    configuration: candidate.configuration,
    resources,
    requirements: computeRequirements(
      evidence,
      deployed,
      figures.apply,
      resources,
      candidate.configuration,
      options.modelUri,
    ),
    gpuScheme: options.gpuScheme,
    dra: options.dra,
    replicas,
    instanceType,
    replicaPlan,
    isSized: [
      replicaPlan,
      options.demandRps,
      // A stage has replicas without a demand, too.
      options.stageShare === undefined ? candidate.replicas : undefined,
      options.minReplicas,
      options.maxReplicas,
    ].some((value) => value !== undefined),
    minReplicas,
    maxReplicas,
    requestedBounds: { minReplicas: options.minReplicas, maxReplicas: options.maxReplicas },
    scaling: options.scaling,
    headroom,
    perReplicaRps,
    inFlight: evidence.meanMsAtCapacity
      ? Math.ceil((candidate.capacityRps * evidence.meanMsAtCapacity) / 1000)
      : undefined,
    evidence,
    sources: listSources(candidate, evidence, replicas, options),
    priceSources: [
      { value: `price ${money(candidate.pricePerHour)} per hour and replica`, from: 'price book' },
      ...(instanceType === undefined
        ? []
        : [{ value: `nodes ${instanceType}`, from: describeNodes(bundle, replicas) }]),
    ],
  }
}

/**
 * The serving of one pod of a replica that consists of several.
 * @param resources of that pod
 */
export const resizeServing = (serving: Serving, resources: Resources): Serving => ({
  ...serving,
  resources,
  requirements: computeRequirements(
    serving.evidence,
    serving.deployed,
    serving.figures.apply,
    resources,
    serving.configuration,
    serving.modelUri,
  ),
})

/**
 * Why these nodes, and what they lack where the price counts replicas that fill them to the last
 * core or byte.
 */
function describeNodes(bundle: Bundle | undefined, replicas: number): string {
  const reason = `the cheapest instances for ${replicas} replica${replicas === 1 ? '' : 's'}, price book`
  if (!bundle?.isFull) return reason
  return `${reason}; ${bundle.replicas} per node leave${bundle.replicas === 1 ? 's' : ''} no core or no memory for the node's own system: reduce the container's request`
}

function listSources(
  candidate: Candidate,
  { slo, measured }: Evidence,
  replicas: number,
  { demandRps, headroom, replicaPlan, stageShare }: ServingOptions,
): Source[] {
  const trial = `trial ${candidate.trial}`
  const share = stageShare && describeShare(stageShare)
  const isImported = candidate.status === 'imported'
  const safeCapacity = `safe capacity ${formatCapacity(candidate)}`
  const observation = `${share === undefined ? '' : `${share}; `}${trial}, ${describeStatus(candidate.status, measured.how).name}: ${formatLatencyAtCapacity(slo, candidate)}, SLO ${sloLimit(slo)}`
  const interval = rateInterval(candidate.capacityCi90Rps)
  return [
    ...Object.entries(candidate.configuration).map(([name, value]) => ({
      value: `${name} = ${value}`,
      from: `${isImported ? 'imported' : 'tuned'}, ${trial}`,
    })),
    candidate.estimateRps === undefined
      ? {
          value: safeCapacity,
          from: `${observation}, ${isImported ? 'between loads' : '90 % interval'} ${interval}`,
        }
      : { value: `${safeCapacity} (estimate ${estimateText(candidate)})`, from: observation },
    {
      value: `replicas ${replicas}`,
      from: replicaPlan
        ? 'as many as the fleet has room for'
        : demandRps === undefined && (stageShare || candidate.replicas === undefined)
          ? `${stageShare ? 'as measured' : 'one'}, because no demand is configured`
          : `demand${demandRps === undefined ? '' : ` ${rate(demandRps)}`} / (safe capacity x (1 - headroom ${percent(headroom)})), rounded up`,
    },
  ]
}

/** 'the pipeline's 500 req/s x 0.29 visits / 2 replicas' */
const describeShare = ({ pipelineRps, visits, trialReplicas }: StageShare): string =>
  [
    `the pipeline's ${rate(pipelineRps)}`,
    ...(visits === 1 ? [] : [`x ${significant(visits)} visits`]),
    ...(trialReplicas === 1 ? [] : [`/ ${trialReplicas} replicas`]),
  ].join(' ')

/** Statuses whose figures are unknown or refuted. */
const doubtful: ReadonlySet<Status> = new Set(['refuted', 'inconclusive', 'infeasible', 'failed'])

/**
 * Longest name, characters. A DNS label may have 63; suffixes such as '-predictor' need the rest.
 */
export const maxLabelLength = 50

/**
 * A name that Kubernetes takes: lower case letters, digits and dashes, at most 50 characters
 * (suffixes follow).
 */
export function toDnsLabel(text: string): string {
  const label = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, '')
    .slice(0, maxLabelLength)
    .replace(/-+$/, '')
  return label || 'model'
}
