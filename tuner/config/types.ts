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
import type { Stage } from '../../trials/pipeline/pipeline.ts'
import type { LoadOrigin } from './names.ts'
import type { ExperimentDocument, Settings } from './schema/experiment-schema.ts'
import type { OutputTarget } from './values/output-target.ts'

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

/** A resolved model variant. */
export interface Variant {
  readonly name: string
  /** Quality that the user measured: accuracy, F1, ...; higher is better. */
  readonly quality: number
  /** Architecture, if it differs from the model's. */
  readonly architecture?: string
  /** A user's own model, absolute. */
  readonly path?: string
  readonly values?: Configuration
}

/** Settings of trials on a cluster. */
export interface KubernetesSpec {
  readonly namespace?: string
  /**
   * Pod template (metadata, spec) of the user's own predictor if it has an image; otherwise an
   * overlay for the pod of the built-in predictor.
   */
  readonly pod?: Readonly<Record<string, unknown>>
  /** Overlay for the pod of the load generator's Job. */
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
  /** How long an unschedulable pod waits for a node, regardless of the autoscaler. */
  readonly scaleUpTimeoutMs?: number
  readonly gpuScheme?: GpuScheme
  /** How GPUs are claimed by dynamic resource allocation. */
  readonly dra?: DraOptions
}

interface LoadSpec {
  readonly arrivals: Arrivals
  readonly payload: PayloadSource
  /** Timeout of one request. */
  readonly timeoutMs: number
  /** Warm-up requests of each predictor. */
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
  /** Maximum cost of all trials, $: price per hour × hours of each trial. */
  readonly maxCost?: number
}

/**
 * Stop rule (`--tolerance`, `--certainty`, `--value-of`, `stop:`): stop when P(an untried
 * configuration is better by more than `tolerance`) < 1 - certainty, or when another trial costs
 * more than it may save.
 */
interface StopSpec {
  /** 0.05 = 5 %. */
  readonly tolerance: number
  /** 0.95 = 95 %. */
  readonly certainty: number
  /** Yearly serving bill, $. Absent: that of the demand, or of one replica. */
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

/** Settings that need no resolution. */
export const pickPlainSettings = (settings: Settings): PlainSettings =>
  Object.fromEntries(plainSettings.map((name) => [name, settings[name]])) as PlainSettings

/** A stage of a pipeline, as the experiment of a single predictor that shares the other settings. */
export interface ExperimentStage extends Stage {
  readonly experiment: Experiment
}

export interface Experiment extends PlainSettings {
  readonly name: string
  readonly model: ModelSpec
  readonly slo: Slo
  readonly objective: Objective
  /** Devices of the trials, with 'auto' resolved. */
  readonly devicesUsed: 'cpu' | 'gpu' | 'emulated'
  readonly space: SearchSpace
  /** Values of the parameter 'variant' with their quality; empty without variants. */
  readonly variants: readonly Variant[]
  /** Parameters fixed at one value; `space` contains them with that value. */
  readonly pins: Configuration
  /**
   * Stages of a pipeline, callers first; the first is the entry, whose model, predictor and load
   * this experiment has. Absent: a single predictor.
   */
  readonly stages?: readonly ExperimentStage[]
  /** Template that a launcher starts; backend 'simulated' uses only its model. */
  readonly predictor: PredictorTemplate
  /**
   * For backend 'kubernetes'. With the user's own pod, `predictor` is a command template with an
   * empty command: the container's own.
   */
  readonly kubernetes?: KubernetesSpec
  readonly load: LoadSpec
  /** Metrics of the server to read at each capacity, with their bounds. */
  readonly metrics: readonly ServerMetric[]
  /** Which answers are correct. */
  readonly answers: AnswerRules
  readonly budget: BudgetSpec
  readonly stop: StopSpec
  /** The calibration to use, once it was read from the store. */
  readonly calibrated?: ServerCalibration
  /** Measured speed of this machine's cores; absent: the reference cores of the device model. */
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
  /** Receivers of the run while it goes on. */
  readonly outputs: readonly OutputTarget[]
  /** Notices on how the experiment was read, e.g. ignored parts of an imported one. */
  readonly notices: readonly string[]
  /** The user's settings merged with defaults, in base units. */
  readonly settings: Settings
  /**
   * The settings in the form of the experiment file, as JSON for the store.
   * `experimentFromDocument` resolves the same experiment from it.
   */
  readonly document: ExperimentDocument
  /**
   * Values of the references that replaced plain-text secrets. They stay in memory and are never in
   * the document.
   */
  readonly secrets?: ReadonlyMap<string, string>
  /**
   * Origin of each effective value, by path in the document ('slo.limit', 'budget.maxTrials',
   * 'space.batchSize').
   */
  readonly origins: Readonly<Record<string, Origin>>
}

export type Origin =
  | { readonly kind: 'default'; readonly reason?: string }
  | { readonly kind: 'file'; readonly file: string; readonly line: number; readonly column: number }
  | { readonly kind: 'environment'; readonly variable: string }
  | { readonly kind: 'flag'; readonly flag: string }
  /** An object that a program passed. */
  | { readonly kind: 'given' }
  /** A resumed experiment of the store. */
  | { readonly kind: 'stored'; readonly id: string }

/** One row of `tune config`. */
export interface ConfigRow {
  /** 'budget.maxTrials' */
  readonly path: string
  /** Value as a user would write it: '50 ms', '1, 2, 4, 8'. */
  readonly value: string
  /** 'default', 'experiment.yaml:7:3', '--max-trials'. */
  readonly origin: string
}

/**
 * Facts about the machine that runs the trials; passed in, so that this folder inspects nothing.
 */
export interface MachineCapabilities {
  readonly cpuCores: number
  /** GPUs that a trial can use whole, by the name of the driver or the catalogue. */
  readonly gpus: readonly string[]
  /** Memory of GPUs by those names, if the driver reports it. */
  readonly memoryMiB?: Readonly<Record<string, number>>
  /** Existing MIG slices. */
  readonly slices?: readonly { readonly gpu: string; readonly profile: string }[]
  /**
   * What enforces a share of a whole GPU, given whether the server limits its own memory; absent:
   * nothing.
   */
  readonly shareBound?: (serverBounds: boolean) => ShareBound | undefined
  /**
   * Whether an engine of the built-in predictor can use the GPUs; absent: true. If not, `devices:
   * auto` emulates GPUs, or runs ONNX files on CPU.
   */
  readonly drivesGpus?: (engine: ComputingEngine) => boolean
  /** Why GGUF files cannot be served, and what to install; absent if they can. */
  readonly missingGguf?: { readonly what: string; readonly install: string }
}
