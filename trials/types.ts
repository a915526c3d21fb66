/**
 * The vocabulary of trials: what a trial is, how a predictor is launched, and where trials are
 * kept.
 */

import type { LoadRun } from '../profiler/model/load-run.ts'
import type { Measurement } from '../profiler/model/measurement.ts'
import type { Target } from '../profiler/model/target.ts'
import type { AnswerSpec } from '../profiler/protocols/answer-check.ts'
import type { Configuration, Suggestion } from '../search/types.ts'

/** How the figures came about, `imported`: another tool says so. Shown wherever they are shown. */
export type Provenance = 'measured' | 'emulated' | 'simulated' | 'imported'

export type TrialPurpose = 'search' | 'default' | 'confirmation'

interface TrialBase {
  /** 1, 2, 3, ... within its experiment. */
  readonly number: number
  readonly configuration: Configuration
  /** Why the sampler suggested it. */
  readonly why: string
  /**
   * `default`: the yardstick a gain is stated against. `confirmation`: a longer, independent
   * measurement of the winner. Absent = search.
   */
  readonly purpose?: TrialPurpose
  /**
   * What the sampler's model expected of it, where it has one: rate per second with its 90 %
   * interval, P(feasible).
   */
  readonly predicted?: Prediction
  /** ISO 8601. */
  readonly startedAt: string
}
export type Prediction = NonNullable<Suggestion['predicted']>
export type Trial = TrialBase &
  (
    | { readonly state: 'running' }
    | ({ readonly state: 'complete'; readonly measurement: Measurement } & Finished)
    | ({
        readonly state: 'infeasible'
        readonly reason: InfeasibleReason
        readonly detail: string
      } & Finished)
    | ({ readonly state: 'failed'; readonly error: string; readonly final?: Finality } & Finished)
  )
export type FinishedTrial = Exclude<Trial, { state: 'running' }>
export type RunningTrial = Extract<Trial, { state: 'running' }>

/**
 * Another try comes to the same: with this configuration, or with any of the experiment. `run`:
 * with this configuration, as long as this run lasts; a later one may find it mended (a node with
 * the GPU), and nothing is known of the configuration itself.
 */
export type Finality = 'configuration' | 'experiment' | 'run'

interface Finished {
  /** Launch, load and stop, seconds. */
  readonly seconds: number
  readonly usage?: Usage
  /** Where the predictor's log was kept. */
  readonly logPath?: string
  /** For a trial that did not complete: the predictor was ready and answered well before that. */
  readonly served?: true
}

/** A configuration that cannot serve: data, which the model learns. */
export type InfeasibleReason =
  | 'out-of-memory'
  | 'never-ready'
  | 'no-such-gpu'
  | 'crashed'
  | 'requests-fail'
  | 'answers-differ'
  | 'over-bound'
  | 'slo-unattainable'

/** What a predictor used while it ran. */
export interface Usage {
  /** Mean cores busy, 1.5 = one and a half. */
  readonly cpuCores?: number
  /** The same in its busiest seconds: what was short when it was saturated, its pauses left out. */
  readonly busiestCpuCores?: number
  readonly peakRssMiB?: number
  readonly gpuMemoryMiB?: number
  /** Mean share of time the GPU was busy, 0-1. */
  readonly gpuUtilization?: number
  /** The same in its busiest seconds. */
  readonly busiestGpuUtilization?: number
  /** Power of its GPU in its busiest seconds, W; a slice's GPU does not tell whose power it is. */
  readonly gpuWatts?: number
  /**
   * The same of the machine's processors, by their own counters: all that runs there, and not the
   * predictor alone.
   */
  readonly cpuWatts?: number
  /** Mean realised batch of the server, where it tells. */
  readonly realisedBatch?: number
  /** Of a server of language models, by its own metrics: most sequences at once, */
  readonly sequences?: number
  /** most that waited, */
  readonly waiting?: number
  /** fullest share of the cache of keys and values, 0-1, */
  readonly cacheUse?: number
  /** sequences that gave their place in it up since the start, */
  readonly preemptions?: number
  /** draft tokens that a step kept of each answer, on average (speculative decoding), */
  readonly acceptedTokens?: number
  /**
   * mean share of time, 0-1, that the GPUs of prefill servers were busy, where prompts and answers
   * have servers of their own,
   */
  readonly prefillUtilization?: number
  /** and those of decode servers. */
  readonly decodeUtilization?: number
  /**
   * Seconds from start to ready; of a pod without the wait for a node; of a server that runs since
   * an earlier trial, until it served with other values.
   */
  readonly launchSeconds?: number
  /** Of such a server: seconds that its own start took. */
  readonly startSeconds?: number
  /**
   * Seconds that a pod had no place on a node before that, which cost nothing; absent: it had one at
   * once.
   */
  readonly nodeWaitSeconds?: number
  /** Seconds of the `prepare` step before that; absent where what it makes was there. */
  readonly prepareSeconds?: number
}

/** A predictor that is up and has given one good answer. */
export interface Predictor {
  readonly target: Target
  readonly protocol: string
  readonly provenance: Provenance
  /** One line on how resources were held, e.g. 'cores 0-1 by affinity; GPU T4 emulated, 25 %'. */
  readonly isolation: string
  /** What its `prepare` step took; `kept`: what it makes was there already. Absent without one. */
  readonly prepared?: { readonly seconds: number; readonly reused: boolean }
  readonly logPath?: string
  /** Last lines of its output. */
  logTail(): string
  /**
   * Its answers under load, a few of them held against what they should be. Absent: nobody reads
   * them.
   */
  readonly answers?: {
    readonly spec: AnswerSpec
    /** Requests whose answers can be held against something, by number. */
    readonly bodies: readonly number[]
    /** What is wrong with those seen so far. */
    fault(): Promise<string | undefined>
  }
  usage(): Promise<Usage>
  /**
   * From now on `usage` tells of the time from now on: for a predictor that is kept from one trial
   * to the next.
   */
  restartUsage?(): void
  /**
   * Resolves when the predictor ends on its own, with what happened; never rejects. Undefined for
   * virtual ones.
   */
  readonly died?: Promise<PredictorDeath>
  /**
   * Moves it, while it runs, to the cores that another configuration asks for, once no other trial
   * holds them: the new `isolation`. Absent: it stays where it started.
   * @param signal gives up waiting
   */
  move?(configuration: Configuration, signal: AbortSignal): Promise<string>
  /** While no trial uses it, others may hold its cores: until `move`. */
  rest?(): void
  /** Ends the whole process group (or every object) and waits for it. Idempotent. */
  stop(): Promise<void>
}
export interface PredictorDeath {
  /** exit code, signal, or OOM, in words */
  readonly what: string
  readonly outOfMemory: boolean
  /** Something else ended it, such as a node that is drained: no word on its configuration. */
  readonly external?: true
}

/**
 * @param what it waits for, in words
 * @param how 'loading': for its own server, whose words these are; 'room': for what other pods
 * hold. Nobody else may run meanwhile; absent: others may
 */
export type OnWaiting = (what: string, how?: 'loading' | 'room') => void

export interface Launcher {
  readonly name: string
  /**
   * Starts a predictor with a configuration and waits until it serves.
   * Rejects with InfeasibleError (the configuration cannot serve), LaunchError (our fault or the
   * machine's: retry), or the signal's reason. Leaves nothing behind when it rejects.
   * @param onWaiting receives what it waits for: something that no trial holds, such as a node that
   * a cluster is adding, so that others may run meanwhile, or its own server that is loading
   */
  launch(
    configuration: Configuration,
    trialNumber: number,
    signal: AbortSignal,
    onWaiting?: OnWaiting,
  ): Promise<Predictor>
  /**
   * Ends whatever an earlier, crashed run left behind.
   * @param onLeft told, in words, of what may be of it and is not ended, as nothing says so for
   * certain
   */
  sweep(signal?: AbortSignal, onLeft?: (what: string) => void): Promise<void>
  /**
   * Ends what it keeps between trials; call it after the last one. Absent where nothing is kept.
   */
  close?(): Promise<void>
  /**
   * Names of parameters that are changed on a server that runs: configurations that differ in these
   * alone share its start. Absent: none.
   */
  readonly changesRunning?: ReadonlySet<string>
}

export class InfeasibleError extends Error {
  constructor(
    readonly reason: InfeasibleReason,
    message: string,
    readonly logPath?: string,
  ) {
    super(message)
    this.name = 'InfeasibleError'
  }
}
export class LaunchError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
    readonly logPath?: string,
    /** Absent: it is tried again. */
    readonly final?: Finality,
    /** Its pod never had a place on a node, so that nothing of it has to be paid. */
    readonly unplaced?: true,
  ) {
    super(message)
    this.name = 'LaunchError'
  }
}

/** An experiment as the store keeps it: its effective specification, whole, and how it ended. */
export interface ExperimentRecord {
  /** Short, unique, typable: 'bert-7f3a'. */
  readonly id: string
  readonly name: string
  readonly createdAt: string
  /** The effective experiment specification (tuner owns its schema), as JSON. */
  readonly spec: unknown
  readonly provenance: Provenance
  readonly seed: number
  readonly state: 'running' | 'interrupted' | 'done' | 'failed'
  /** Final recommendation document as JSON, once there is one. */
  readonly result?: unknown
}

/** What an experiment is resumed from, beside its finished trials. */
export interface RunProgress {
  /**
   * The highest number of a finished trial, 0 without any: also of one whose row is damaged, and
   * which `load` leaves out.
   */
  readonly lastNumber: number
  /**
   * The same when the experiment last ended, done or failed. Trials after it are of the run that
   * was interrupted.
   */
  readonly endedAfter: number
  /** Trials that were under way when the run was interrupted, by number. */
  readonly running: readonly InterruptedTrial[]
}
/** @property windows of a confirmation, in the order in which they were played */
export type InterruptedTrial = RunningTrial & { readonly windows: readonly LoadRun[] }

export interface ClaimOptions {
  /**
   * Something else says that a tuner of another machine runs it no more: such a process cannot be
   * asked.
   */
  readonly fromOtherHosts?: boolean
}

/**
 * Records, never setters: a finished trial is written once and durable before `append` resolves.
 * Every call may throw StoreError.
 */
export interface TrialStore {
  /** Records a new experiment; this process runs it from now on. */
  create(experiment: Omit<ExperimentRecord, 'state' | 'result'>): Promise<void>
  /**
   * Takes an experiment over to resume it: only one process runs an experiment at a time.
   * Throws StoreError while the process that runs it lives; takes over from one that died.
   */
  claim(id: string, options?: ClaimOptions): Promise<void>
  load(
    id: string,
  ): Promise<{ experiment: ExperimentRecord; trials: readonly FinishedTrial[] } | undefined>
  list(): Promise<readonly (ExperimentRecord & { readonly trials: number })[]>
  progress(id: string): Promise<RunProgress>
  /** Records that a trial is under way; one that was under way before keeps its windows. */
  start(experimentId: string, trial: RunningTrial): Promise<void>
  /** Records the window at a position, from 0, of a confirmation under way; later ones go. */
  addWindow(
    experimentId: string,
    trialNumber: number,
    position: number,
    window: LoadRun,
  ): Promise<void>
  /**
   * Takes the place of what was recorded of it while it was under way. Throws StoreError when the
   * experiment is unknown or that trial number is already there.
   */
  append(experimentId: string, trial: FinishedTrial): Promise<void>
  /** Once the experiment is done or failed, nothing of it is under way any more. */
  finish(
    experimentId: string,
    state: Exclude<ExperimentRecord['state'], 'running'>,
    result?: unknown,
  ): Promise<void>
  close(): Promise<void>
}
