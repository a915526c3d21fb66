/** Inputs and result of starting a server: the user's settings, and the trial's resources. */
import type { ServerKind } from './server-kinds.ts'

/** A model of a Triton server that serves several: an ensemble or BLS model, and those it calls. */
export interface TritonModel {
  /** Its folder in the model repository. */
  readonly name: string
  /** Name of the stage that tunes it; undefined for ensembles, which only call others. */
  readonly stage?: string
  /** Models that an ensemble calls. */
  readonly steps?: readonly string[]
  /** Text of its config.pbtxt; undefined: it has none, and Triton derives the configuration. */
  readonly config?: string
  /** Lowest max_batch_size that a trial may set. */
  readonly minBatchSize?: number
}

/** The server that an experiment names. */
export interface ServerPreset {
  readonly kind: ServerKind
  /**
   * Folder of the model with its version folders; for Triton named as the model, inside the model
   * repository. Servers of language models also take a name on the Hub.
   */
  readonly modelPath: string
  /** TensorFlow Serving: requests use gRPC, and it listens for gRPC alone. */
  readonly grpc?: boolean
  /** Triton: the port that its metrics are read on. */
  readonly metricsPort?: number
  /** Triton: all models of an ensemble or BLS model, callers first. Absent: it serves one model. */
  readonly models?: readonly TritonModel[]
}

/** Resources that the launcher assigns to a trial. */
export interface ServerPlace {
  readonly host: string
  readonly port: string
  readonly model: string
  /** The trial's own folder. */
  readonly dir: string
  /** Share of a GPU's memory, 0-1; 0: no GPU, or all of it. */
  readonly gpuMemoryFraction: number
}

/** The share as a server's limit; undefined if it needs none: no GPU, or all of it. */
export const limitShare = ({ gpuMemoryFraction }: ServerPlace): number | undefined =>
  gpuMemoryFraction > 0 && gpuMemoryFraction < 1 ? gpuMemoryFraction : undefined

export interface ServerStart {
  /** Arguments after the command. */
  readonly args: readonly string[]
  /** Paths below the trial's folder. */
  readonly files: readonly { readonly path: string; readonly contents: string }[]
  /** Arguments of the user's command that `args` replace. */
  readonly replaced: readonly string[]
}
