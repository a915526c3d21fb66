/** The interface of a preset for a language-model server: how to start and tune it. */
import type { DraftMethods } from './drafts.ts'
import type { Knobs } from './knobs.ts'

/** Arguments by name; one without a value is a switch. */
export type Flags = readonly (readonly [name: string, value?: string])[]
/** Arguments that all have a value. */
export type ValuedFlags = readonly (readonly [name: string, value: string])[]
type Setting = number | string | boolean
/** Settings of a server's file: names and values, or groups of them. */
export type FileOptions = Readonly<Record<string, Setting | Readonly<Record<string, Setting>>>>

/** GPUs of a server, and defaults of untuned values. */
export interface GpuGrant {
  readonly gpus: number
  /** Catalogue name of the GPUs, where it is known. */
  readonly gpu?: string
  /** Share of the memory of each GPU, 0-1; absent: all of it, or no GPU. */
  readonly share?: number
  /** Longest sequence, prompt and answer together; absent: the model's own. */
  readonly length?: number
}

/**
 * Scheduler metrics of a server. `accepted` and `draftings`: accepted draft tokens, and number of
 * drafts. `stepTokens`: tokens of recent steps for each answer.
 */
export type EngineFigure =
  | 'sequences'
  | 'waiting'
  | 'cacheUse'
  | 'preemptions'
  | 'accepted'
  | 'draftings'
  | 'stepTokens'

/** Metric names of a figure in several versions: the first that exists counts. */
export type EngineMetrics = Readonly<Partial<Record<EngineFigure, readonly string[]>>>

export interface LanguageProgram {
  /** Image of the version to which the arguments apply. */
  readonly image: string
  /** How to install the program of that version. */
  readonly install: string
  /** Starts it with these weights. */
  readonly command: (weights: string) => readonly string[]
  /** Arguments for the address that it listens on and the name that it serves the model under. */
  readonly serves: (place: {
    readonly host?: string
    readonly port: number | string
    readonly model: string
  }) => readonly string[]
  /** The tuned parameters as flags. */
  readonly flags: (knobs: Knobs, grant: GpuGrant) => Flags
  /** Settings file for options without a flag. */
  readonly file?: SettingsFile
  /** The methods of speculative decoding that it supports. */
  readonly drafts: DraftMethods<Flags | FileOptions>
  /** The server knows its model only by the folder of the weights, or by their name on the Hub. */
  readonly namesByFolder?: true
  /** Path of its Prometheus metrics, where that is not /metrics. */
  readonly metricsPath?: string
  readonly metrics: EngineMetrics
}

export interface SettingsFile {
  readonly name: string
  /** The flag that names the file. */
  readonly flag: string
  /** The tuned parameters. */
  readonly options: (knobs: Knobs, grant: GpuGrant) => FileOptions
  /** Defaults, below the user's own file and the tuned parameters. */
  readonly usual: FileOptions
  /** The group and option that take the place of a flag when the group is in the file. */
  readonly grouped: Readonly<Record<string, readonly [group: string, option: string]>>
}
