/** Servers of language models as containers: image, command line, and the tuned values as flags. */

import type { MeasuredWith } from '../../../trials/measured-with.ts'
import { weightsToFill } from '../../../trials/predictor/weights-to-fill.ts'
import { draftToFill, needsDraftModel, readDraft } from '../../../trials/servers/drafts.ts'
import { describeUnused, Knobs } from '../../../trials/servers/knobs.ts'
import {
  createTunedStart,
  findDraftFault,
  languagePrograms,
  parseHubName,
} from '../../../trials/servers/language-servers.ts'
import type { LanguageServer } from '../../../trials/servers/server-kinds.ts'
import { quoteWord } from '../../../trials/shell-words.ts'
import { resolveWeightsPath } from '../model-storage.ts'
import { describeMissing } from '../placeholders.ts'
import type { Container, ServerContainer, Serving } from '../serving.ts'
import { SpecError } from '../spec-error.ts'
import { requestCounters } from './request-counters.ts'

const port = 8000

/** Timeout of `/health`, seconds. SGLang generates a token for it, after the requests under way. */
export const languageProbeTimeoutSeconds: Readonly<Record<LanguageServer, number>> = {
  vllm: 10,
  sglang: 20,
  tgi: 10,
  'tensorrt-llm': 10,
}

/**
 * Selects the GPUs, and the longest sequence that the trials allowed: the model's own maximum may
 * not fit into the GPU memory beside its weights.
 */
const selectServerLimits = ({ resources: { gpu, gpuShare, gpus }, evidence }: Serving) => ({
  gpus,
  ...(gpu ? { gpu } : {}),
  ...(gpu && gpuShare < 1 ? { share: gpuShare } : {}),
  ...(evidence.measured.maxModelLen === undefined ? {} : { length: evidence.measured.maxModelLen }),
})

/**
 * Resolves the tuned values, with the draft model's name on the Hub, its folder, or a placeholder
 * for them.
 * @throws SpecError for drafts of a kind that the server does not have
 */
export function resolveLanguageKnobs(
  server: LanguageServer,
  { configuration }: Pick<Serving, 'configuration'>,
): Knobs {
  const drafts = readDraft(new Knobs(configuration))
  if (drafts === undefined) return new Knobs(configuration)
  const fault = findDraftFault(server, drafts.method, draftToFill)
  if (fault) throw new SpecError(fault.what, fault.hint)
  return new Knobs(
    needsDraftModel(drafts.method)
      ? { ...configuration, speculativeModel: resolveDraftWeights(drafts.model) }
      : configuration,
  )
}

/**
 * Name on the Hub or folder of the draft model. The placeholder where only the name of an
 * architecture is known, as in simulated trials: it has no weights.
 */
const resolveDraftWeights = (model = ''): string =>
  parseHubName(model) !== undefined || model.startsWith('/') ? model : draftToFill

/** Notes if the weights of the draft model are a placeholder. */
function describeDrafts({ configuration }: Pick<Serving, 'configuration'>): string[] {
  const drafts = readDraft(new Knobs(configuration))
  if (
    drafts === undefined ||
    !needsDraftModel(drafts.method) ||
    resolveDraftWeights(drafts.model) !== draftToFill
  )
    return []
  return [
    describeMissing(
      'no weights of the draft model',
      `Replace ${draftToFill} by their name on the Hub or their folder.`,
    ),
  ]
}

/** Notes if the flag for quantization may not fit the weights. */
function describeQuantization({
  configuration,
  deployed,
}: Pick<Serving, 'configuration' | 'deployed'>): string[] {
  const convertsToFp8 = new Knobs(configuration).value('quantization', 'quantize') === 'fp8'
  if (!convertsToFp8 || (deployed.server !== 'vllm' && deployed.server !== 'sglang')) return []
  return [
    '--quantization fp8 converts 16-bit weights while it loads them: remove it for weights that are quantized already (compressed-tensors, ModelOpt), with which the server refuses it',
  ]
}

/** Lists notes on the tuned values that a user must read before the start. */
export const describeLanguageServer = (knobs: Knobs, serving: Serving): string[] => [
  ...describeUnused(knobs),
  ...describeDrafts(serving),
  ...describeQuantization(serving),
]

/** Whether it drafts with weights that it fetches from the Hub. */
const fetchesDraft = ({ configuration }: Pick<Serving, 'configuration'>): boolean => {
  const drafts = readDraft(new Knobs(configuration))
  return (
    drafts?.model !== undefined &&
    needsDraftModel(drafts.method) &&
    parseHubName(drafts.model) !== undefined
  )
}

/** Builds the tuned values as flags of vLLM. */
export const buildVllmFlags = (knobs: Knobs, serving: Serving) =>
  languagePrograms.vllm.flags(knobs, selectServerLimits(serving))

/** Formats a flag for a shell. */
export const quoteFlag = ([name, value]: readonly [string, string?]): string =>
  value === undefined ? `--${name}` : `--${name} ${quoteWord(value)}`

/** Folder of the file with a server's options. */
const optionsFolder = '/etc/tuned'
/** Folder of downloads and compiled code. */
const cachePath = '/cache'
/** Variable of the access token that the libraries of the Hub read. */
const tokenVariable = 'HF_TOKEN'

/** GPUs of the largest common nodes. */
export const maxNodeGpus = 8
/** Notes if a replica needs more GPUs than a node has. */
export const describeNodeSize = ({
  resources: { gpus },
  deployed,
}: Pick<Serving, 'resources' | 'deployed'>): string[] =>
  gpus > maxNodeGpus
    ? [
        `needs a node with ${gpus} GPUs; most nodes have at most ${maxNodeGpus}. ${deployed.server === 'vllm' ? '--target lws spreads a replica over several nodes' : 'Only vLLM is deployed over several nodes (--target lws)'}, but the network between nodes was neither modelled nor measured`,
      ]
    : []

/** Builds the container without tuned flags; a placeholder stands for weights that nobody named. */
export function buildLanguageContainer(
  server: LanguageServer,
  model: string,
  modelUri: string | undefined,
): Container {
  const { image, command, serves, namesByFolder, metricsPath } = languagePrograms[server]
  const weights = modelUri === undefined ? weightsToFill : resolveWeightsPath(modelUri, server)
  const args = serves({ port, model })
  return {
    image,
    command:
      namesByFolder && modelUri !== undefined && parseHubName(weights) === undefined
        ? linkWeights(command, weights, model)
        : command(weights),
    args,
    port,
    ...(metricsPath !== undefined && { metrics: { port, path: metricsPath } }),
    readyPath: '/health',
    probeSeconds: languageProbeTimeoutSeconds[server],
    requestsMetric: requestCounters[server],
  }
}

/**
 * Command that links to the weights under the model's name, and starts the server on that link:
 * clients then use the name.
 */
function linkWeights(
  command: (weights: string) => readonly string[],
  weights: string,
  model: string,
): string[] {
  const link = `/tmp/${model.split('/').at(-1)}`
  return [
    'sh',
    '-c',
    'ln -sfn "$1" "$2" && shift 2 && exec "$@"',
    'sh',
    weights,
    link,
    ...command(link),
  ]
}

/** The container with the tuned values. */
export function completeLanguageContainer(
  server: LanguageServer,
  serving: Serving,
): ServerContainer {
  const { container, modelUri, evidence } = serving
  const knobs = resolveLanguageKnobs(server, serving)
  const { args, files } = createTunedStart(
    server,
    knobs,
    selectServerLimits(serving),
    optionsFolder,
  )
  const isOnHub = modelUri !== undefined && parseHubName(modelUri) !== undefined
  const notes = [
    ...(container.notes ?? []),
    ...describeLanguageServer(knobs, serving),
    ...describeNodeSize(serving),
    ...(isOnHub ? [describeCache(evidence.measured)] : []),
  ]
  return {
    ...container,
    args: [...(container.args ?? []), ...args],
    ...(files.length > 0 && {
      files: files.map(({ path, contents }) => ({ path: `${optionsFolder}/${path}`, contents })),
    }),
    env: {
      ...container.env,
      HF_HOME: `${cachePath}/huggingface`,
      ...(server === 'vllm' && { VLLM_CACHE_ROOT: `${cachePath}/vllm` }),
    },
    ...((isOnHub || fetchesDraft(serving)) && { optionalSecretEnv: [tokenVariable] }),
    notes,
    sharedMemory: true,
    cachePath,
  }
}

function describeCache({ weightsMiB }: MeasuredWith): string {
  const size =
    weightsMiB === undefined ? 'its weights' : `its weights (${Math.ceil(weightsMiB / 1024)} GiB)`
  return `each pod downloads ${size} into its volume 'cache', which is deleted with the pod; --model-uri pvc://CLAIM/FOLDER keeps them`
}
