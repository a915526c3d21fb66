/**
 * Servers whose own flags and files are written for each trial: the user says which server, and
 * tunes by the usual names.
 */
import type { ProtocolName } from '../../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../../search/types.ts'
import { Knobs } from './knobs.ts'
import {
  isLanguageServer,
  languagePrograms,
  languageServers,
  tunedStart,
} from './language-programs.ts'
import { batchingFile, tfservingTuning } from './tfserving-files.ts'
import { tritonTuning } from './triton-files.ts'

export const serverKinds = ['tfserving', 'triton', ...languageServers] as const
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
  /** Parameters that reach the server so: through `args`, `files`, or Triton's model control. */
  readonly taken: ReadonlySet<string>
}

/**
 * How a server is started with a configuration. Triton loads the model as its repository has it;
 * its tuned values follow through the model control API, for which it is started in explicit mode.
 */
export function serverTuning(
  { kind, modelPath, grpc = false }: ServerPreset,
  configuration: Configuration,
  place: ServerPlace,
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
    const { args, files } = tunedStart(kind, knobs, held, place.dir)
    return { args: [...languagePrograms[kind].serves(place), ...args], files, taken: knobs.used }
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
      '--allow-grpc=false',
      '--allow-metrics=false',
    ]
    return { args, files: [], taken: knobs.used }
  }
  const { flags, batching } = tfservingTuning(knobs, place.dir)
  const args = [
    `--port=${grpc ? place.port : 0}`,
    `--rest_api_port=${grpc ? 0 : place.port}`,
    `--model_name=${place.model}`,
    `--model_base_path=${modelPath}`,
    ...flags,
    ...(partly ? [`--per_process_gpu_memory_fraction=${fraction}`] : []),
  ]
  return {
    args,
    files: batching === undefined ? [] : [{ path: batchingFile, contents: batching }],
    taken: knobs.used,
  }
}

/** Those of the names that the server takes. */
export function takenBy(kind: ServerKind, names: readonly string[]): ReadonlySet<string> {
  const any = Object.fromEntries(names.map((name) => [name, 1]))
  return serverTuning({ kind, modelPath: '' }, any, {
    host: '',
    port: '',
    model: '',
    dir: '',
    gpuMemoryFraction: 0,
  }).taken
}
