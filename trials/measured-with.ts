/**
 * Provenance of a measurement: server, engine, weights, start command and GPU, and what was
 * modelled.
 */

import type { ProtocolName } from '../profiler/protocols/protocol-table.ts'
import { protocolTable } from '../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../search/types.ts'
import { type Architecture, countParameters, findArchitecture } from './devices/architecture.ts'
import type { CustomDevices } from './devices/custom-devices.ts'
import { DeviceModelError } from './devices/device-model-error.ts'
import { isOnnxFile } from './devices/onnx/graph-architecture.ts'
import { getBuiltinProtocol } from './launchers/builtin.ts'
import type {
  BuiltinTemplate,
  CommandTemplate,
  PredictorTemplate,
  UrlTemplate,
} from './launchers/template.ts'
import { applyVariant } from './launchers/variants.ts'
import { llmDefaults } from './predictor/llm/serving-limits.ts'
import {
  assumedAcceptance,
  defaultMethod,
  type SpeculativeMethod,
} from './predictor/llm/speculative-methods.ts'
import { countLayerWeights, fourBitBytes } from './predictor/llm/step-model.ts'
import { parseResources } from './resources.ts'
import { redactSecrets } from './secrets.ts'
import { readDraft } from './servers/drafts.ts'
import { Knobs } from './servers/knobs.ts'
import type { LanguageServer, ServerKind } from './servers/server-kinds.ts'
import type { Provenance } from './types.ts'

/**
 * 'decoder': a language model that streams tokens. 'unknown': a user's file, or a name of no known
 * architecture.
 */
type ModelKind = 'encoder' | 'convnet' | 'decoder' | 'unknown'

/**
 * The server: the built-in predictor, a known server, any other command, a running server, or one
 * that another tool measured.
 */
export type MeasuredServer = 'builtin' | ServerKind | 'command' | 'url' | 'imported'

export interface MeasuredWith {
  /** Provenance of this trial: one without a GPU is measured even if GPUs are emulated. */
  readonly how: Provenance
  readonly server: MeasuredServer
  /** Engine of the built-in predictor. 'emulated': times come from the device model. */
  readonly engine?: 'tfjs' | 'onnx' | 'gguf' | 'emulated'
  /** For a model described by the graph of its file: the runtime of such files. */
  readonly runsIn?: 'onnx'
  /**
   * Server that the user named for the built-in predictor with a language model; specs deploy it.
   */
  readonly standsFor?: LanguageServer
  readonly model: string
  /** Protocol of the requests. */
  readonly protocol: ProtocolName
  /** Path of the inference call, if not the protocol's own. */
  readonly path?: string
  /** Path of its readiness check, if not the protocol's own. */
  readonly healthPath?: string
  /** Template of a request of protocol json. */
  readonly body?: string
  readonly modelKind: ModelKind
  /**
   * 'none': nothing was computed. 'random': seeded. 'own': the user's, or those that the server
   * loads itself.
   */
  readonly weights: 'none' | 'random' | 'own'
  /**
   * Size of the weights, MiB, if the architecture is known: in 32 bits; of language models as in
   * their files.
   */
  readonly weightsMiB?: number
  /** Longest sequence of a language model, prompt and answer, if it was not tuned and is known. */
  readonly maxModelLen?: number
  /**
   * For a modelled server with speculative decoding: acceptance probability of draft tokens, given
   * by the user or assumed.
   */
  readonly acceptance?: number
  /** Where the weights lay on the machine that measured. */
  readonly weightsPath?: string
  /** Image of trials on a cluster. */
  readonly image?: string
  /** The template's command, with placeholders. */
  readonly command?: readonly string[]
  /** URL of a server that already ran. */
  readonly url?: string
  /** Catalogue name; absent: none was used. */
  readonly gpu?: string
}

/** The common part of an experiment's trials. */
interface MeasurementSource {
  readonly predictor: PredictorTemplate
  readonly provenance: Provenance
  readonly own: CustomDevices
  /** Image of the built-in predictor on a cluster. */
  readonly image?: string
}

/** Provenance of a trial's measurement. */
export function describeMeasured(
  { predictor, provenance, own, image }: MeasurementSource,
  testedConfiguration: Configuration,
): MeasuredWith {
  const { template, configuration } = applyVariant(predictor, testedConfiguration)
  const { gpu } = parseResources(configuration, {}, own.gpus)
  const protocol = template.kind === 'builtin' ? getBuiltinProtocol(template) : template.protocol
  const common = { model: template.model, protocol, ...(gpu !== undefined && { gpu }) }
  switch (template.kind) {
    case 'imported':
      return {
        ...common,
        how: provenance,
        server: 'imported',
        modelKind: detectModelKind(template, own),
        weights: 'own',
      }
    case 'url':
      return {
        ...common,
        ...collectSettings(template),
        how: provenance,
        server: 'url',
        modelKind: detectModelKind(template, own),
        weights: 'own',
        url: redactSecrets(template.url),
      }
    case 'command': {
      const { server, command } = template
      const weightsPath = server?.modelPath
      return {
        ...common,
        ...collectSettings(template),
        how: provenance,
        server: server?.kind ?? 'command',
        modelKind: detectModelKind(template, own),
        weights: 'own',
        ...describeLanguageWeights(
          findKnownArchitecture(template.model, own),
          configuration,
          server?.kind,
        ),
        command,
        ...(weightsPath !== undefined && { weightsPath }),
      }
    }
    case 'builtin': {
      const weightsPath = template.env?.MODEL_PATH
      const language = protocolTable[protocol].streams
      const engine = resolveEngine(template.engine, language, provenance, gpu)
      const how =
        engine !== 'emulated' ? 'measured' : provenance === 'simulated' ? 'simulated' : 'emulated'
      const architecture =
        weightsPath === undefined ? findKnownArchitecture(template.model, own) : undefined
      return {
        ...common,
        how,
        server: 'builtin',
        ...(template.standsFor !== undefined && { standsFor: template.standsFor }),
        engine,
        ...(engine === 'emulated' &&
          isOnnxFile(template.architectureFile) && { runsIn: 'onnx' as const }),
        modelKind: language ? 'decoder' : getModelKind(architecture),
        weights: engine === 'emulated' ? 'none' : weightsPath === undefined ? 'random' : 'own',
        ...(architecture?.kind === 'decoder'
          ? describeLanguageWeights(architecture, configuration, template.standsFor)
          : architecture && { weightsMiB: (4 * countParameters(architecture)) / 2 ** 20 }),
        ...(language &&
          architecture?.kind === 'decoder' && {
            maxModelLen: Math.min(readModelLength(template), architecture.maxSequenceLength),
          }),
        ...(language &&
          engine === 'emulated' &&
          readDraft(new Knobs(configuration)) && {
            acceptance: chooseAcceptance(template, configuration),
          }),
        ...(weightsPath !== undefined && { weightsPath }),
        ...(image !== undefined && { image }),
      }
    }
  }
}

const collectSettings = ({
  path,
  healthPath,
  body,
}: UrlTemplate | CommandTemplate): Pick<MeasuredWith, 'path' | 'healthPath' | 'body'> => ({
  ...(path !== undefined && { path }),
  ...(healthPath !== undefined && { healthPath }),
  ...(body !== undefined && { body }),
})

/** Chooses the acceptance probability with which drafts were modelled. */
const chooseAcceptance = (
  { acceptance }: BuiltinTemplate,
  { speculativeMethod = defaultMethod }: Configuration,
): number => acceptance ?? assumedAcceptance[speculativeMethod as SpeculativeMethod]

/** Reads the longest sequence as the built-in predictor does if it is not tuned. */
const readModelLength = ({ env }: BuiltinTemplate): number =>
  Number(env?.MAX_MODEL_LEN ?? llmDefaults.maxModelLen)

/**
 * Language models are published in 16 bits. awq and gptq need separate files, and so does fp8 for
 * TensorRT-LLM; other servers quantise to fp8 on loading.
 */
function describeLanguageWeights(
  architecture: Architecture | undefined,
  { quantization }: Configuration,
  server: ServerKind | undefined,
): Pick<MeasuredWith, 'weightsMiB'> {
  if (architecture?.kind !== 'decoder') return {}
  const all = countParameters(architecture)
  const layers = countLayerWeights(architecture)
  const four = quantization === 'awq' || quantization === 'gptq'
  const eight = quantization === 'fp8' && server === 'tensorrt-llm'
  return {
    weightsMiB: (2 * (all - layers) + (four ? fourBitBytes : eight ? 1 : 2) * layers) / 2 ** 20,
  }
}

/** Kind of the model: a decoder if the protocol streams tokens, else that of a known name. */
const detectModelKind = (
  { protocol, model }: { readonly protocol: ProtocolName; readonly model: string },
  own: CustomDevices,
): ModelKind =>
  protocolTable[protocol].streams ? 'decoder' : getModelKind(findKnownArchitecture(model, own))

/**
 * Resolves `auto`. Emulated GPUs and language models have only the emulated engine; CPUs are
 * emulated in virtual time only.
 */
function resolveEngine(
  requested: string,
  language: boolean,
  provenance: Provenance,
  gpu: string | undefined,
): NonNullable<MeasuredWith['engine']> {
  if (requested === 'gguf') return requested
  if (
    language ||
    requested === 'emulated' ||
    provenance === 'simulated' ||
    (provenance === 'emulated' && gpu !== undefined)
  )
    return 'emulated'
  return requested === 'onnx' ? 'onnx' : 'tfjs'
}

/** A user's graph has no known family. */
const getModelKind = (architecture: Architecture | undefined): ModelKind =>
  architecture === undefined || architecture.kind === 'graph' ? 'unknown' : architecture.kind

function findKnownArchitecture(name: string, own: CustomDevices) {
  try {
    return findArchitecture(name, own.architectures)
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}
