import { expect, it } from 'vitest'
import { findArchitecture } from '../../devices/architecture.ts'
import { readSettings } from '../../predictor/settings.ts'
import { createEstimator } from './estimate.ts'
import { modelServer } from './modelled-server.ts'

/** Of one instance that has them all. */
const onCoresMs = (
  model: string,
  sequenceLength: number,
  cpuCores: number,
  batch: number,
): number =>
  modelServer(findArchitecture(model), {
    cpuCores,
    batchSize: batch,
    sequenceLength,
    instances: 1,
  }).predictBatchLatency(batch).ms
/** What each request costs around its batch (`npm run bench:predictor -- cpu`). */
const perItemOverheadMs = 2.5

/**
 * Medians of `npm run bench:predictor -- inference` on a core of 2.x GHz; the last two models are
 * not those that the constants were chosen on.
 */
it.each([
  { model: 'bert-tiny', length: 128, cores: 1, batches: [1, 2, 8], ms: [6.1, 11.6, 45] },
  { model: 'bert-tiny', length: 128, cores: 2, batches: [1, 2, 8], ms: [4.7, 9.2, 31] },
  { model: 'mobilenet', length: 128, cores: 1, batches: [1, 2, 8], ms: [41.8, 81.3, 323] },
  { model: 'mobilenet', length: 128, cores: 2, batches: [1, 2, 8], ms: [22.4, 44.3, 169] },
  { model: 'bert-mini', length: 32, cores: 1, batches: [1, 8], ms: [10.1, 78] },
  { model: 'bert-mini', length: 128, cores: 1, batches: [1, 8], ms: [37.3, 353] },
  { model: 'bert-base', length: 128, cores: 1, batches: [1], ms: [877] },
])(
  '$model at $length tokens on $cores cores is computed as fast as measured',
  ({ model, length, cores, batches, ms }) => {
    for (const [i, batch] of batches.entries()) {
      const ratio = (onCoresMs(model, length, cores, batch) - batch * perItemOverheadMs) / ms[i]!
      expect(ratio).toBeGreaterThan(0.78)
      expect(ratio).toBeLessThan(1.1)
    }
  },
)

it('a text is no cheaper in a batch on cores: large ones only wait longer', () => {
  expect(onCoresMs('bert-tiny', 128, 2, 32) / 32).toBeGreaterThan(
    0.94 * onCoresMs('bert-tiny', 128, 2, 1),
  )
})

it.each([1, 1.5, 2, 8, 96])(
  'on %d cores as many instances are modelled as the server starts',
  (cpuCores) => {
    const started = readSettings(
      ['--model', 'bert-tiny', '--cpu-cores', String(Math.ceil(cpuCores))],
      {},
    )!
    const { serving } = modelServer(findArchitecture('bert-tiny'), { cpuCores })
    expect(serving.instances).toBe(started.instances)
    expect(
      modelServer(findArchitecture('bert-tiny'), { cpuCores, instances: 3 }).serving.instances,
    ).toBe(3)
  },
)

it('a second core answers no lone request sooner, and lets more than twice as many be served', () => {
  const { estimate } = createEstimator({
    architecture: findArchitecture('bert-tiny'),
    slo: { percentile: 0.99, limitMs: 50 },
  })
  const [one, two] = [1, 2].map((cpuCores) => estimate({ cpuCores, batchSize: 1 }))
  if (!one?.isFeasible || !two?.isFeasible) throw new Error('both serve')
  expect(two.unloadedMs / one.unloadedMs).toBeCloseTo(1, 1)
  expect(two.saturationRps / one.saturationRps).toBeCloseTo(2, 1)
  expect(two.capacityRps / one.capacityRps).toBeGreaterThan(2.1)
})
