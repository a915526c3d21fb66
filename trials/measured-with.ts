/**
 * What a measurement was of: which server with which engine and weights, started how, on which GPU,
 * and whether anything of it was modelled.
 */

import type { ProtocolName } from '../profiler/protocols/protocol-table.ts'
import { protocolTable } from '../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../search/types.ts'
import { type Architecture, architectureOf, parameterCount } from './devices/architecture.ts'
import { DeviceModelError } from './devices/device-model-error.ts'
import { isOnnxFile } from './devices/onnx/graph-architecture.ts'
import type { OwnDevices } from './devices/own.ts'
import { builtinProtocol } from './launchers/builtin.ts'
import type {
  BuiltinTemplate,
  CommandTemplate,
  PredictorTemplate,
  UrlTemplate,
} from './launchers/template.ts'
import { withVariant } from './launchers/variants.ts'
import { llmDefaults } from './predictor/llm/serving-limits.ts'
import {
  assumedAcceptance,
  defaultMethod,
  type SpeculativeMethod,
} from './predictor/llm/speculative-methods.ts'
import { fourBitBytes, layerWeights } from './predictor/llm/step-model.ts'
import { resourcesOf } from './resources.ts'
import { withoutSecrets } from './secrets.ts'
import { draftsOf } from './servers/drafts.ts'
import { Knobs } from './servers/knobs.ts'
import type { LanguageServer, ServerKind } from './servers/server-kinds.ts'
import type { Provenance } from './types.ts'

/**
 * 'decoder': a language model that streams tokens. 'unknown': files of the user's own, or a name
 * that stands for no known architecture.
 */
type ModelKind = 'encoder' | 'convnet' | 'decoder' | 'unknown'

/**
 * What serves: the built-in predictor, a server whose files tune writes, any other command, one
 * that ran already, or one that another tool measured.
 */
export type MeasuredServer = 'builtin' | ServerKind | 'command' | 'url' | 'imported'

export interface MeasuredWith {
  /** Of this configuration: one without a GPU is measured for real even where GPUs are emulated. */
  readonly how: Provenance
  readonly server: MeasuredServer
  /** Of the built-in predictor. 'emulated': nothing computed; times came from the device model. */
  readonly engine?: 'tfjs' | 'onnx' | 'gguf' | 'emulated'
  /** Of a model that was modelled by the graph of its file: what runs such a file. */
  readonly runsIn?: 'onnx'
  /**
   * Of the built-in predictor with a language model: the server that the user named, which deploys.
   */
  readonly standsFor?: LanguageServer
  readonly model: string
  /** In which it was asked. */
  readonly protocol: ProtocolName
  /** Of the inference call, where it is not the protocol's own. */
  readonly path?: string
  /** Where it says that it is ready, where that is not the protocol's own. */
  readonly healthPath?: string
  /** Template of a request of protocol json. */
  readonly body?: string
  readonly modelKind: ModelKind
  /**
   * 'none': nothing computed. 'random': drawn from a seed. 'own': the user's, or those that the
   * server found for itself.
   */
  readonly weights: 'none' | 'random' | 'own'
  /**
   * Of the weights, MiB, where the architecture is known: in 32 bits; of language models as their
   * files are.
   */
  readonly weightsMiB?: number
  /**
   * Of language models: the longest sequence, prompt and answer, where nothing of it was tuned and
   * it is known.
   */
  readonly maxModelLen?: number
  /**
   * Of a modelled server with speculative decoding: probability that a draft token is accepted, as
   * the user says it or by assumption.
   */
  readonly acceptance?: number
  /** Where the weights lay on the machine that measured. */
  readonly weightsPath?: string
  /** Of trials on a cluster. */
  readonly image?: string
  /** As the template says it, placeholders and all. */
  readonly command?: readonly string[]
  /** Of one that ran already. */
  readonly url?: string
  /** Catalogue name; absent: none was used. */
  readonly gpu?: string
}

/** What the trials of an experiment have in common. */
interface Measuring {
  readonly predictor: PredictorTemplate
  readonly provenance: Provenance
  readonly own: OwnDevices
  /** Image of the built-in predictor on a cluster. */
  readonly image?: string
}

/** What a trial of a configuration measured. */
export function measuredWith(
  { predictor, provenance, own, image }: Measuring,
  given: Configuration,
): MeasuredWith {
  const { template, configuration } = withVariant(predictor, given)
  const { gpu } = resourcesOf(configuration, {}, own.gpus)
  const protocol = template.kind === 'builtin' ? builtinProtocol(template) : template.protocol
  const common = { model: template.model, protocol, ...(gpu !== undefined && { gpu }) }
  switch (template.kind) {
    case 'imported':
      return {
        ...common,
        how: provenance,
        server: 'imported',
        modelKind: served(template, own),
        weights: 'own',
      }
    case 'url':
      return {
        ...common,
        ...asked(template),
        how: provenance,
        server: 'url',
        modelKind: served(template, own),
        weights: 'own',
        url: withoutSecrets(template.url),
      }
    case 'command': {
      const { server, command } = template
      const weightsPath = server?.modelPath
      return {
        ...common,
        ...asked(template),
        how: provenance,
        server: server?.kind ?? 'command',
        modelKind: served(template, own),
        weights: 'own',
        ...languageWeights(knownArchitecture(template.model, own), configuration, server?.kind),
        command,
        ...(weightsPath !== undefined && { weightsPath }),
      }
    }
    case 'builtin': {
      const weightsPath = template.env?.MODEL_PATH
      const language = protocolTable[protocol].streams
      const engine = engineOf(template.engine, language, provenance, gpu)
      const how =
        engine !== 'emulated' ? 'measured' : provenance === 'simulated' ? 'simulated' : 'emulated'
      const architecture =
        weightsPath === undefined ? knownArchitecture(template.model, own) : undefined
      return {
        ...common,
        how,
        server: 'builtin',
        ...(template.standsFor !== undefined && { standsFor: template.standsFor }),
        engine,
        ...(engine === 'emulated' &&
          isOnnxFile(template.architectureFile) && { runsIn: 'onnx' as const }),
        modelKind: language ? 'decoder' : kindOf(architecture),
        weights: engine === 'emulated' ? 'none' : weightsPath === undefined ? 'random' : 'own',
        ...(architecture?.kind === 'decoder'
          ? languageWeights(architecture, configuration, template.standsFor)
          : architecture && { weightsMiB: (4 * parameterCount(architecture)) / 2 ** 20 }),
        ...(language &&
          architecture?.kind === 'decoder' && {
            maxModelLen: Math.min(modelLength(template), architecture.maxSequenceLength),
          }),
        ...(language &&
          engine === 'emulated' &&
          draftsOf(new Knobs(configuration)) && {
            acceptance: acceptanceFor(template, configuration),
          }),
        ...(weightsPath !== undefined && { weightsPath }),
        ...(image !== undefined && { image }),
      }
    }
  }
}

const asked = ({
  path,
  healthPath,
  body,
}: UrlTemplate | CommandTemplate): Pick<MeasuredWith, 'path' | 'healthPath' | 'body'> => ({
  ...(path !== undefined && { path }),
  ...(healthPath !== undefined && { healthPath }),
  ...(body !== undefined && { body }),
})

/** With which drafts were modelled. */
const acceptanceFor = (
  { acceptance }: BuiltinTemplate,
  { speculativeMethod = defaultMethod }: Configuration,
): number => acceptance ?? assumedAcceptance[speculativeMethod as SpeculativeMethod]

/** As the built-in predictor takes it where it is not tuned. */
const modelLength = ({ env }: BuiltinTemplate): number =>
  Number(env?.MAX_MODEL_LEN ?? llmDefaults.maxModelLen)

/**
 * Language models are published in 16 bits; awq and gptq in files of their own, and fp8 for
 * TensorRT-LLM, while others make it of the 16 bits as they load.
 */
function languageWeights(
  architecture: Architecture | undefined,
  { quantization }: Configuration,
  server: ServerKind | undefined,
): Pick<MeasuredWith, 'weightsMiB'> {
  if (architecture?.kind !== 'decoder') return {}
  const all = parameterCount(architecture)
  const layers = layerWeights(architecture)
  const four = quantization === 'awq' || quantization === 'gptq'
  const eight = quantization === 'fp8' && server === 'tensorrt-llm'
  return {
    weightsMiB: (2 * (all - layers) + (four ? fourBitBytes : eight ? 1 : 2) * layers) / 2 ** 20,
  }
}

/**
 * The protocol of language models says what speaks it; else the model's name does, where it is a
 * known one.
 */
const served = (
  { protocol, model }: { readonly protocol: ProtocolName; readonly model: string },
  own: OwnDevices,
): ModelKind =>
  protocolTable[protocol].streams ? 'decoder' : kindOf(knownArchitecture(model, own))

/**
 * What `auto` came to. GPUs that are emulated, and language models, have no other engine; a CPU is
 * never emulated but in virtual time.
 */
function engineOf(
  asked: string,
  language: boolean,
  provenance: Provenance,
  gpu: string | undefined,
): NonNullable<MeasuredWith['engine']> {
  if (asked === 'gguf') return asked
  if (
    language ||
    asked === 'emulated' ||
    provenance === 'simulated' ||
    (provenance === 'emulated' && gpu !== undefined)
  )
    return 'emulated'
  return asked === 'onnx' ? 'onnx' : 'tfjs'
}

/** A graph of the user's own is of no family. */
const kindOf = (architecture: Architecture | undefined): ModelKind =>
  architecture === undefined || architecture.kind === 'graph' ? 'unknown' : architecture.kind

function knownArchitecture(name: string, own: OwnDevices) {
  try {
    return architectureOf(name, own.architectures)
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}
