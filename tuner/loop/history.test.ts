import { describe, expect, test } from 'vitest'
import { createMemoryStore } from '../../trials/store/memory-store.ts'
import { completeTrial } from '../../trials/store/samples.contract.ts'
import type { FinishedTrial, Provenance, TrialStore } from '../../trials/types.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import type { Experiment } from '../config/types.ts'
import { loadHistory } from './history.ts'

const experiment = (flags: Record<string, unknown> = {}): Experiment =>
  loadExperiment({
    flags: { model: 'bert', slo: '50ms', backend: 'simulated', ...flags },
    environment: {},
    cwd: process.cwd(),
    machine: { cpuCores: 4, gpus: ['T4', 'L4', 'A10G', 'V100', 'A100-40GB'] },
  })

const now = '2026-01-10T00:00:00Z'
const before = '2026-01-01T00:00:00Z'
const here = experiment()
const configuration = Object.fromEntries(
  here.space.parameters.map((p) => [
    p.name,
    p.kind === 'categorical' || p.kind === 'ordinal' ? p.values[0]! : p.min,
  ]),
)
const trial = (number: number, at: FinishedTrial['configuration'] = configuration) => ({
  ...completeTrial(number),
  configuration: at,
})

async function keep(
  store: TrialStore,
  id: string,
  createdAt: string,
  trials: readonly FinishedTrial[],
  spec: unknown = here.document,
  provenance: Provenance = 'simulated',
): Promise<void> {
  await store.create({ id, name: id, createdAt, spec, seed: 1, provenance })
  for (const each of trials) await store.append(id, each)
  await store.finish(id, 'done')
}

async function storeWith(prepare: (store: TrialStore) => Promise<void>): Promise<TrialStore> {
  const store = createMemoryStore()
  await keep(store, 'this', now, [])
  await prepare(store)
  return store
}

describe('the observations of earlier experiments', () => {
  const one = [trial(1)]
  test.each<[string, (store: TrialStore) => Promise<void>, string[]]>([
    ['are used for the same model', (store) => keep(store, 'x', before, one), ['x']],
    [
      'are used under another SLO',
      (store) => keep(store, 'x', before, one, experiment({ slo: '80ms' }).document),
      ['x'],
    ],
    [
      'are not used for another model',
      (store) => keep(store, 'x', before, one, experiment({ model: 'resnet-50' }).document),
      [],
    ],
    ['are not used where both began at the same moment', (store) => keep(store, 'x', now, one), []],
    [
      'are not used for another provenance',
      (store) => keep(store, 'x', before, one, here.document, 'measured'),
      [],
    ],
    [
      'exclude values outside the space',
      (store) => keep(store, 'x', before, [trial(1, { ...configuration, gpu: 'H100' })]),
      [],
    ],
    [
      'exclude trials with other parameters',
      (store) => keep(store, 'x', before, [trial(1, { ...configuration, maxDelayMs: 2 })]),
      [],
    ],
    [
      'exclude failed trials',
      (store) =>
        keep(store, 'x', before, [
          {
            number: 1,
            configuration,
            why: '',
            startedAt: before,
            seconds: 1,
            state: 'failed',
            error: '',
          },
        ]),
      [],
    ],
    [
      'come from the newest experiment first',
      async (store) => {
        await keep(store, 'older', '2026-01-01T00:00:00Z', one)
        await keep(store, 'newer', '2026-01-02T00:00:00Z', one)
      },
      ['newer', 'older'],
    ],
  ])('%s', async (_, prepare, expected) => {
    const { experiments, observations } = await loadHistory(here, 'this', await storeWith(prepare))
    expect(experiments).toEqual(expected)
    expect(observations).toHaveLength(expected.length)
  })

  test('are limited to the newest eighty', async () => {
    const many = Array.from({ length: 50 }, (_, i) => trial(i + 1))
    const store = await storeWith(async (store) => {
      await keep(store, 'older', '2026-01-01T00:00:00Z', many)
      await keep(store, 'newer', '2026-01-02T00:00:00Z', many)
    })
    expect((await loadHistory(here, 'this', store)).observations).toHaveLength(80)
  })

  test('are not used with --no-history, nor for an experiment that is not in the store', async () => {
    const store = await storeWith((store) => keep(store, 'x', before, one))
    const nothing = { experiments: [], observations: [], stageTrials: [] }
    expect(await loadHistory(experiment({ history: false }), 'this', store)).toEqual(nothing)
    expect(await loadHistory(here, 'unknown', store)).toEqual(nothing)
  })
})

test('trials of earlier pipelines with equal stages tell of the stages, also outside the space', async () => {
  const stage = { model: 'bert', space: { cpuCores: [1, 2] } }
  const pipeline = (cpuCores: number[]) =>
    loadExperiment({
      given: {
        slo: '50ms',
        backend: 'simulated',
        stages: { a: { ...stage, calls: ['b'], space: { cpuCores } }, b: stage },
      },
      cwd: process.cwd(),
      machine: { cpuCores: 4, gpus: [] },
    })
  const outside = trial(1, { 'a.cpuCores': 2 })
  const store = await storeWith((store) =>
    keep(store, 'x', before, [outside], pipeline([2]).document),
  )
  const { observations, stageTrials } = await loadHistory(pipeline([1]), 'this', store)
  expect(observations).toEqual([])
  expect(stageTrials).toEqual([outside])
})
