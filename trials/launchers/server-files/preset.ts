/** Servers whose own flags and files are written for each trial: the user says which server, and tunes by the usual names. */
import type { ProtocolName } from '../../../profiler/protocols/protocol-table.ts'
import type { Configuration } from '../../../search/types.ts'
import { Knobs } from './knobs.ts'
import { batchingFile, tfservingTuning } from './tfserving-files.ts'
import { tritonTuning } from './triton-files.ts'

export const serverKinds = ['tfserving', 'triton'] as const
export type ServerKind = (typeof serverKinds)[number]

export interface ServerPreset {
  readonly kind: ServerKind
  /** Folder of the model with its version folders; for Triton named as the model, inside the model repository. */
  readonly modelPath: string
  /** TensorFlow Serving: it is asked over gRPC, and listens for that alone. */
  readonly grpc?: boolean
}

/** The program that starts it where the user names none. */
export const serverCommand: Readonly<Record<ServerKind, string>> = { tfserving: 'tensorflow_model_server', triton: 'tritonserver' }

/** How it is asked where the user does not say. */
export const serverProtocol: Readonly<Record<ServerKind, ProtocolName>> = { tfserving: 'tfserving', triton: 'oip-v2' }

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
 * How a server is started with a configuration. Triton loads the model as its repository has it; its tuned values follow through the model control
 * API, for which it is started in explicit mode.
 */
export function serverTuning(
  { kind, modelPath, grpc = false }: ServerPreset,
  configuration: Configuration,
  place: ServerPlace,
): ServerTuning {
  const knobs = new Knobs(configuration)
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
  const { gpuMemoryFraction: fraction } = place
  const args = [
    `--port=${grpc ? place.port : 0}`,
    `--rest_api_port=${grpc ? 0 : place.port}`,
    `--model_name=${place.model}`,
    `--model_base_path=${modelPath}`,
    ...flags,
    ...(fraction > 0 && fraction < 1 ? [`--per_process_gpu_memory_fraction=${fraction}`] : []),
  ]
  return { args, files: batching === undefined ? [] : [{ path: batchingFile, contents: batching }], taken: knobs.used }
}

/** Those of the names that the server takes. */
export function takenBy(kind: ServerKind, names: readonly string[]): ReadonlySet<string> {
  const any = Object.fromEntries(names.map((name) => [name, 1]))
  return serverTuning({ kind, modelPath: '' }, any, { host: '', port: '', model: '', dir: '', gpuMemoryFraction: 0 }).taken
}
