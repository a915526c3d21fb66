import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { type FinishedTrial, LaunchError } from '../../trials/types.ts'
import type { MeasureTask } from '../backends/backend.ts'
import {
  batchProblem,
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  loadPoint,
  measurement,
} from '../testing/fakes.ts'
import { confirmAsNeeded, measureAgain } from './confirmation.ts'
import type { EventBody } from './events.ts'
import { TrialLog } from './trial-log.ts'

const never = new AbortController().signal
/** Measured once: 100 req/s × batch size, all at one price. */
const tried = (number: number, batchSize: number): FinishedTrial => ({
  number,
  configuration: { batchSize },
  why: '',
  startedAt: '2026-01-01T00:00:00Z',
  seconds: 5,
  state: 'complete',
  measurement: measurement(100 * batchSize),
})
const missed: Measurement = {
  ...measurement(0),
  outcome: 'budget',
  capacityCi90Rps: [0, 80],
  points: [loadPoint(90, 70), loadPoint(80, 60)],
}
const missedAt = (rateRps: number): Measurement => ({
  ...missed,
  capacityCi90Rps: [0, rateRps],
  points: [loadPoint(rateRps, 70)],
})

/** What a run confirms, given what each confirmation measures. */
async function confirm(
  trials: readonly FinishedTrial[],
  again: (rateRps: number, batchSize: number) => Promise<Measurement>,
) {
  const tasks: Extract<MeasureTask, { rateRps: number }>[] = []
  const parts = fakeParts({
    backend: {
      ...fakeParts().backend,
      measure: ({ isolation }, task, { onStep }) => {
        if (task.kind !== 'confirmation') throw new Error('no trial was asked for')
        tasks.push(task)
        onStep?.(loadPoint(task.rateRps, 40), 'confirm')
        return again(task.rateRps, Number(isolation))
      },
    },
  })
  const log = new TrialLog({
    objective: batchProblem.objective,
    pricePerHour: () => 1,
    earlier: trials,
    withheld: () => new Set(),
  })
  const events: EventBody[] = []
  await confirmAsNeeded(fakeExperiment(), parts, log, (event) => events.push(event), never)
  const asked = parts.store.appended.map(({ configuration }) => configuration.batchSize)
  return { asked, tasks, events, log, appended: parts.store.appended }
}

describe('what is confirmed', () => {
  test('the winner, and no more once it held', async () => {
    const { asked, appended, log } = await confirm([tried(1, 1), tried(2, 8)], async (rps) =>
      measurement(rps),
    )
    expect(asked).toEqual([8])
    expect(appended[0]).toMatchObject({
      number: 3,
      purpose: 'confirmation',
      why: 'confirmation of trial 2',
      state: 'complete',
    })
    expect(log.trials.at(-1)).toBe(appended[0])
  })

  test('where it did not hold, the next at once, down to the rate at which the one after it is as good; four heats at most', async () => {
    const six = [1, 2, 3, 4, 5, 6].map((batchSize) => tried(batchSize, batchSize))
    const { asked, tasks } = await confirm(six, async (rps) => missedAt(rps))
    expect(asked).toEqual([6, 6, 5, 5])
    // 95 % of what was missed still leads the 450 of the next; 95 % of that does not lead what it
    // is tried at then.
    expect(tasks.map(({ rateRps }) => Math.round(rateRps))).toEqual([540, 513, 450, 428])
    expect(tasks.map(({ leastRps }) => leastRps && Math.round(leastRps))).toEqual([
      450,
      450,
      360,
      undefined,
    ])
  })

  test('with what was measured of the same configuration before', async () => {
    const two = [tried(1, 1), tried(2, 8)]
    const { asked, tasks } = await confirm(two, async (rps) => missedAt(rps))
    expect(asked.slice(0, 2)).toEqual([8, 8])
    const windows = tasks.map(({ earlier }) => earlier?.map((each) => each.windows.length))
    expect(windows.slice(0, 2).map((each) => each?.length)).toEqual([1, 2])
    const unloadedMs = tasks[0]!.earlier!.map(({ unloaded }) => unloaded.p50Ms)
    expect(unloadedMs).toEqual([measurement(800).unloaded.p50Ms])
  })

  test('close rivals take turns', async () => {
    const close = [100, 99, 98].map((percent, i) => tried(i + 1, percent / 10))
    const { asked, log } = await confirm(close, async (rps, batchSize) =>
      batchSize === 10 ? missedAt(rps) : measurement(rps),
    )
    expect(asked).toEqual([10, 9.9])
    expect(log.trials.at(-1)).toMatchObject({
      configuration: { batchSize: 9.9 },
      measurement: { capacityRps: 0.9 * 990 },
    })
  })

  test('one that failed to start is tried once more, then left for the next', async () => {
    const { asked } = await confirm([tried(1, 1), tried(2, 8)], async () =>
      Promise.reject(new Error('reset')),
    )
    expect(asked).toEqual([8, 8])
    const { asked: two } = await confirm([tried(1, 7), tried(2, 8)], async (rps, batchSize) =>
      batchSize === 8 ? Promise.reject(new Error('reset')) : measurement(rps),
    )
    expect(two).toEqual([8, 8])
  })

  test('nothing, where nothing starts any more', async () => {
    const final = new LaunchError('no command', undefined, undefined, 'experiment')
    const { asked, events } = await confirm([tried(1, 1), tried(2, 8)], async () =>
      Promise.reject(final),
    )
    expect(asked).toEqual([8])
    expect(events.at(-1)).toEqual({
      type: 'warning',
      message: 'the confirmation of trial 2 did not complete: no command',
    })
    const once = new LaunchError('a shape', undefined, undefined, 'configuration')
    expect(
      (await confirm([tried(1, 1), tried(2, 8)], async () => Promise.reject(once))).asked,
    ).toEqual([8, 8])
  })

  test('nothing, where nothing was measured', async () => {
    expect((await confirm([], async () => missed)).asked).toEqual([])
  })
})

describe('what is told of it', () => {
  test('that it began, came up and was loaded, and at which rate it held', async () => {
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

  test('that it missed: the last window tells the latency', async () => {
    const { events } = await confirm([tried(1, 8)], async () => missed)
    expect(events.find(({ type }) => type === 'confirmed')).toEqual({
      type: 'confirmed',
      number: 2,
      met: false,
      rateRps: 0,
      sloMs: 60,
    })
  })

  test('that it did not complete, and why', async () => {
    const launcher = fakeLauncher(async () =>
      fakePredictor({ died: Promise.resolve({ what: 'OOM', outOfMemory: true }) }),
    )
    const { store, ...parts } = fakeParts({ launcher })
    const log = new TrialLog({
      objective: batchProblem.objective,
      pricePerHour: () => 1,
      earlier: [],
      withheld: () => new Set(),
    })
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
    const trial = await measureAgain(
      fakeExperiment(),
      { ...parts, store, backend },
      log,
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
