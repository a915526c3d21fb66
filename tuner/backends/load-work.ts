/**
 * A task of the seam as the profiler's work: the same from this process and from a Job in a
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

/** More than the seeds that one trial's loads take after its first. */
const seedsOfTrial = 10_000

/** @param number of the trial: arrivals of its own */
export function workOf(
  { seed, load }: Pick<Experiment, 'seed' | 'load'>,
  task: MeasureTask,
  number: number,
): LoadWork {
  return {
    seed: seed + seedsOfTrial * number,
    measure:
      task.kind === 'trial'
        ? { ...task, kind: 'capacity', effort: effortFor(load.trialSeconds, task.precision) }
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

interface WorkPlace {
  readonly target: Target
  readonly slo: Slo
  readonly signal: AbortSignal
  readonly onStep: (point: LoadPoint, phase: Phase) => void
  /** Absent: one of the work's own. */
  readonly generator?: LoadGenerator
  /** Of a confirmation. */
  readonly windows?: ConfirmationWindows
}

export const doWork = (
  { seed, measure }: LoadWork,
  { windows, ...place }: WorkPlace,
): Promise<Measurement> =>
  measure.kind === 'capacity'
    ? measureCapacity({ ...place, ...measure, seed })
    : confirmCapacity({ ...place, ...measure, seed, windows })

/** The finest measurement that a trial's time under load allows, no finer than it has to be. */
export function effortFor(trialSeconds: number, precision = 0): Effort {
  const { quick, standard, thorough } = efforts
  const finest = [thorough, standard].find((effort) => trialSeconds >= effort.budgetS) ?? quick
  return { ...finest, precision: Math.max(finest.precision, precision), budgetS: trialSeconds }
}
