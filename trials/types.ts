/** Types of trials: trial records, launchers and predictors, and the trial store. */

import type { LoadRun } from '../profiler/model/load-run.ts'
import type { Measurement } from '../profiler/model/measurement.ts'
import type { Target } from '../profiler/model/target.ts'
import type { AnswerSpec } from '../profiler/protocols/answer-check.ts'
import type { Configuration, Suggestion } from '../search/types.ts'

/** Origin of the figures, shown with them; `imported`: by another tool. */
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
   * Prediction of the sampler's model, if it has one: rate per second with its 90 % interval,
   * P(feasible).
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
  /** Path of the predictor's log. */
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

/** What one stage of a pipeline did. */
export interface StageUsage {
  readonly stage: string
  /** Mean visits of a request; absent where they are not counted, as on a cluster. */
  readonly visits?: number
  /** Mean time of a visit without its calls, ms; absent with `visits`. */
  readonly meanMs?: number
  /** Mean busy share of its busier resource at the measured rate, over all replicas, 0-1. */
  readonly busyShare: number
  /** `instances`: of a model on a server that other stages share. */
  readonly busier: 'cpu' | 'gpu' | 'instances'
  /** Its load curve: one point for each load of the trial. Absent in virtual time and in clusters. */
  readonly loads?: readonly StageLoad[]
}

/** What a stage did under one load, of one replica. */
export interface StageLoad {
  /** Visits per second. */
  readonly visitRps: number
  /** Visits of a request. */
  readonly visits: number
  /** Mean time of a visit without its calls, ms. */
  readonly meanMs: number
  /** CPU time of a visit, ms. */
  readonly cpuMs: number
  /** Time of the GPU for a visit, ms; 0 without one. */
  readonly gpuMs: number
  /** Requests arrive at random; otherwise each follows an answer. */
  readonly isOpen: boolean
  readonly seconds: number
}

/** Resource usage of a predictor. */
export interface Usage {
  /** Usage of the stages of a pipeline, callers first. */
  readonly stages?: readonly StageUsage[]
  /** Mean cores busy, 1.5 = one and a half. */
  readonly cpuCores?: number
  /**
   * Cores busy in its busiest seconds, which shows the bottleneck at saturation, without idle time.
   */
  readonly busiestCpuCores?: number
  readonly peakRssMiB?: number
  readonly gpuMemoryMiB?: number
  /** Mean share of time the GPU was busy, 0-1. */
  readonly gpuUtilization?: number
  /** Share of time that the GPU was busy in its busiest seconds. */
  readonly busiestGpuUtilization?: number
  /** Power of its GPU in its busiest seconds, W; unknown for a slice. */
  readonly gpuWatts?: number
  /** Power of the machine's processors by their counters, including other processes, W. */
  readonly cpuWatts?: number
  /** Mean realised batch of the server, if reported. */
  readonly realisedBatch?: number
  /** Language-model servers, by their metrics: maximum of concurrent sequences. */
  readonly sequences?: number
  /** Maximum of waiting sequences. */
  readonly waiting?: number
  /** Maximum share of the KV cache in use, 0-1. */
  readonly cacheUse?: number
  /** Sequences preempted since the start. */
  readonly preemptions?: number
  /** Mean accepted draft tokens per step and answer (speculative decoding). */
  readonly acceptedTokens?: number
  /** Mean share of time that the GPUs of prefill servers were busy, 0-1, if they are separate. */
  readonly prefillUtilization?: number
  /** Mean share of time that the GPUs of decode servers were busy, 0-1, if they are separate. */
  readonly decodeUtilization?: number
  /**
   * Seconds from start to ready; of a pod without the wait for a node; of a server that runs since
   * an earlier trial, until it served with other values.
   */
  readonly launchSeconds?: number
  /** Language-model servers: seconds of the server's own start. */
  readonly startSeconds?: number
  /** Seconds that the pod was unscheduled before, without cost; absent: none. */
  readonly nodeWaitSeconds?: number
  /** Seconds of the `prepare` step before; absent if its result was reused. */
  readonly prepareSeconds?: number
}

/** A predictor that runs and has answered correctly once. */
export interface Predictor {
  readonly target: Target
  readonly protocol: string
  readonly provenance: Provenance
  /** One line on the reserved resources, e.g. 'cores 0-1 by affinity; GPU T4 emulated, 25 %'. */
  readonly isolation: string
  /** Duration of its `prepare` step; `reused`: a saved result was used. Absent without a step. */
  readonly prepared?: { readonly seconds: number; readonly reused: boolean }
  readonly logPath?: string
  /** Last lines of its output. */
  logTail(): string
  /** Verification of some answers under load. Absent: answers are not verified. */
  readonly answers?: {
    readonly spec: AnswerSpec
    /** Numbers of the requests whose answers can be verified. */
    readonly bodies: readonly number[]
    /** The first fault of the answers so far. */
    fault(): Promise<string | undefined>
  }
  usage(): Promise<Usage>
  /** Restarts `usage` from now, for a predictor that is reused by the next trial. */
  restartUsage?(): void
  /**
   * Resolves with a description when the predictor ends by itself; never rejects. Undefined for
   * virtual ones.
   */
  readonly died?: Promise<PredictorDeath>
  /**
   * Moves the running predictor to the cores of another configuration, once they are free. Resolves
   * with the new `isolation`. Absent: it cannot move.
   * @param signal aborts the wait
   */
  moveToCores?(configuration: Configuration, signal: AbortSignal): Promise<string>
  /** Releases its cores to others until `moveToCores`, while no trial uses it. */
  releaseCores?(): void
  /** Ends the whole process group (or every object) and waits for it. Idempotent. */
  stop(): Promise<void>
}
export interface PredictorDeath {
  /** Exit code, signal or OOM, as text. */
  readonly what: string
  readonly outOfMemory: boolean
  /** Ended by an external cause, such as a drained node: no result about the configuration. */
  readonly external?: true
}

/**
 * @param what what it waits for
 * @param how 'loading': its own server, with its message; 'room': resources of other pods. In both
 * cases no other trial may start meanwhile; absent: others may
 */
export type OnWaiting = (what: string, how?: 'loading' | 'room') => void

export interface Launcher {
  readonly name: string
  /**
   * Starts a predictor with a configuration and waits until it serves. Rejects with InfeasibleError
   * (the configuration cannot serve), LaunchError (our fault or the machine's: retry), or the
   * signal's reason. Leaves nothing behind when it rejects.
   * @param onWaiting receives what it waits for, such as a new node of the cluster, or its loading
   * server
   */
  launch(
    configuration: Configuration,
    trialNumber: number,
    signal: AbortSignal,
    onWaiting?: OnWaiting,
  ): Promise<Predictor>
  /**
   * Ends predictors of an earlier, crashed run.
   * @param onLeft called with a description of processes that may belong to it, but are not ended
   * because that is uncertain
   */
  sweep(signal?: AbortSignal, onLeft?: (what: string) => void): Promise<void>
  /** Ends state that is shared between trials; call it after the last one. */
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
    /** Its pod was never scheduled, so it cost nothing. */
    readonly unplaced?: true,
  ) {
    super(message)
    this.name = 'LaunchError'
  }
}

/** A stored experiment: its effective specification, and its outcome. */
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
  /** Final recommendation as JSON, once it exists. */
  readonly result?: unknown
}

/** State from which an experiment resumes, in addition to its finished trials. */
export interface RunProgress {
  /**
   * Highest number of a finished trial, 0 without any; includes damaged rows, which `load` skips.
   */
  readonly lastNumber: number
  /**
   * Highest number when the experiment last ended, done or failed. Later trials are of the run that
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
   * Other evidence shows that a tuner on another machine has ended: such a process cannot be
   * checked.
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
   * @throws StoreError while the process that runs it lives; takes over from one that died
   */
  claim(id: string, options?: ClaimOptions): Promise<void>
  load(
    id: string,
  ): Promise<{ experiment: ExperimentRecord; trials: readonly FinishedTrial[] } | undefined>
  list(): Promise<readonly (ExperimentRecord & { readonly trials: number })[]>
  progress(id: string): Promise<RunProgress>
  /** Records a running trial; one that was running before retains its windows. */
  start(experimentId: string, trial: RunningTrial): Promise<void>
  /**
   * Records the window at a position, from 0, of a confirmation under way, and removes
   * later ones.
   */
  addWindow(
    experimentId: string,
    trialNumber: number,
    position: number,
    window: LoadRun,
  ): Promise<void>
  /**
   * Replaces the record of the running trial.
   * @throws StoreError if the experiment is unknown, or the trial number exists
   */
  append(experimentId: string, trial: FinishedTrial): Promise<void>
  /** Ends the experiment, and removes its running trials. */
  finish(
    experimentId: string,
    state: Exclude<ExperimentRecord['state'], 'running'>,
    result?: unknown,
  ): Promise<void>
  close(): Promise<void>
}
