/**
 * What every trial store must do. Registers tests; each implementation's test calls it with a way
 * to make an empty store.
 */
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { mapMetrics } from '../../profiler/model/latency-metrics.ts'
import type { LoadRun } from '../../profiler/model/load-run.ts'
import type { RunningTrial, TrialStore } from '../types.ts'
import { anyTrial, completeTrial } from './samples.contract.ts'

const bert = {
  id: 'bert-7f3a',
  name: 'bert',
  createdAt: '2026-11-20T10:00:00.000Z',
  spec: { model: 'bert', slo: { limitMs: 50 }, maxPrice: Number.POSITIVE_INFINITY },
  provenance: 'emulated',
  seed: 2 ** 40 + 1,
} as const

const running = (number: number): RunningTrial => ({
  number,
  configuration: { cpuCores: number },
  why: 'next',
  startedAt: '2026-11-20T11:00:00.000Z',
  state: 'running',
})

const window = (ms: number): LoadRun => ({
  load: { kind: 'open', rateRps: 2, durationS: 1, arrivals: { kind: 'poisson' }, seed: 1 },
  sentMs: Float64Array.of(0, 500.25),
  latencyMs: Float64Array.of(ms, 1 / 3),
  errorKinds: {},
  planned: 2,
  latenessP99Ms: 0,
  seconds: 1,
  elapsedS: 1.5,
  generatorCores: 0,
  stream: {
    latenciesMs: mapMetrics(() => Float64Array.of(ms, 1)),
    tokens: Float64Array.of(3, 4),
    classes: ['chat', undefined],
    gapsMs: Float64Array.of(),
  },
})

export function storeContract(name: string, open: () => Promise<TrialStore>): void {
  describe(`${name} keeps the store's contract`, () => {
    let store: TrialStore
    beforeEach(async () => {
      store = await open()
    })
    afterEach(() => store.close())

    test('an experiment is loaded as it was created, running and without trials', async () => {
      await store.create(bert)
      expect(await store.load(bert.id)).toEqual({
        experiment: { ...bert, state: 'running' },
        trials: [],
      })
      expect(await store.load('no-such')).toBeUndefined()
    })

    test('trials are loaded by number, whatever the order they were appended in', async () => {
      await store.create(bert)
      for (const n of [10, 2, 1]) await store.append(bert.id, completeTrial(n))
      const loaded = await store.load(bert.id)
      expect(loaded?.trials.map((t) => t.number)).toEqual([1, 2, 10])
    })

    test('what was appended is what is loaded, with every infinity and NaN', async () => {
      let n = 0
      await fc.assert(
        fc.asyncProperty(anyTrial, async (trial) => {
          const id = `e${n++}`
          await store.create({ ...bert, id })
          await store.append(id, trial)
          const loaded = await store.load(id)
          expect(loaded?.trials).toStrictEqual([trial])
        }),
        { numRuns: fc.readConfigureGlobal().numRuns ?? 60 },
      )
    })

    test('a trial is written once', async () => {
      await store.create(bert)
      await store.append(bert.id, completeTrial(1))
      await expect(store.append(bert.id, completeTrial(1, { why: 'again' }))).rejects.toMatchObject(
        { fault: 'duplicate' },
      )
      expect((await store.load(bert.id))?.trials).toEqual([completeTrial(1)])
    })

    test('what the caller changes afterwards does not reach the store, nor what it changes in the answer', async () => {
      const spec = { model: 'bert', nested: [1] }
      await store.create({ ...bert, spec })
      spec.nested.push(2)
      const first = await store.load(bert.id)
      ;(first!.experiment.spec as typeof spec).nested.push(3)
      expect((await store.load(bert.id))?.experiment.spec).toEqual({ model: 'bert', nested: [1] })
    })

    test('an id is taken once, and an unknown experiment is refused by name', async () => {
      await store.create(bert)
      await expect(store.create(bert)).rejects.toMatchObject({ fault: 'duplicate' })
      for (const call of [
        store.append('none', completeTrial(1)),
        store.finish('none', 'done'),
        store.claim('none'),
      ]) {
        await expect(call).rejects.toMatchObject({
          fault: 'unknown-experiment',
          message: expect.stringContaining('none'),
          hint: expect.any(String),
        })
      }
    })

    test('finished means no more trials, until it is claimed to resume', async () => {
      await store.create(bert)
      await store.finish(bert.id, 'done', { verdict: 'x', worst: Number.POSITIVE_INFINITY })
      expect((await store.load(bert.id))?.experiment).toMatchObject({
        state: 'done',
        result: { verdict: 'x', worst: Number.POSITIVE_INFINITY },
      })
      await expect(store.append(bert.id, completeTrial(1))).rejects.toMatchObject({
        fault: 'owned-elsewhere',
      })
      await store.claim(bert.id)
      await store.append(bert.id, completeTrial(1))
      const again = await store.load(bert.id)
      expect(again?.experiment).toEqual({ ...bert, state: 'running' })
      expect(again?.trials).toHaveLength(1)
    })

    test('a trial that is under way is there to resume, with its windows, until it has finished', async () => {
      await store.create(bert)
      const nothing = { lastNumber: 0, endedAfter: 0, running: [] }
      expect(await store.progress(bert.id)).toEqual(nothing)
      await store.start(bert.id, running(2))
      await store.start(bert.id, running(1))
      for (const [position, ms] of [1, 2, 3].entries())
        await store.addWindow(bert.id, 2, position, window(ms))
      // Begun again, it keeps them; a window in the place of another is the last one.
      await store.start(bert.id, { ...running(2), startedAt: '2026-11-20T12:00:00.000Z' })
      await store.addWindow(bert.id, 2, 1, window(Number.NaN))
      expect(await store.progress(bert.id)).toStrictEqual({
        ...nothing,
        running: [
          { ...running(1), windows: [] },
          {
            ...running(2),
            startedAt: '2026-11-20T12:00:00.000Z',
            windows: [window(1), window(Number.NaN)],
          },
        ],
      })
      await store.append(bert.id, completeTrial(2))
      await store.finish(bert.id, 'interrupted')
      const left = { lastNumber: 2, endedAfter: 0, running: [{ ...running(1), windows: [] }] }
      expect(await store.progress(bert.id)).toEqual(left)
      await expect(store.start(bert.id, running(3))).rejects.toMatchObject({
        fault: 'owned-elsewhere',
      })
    })

    test('a run that ended is not the one that is resumed after it', async () => {
      await store.create(bert)
      await store.start(bert.id, running(3))
      await store.append(bert.id, completeTrial(2))
      await store.finish(bert.id, 'done')
      const ended = { lastNumber: 2, endedAfter: 2, running: [] }
      expect(await store.progress(bert.id)).toEqual(ended)
      await store.claim(bert.id)
      await store.append(bert.id, completeTrial(3))
      expect(await store.progress(bert.id)).toEqual({ ...ended, lastNumber: 3 })
      await store.finish(bert.id, 'failed')
      expect((await store.progress(bert.id)).endedAfter).toBe(3)
    })

    test('list tells every experiment, oldest first, with its number of trials', async () => {
      await store.create({ ...bert, id: 'b', createdAt: '2026-11-20T11:00:00.000Z' })
      await store.create({ ...bert, id: 'a', createdAt: '2026-11-20T10:00:00.000Z' })
      await store.append('b', completeTrial(1))
      await store.append('b', completeTrial(2))
      await store.finish('b', 'interrupted')
      expect((await store.list()).map((e) => [e.id, e.state, e.trials])).toEqual([
        ['a', 'running', 0],
        ['b', 'interrupted', 2],
      ])
    })

    test('calls that overlap do not mix', async () => {
      await store.create(bert)
      await Promise.all(
        Array.from({ length: 20 }, (_, i) => store.append(bert.id, completeTrial(i + 1))),
      )
      expect((await store.load(bert.id))?.trials).toHaveLength(20)
    })
  })
}
