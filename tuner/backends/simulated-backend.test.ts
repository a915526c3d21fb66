import { expect, test } from 'vitest'
import { loadExperiment } from '../config/load-experiment.ts'
import { fakePredictor } from '../testing/fakes.ts'
import { backendContract } from './backend.contract.ts'
import { createSimulatedBackend } from './simulated-backend.ts'

const load = (model: string, slo: string, gpus: string) =>
  loadExperiment({
    flags: { model, slo, backend: 'simulated', gpus, confirmTime: '20s' },
    environment: {},
    cwd: '.',
    machine: { cpuCores: 2, gpus: [] },
  })
const openMortal = { skip: 'a server in virtual time does not end' }

backendContract('virtual time', {
  open: async () => ({
    backend: createSimulatedBackend(load('bert', '50ms', 'T4')),
    configuration: { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 8 },
  }),
  openMortal,
  leftovers: () => [],
})

test('every trial plays the same arrivals: chance does not rank configurations', async () => {
  const { launcher, measure } = createSimulatedBackend(load('bert', '50ms', 'T4'))
  const { signal } = new AbortController()
  const seeds = async (number: number) => {
    const predictor = await launcher.launch(
      { cpuCores: 1, gpu: 'T4', gpuMemoryPercent: 50, batchSize: 1 },
      number,
      signal,
    )
    const { points } = await measure(
      predictor,
      { kind: 'trial' },
      { number, onStep: () => {} },
      signal,
    )
    return points.flatMap(({ load }) => (load.kind === 'open' ? [load.seed] : []))
  }
  expect(await seeds(1)).toEqual(await seeds(2))
})

test('a predictor of another backend is refused', async () => {
  const { measure } = createSimulatedBackend(load('bert', '50ms', 'T4'))
  await expect(
    measure(
      fakePredictor(),
      { kind: 'trial' },
      { number: 1, onStep: () => {} },
      new AbortController().signal,
    ),
  ).rejects.toThrow(/not a predictor in virtual time/)
})
