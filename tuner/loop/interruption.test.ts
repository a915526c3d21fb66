import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../../profiler/model/load-run.ts'
import { runFakes } from '../testing/fake-run.ts'
import {
  fakeExperiment,
  fakeLauncher,
  fakeParts,
  fakePredictor,
  type fakeStore,
  measurement,
} from '../testing/fakes.ts'
import type { TuneEvent } from './events.ts'
import { runLoop } from './loop.ts'

const never = new AbortController().signal

describe('an interruption or a failure', () => {
  test('an interrupt stops the running predictor, keeps finished trials and marks the experiment as interrupted', async () => {
    const controller = new AbortController()
    let stopped = 0
    const launcher = fakeLauncher(async (configuration) =>
      fakePredictor({
        isolation: String(configuration.batchSize),
        stop: async () => {
          stopped += 1
        },
      }),
    )
    const load = (predictor: { isolation: string }, _options: unknown, signal: AbortSignal) =>
      new Promise<ReturnType<typeof measurement>>((resolve, reject) => {
        if (predictor.isolation !== '4') return resolve(measurement(100))
        signal.addEventListener('abort', () => reject(signal.reason))
        controller.abort(new Error('Ctrl-C'))
      })
    const { result, parts, events } = await runFakes({ launcher, load }, {}, controller.signal)
    expect(result.reason).toBe('interrupted')
    expect(events.find((e) => e.type === 'stopped')).toMatchObject({
      detail: '2 finished trials are saved',
    })
    expect(events.at(-1)).toMatchObject({ type: 'recommended', files: [] })
    expect(parts.store.appended.map((t) => t.configuration.batchSize)).toEqual([1, 2])
    expect(parts.store.finished).toBe('interrupted')
    expect(stopped).toBeGreaterThanOrEqual(3)
  })

  test('an interrupt keeps a trial that finishes while the run ends', async () => {
    const controller = new AbortController()
    const load = async ({ isolation }: { isolation: string }, _: unknown, signal: AbortSignal) => {
      if (isolation === '1') return measurement(100)
      // Of two parallel trials, one completes and the other one aborts.
      if (isolation === '4') {
        controller.abort(new Error('Ctrl-C'))
        throw signal.reason
      }
      return new Promise<ReturnType<typeof measurement>>((resolve) =>
        signal.addEventListener('abort', () => resolve(measurement(200))),
      )
    }
    const { events, parts } = await runFakes({ load }, { parallel: 2 }, controller.signal)
    expect(parts.store.appended.map((t) => t.configuration.batchSize)).toEqual([1, 2])
    expect(events.find((e) => e.type === 'stopped')).toMatchObject({
      detail: '2 finished trials are saved, 1 of them just now',
    })
  })

  test('an interrupted confirmation resumes with its windows and its number', async () => {
    const { backend, ...others } = fakeParts()
    const window = { planned: 3 } as LoadRun
    const given: unknown[] = []
    const measure: typeof backend.measure = async (predictor, task, options, signal) => {
      if (task.kind === 'confirmation') {
        given.push([options.number, options.windows?.earlier])
        await options.windows?.store(window, 1)
      }
      return backend.measure(predictor, task, options, signal)
    }
    const configuration = { batchSize: 16 }
    const running = { number: 9, configuration, why: '', startedAt: '', windows: [window] }
    const parts = {
      ...others,
      backend: { ...backend, measure },
      progress: {
        lastNumber: 0,
        endedAfter: 0,
        running: [{ ...running, state: 'running', purpose: 'confirmation' } as const],
      },
    }
    const kept: unknown[] = []
    const begun: number[] = []
    parts.store.addWindow = async (...window) => void kept.push(window)
    parts.store.start = async (_, { number }) => void begun.push(number)
    await runLoop(fakeExperiment(), parts, [], () => undefined, never)
    expect(given).toEqual([[9, [window]]])
    expect(kept).toEqual([['fake-1', 9, 1, window]])
    // Trials of the resumed search have later numbers.
    expect(begun).toEqual([10, 11, 12, 13, 14, 9])
  })

  test('a failure to write the result files ends the run with its error, after the recommendation was stored', async () => {
    const parts = fakeParts({ write: () => Promise.reject(new Error('no space left')) })
    const events: TuneEvent[] = []
    const run = runLoop(
      fakeExperiment(),
      parts,
      [],
      (event) => events.push(event),
      new AbortController().signal,
    )
    await expect(run).rejects.toThrow('no space left')
    expect(events.at(-1)).toMatchObject({ type: 'recommended', files: [] })
    expect((parts.store as ReturnType<typeof fakeStore>).finished).toBe('done')
  })

  test('a failure of the store ends the run with its error, after all predictors have stopped', async () => {
    let stopped = 0
    const launcher = fakeLauncher(async () =>
      fakePredictor({
        isolation: '1',
        stop: async () => {
          stopped += 1
        },
      }),
    )
    const parts = fakeParts({ launcher })
    parts.store.append = async () => {
      throw new Error('disk full')
    }
    await expect(
      runLoop(fakeExperiment({ parallel: 2 }), parts, [], () => undefined, never),
    ).rejects.toThrow('disk full')
    expect(stopped).toBeGreaterThanOrEqual(2)
  })

  test('a predictor that dies under load twice is infeasible; one death suffices out of memory', async () => {
    const launcher = fakeLauncher(async (configuration) => {
      const what = configuration.batchSize === 2 ? 'exit 1' : 'killed: out of memory'
      const dies = Number(configuration.batchSize) > 1
      return fakePredictor({
        isolation: String(configuration.batchSize),
        died: dies
          ? Promise.resolve({ what, outOfMemory: configuration.batchSize !== 2 })
          : undefined,
      })
    })
    const load = (predictor: { isolation: string }, _options: unknown, signal: AbortSignal) =>
      new Promise<ReturnType<typeof measurement>>((resolve, reject) => {
        if (predictor.isolation === '1') return resolve(measurement(100))
        if (signal.aborted) return reject(signal.reason)
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    const { parts } = await runFakes(
      { launcher, load },
      { budget: { maxTrials: 3 }, confirm: false },
    )
    expect(
      parts.store.appended.map((t) => [
        t.configuration.batchSize,
        t.state,
        'reason' in t ? t.reason : '',
      ]),
    ).toEqual([
      [1, 'complete', ''],
      [2, 'failed', ''],
      [2, 'infeasible', 'crashed'],
      [4, 'infeasible', 'out-of-memory'],
    ])
  })
})
