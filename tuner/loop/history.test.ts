import { describe, expect, test } from 'vitest'
import { memoryStore } from '../../trials/store/memory-store.ts'
import { completeTrial } from '../../trials/store/samples.contract.ts'
import type { Provenance, TrialStore } from '../../trials/types.ts'
import { loadExperiment } from '../experiment/load-experiment.ts'
import type { Experiment } from '../experiment/types.ts'
import { historyOf } from './history.ts'

const gpus = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB']
const experiment = (flags: Record<string, unknown> = {}): Experiment =>
  loadExperiment({
    flags: { model: 'bert', slo: '50ms', backend: 'simulated', ...flags },
    environment: {},
    cwd: process.cwd(),
    machine: { cpuCores: 4, gpus },
  })

async function keep(
  store: TrialStore,
  id: string,
  createdAt: string,
  kept: Experiment,
  trials: number,
  spec: unknown = kept.document,
  provenance: Provenance = 'simulated',
): Promise<void> {
  await store.create({ id, name: id, createdAt, spec, seed: 1, provenance })
  for (let number = 1; number <= trials; number++) await store.append(id, completeTrial(number))
  await store.finish(id, 'done')
}

test('experiments begun before, of the same kind and of no other parameters, newest first; those no longer readable are named', async () => {
  const store = memoryStore()
  const here = experiment()
  await keep(store, 'first', '2026-01-01T00:00:00Z', here, 5)
  await keep(store, 'second', '2026-01-02T00:00:00Z', experiment({ slo: '80ms' }), 6)
  await keep(store, 'short', '2026-01-03T00:00:00Z', here, 2)
  await keep(store, 'other-knobs', '2026-01-03T00:00:00Z', experiment({ model: 'llama-3.1-8b' }), 5)
  await keep(store, 'broken', '2026-01-03T00:00:00Z', here, 5, { space: 'of another version' })
  await keep(store, 'this', '2026-01-04T00:00:00Z', here, 0)
  await keep(store, 'later', '2026-01-05T00:00:00Z', here, 5)
  const { past, unread } = await historyOf(here, 'this', store)
  expect(past.map((p) => [p.name, p.observations.length])).toEqual([
    ['second', 6],
    ['first', 5],
  ])
  expect(unread).toEqual(['broken'])
})

test('--no-history starts afresh', async () => {
  const store = memoryStore()
  await keep(store, 'first', '2026-01-01T00:00:00Z', experiment(), 5)
  await keep(store, 'this', '2026-01-02T00:00:00Z', experiment(), 0)
  expect((await historyOf(experiment(), 'this', store)).past).toHaveLength(1)
  expect((await historyOf(experiment({ history: false }), 'this', store)).past).toHaveLength(0)
})

describe('what counts as an earlier experiment', () => {
  const now = '2026-01-10T00:00:00Z'
  const before = '2026-01-01T00:00:00Z'
  const here = experiment()
  const { batchSize: _, ...fewer } = here.document.space as Record<string, unknown>
  const more = { ...(here.document.space as object), maxDelayMs: [0, 2] }
  const pastOf = async (prepare: (store: TrialStore) => Promise<void>) => {
    const store = memoryStore()
    await keep(store, 'this', now, here, 0)
    await prepare(store)
    return (await historyOf(here, 'this', store)).past.map(({ name }) => name)
  }

  test.each<[string, (store: TrialStore) => Promise<void>, string[]]>([
    ['four trials are enough', (store) => keep(store, 'x', before, here, 4), ['x']],
    ['three are not', (store) => keep(store, 'x', before, here, 3), []],
    ['begun at the same moment, it is not earlier', (store) => keep(store, 'x', now, here, 5), []],
    [
      'measured, it tells of other things than what is simulated',
      (store) => keep(store, 'x', before, here, 5, here.document, 'measured'),
      [],
    ],
    [
      'of fewer parameters, it tells of those',
      (store) => keep(store, 'x', before, here, 5, { ...here.document, space: fewer }),
      ['x'],
    ],
    [
      'of more, it does not',
      (store) => keep(store, 'x', before, here, 5, { ...here.document, space: more }),
      [],
    ],
  ])('%s', async (_, prepare, names) => {
    expect(await pastOf(prepare)).toEqual(names)
  })

  test('trials that teach nothing do not count', async () => {
    const failed = {
      number: 9,
      configuration: {},
      why: '',
      startedAt: before,
      seconds: 1,
      state: 'failed',
      error: 'no port',
    } as const
    const names = await pastOf(async (store) => {
      await store.create({
        id: 'x',
        name: 'x',
        createdAt: before,
        spec: here.document,
        seed: 1,
        provenance: 'simulated',
      })
      for (const number of [1, 2, 3]) await store.append('x', completeTrial(number))
      await store.append('x', failed)
    })
    expect(names).toEqual([])
  })

  test('the newest eight are learned from', async () => {
    const names = await pastOf(async (store) => {
      for (let day = 1; day <= 9; day++)
        await keep(store, `day-${day}`, `2026-01-0${day}T00:00:00Z`, here, 4)
    })
    expect(names).toEqual([9, 8, 7, 6, 5, 4, 3, 2].map((day) => `day-${day}`))
  })

  test('nothing, of an experiment that the store does not know', async () => {
    const store = memoryStore()
    await keep(store, 'x', before, here, 5)
    expect(await historyOf(here, 'this', store)).toEqual({ past: [], unread: [] })
  })
})
