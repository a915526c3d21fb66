/** The contract of a spec target: what it can deploy, which options it reads, what it writes. */
import { isLanguageServer } from '../../trials/servers/server-kinds.ts'
import { type DeployedServer, serverTitles, wasMeasured } from '../figures.ts'
import type { Manifest } from './manifest.ts'
import type { Serving, Source } from './serving.ts'
import { SpecError } from './spec-error.ts'

export const autoscalers = ['hpa', 'keda', 'none'] as const
export type Autoscaler = (typeof autoscalers)[number]
/** standard, knative and keda: an InferenceService. llm: a LLMInferenceService. */
export const kserveVariants = ['standard', 'knative', 'keda', 'llm'] as const
export type KserveVariant = (typeof kserveVariants)[number]

/** Options of single targets: see `takes`. */
export interface SpecOptions {
  /** Default 'hpa'. */
  readonly autoscaler?: Autoscaler
  /** Deployment mode. Default 'standard'. */
  readonly variant?: KserveVariant
  /** Address of the Prometheus that KEDA queries for the request rate. */
  readonly prometheus?: string
  /** Triton's backend of the model. */
  readonly backend?: string
  /** module:variable of the application. */
  readonly importPath?: string
  /** GPUs of a node, where one replica takes several nodes. Default 8. */
  readonly gpusPerNode?: number
  /** Image of `tune`, which verifies a canary. Default `tune:0.1.0`. */
  readonly tunerImage?: string
}

/** One file of a spec. */
export interface SpecFile {
  readonly name: string
  readonly text: string
}

/** A file that a target renders, without the header comment. */
export interface SpecContent {
  readonly name: string
  /** Kubernetes objects, one document of YAML, or text of another format. */
  readonly body: readonly Manifest[] | { readonly document: Manifest } | string
  /** Notes that a user must read before the file is applied. */
  readonly notes?: readonly string[]
  /** Namespace of the objects; absent: that of the serving. */
  readonly namespace?: string
  /** Whether the server of the file needs weights. Default true. */
  readonly needsWeights?: boolean
  /** Sources of the requirements, if a replica has several kinds of pods. */
  readonly requirements?: readonly Source[]
}

/** What passes requests from stage to stage, where no server of the stages does. */
export interface PipelineRouter {
  readonly objects: readonly Manifest[]
  readonly notes: readonly string[]
  /** The entry, as clients reach it through the router. */
  readonly entry: Serving
}

/** How a target deploys pipelines. */
interface PipelineTarget {
  /** Address at which the other stages reach it. */
  readonly stageUrl: (serving: Serving, options: SpecOptions) => string
  /**
   * @param name of the pipeline
   * @returns undefined if the target has no router for these stages, or they need none
   */
  readonly buildRouter?: (
    name: string,
    stages: readonly Serving[],
    options: SpecOptions,
  ) => PipelineRouter | undefined
}

export interface SpecTarget {
  /** For help and messages: 'Seldon Core v1'. */
  readonly title: string
  /** Names of the files that it writes. */
  readonly files: readonly string[]
  /** Their contents, for docs/reference/spec-targets.md. */
  readonly writes: string
  /** Prerequisites, beside Kubernetes where it writes objects. */
  readonly needs: string
  /** The component that sets the number of replicas; absent: none. */
  readonly scaledBy?: string
  /** The servers that it can deploy. */
  readonly servers: readonly DeployedServer[]
  /** The server that the target always deploys, whatever was measured. */
  readonly implies?: DeployedServer
  /** Options that the target accepts; others are rejected. */
  readonly takes?: readonly (keyof SpecOptions)[]
  /** Whether it writes objects with a namespace; otherwise --namespace is rejected. */
  readonly isNamespaced?: boolean
  /** Whether it names no image, so that --image is rejected. */
  readonly hasNoImage?: boolean
  /** Why --model-uri is rejected; absent: it is accepted. */
  readonly refusesModelUri?: { readonly why: string; readonly hint: string }
  /** Host name for pods of the same namespace, if the spec determines it. */
  readonly host?: (serving: Serving, options: SpecOptions) => string | undefined
  /** Absent: it deploys no pipelines. */
  readonly pipeline?: PipelineTarget
  /**
   * It requires a --model-uri: the platform fetches the weights itself, and no placeholder for the
   * address would keep the pod from starting.
   */
  readonly needsModelUri?: (serving: Serving) => boolean
  /** Whether it can deploy the user's pod unchanged. */
  readonly takesOwnPod?: boolean
  /**
   * It deploys pools of prefill and decode servers, where their server is one whose router is known
   * (SGLang: see `checkPools`).
   */
  readonly takesPools?: boolean
  /** @throws SpecError if the target cannot say what was tuned */
  readonly render: (serving: Serving, options: SpecOptions) => SpecContent | readonly SpecContent[]
}

/**
 * Checks that the target supports the server and the options of the serving, and that the server
 * can serve such a model at all.
 * @throws SpecError with the reason and what to do instead
 */
export function checkServing(target: SpecTarget, serving: Serving): void {
  const { server } = serving.deployed
  const { modelKind } = serving.evidence.measured
  const title = serverTitles[server]
  const notLanguage = modelKind !== 'decoder'
  if (isLanguageServer(server) && notLanguage)
    throw new SpecError(
      `${title} serves language models, but ${serving.model} is ${modelKindTexts[modelKind]}`,
      'choose --target kubernetes, tfserving or triton',
    )
  if (!target.servers.includes(server)) {
    const deployable = target.servers.map((known) => serverTitles[known]).join(', ')
    throw new SpecError(
      `${target.title} cannot deploy ${title} as measured; it deploys ${deployable}`,
      getServerHint(target, serving),
    )
  }
  if (serving.resources.pools !== undefined) checkPools(target, server)
  if (serving.pod && !target.takesOwnPod)
    throw new SpecError(
      `${target.title} cannot deploy the experiment's own pod`,
      'choose --target kubernetes, or --patch your own manifest',
    )
  if (needsEngineFiles(serving))
    throw new SpecError(
      `${title} has no settings for the tuned parameters of a language model: ${serving.model} would need files of its engine`,
      'choose --target vllm, or kubernetes without --server',
    )
  if (serving.modelUri !== undefined) {
    if (server === 'command' || server === 'url')
      throw new SpecError(
        `${title} finds its own weights and takes no --model-uri`,
        'put the weights where its command or image expects them, and leave --model-uri out',
      )
    if (target.refusesModelUri)
      throw new SpecError(
        `${target.title} takes no --model-uri: ${target.refusesModelUri.why}`,
        target.refusesModelUri.hint,
      )
  } else if (target.needsModelUri?.(serving)) {
    throw new SpecError(
      `${target.title} fetches the model of ${title}, and no model weights were named`,
      'give --model-uri, e.g. s3://bucket/model',
    )
  }
}

/** @throws SpecError for a target that deploys no pools, and for servers other than SGLang */
function checkPools(target: SpecTarget, server: DeployedServer): void {
  if (!target.takesPools)
    throw new SpecError(
      `${target.title} cannot deploy pools of prefill and decode servers`,
      'choose --target kubernetes --server sglang, or another --trial',
    )
  if (server === 'sglang') return
  throw new SpecError(
    `pools of prefill and decode servers are supported for SGLang, whose image has a router and NIXL; the image of ${serverTitles[server]} is not known to have them`,
    'give --server sglang (the figures are then from another server), or choose another --trial',
  )
}

/** Servers whose files say how requests are gathered into batches, not how tokens are scheduled. */
const requestBatchingServers: ReadonlySet<DeployedServer> = new Set([
  'tfserving',
  'triton',
  'mlserver',
])
/** Whether a language model was tuned on another server than such a one, which it is to run on. */
const needsEngineFiles = ({ deployed: { server }, evidence: { measured } }: Serving): boolean =>
  measured.modelKind === 'decoder' &&
  requestBatchingServers.has(server) &&
  !wasMeasured(measured, server)

/** @throws SpecError for an option that would be ignored */
export function checkOptions(target: SpecTarget, serving: Serving, options: SpecOptions): void {
  for (const name of Object.keys(specFlags) as (keyof SpecOptions)[]) {
    if (options[name] !== undefined && !target.takes?.includes(name))
      throw new SpecError(
        `${specFlags[name]} does not apply to ${target.title}`,
        `leave ${specFlags[name]} out`,
      )
  }
  if (options.backend !== undefined && serving.deployed.server !== 'triton')
    throw new SpecError(
      `${specFlags.backend} applies to Triton, and this deploys ${serverTitles[serving.deployed.server]}`,
      'give --server triton as well',
    )
  if (
    options.prometheus !== undefined &&
    options.autoscaler !== 'keda' &&
    options.variant !== 'keda'
  )
    throw new SpecError(
      `${specFlags.prometheus} applies only to KEDA`,
      'add --autoscaler keda, or --variant keda for KServe',
    )
  if (serving.namespace !== undefined && !target.isNamespaced)
    throw new SpecError(`--namespace does not apply to ${target.title}`, 'leave --namespace out')
  if (serving.container.isImageNamed && (target.hasNoImage || serving.pod))
    throw new SpecError(
      serving.pod ? "the experiment's own pod names its image" : `${target.title} names no image`,
      'leave --image out',
    )
}

/** Flags of `tune spec` that set the options. */
export const specFlags: Readonly<Record<keyof SpecOptions, string>> = {
  autoscaler: '--autoscaler',
  variant: '--variant',
  prometheus: '--prometheus',
  backend: '--triton-backend',
  importPath: '--import-path',
  gpusPerNode: '--gpus-per-node',
  tunerImage: '--tuner-image',
}

const modelKindTexts = {
  encoder: 'an encoder',
  convnet: 'an image model',
  decoder: 'a language model',
  unknown: 'not known to be one',
} as const

function getServerHint(target: SpecTarget, { evidence }: Serving): string {
  if (evidence.measured.server === 'imported')
    return 'name the server to deploy, such as --server triton; the figures are then from another server'
  const alternatives = target.servers.filter(
    (server) => server === 'tfserving' || server === 'triton',
  )
  if (evidence.measured.modelKind === 'decoder' || alternatives.length === 0)
    return 'choose another --target: kubernetes deploys what was measured'
  return `give --server ${alternatives.join(' or --server ')} (the figures are then from another server), or choose --target kubernetes`
}
