import { expect, test } from 'vitest'
import { memoryStore } from '../../trials/store/memory-store.ts'
import { completeTrial } from '../../trials/store/samples.contract.ts'
import type { TrialStore } from '../../trials/types.ts'
import { loadExperiment } from '../experiment/load-experiment.ts'
import type { Experiment } from '../experiment/types.ts'
import { historyOf } from './history.ts'

const gpus = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB']
const experiment = (flags: Record<string, unknown> = {}): Experiment =>
  loadExperiment({
    flags: { model: 'bert', slo: '50ms', backend: 'simulated', ...flags },
    environment: {},
    cwd: process.cwd(),
    machine: { cpuCores: 4, gpus, builtinGpus: gpus },
  })

async function keep(
  store: TrialStore,
  id: string,
  createdAt: string,
  kept: Experiment,
  trials: number,
  spec: unknown = kept.document,
): Promise<void> {
  await store.create({ id, name: id, createdAt, spec, seed: 1, provenance: 'simulated' })
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
