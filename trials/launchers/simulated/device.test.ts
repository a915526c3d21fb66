import { expect, it } from 'vitest'
import { architectureOf } from '../../devices/architecture.ts'
import { modelledServer } from './device.ts'

const onCoresMs = (model: string, sequenceLength: number, cpuCores: number, batch: number): number =>
  modelledServer(architectureOf(model), { cpuCores, batchSize: batch, sequenceLength }).batchLatency(batch).ms

/** Medians of `npm run bench:inference` on a core of 2.x GHz; the last two models are not those that the constants were chosen on. */
it.each([
  { model: 'bert-tiny', length: 128, cores: 1, batches: [1, 2, 8], ms: [6.1, 11.6, 45] },
  { model: 'bert-tiny', length: 128, cores: 2, batches: [1, 2, 8], ms: [4.7, 9.2, 31] },
  { model: 'mobilenet', length: 128, cores: 1, batches: [1, 2, 8], ms: [41.8, 81.3, 323] },
  { model: 'mobilenet', length: 128, cores: 2, batches: [1, 2, 8], ms: [22.4, 44.3, 169] },
  { model: 'bert-mini', length: 32, cores: 1, batches: [1, 8], ms: [10.1, 78] },
  { model: 'bert-mini', length: 128, cores: 1, batches: [1, 8], ms: [37.3, 353] },
  { model: 'bert-base', length: 128, cores: 1, batches: [1], ms: [877] },
])('$model at $length tokens on $cores cores is computed as fast as measured', ({ model, length, cores, batches, ms }) => {
  for (const [i, batch] of batches.entries()) {
    const ratio = onCoresMs(model, length, cores, batch) / ms[i]!
    expect(ratio).toBeGreaterThan(0.78)
    expect(ratio).toBeLessThan(1.1)
  }
})

it('a text is no cheaper in a batch on cores: large ones only wait longer', () => {
  expect(onCoresMs('bert-tiny', 128, 2, 32) / 32).toBeGreaterThan(0.94 * onCoresMs('bert-tiny', 128, 2, 1))
})
