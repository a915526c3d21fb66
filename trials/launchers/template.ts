/**
 * Predictor templates: what a launcher starts, and how tuned values reach it.
 *
 * | category   | reaches a command as                                                          |
 * |------------|-------------------------------------------------------------------------------|
 * | `env`      | an environment variable: MAX_BATCH_SIZE for maxBatchSize, or its `envNames`    |
 * | `args`     | an argument: --maxBatchSize=8, or as in `argFormat`; appended, or at `${args}` |
 * | `server`   | a placeholder `${maxBatchSize}` in `command`, `env` or a file                  |
 * | `resource` | cores, GPU and GPU memory reserved by the launcher; also as placeholders       |
 *
 * Placeholders that always exist: `${host}` `${port}` `${model}` `${trial}` `${dir}` (the trial's
 * own folder, where files are written) `${cpuCores}` `${coreList}` ('0-1,4', the reserved cores)
 * `${gpuMemoryMiB}` `${gpuMemoryFraction}` (of the GPU, 0-1), and `${prepared}` with a `prepare`
 * step. `$${` is a literal `${`.
 */

import type { TlsOptions } from '../../profiler/model/tls-options.ts'
import type { FormFields } from '../../profiler/protocols/form-fields.ts'
import type { ProtocolName } from '../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../search/types.ts'
import type { EngineName } from '../predictor/engines/engine-registry.ts'
import type { BuiltinProtocol } from '../predictor/protocol/spoken.ts'
import type { LanguageServer } from '../servers/server-kinds.ts'
import type { ServerPreset } from '../servers/server-start.ts'

export type PredictorTemplate = BuiltinTemplate | CommandTemplate | UrlTemplate | ImportedTemplate

/** The engines of the built-in predictor. `auto`: tfjs on the available devices. */
type BuiltinEngine = 'auto' | EngineName

/** How fast the keys and values of a prompt move from a prefill server to a decode server. */
export interface KvTransfer {
  /** Bandwidth per GPU; transfers of one GPU run one after the other. */
  readonly gbPerS: number
  /** Added to each request. */
  readonly latencyMs: number
}

/** Settings of the built-in predictor that a variant changes. */
export interface VariantSettings {
  /** An architecture in place of the template's. */
  readonly model?: string
  /** The user's own files in place of the template's. */
  readonly modelPath?: string
  readonly engine?: BuiltinEngine
  /**
   * Parameter values fixed by the variant, e.g. { precision: 'int8', sequenceLength: 64 }; tuned
   * values override them.
   */
  readonly values?: Configuration
}

/**
 * The built-in predictor (`trials/predictor`). Every tuned value but resources reaches it as an
 * environment variable, BATCH_SIZE for batchSize.
 */
export interface BuiltinTemplate {
  readonly kind: 'builtin'
  /** A known architecture ('bert', 'resnet50', ...) or the path of a model. */
  readonly model: string
  readonly engine: BuiltinEngine
  /** Protocol of the requests. Default: its first tensor protocol. */
  readonly protocol?: BuiltinProtocol
  /** Language-model server that is emulated, and that specs deploy. Default: vLLM. */
  readonly standsFor?: LanguageServer
  /**
   * Probability that a draft token is accepted (speculative decoding), for a language model that is
   * emulated or simulated. Default: assumed by method.
   */
  readonly acceptance?: number
  /** Transfers between pools of prefill and decode servers, where they are simulated. */
  readonly kvTransfer?: Partial<KvTransfer>
  /** File of the user's own GPUs, absolute, for the emulated engine. */
  readonly gpuCatalogue?: string
  /** File of the model's own dimensions, absolute, for the emulated engine. */
  readonly architectureFile?: string
  /** Settings by value of the parameter 'variant'. */
  readonly variants?: Readonly<Record<string, VariantSettings>>
  /** Fixed settings, e.g. { SEQUENCE_LENGTH: '128' }. Tuned values win. */
  readonly env?: Readonly<Record<string, string>>
  /** Seconds until it must be ready. Default 60. */
  readonly readyTimeoutS?: number
}

/** How requests to a predictor other than the built-in one are sent. */
export interface RequestSettings {
  /** The model's name in the protocol's paths. */
  readonly model: string
  readonly protocol: ProtocolName
  /** Path of the inference call, where the protocol needs one. */
  readonly path?: string
  /** TensorFlow Serving signature to call, if not the default one. */
  readonly signature?: string
  /** Path that answers 200 once ready, if not the protocol's own. */
  readonly healthPath?: string
  /**
   * Request body for protocol 'json', with {{text}}, {{image}} or {{int}} filled in for each
   * request.
   */
  readonly body?: string
  /** Content type of `body`. Default: JSON. */
  readonly contentType?: string
  /**
   * Multipart form fields instead of `body`, with the same placeholders. A field that is only
   * {{image}}, or @PATH, is sent as a file.
   */
  readonly form?: FormFields
  /** Sent with every request: HTTP headers, gRPC metadata. */
  readonly headers?: Readonly<Record<string, string>>
  /** Seconds until it must be ready. Default 60. */
  readonly readyTimeoutS?: number
}

/** Any command that starts an HTTP server. */
export interface CommandTemplate extends RequestSettings {
  readonly kind: 'command'
  /** Program and arguments, with placeholders; run without a shell. */
  readonly command: readonly string[]
  /** Environment in addition to the tuner's, with placeholders. */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Parameter → environment variable, if the server does not read MAX_BATCH_SIZE for maxBatchSize.
   */
  readonly envNames?: Readonly<Record<string, string>>
  /**
   * How an `args` parameter is written: `${name}` as declared, `${kebab-name}`, `${snake_name}`,
   * `${value}`. Default ['--${name}=${value}'].
   */
  readonly argFormat?: readonly string[]
  /**
   * Files written into the trial's folder before the start: a path below it, and contents with
   * placeholders.
   */
  readonly files?: readonly TemplateFile[]
  /** Runs before the predictor starts, once for each set of inputs. */
  readonly prepare?: PrepareStep
  /**
   * Program and arguments that set values on the server while it runs, with placeholders: of
   * parameters, `${host}`, `${port}` and `${model}`. Never through a shell.
   */
  readonly reconfigure?: readonly string[]
  /**
   * A known server, whose flags and files are generated: the flags follow `command`, and parameters
   * have common names.
   */
  readonly server?: ServerPreset
  /** Working directory. Default: the experiment's. */
  readonly cwd?: string
}
/**
 * A step before the predictor starts whose result is saved, such as building an engine or
 * converting a model.
 */
export interface PrepareStep {
  /**
   * Program and arguments, with placeholders: of parameters, `${prepared}` (the folder to fill),
   * `${model}`, `${cpuCores}` and the GPU's memory. Run without a shell.
   */
  readonly command: readonly string[]
  /** In addition to the tuner's environment, with placeholders. */
  readonly env?: Readonly<Record<string, string>>
  /**
   * Absolute paths of files and folders that the step reads; it runs again when one changes. Files
   * that the words of `command` name are tracked without this.
   */
  readonly inputs?: readonly string[]
  /** Seconds that it may take. Default 1800. */
  readonly timeoutS?: number
}
export const defaultPrepareTimeoutS = 1800

export interface TemplateFile {
  readonly path: string
  readonly template: string
}

/** A server that already runs: neither started nor stopped. */
export interface UrlTemplate extends RequestSettings {
  readonly kind: 'url'
  /** URL of the server; with `urls`, the first of them. */
  readonly url: string
  /** Replicas of the same server, including `url`. Load is distributed by weight. */
  readonly urls?: readonly WeightedUrl[]
  /** Sends requests over HTTP/2, for a protocol other than gRPC. */
  readonly http2?: boolean
  /**
   * CA to verify the server, and client certificate. The paths are the files that they were read
   * from.
   */
  readonly tls?: TlsOptions & {
    readonly caPath?: string
    readonly certPath?: string
    readonly keyPath?: string
  }
}

/** Imported results of another load tester: nothing can be started or requested. */
export interface ImportedTemplate extends RequestSettings {
  readonly kind: 'imported'
  /** The files, each with its tool: 'Model Analyzer: metrics-model-inference.csv'. */
  readonly from: readonly string[]
}

/** Whether a trial starts the server (neither `url` nor `imported`). */
export const isStarted = (
  template: PredictorTemplate,
): template is BuiltinTemplate | CommandTemplate =>
  template.kind === 'builtin' || template.kind === 'command'

/** A server among several. */
interface WeightedUrl {
  readonly url: string
  /** Relative weight: the server receives weight / sum of weights of the requests. */
  readonly weight: number
}

export const defaultReadyTimeoutS = 60
