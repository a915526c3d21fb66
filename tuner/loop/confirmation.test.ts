import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { type FinishedTrial, LaunchError } from '../../trials/types.ts'
import type { MeasureTask } from '../backends/backend.ts'
import {
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  loadPoint,
  measurement,
} from '../testing/fakes.ts'
import { confirmCandidates, measureAtRate } from './confirmation.ts'
import type { EventBody } from './events.ts'
import { Ledger } from './ledger.ts'

const never = new AbortController().signal
/** A trial with 100 req/s × batch size, all at one price. */
const tried = (number: number, batchSize: number): FinishedTrial => ({
  number,
  configuration: { batchSize },
  why: '',
  startedAt: '2026-01-01T00:00:00Z',
  seconds: 5,
  state: 'complete',
  measurement: measurement(100 * batchSize),
})
const violated: Measurement = {
  ...measurement(0),
  outcome: 'budget',
  capacityCi90Rps: [0, 80],
  points: [loadPoint(90, 70), loadPoint(80, 60)],
}
const violatedAt = (rateRps: number): Measurement => ({
  ...violated,
  capacityCi90Rps: [0, rateRps],
  points: [loadPoint(rateRps, 70)],
})

/** Runs the confirmations of measured trials. */
async function confirm(
  trials: readonly FinishedTrial[],
  again: (rateRps: number, batchSize: number) => Promise<Measurement>,
) {
  const tasks: Extract<MeasureTask, { rateRps: number }>[] = []
  const parts = fakeParts({
    backend: {
      ...fakeParts().backend,
      measure: ({ isolation }, task, { onStep }) => {
        if (task.kind !== 'confirmation') throw new Error('only confirmations are expected')
        tasks.push(task)
        onStep?.(loadPoint(task.rateRps, 40), 'confirm')
        return again(task.rateRps, Number(isolation))
      },
    },
  })
  const ledger = new Ledger({ ...parts, earlier: trials })
  const events: EventBody[] = []
  await confirmCandidates(fakeExperiment(), parts, ledger, (event) => events.push(event), never)
  const confirmed = parts.store.appended.map(({ configuration }) => configuration.batchSize)
  return { confirmed, tasks, events, ledger, appended: parts.store.appended }
}

describe('the confirmation race', () => {
  test('ends once the best candidate is confirmed', async () => {
    const { confirmed, appended, ledger } = await confirm([tried(1, 1), tried(2, 8)], async (rps) =>
      measurement(rps),
    )
    expect(confirmed).toEqual([8])
    expect(appended[0]).toMatchObject({
      number: 3,
      purpose: 'confirmation',
      why: 'confirmation of trial 2',
      state: 'complete',
    })
    expect(ledger.trials.at(-1)).toBe(appended[0])
  })

  test('tries a refuted candidate at lower rates until the next one leads, for at most four rounds', async () => {
    const six = [1, 2, 3, 4, 5, 6].map((batchSize) => tried(batchSize, batchSize))
    const { confirmed, tasks } = await confirm(six, async (rps) => violatedAt(rps))
    expect(confirmed).toEqual([6, 6, 5, 5])
    // 95 % of the violated rate still leads the 450 of the next candidate; 95 % of that does not.
    expect(tasks.map(({ rateRps }) => Math.round(rateRps))).toEqual([540, 513, 450, 428])
    expect(tasks.map(({ minRps }) => minRps && Math.round(minRps))).toEqual([
      450,
      450,
      360,
      undefined,
    ])
  })

  test('passes the earlier measurements of the configuration', async () => {
    const two = [tried(1, 1), tried(2, 8)]
    const { confirmed, tasks } = await confirm(two, async (rps) => violatedAt(rps))
    expect(confirmed.slice(0, 2)).toEqual([8, 8])
    const windows = tasks.map(({ earlier }) => earlier?.map((each) => each.windows.length))
    expect(windows.slice(0, 2).map((each) => each?.length)).toEqual([1, 2])
    const unloadedMs = tasks[0]!.earlier!.map(({ unloaded }) => unloaded.p50Ms)
    expect(unloadedMs).toEqual([measurement(800).unloaded.p50Ms])
  })

  test('continues with the next candidate where they are close', async () => {
    const close = [100, 99, 98].map((percent, i) => tried(i + 1, percent / 10))
    const { confirmed, ledger } = await confirm(close, async (rps, batchSize) =>
      batchSize === 10 ? violatedAt(rps) : measurement(rps),
    )
    expect(confirmed).toEqual([10, 9.9])
    expect(ledger.trials.at(-1)).toMatchObject({
      configuration: { batchSize: 9.9 },
      measurement: { capacityRps: 0.9 * 990 },
    })
  })

  test('tries a candidate that failed once more', async () => {
    const { confirmed } = await confirm([tried(1, 1), tried(2, 8)], async () =>
      Promise.reject(new Error('reset')),
    )
    expect(confirmed).toEqual([8, 8])
    const { confirmed: two } = await confirm([tried(1, 7), tried(2, 8)], async (rps, batchSize) =>
      batchSize === 8 ? Promise.reject(new Error('reset')) : measurement(rps),
    )
    expect(two).toEqual([8, 8])
  })

  test('ends at a failure that is final for the experiment', async () => {
    const final = new LaunchError('no command', undefined, undefined, 'experiment')
    const { confirmed, events } = await confirm([tried(1, 1), tried(2, 8)], async () =>
      Promise.reject(final),
    )
    expect(confirmed).toEqual([8])
    expect(events.at(-1)).toEqual({
      type: 'warning',
      message: 'the confirmation of trial 2 did not complete: no command',
    })
    const once = new LaunchError('a shape', undefined, undefined, 'configuration')
    expect(
      (await confirm([tried(1, 1), tried(2, 8)], async () => Promise.reject(once))).confirmed,
    ).toEqual([8, 8])
  })

  test('does nothing without a measured candidate', async () => {
    expect((await confirm([], async () => violated)).confirmed).toEqual([])
  })
})

describe('the events of a confirmation', () => {
  test('report its start, readiness, load and the rate that met the SLO', async () => {
    const { events } = await confirm([tried(1, 8)], async (rps) => measurement(rps))
    // 93 % of 800.
    const [begun, ready, step, done] = events
    expect(begun).toEqual({
      type: 'confirming',
      number: 2,
      configuration: { batchSize: 8 },
      label: '{"batchSize":8}',
    })
    expect(ready).toEqual({ type: 'predictor-ready', number: 2, isolation: '8', seconds: 0.25 })
    expect(step).toEqual({
      type: 'load-step',
      number: 2,
      point: loadPoint(720, 40),
      sloMs: 50,
      phase: 'confirm',
    })
    expect(done).toEqual({ type: 'confirmed', number: 2, met: true, rateRps: 720, sloMs: 48 })
    expect(events).toHaveLength(4)
  })

  test('report a violation with the latency of the last window', async () => {
    const { events } = await confirm([tried(1, 8)], async () => violated)
    expect(events.find(({ type }) => type === 'confirmed')).toEqual({
      type: 'confirmed',
      number: 2,
      met: false,
      rateRps: 0,
      sloMs: 60,
    })
  })

  test('report why it did not complete', async () => {
    const launcher = fakeLauncher(async () =>
      fakePredictor({ died: Promise.resolve({ what: 'OOM', outOfMemory: true }) }),
    )
    const { store, ...parts } = fakeParts({ launcher })
    const ledger = new Ledger({ ...parts, earlier: [] })
    const events: EventBody[] = []
    const backend = {
      ...parts.backend,
      measure: (_: unknown, __: unknown, ___: unknown, signal: AbortSignal) =>
        new Promise<Measurement>((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason)),
        ),
    }
    const task = { kind: 'verification', rateRps: 50 } as const
    const of = { configuration: { batchSize: 8 }, trial: 4 }
    const trial = await measureAtRate(
      fakeExperiment(),
      { ...parts, store, backend },
      ledger,
      (e) => events.push(e),
      task,
      of,
      never,
    )
    expect(trial).toMatchObject({ state: 'infeasible', why: 'verification of trial 4' })
    expect(store.appended).toEqual([trial])
    expect(events.slice(-2)).toEqual([
      { type: 'confirmed', number: 1, met: false, rateRps: 0, sloMs: Infinity },
      { type: 'warning', message: 'the verification of trial 4 did not complete: under load: OOM' },
    ])
  })
})
