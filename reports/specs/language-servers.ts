/**
 * Servers of language models as containers: their images, command lines, and what was tuned in the
 * words of each.
 */

import type { MeasuredWith } from '../../trials/measured-with.ts'
import { weightsToFill } from '../../trials/predictor/weights-to-fill.ts'
import { draftsOf, draftToFill, needsDraftModel } from '../../trials/servers/drafts.ts'
import { Knobs, unusedNote } from '../../trials/servers/knobs.ts'
import {
  draftsFault,
  hubName,
  languagePrograms,
  tunedStart,
} from '../../trials/servers/language-servers.ts'
import type { LanguageServer } from '../../trials/servers/server-kinds.ts'
import { quoteWord } from '../../trials/shell-words.ts'
import { incomplete } from './incomplete.ts'
import { weightsPlace } from './model-storage.ts'
import { requestCounters } from './request-counters.ts'
import type { Container, Serving, WholeContainer } from './serving.ts'
import { SpecError } from './spec-error.ts'

const port = 8000

/**
 * Seconds that an answer of `/health` may take: SGLang makes a token for it behind what is under
 * way.
 */
export const languageProbeSeconds: Readonly<Record<LanguageServer, number>> = {
  vllm: 10,
  sglang: 20,
  tgi: 10,
  'tensorrt-llm': 10,
}

/**
 * GPUs, and the longest sequence that it was tuned with: the model's own may not fit beside its
 * weights.
 */
const heldBy = ({ resources: { gpu, gpuShare, gpus }, evidence }: Serving) => ({
  gpus,
  ...(gpu ? { gpu } : {}),
  ...(gpu && gpuShare < 1 ? { share: gpuShare } : {}),
  ...(evidence.measured.maxModelLen === undefined ? {} : { length: evidence.measured.maxModelLen }),
})

/**
 * What was tuned, with a place for the draft model's weights: where none is known its placeholder.
 * @throws SpecError for drafts of a kind that the server does not have
 */
export function languageKnobs(
  server: LanguageServer,
  { configuration }: Pick<Serving, 'configuration'>,
): Knobs {
  const drafts = draftsOf(new Knobs(configuration))
  if (drafts === undefined) return new Knobs(configuration)
  const fault = draftsFault(server, drafts.method, draftToFill)
  if (fault) throw new SpecError(fault.what, fault.hint)
  return new Knobs(
    needsDraftModel(drafts.method)
      ? { ...configuration, speculativeModel: draftPlace(drafts.model) }
      : configuration,
  )
}

/** A name on the Hub or a folder; that of an architecture, by which it was modelled, is neither. */
const draftPlace = (model = ''): string =>
  hubName(model) !== undefined || model.startsWith('/') ? model : draftToFill

/** What a reader must know of its drafts. */
export function draftNotes({ configuration }: Pick<Serving, 'configuration'>): string[] {
  const drafts = draftsOf(new Knobs(configuration))
  if (
    drafts === undefined ||
    !needsDraftModel(drafts.method) ||
    draftPlace(drafts.model) !== draftToFill
  )
    return []
  return [
    incomplete(
      'no weights of the draft model',
      `Replace ${draftToFill} by their name on the Hub or their folder.`,
    ),
  ]
}

/** What a reader must know of its weights. */
export function weightNotes({
  configuration,
  deployed,
}: Pick<Serving, 'configuration' | 'deployed'>): string[] {
  const eight = new Knobs(configuration).value('quantization', 'quantize') === 'fp8'
  if (!eight || (deployed.server !== 'vllm' && deployed.server !== 'sglang')) return []
  return [
    '--quantization fp8 converts 16-bit weights while it loads them: remove it for weights that are quantized already (compressed-tensors, ModelOpt), with which the server refuses it',
  ]
}

/** Whether it drafts with weights that it fetches from the Hub. */
const fetchesDraft = ({ configuration }: Pick<Serving, 'configuration'>): boolean => {
  const drafts = draftsOf(new Knobs(configuration))
  return (
    drafts?.model !== undefined &&
    needsDraftModel(drafts.method) &&
    hubName(drafts.model) !== undefined
  )
}

/** What was tuned as vLLM's flags. */
export const vllmFlags = (knobs: Knobs, serving: Serving) =>
  languagePrograms.vllm.flags(knobs, heldBy(serving))

/** For a shell. */
export const quotedFlag = ([name, value]: readonly [string, string?]): string =>
  value === undefined ? `--${name}` : `--${name} ${quoteWord(value)}`

/** Where the file of a server's options lies. */
const optionsFolder = '/etc/tuned'
/** Where it keeps what it downloads and compiles. */
const cachePath = '/cache'
/** As the Hub's own libraries read it. */
const tokenVariable = 'HF_TOKEN'

/** As many as servers that are sold have. */
export const mostGpus = 8
/** What one pod cannot be. */
export const nodeNotes = ({
  resources: { gpus },
  deployed,
}: Pick<Serving, 'resources' | 'deployed'>): string[] =>
  gpus > mostGpus
    ? [
        `needs a node with ${gpus} GPUs; most nodes have at most ${mostGpus}. ${deployed.server === 'vllm' ? '--target lws spreads a replica over several nodes' : 'Only vLLM is deployed over several nodes (--target lws)'}, but the network between nodes was neither modelled nor measured`,
      ]
    : []

/** The container before its flags: the user names the weights, or a placeholder stands for them. */
export function languageContainer(
  server: LanguageServer,
  model: string,
  modelUri: string | undefined,
): Container {
  const { image, command, serves, namesByFolder, metricsPath } = languagePrograms[server]
  const weights = modelUri === undefined ? weightsToFill : weightsPlace(modelUri, server)
  const args = serves({ port, model })
  return {
    image,
    command:
      namesByFolder && modelUri !== undefined && hubName(weights) === undefined
        ? byLink(command, weights, model)
        : command(weights),
    args,
    port,
    ...(metricsPath !== undefined && { metrics: { port, path: metricsPath } }),
    readyPath: '/health',
    probeSeconds: languageProbeSeconds[server],
    requestsMetric: requestCounters[server],
  }
}

/** Its weights are found by a link of the model's name, so that it is called by that name. */
function byLink(
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

/** With what was tuned. */
export function wholeLanguageContainer(server: LanguageServer, serving: Serving): WholeContainer {
  const { container, modelUri, evidence } = serving
  const knobs = languageKnobs(server, serving)
  const { args, files } = tunedStart(server, knobs, heldBy(serving), optionsFolder)
  const hub = modelUri !== undefined && hubName(modelUri) !== undefined
  const notes = [
    ...(container.notes ?? []),
    ...unusedNote(knobs),
    ...draftNotes(serving),
    ...weightNotes(serving),
    ...nodeNotes(serving),
    ...(hub ? [cacheNote(evidence.measured)] : []),
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
    ...((hub || fetchesDraft(serving)) && { optionalSecretEnv: [tokenVariable] }),
    notes,
    sharedMemory: true,
    cachePath,
  }
}

function cacheNote({ weightsMiB }: MeasuredWith): string {
  const size =
    weightsMiB === undefined ? 'its weights' : `its weights (${Math.ceil(weightsMiB / 1024)} GiB)`
  return `each pod downloads ${size} into its volume 'cache', which is deleted with the pod; --model-uri pvc://CLAIM/FOLDER keeps them`
}
