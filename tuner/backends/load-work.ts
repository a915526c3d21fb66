/**
 * Describes a measurement for the profiler, and runs it: in this process, or in a Kubernetes Job to
 * which the description is sent.
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

/** A measurement to run; serialisable as JSON. */
export interface LoadWork {
  readonly seed: number
  readonly measure:
    | (CapacitySearchOptions & { readonly kind: 'capacity'; readonly effort: Effort })
    | {
        readonly kind: 'confirm'
        readonly rateRps: number
        /** @see ConfirmOptions.minRps */
        readonly minRps?: number
        /** @see ConfirmOptions.minProvenRps */
        readonly minProvenRps?: number
        readonly warmUpRequests?: number
        /** Earlier measurements of the same configuration. */
        readonly earlier?: readonly EarlierMeasurement[]
        readonly seconds: number
        readonly arrivals: Arrivals
      }
}

/** Distance between the seeds of two trials; larger than the number of windows of a trial. */
const seedsPerTrial = 10_000

/** @param number number of the trial, which seeds its arrivals */
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
  { windows, ...context }: WorkContext,
): Promise<Measurement> =>
  measure.kind === 'capacity'
    ? measureCapacity({ ...context, ...measure, seed })
    : confirmCapacity({ ...context, ...measure, seed, windows })

/**
 * Chooses the most precise effort that the load time of a trial allows, but not more precise than
 * required.
 * @param precision required half width of the interval, relative to the capacity
 */
export function chooseEffort(trialSeconds: number, precision = 0): Effort {
  const { quick, standard, thorough } = efforts
  const mostPrecise = [thorough, standard].find((effort) => trialSeconds >= effort.budgetS) ?? quick
  return {
    ...mostPrecise,
    precision: Math.max(mostPrecise.precision, precision),
    budgetS: trialSeconds,
  }
}
