/** A trial store in memory, for tests and dry runs: with the behaviour of the stored one. */
import type { ExperimentRecord, FinishedTrial, RunningTrial, TrialStore } from '../types.ts'
import { decode, encode } from './infinity-json.ts'
import { parseWindow } from './run-progress.ts'
import { createUnknownExperimentError, StoreError } from './store-error.ts'

interface StoredExperiment {
  record: ExperimentRecord
  /** Encoded, as in the database. */
  readonly trials: Map<number, string>
  /** Number of its last trial when it last ended, done or failed; 0 before. */
  endedAfter: number
  /** Encoded likewise. */
  readonly running: Map<number, { readonly trial: string; readonly windows: string[] }>
}

const findLastNumber = (trials: ReadonlyMap<number, string>): number =>
  Math.max(0, ...trials.keys())

/**
 * @throws StoreError as the store on disk does, except for faults of files and other processes,
 * which it cannot have
 */
export function createMemoryStore(): TrialStore {
  const experiments = new Map<string, StoredExperiment>()
  let isOpen = true

  const requireStored = (id: string) => {
    const experiment = experiments.get(id)
    if (!experiment) throw createUnknownExperimentError(id)
    return experiment
  }
  const requireRunning = (id: string) => {
    const experiment = requireStored(id)
    if (experiment.record.state !== 'running')
      throw new StoreError(
        'owned-elsewhere',
        `this process cannot write experiment ${id}: it is ${experiment.record.state}`,
        'resume it first',
      )
    return experiment
  }
  const whileOpen = async <T>(work: () => T): Promise<T> => {
    if (!isOpen)
      throw new StoreError('closed', 'the trial store is already closed', 'open the store again')
    return work()
  }
  const copy = <T>(data: T): T => decode(encode(data)) as T

  return {
    create: (experiment) =>
      whileOpen(() => {
        if (experiments.has(experiment.id)) {
          throw new StoreError(
            'duplicate',
            `experiment ${experiment.id} is already in the store`,
            'resume it, or choose another id',
          )
        }
        experiments.set(experiment.id, {
          record: copy({ ...experiment, state: 'running' as const }),
          trials: new Map(),
          endedAfter: 0,
          running: new Map(),
        })
      }),
    claim: (id) =>
      whileOpen(() => {
        const experiment = requireStored(id)
        const { result: _, ...record } = experiment.record
        experiment.record = { ...record, state: 'running' }
      }),
    load: (id) =>
      whileOpen(() => {
        const experiment = experiments.get(id)
        if (!experiment) return undefined
        const trials = [...experiment.trials]
          .sort(([a], [b]) => a - b)
          .map(([, trial]) => decode(trial) as FinishedTrial)
        return { experiment: copy(experiment.record), trials }
      }),
    list: () =>
      whileOpen(() =>
        [...experiments.values()]
          .map(({ record, trials }) => ({ ...copy(record), trials: trials.size }))
          .sort((a, b) =>
            a.createdAt < b.createdAt || (a.createdAt === b.createdAt && a.id < b.id) ? -1 : 1,
          ),
      ),
    progress: (id) =>
      whileOpen(() => {
        const { trials, endedAfter, running } = requireStored(id)
        return {
          lastNumber: findLastNumber(trials),
          endedAfter,
          running: [...running.values()]
            .map(({ trial, windows }) => ({
              ...(decode(trial) as RunningTrial),
              windows: windows.map((window) => parseWindow(decode(window))),
            }))
            .sort((a, b) => a.number - b.number),
        }
      }),
    start: (id, trial) =>
      whileOpen(() => {
        const { running } = requireRunning(id)
        const windows = running.get(trial.number)?.windows ?? []
        running.set(trial.number, { trial: encode(trial), windows })
      }),
    addWindow: (id, number, position, window) =>
      whileOpen(() => {
        // Windows from this position on are replaced, as in the store on disk.
        requireRunning(id).running.get(number)!.windows.splice(position, Infinity, encode(window))
      }),
    append: (id, trial) =>
      whileOpen(() => {
        const { trials, running } = requireRunning(id)
        if (trials.has(trial.number)) {
          throw new StoreError(
            'duplicate',
            `trial ${trial.number} of experiment ${id} is already in the store`,
            'tune never rewrites a finished trial',
          )
        }
        trials.set(trial.number, encode(trial))
        running.delete(trial.number)
      }),
    finish: (id, state, result) =>
      whileOpen(() => {
        const experiment = requireStored(id)
        const { result: _, ...record } = experiment.record
        experiment.record = copy({ ...record, state, ...(result === undefined ? {} : { result }) })
        if (state === 'interrupted') return
        experiment.endedAfter = findLastNumber(experiment.trials)
        experiment.running.clear()
      }),
    close: () =>
      whileOpen(() => {
        isOpen = false
      }),
  }
}
