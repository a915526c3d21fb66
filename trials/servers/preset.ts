/**
 * Servers whose own flags and files are written for each trial: the user says which server, and
 * tunes by the usual names.
 */
import type { ProtocolName } from '../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../search/types.ts'
import { Knobs } from './knobs.ts'
import { isLanguageServer, languagePrograms, tunedStart } from './language-servers.ts'
import { OwnSettings } from './own-settings.ts'
import type { serverKinds } from './server-kinds.ts'
import { batchingFile, batchingFlag, tfservingTuning } from './tfserving.ts'
import { tritonTuning } from './triton.ts'

export type ServerKind = (typeof serverKinds)[number]

export interface ServerPreset {
  readonly kind: ServerKind
  /**
   * Folder of the model with its version folders; for Triton named as the model, inside the model
   * repository. Of language models also the Hub's name.
   */
  readonly modelPath: string
  /** TensorFlow Serving: it is asked over gRPC, and listens for that alone. */
  readonly grpc?: boolean
  /** Triton: its metrics are read on this port. */
  readonly metricsPort?: number
}

/** What starts it where the user names nothing. */
export function serverCommand(kind: ServerKind, modelPath: string): readonly string[] {
  if (isLanguageServer(kind)) return languagePrograms[kind].command(modelPath)
  return [kind === 'triton' ? 'tritonserver' : 'tensorflow_model_server']
}

/** What brings the program to a machine that lacks it; undefined where this is not known. */
export const serverInstall = (
  preset: Pick<ServerPreset, 'kind'> | undefined,
): string | undefined =>
  preset !== undefined && isLanguageServer(preset.kind)
    ? languagePrograms[preset.kind].install
    : undefined

/** How it is asked where the user does not say. */
export const serverProtocol = (kind: ServerKind): ProtocolName =>
  isLanguageServer(kind) ? 'openai' : kind === 'triton' ? 'oip-v2' : 'tfserving'

/** What the launcher gives a trial. */
interface ServerPlace {
  readonly host: string
  readonly port: string
  readonly model: string
  /** The trial's own folder. */
  readonly dir: string
  /** Share of a GPU's memory, 0-1; 0: no GPU, or all of it. */
  readonly gpuMemoryFraction: number
}

interface ServerTuning {
  /** Arguments after the command. */
  readonly args: readonly string[]
  /** Paths below the trial's folder. */
  readonly files: readonly { readonly path: string; readonly contents: string }[]
  /** Arguments of the user's command whose place those take. */
  readonly replaced: readonly string[]
  /** Parameters that reach the server so: through `args`, `files`, or Triton's model control. */
  readonly taken: ReadonlySet<string>
}

/**
 * How a server is started with a configuration, beside what the user's own command says: settings
 * that are not tuned stay as they are there. Triton loads the model as its repository has it;
 * its tuned values follow through the model control API, for which it is started in explicit mode.
 * @throws SettingsFileError for a settings file that cannot be merged
 */
export function serverTuning(
  { kind, modelPath, grpc = false, metricsPort }: ServerPreset,
  configuration: Configuration,
  place: ServerPlace,
  own = new OwnSettings(),
): ServerTuning {
  const knobs = new Knobs(configuration)
  const { gpuMemoryFraction: fraction } = place
  const partly = fraction > 0 && fraction < 1
  if (isLanguageServer(kind)) {
    const { gpu, gpus = 1 } = configuration
    const held = {
      gpus: Number(gpus),
      ...(gpu !== undefined && { gpu: String(gpu) }),
      ...(partly && { share: fraction }),
    }
    const { args, files, replaced } = tunedStart(kind, knobs, held, place.dir, own)
    return {
      args: [...languagePrograms[kind].serves(place), ...args],
      files,
      replaced,
      taken: knobs.used,
    }
  }
  if (kind === 'triton') {
    tritonTuning(knobs, false)
    const repository = modelPath.replace(/[/\\][^/\\]*[/\\]*$/, '') || '/'
    const args = [
      `--model-repository=${repository}`,
      '--model-control-mode=explicit',
      `--load-model=${place.model}`,
      `--http-address=${place.host}`,
      `--http-port=${place.port}`,
      ...(own.has('--allow-grpc', '--grpc-port') ? [] : ['--allow-grpc=false']),
      ...tritonMetrics(own, metricsPort),
    ]
    return { args, files: [], replaced: [], taken: knobs.used }
  }
  const { flags, batching } = tfservingTuning(knobs, place.dir, own)
  const args = [
    `--port=${grpc ? place.port : 0}`,
    `--rest_api_port=${grpc ? 0 : place.port}`,
    // The user's own file names its models.
    ...(own.has('--model_config_file')
      ? []
      : [`--model_name=${place.model}`, `--model_base_path=${modelPath}`]),
    ...flags,
    ...(partly ? [`--per_process_gpu_memory_fraction=${fraction}`] : []),
  ]
  return {
    args,
    files: batching === undefined ? [] : [{ path: batchingFile, contents: batching }],
    replaced: batching === undefined ? [] : [batchingFlag],
    taken: knobs.used,
  }
}

/** As the user's command says; else on the port that they are read on; else off. */
function tritonMetrics(own: OwnSettings, port: number | undefined): string[] {
  if (own.has('--allow-metrics', '--metrics-port')) return []
  return port === undefined
    ? ['--allow-metrics=false']
    : ['--allow-metrics=true', `--metrics-port=${port}`]
}

const nowhere = { host: '', port: '', model: '', dir: '', gpuMemoryFraction: 0 }
const anyValues = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, 1]))

/** Those of the names that the server takes. @throws SettingsFileError */
export const takenBy = (
  kind: ServerKind,
  names: readonly string[],
  own?: OwnSettings,
): ReadonlySet<string> =>
  serverTuning({ kind, modelPath: '' }, anyValues(names), nowhere, own).taken

/** Arguments that a parameter sets. */
export function flagsOf(kind: ServerKind, name: string, own: OwnSettings): readonly string[] {
  const { replaced, args: fixed } = serverTuning({ kind, modelPath: '' }, {}, nowhere, own)
  const { args } = serverTuning({ kind, modelPath: '' }, anyValues([name]), nowhere, own)
  const merged = new Set([...replaced, '--enable_batching', batchingFlag])
  return args
    .filter((arg) => !fixed.includes(arg))
    .map((arg) => arg.replace(/=.*$/s, ''))
    .filter((flag) => !merged.has(flag))
}
