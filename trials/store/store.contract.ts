/**
 * What every trial store must do. Registers tests; each implementation's test calls it with a way
 * to make an empty store.
 */
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { TrialStore } from '../types.ts'
import { anyTrial, completeTrial } from './samples.contract.ts'

const bert = {
  id: 'bert-7f3a',
  name: 'bert',
  createdAt: '2026-11-20T10:00:00.000Z',
  spec: { model: 'bert', slo: { limitMs: 50 }, maxPrice: Number.POSITIVE_INFINITY },
  provenance: 'emulated',
  seed: 2 ** 40 + 1,
} as const

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
        { numRuns: 60 },
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
