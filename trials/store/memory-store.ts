/**
 * A trial store in memory, for tests and dry runs: the same behaviour, gone at the end of the
 * process.
 */
import type { ExperimentRecord, FinishedTrial, TrialStore } from '../types.ts'
import { decode, encode } from './infinity-json.ts'
import { StoreError, unknownExperiment } from './store-error.ts'

/**
 * Throws StoreError as the store on disk does, except for faults of files and other processes,
 * which it cannot have.
 */
export function memoryStore(): TrialStore {
  const experiments = new Map<string, { record: ExperimentRecord; trials: Map<number, string> }>()
  let open = true

  const need = (id: string) => {
    const found = experiments.get(id)
    if (!found) throw unknownExperiment(id)
    return found
  }
  const answer = async <T>(work: () => T): Promise<T> => {
    if (!open)
      throw new StoreError('closed', 'the trial store is closed already', 'open the store again')
    return work()
  }
  const copy = <T>(data: T): T => decode(encode(data)) as T

  return {
    create: (experiment) =>
      answer(() => {
        if (experiments.has(experiment.id)) {
          throw new StoreError(
            'duplicate',
            `experiment ${experiment.id} is in the store already`,
            'resume it, or choose another id',
          )
        }
        experiments.set(experiment.id, {
          record: copy({ ...experiment, state: 'running' as const }),
          trials: new Map(),
        })
      }),
    claim: (id) =>
      answer(() => {
        const found = need(id)
        const { result: _, ...record } = found.record
        found.record = { ...record, state: 'running' }
      }),
    load: (id) =>
      answer(() => {
        const found = experiments.get(id)
        if (!found) return undefined
        const trials = [...found.trials]
          .sort(([a], [b]) => a - b)
          .map(([, trial]) => decode(trial) as FinishedTrial)
        return { experiment: copy(found.record), trials }
      }),
    list: () =>
      answer(() =>
        [...experiments.values()]
          .map(({ record, trials }) => ({ ...copy(record), trials: trials.size }))
          .sort((a, b) =>
            a.createdAt < b.createdAt || (a.createdAt === b.createdAt && a.id < b.id) ? -1 : 1,
          ),
      ),
    lastNumber: (id) => answer(() => Math.max(0, ...(experiments.get(id)?.trials.keys() ?? []))),
    append: (id, trial) =>
      answer(() => {
        const { record, trials } = need(id)
        if (record.state !== 'running') {
          throw new StoreError(
            'owned-elsewhere',
            `experiment ${id} cannot be written by this process: it is ${record.state}`,
            'resume it first',
          )
        }
        if (trials.has(trial.number)) {
          throw new StoreError(
            'duplicate',
            `trial ${trial.number} of experiment ${id} is in the store already`,
            'a finished trial is never rewritten',
          )
        }
        trials.set(trial.number, encode(trial))
      }),
    finish: (id, state, result) =>
      answer(() => {
        const found = need(id)
        const { result: _, ...record } = found.record
        found.record = copy({ ...record, state, ...(result === undefined ? {} : { result }) })
      }),
    close: () =>
      answer(() => {
        open = false
      }),
  }
}
