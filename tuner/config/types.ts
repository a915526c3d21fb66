/**
 * The effective experiment: what the loop consumes, after defaults, file, environment and flags are
 * merged.
 */

import type { Arrivals } from '../../profiler/model/load.ts'
import type { ServerMetric } from '../../profiler/model/server-metric.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { PayloadSource } from '../../profiler/payload-source.ts'
import type { WarmUp } from '../../profiler/protocols/warm-up-requests.ts'
import type { Configuration, Objective, SearchSpace } from '../../search/types.ts'
import type { CustomDevices } from '../../trials/devices/custom-devices.ts'
import type { ServerCalibration } from '../../trials/devices/server-calibration.ts'
import type { ComputingEngine } from '../../trials/launchers/builtin.ts'
import type { AnswerRules } from '../../trials/launchers/checked-answers.ts'
import type { DraOptions } from '../../trials/launchers/kubernetes/gpus/dra.ts'
import type { GpuScheme } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import type { MachineCores } from '../../trials/launchers/simulated/cpu-stage.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import type { ShareBound } from '../../trials/machine/gpu-offer.ts'
import type { LoadOrigin } from './names.ts'
import type { OutputTarget } from './output-target.ts'
import type { ExperimentDocument, Settings } from './schema/experiment-schema.ts'

export { ConfigError, type ConfigProblem } from './config-error.ts'
export type { Backend, Devices } from './names.ts'
export type { ExperimentDocument } from './schema/experiment-schema.ts'

export interface ModelSpec {
  /** The name a predictor serves it under, e.g. 'bert'. */
  readonly name: string
  /**
   * Architecture of the built-in predictor and the device model; the name itself unless the user
   * says otherwise.
   */
  readonly architecture: string
  /**
   * File of the architecture's dimensions, absolute; `architecture` is the name it goes by then.
   */
  readonly architecturePath?: string
  /**
   * A user's own model: folder or file, absolute. Absent: the built-in architecture with seeded
   * weights.
   */
  readonly path?: string
  /** Version folder to serve; absent: the latest. */
  readonly version?: string
}

/** A variant as the experiment has it. */
export interface Variant {
  readonly name: string
  /** As the user measured it on data of their own: accuracy, F1, ...; more is better. */
  readonly quality: number
  /** Architecture, where it is another than the model's. */
  readonly architecture?: string
  /** A user's own model, absolute. */
  readonly path?: string
  readonly values?: Configuration
}

/** What the trials on a cluster are made from. */
export interface KubernetesSpec {
  readonly namespace?: string
  /**
   * With an image, the user's own predictor: its pod template (metadata, spec), as it is. Without,
   * what is laid over the built-in predictor's pod.
   */
  readonly pod?: Readonly<Record<string, unknown>>
  /** What is laid over the pod of the load generator's Job. */
  readonly job?: Readonly<Record<string, unknown>>
  /** Container of the pod that the tuned values go into. */
  readonly container?: string
  readonly port?: number
  /**
   * An image whose entry point is `tune`: the built-in predictor, and the load generator of every
   * predictor.
   */
  readonly image?: string
  /** Where load comes from, default 'cluster'. */
  readonly loadFrom?: LoadOrigin
  /** Where load goes: to the pod's own address (default), or a Service of each trial. */
  readonly through?: 'pod' | 'service'
  /** How long a pod without a place waits for a node, whatever the autoscaler says. */
  readonly scaleUpTimeoutMs?: number
  readonly gpuScheme?: GpuScheme
  /** How GPUs are claimed by dynamic resource allocation. */
  readonly dra?: DraOptions
}

interface LoadSpec {
  readonly arrivals: Arrivals
  readonly payload: PayloadSource
  /** Deadline of one request. */
  readonly timeoutMs: number
  /** Requests that each predictor gets before it is measured. */
  readonly warmUp?: WarmUp
  /** Upper bound of the load of one trial, seconds. */
  readonly trialSeconds: number
  /** Length of the winner's confirmation, seconds. */
  readonly confirmSeconds: number
}

export interface BudgetSpec {
  readonly maxTrials: number
  /** Whole tuning run, seconds. */
  readonly timeLimitS?: number
  /**
   * Most dollars the trials may cost together, by the price book: price per hour × hours of each
   * trial.
   */
  readonly maxCost?: number
}

/**
 * What `--tolerance`, `--certainty`, `--value-of` and `stop:` set: stop when P(something more than
 * `tolerance` better is left) < 1 - certainty, or when another trial is not worth it.
 */
interface StopSpec {
  /** 0.05 = 5 %. */
  readonly tolerance: number
  /** 0.95 = 95 %. */
  readonly certainty: number
  /** $: what a year of the service costs. Absent: that of the demand, or of one replica. */
  readonly yearlyBill?: number
}

const plainSettings = [
  'headroom',
  'maxJoulesPerRequest',
  'backend',
  'devices',
  'minQuality',
  'parallel',
  'seed',
  'sampler',
  'history',
  'calibration',
  'confirm',
] as const satisfies readonly (keyof Settings)[]
type PlainSettings = Pick<Settings, (typeof plainSettings)[number]>

/** Settings that an experiment has as they are. */
export const pickPlainSettings = (settings: Settings): PlainSettings =>
  Object.fromEntries(plainSettings.map((name) => [name, settings[name]])) as PlainSettings

export interface Experiment extends PlainSettings {
  readonly name: string
  readonly model: ModelSpec
  readonly slo: Slo
  readonly objective: Objective
  /** What the trials use, 'auto' decided. */
  readonly devicesUsed: 'cpu' | 'gpu' | 'emulated'
  readonly space: SearchSpace
  /**
   * Models to choose from by the parameter 'variant', with the quality of each; empty: the model
   * alone.
   */
  readonly variants: readonly Variant[]
  /** Parameters held at one value; they are in `space` too, with that value alone. */
  readonly pins: Configuration
  /** What a launcher starts. For 'simulated' it names the model alone. */
  readonly predictor: PredictorTemplate
  /**
   * For backend 'kubernetes'. With a pod, `predictor` is a command template whose command is empty:
   * the container's own.
   */
  readonly kubernetes?: KubernetesSpec
  readonly load: LoadSpec
  /** The server's own metrics that are read at each capacity, with their bounds. */
  readonly metrics: readonly ServerMetric[]
  /** What answers must be. */
  readonly answers: AnswerRules
  readonly budget: BudgetSpec
  readonly stop: StopSpec
  /** That calibration, once the store was asked. */
  readonly calibrated?: ServerCalibration
  /** This machine's, once they were asked; absent: those that the device model knows. */
  readonly cores?: MachineCores
  /** The user's GPUs and architecture, from their files. */
  readonly own: CustomDevices
  /** Absolute path of the file of those GPUs. */
  readonly gpuCataloguePath?: string
  /** Absolute path of a price book; absent: the built-in one. */
  readonly pricesPath?: string
  /** Absolute path of the trial store. */
  readonly dbPath: string
  /**
   * Absolute folder for the result files; absent: `tune-results/<experiment id>` in the working
   * directory.
   */
  readonly outDir?: string
  /** Programs that the run is told to, as it goes on. */
  readonly outputs: readonly OutputTarget[]
  /**
   * What a reader must know of how the experiment was read, e.g. parts of an imported one that have
   * no meaning here.
   */
  readonly notices: readonly string[]
  /** What the user wrote, merged with defaults, in base units. */
  readonly settings: Settings
  /**
   * The settings in the form of the experiment file: JSON-safe, kept in the store;
   * `experimentFromDocument` makes the same experiment of it.
   */
  readonly document: ExperimentDocument
  /**
   * What the references to secrets that were written out stand for: in memory alone, never in the
   * document.
   */
  readonly secrets?: ReadonlyMap<string, string>
  /**
   * Where each effective value came from, by path in the document ('slo.limit', 'budget.maxTrials',
   * 'space.batchSize').
   */
  readonly origins: Readonly<Record<string, Origin>>
}

export type Origin =
  | { readonly kind: 'default'; readonly reason?: string }
  | { readonly kind: 'file'; readonly file: string; readonly line: number; readonly column: number }
  | { readonly kind: 'environment'; readonly variable: string }
  | { readonly kind: 'flag'; readonly flag: string }
  /** An object that a program gave. */
  | { readonly kind: 'given' }
  /** An experiment of the store, resumed. */
  | { readonly kind: 'stored'; readonly id: string }

/** One row of `tune config`. */
export interface ConfigRow {
  /** 'budget.maxTrials' */
  readonly path: string
  /** As the user would write it: '50 ms', '1, 2, 4, 8'. */
  readonly value: string
  /** 'default', 'experiment.yaml:7:3', '--max-trials'. */
  readonly origin: string
}

/** What the machine that runs the trials has; given, so that this folder looks nothing up. */
export interface MachineFacts {
  readonly cpuCores: number
  /** GPUs that a trial may hold whole, each as the driver or the catalogue calls it. */
  readonly gpus: readonly string[]
  /** Of GPUs by those names, where the driver tells it. */
  readonly memoryMiB?: Readonly<Record<string, number>>
  /** MIG slices that are made. */
  readonly slices?: readonly { readonly gpu: string; readonly profile: string }[]
  /**
   * What enforces a share of a whole GPU, with a server that keeps to its share by itself or
   * without; nothing unless said.
   */
  readonly shareBound?: (serverBounds: boolean) => ShareBound | undefined
  /**
   * Whether an engine of the built-in predictor can use the GPUs, true unless said: else `devices:
   * auto` emulates them, or runs ONNX files on CPU.
   */
  readonly drivesGpus?: (engine: ComputingEngine) => boolean
  /** What keeps GGUF files from being served, and what to install; absent: nothing. */
  readonly missingGguf?: { readonly what: string; readonly install: string }
}
