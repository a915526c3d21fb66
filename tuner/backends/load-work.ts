/**
 * Translates a measurement task into a call of the profiler, for this process and for a Job in a
 * cluster.
 */
import {
  type Arrivals,
  type CapacitySearchOptions,
  type ConfirmationWindows,
  confirmCapacity,
  type EarlierMeasurement,
  type Effort,
  efforts,
  type LoadGenerator,
  type LoadPoint,
  type Measurement,
  measureCapacity,
  type Phase,
  type Slo,
  type Target,
} from '../../profiler/index.ts'
import type { Experiment } from '../config/types.ts'
import type { MeasureTask } from './backend.ts'

/** JSON-safe. */
export interface LoadWork {
  readonly seed: number
  readonly measure:
    | (CapacitySearchOptions & { readonly kind: 'capacity'; readonly effort: Effort })
    | {
        readonly kind: 'confirm'
        readonly rateRps: number
        readonly minRps?: number
        readonly minProvenRps?: number
        readonly warmUpRequests?: number
        readonly earlier?: readonly EarlierMeasurement[]
        readonly seconds: number
        readonly arrivals: Arrivals
      }
}

/** Distance between the seeds of two trials: more than the windows of one trial. */
const seedsPerTrial = 10_000

/** @param number of the trial, which seeds its arrivals */
export function createLoadWork(
  { seed, load }: Pick<Experiment, 'seed' | 'load'>,
  task: MeasureTask,
  number: number,
): LoadWork {
  return {
    seed: seed + seedsPerTrial * number,
    measure:
      task.kind === 'trial'
        ? { ...task, kind: 'capacity', effort: chooseEffort(load.trialSeconds, task.precision) }
        : {
            kind: 'confirm',
            rateRps: task.rateRps,
            minRps: task.minRps,
            minProvenRps: task.minProvenRps,
            warmUpRequests: task.warmUpRequests,
            earlier: task.earlier,
            seconds: load.confirmSeconds,
            arrivals: load.arrivals,
          },
  }
}

interface WorkContext {
  readonly target: Target
  readonly slo: Slo
  readonly signal: AbortSignal
  readonly onStep: (point: LoadPoint, phase: Phase) => void
  /** Absent: the profiler creates one. */
  readonly generator?: LoadGenerator
  /** Stored windows of an interrupted confirmation. */
  readonly windows?: ConfirmationWindows
}

export const runLoadWork = (
  { seed, measure }: LoadWork,
  { windows, ...place }: WorkContext,
): Promise<Measurement> =>
  measure.kind === 'capacity'
    ? measureCapacity({ ...place, ...measure, seed })
    : confirmCapacity({ ...place, ...measure, seed, windows })

/**
 * The most precise effort that the load time of a trial allows, but not more precise than required.
 */
export function chooseEffort(trialSeconds: number, precision = 0): Effort {
  const { quick, standard, thorough } = efforts
  const finest = [thorough, standard].find((effort) => trialSeconds >= effort.budgetS) ?? quick
  return { ...finest, precision: Math.max(finest.precision, precision), budgetS: trialSeconds }
}
