/** Runs that die as a process does, in a store in memory, and are resumed from it. */
import { createMemoryStore } from '../../trials/store/index.ts'
import type { FinishedTrial, TrialStore } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import type { TuneEvent } from '../loop/events.ts'
import { createRecord } from '../loop/experiment-record.ts'
import { runLoop } from '../loop/loop.ts'
import type { LoopParts } from '../loop/parts.ts'

/** How a run ended, however often it was killed. */
export interface RunEnd {
  readonly trials: readonly FinishedTrial[]
  readonly stored: unknown
  readonly reason: string | undefined
  /** Of all processes together. */
  readonly events: readonly TuneEvent[]
}

/**
 * Runs an experiment to its end.
 * @param assemble parts as a new process makes them, on this store
 * @param kills after how many events each process dies; the one after the last lives
 */
export async function runKilled(
  experiment: Experiment,
  assemble: (store: TrialStore) => LoopParts,
  kills: readonly number[],
): Promise<RunEnd> {
  const store = createMemoryStore()
  const id = 'killed-1'
  await store.create({ ...createRecord(experiment, id), createdAt: '2026-01-01T00:00:00Z' })
  const events: TuneEvent[] = []
  let reason: string | undefined
  for (const kill of [...kills, Number.POSITIVE_INFINITY]) {
    const { experiment: record, trials } = (await store.load(id))!
    if (record.state === 'done' || record.state === 'failed') break
    await store.claim(id)
    const ended = await runOnce(experiment, assemble, store, id, trials, kill, events)
    reason = ended ?? reason
  }
  const { experiment: record, trials } = (await store.load(id))!
  return { trials, stored: record.result, reason, events }
}

/**
 * One process of it.
 * @returns why it ended; undefined if it was killed before
 */
async function runOnce(
  experiment: Experiment,
  assemble: (store: TrialStore) => LoopParts,
  store: TrialStore,
  id: string,
  earlier: readonly FinishedTrial[],
  kill: number,
  events: TuneEvent[],
): Promise<string | undefined> {
  const ending = new AbortController()
  let die = () => {}
  const killed = new Promise<undefined>((resolve) => {
    die = () => resolve(undefined)
  })
  let left = kill
  const parts = assemble(mortal(store, () => left <= 0))
  const run = runLoop(
    experiment,
    { ...parts, experimentId: id, progress: await store.progress(id) },
    earlier,
    (event) => {
      if (left <= 0) return
      events.push(event)
      left -= 1
      if (left > 0) return
      die()
      // What is left of it only stops to compute.
      ending.abort(new Error('killed'))
    },
    ending.signal,
  ).then(({ reason }) => reason)
  return Promise.race([run, killed])
}

/** The store as a process has it: once that is dead, nothing it asks for is done or answered. */
const mortal = (store: TrialStore, isDead: () => boolean): TrialStore =>
  new Proxy(store, {
    get: (target, name: keyof TrialStore) =>
      isDead()
        ? () => new Promise(() => undefined)
        : (...given: unknown[]) =>
            isDead()
              ? new Promise(() => undefined)
              : (target[name] as (...given: unknown[]) => Promise<unknown>)(...given),
  })
