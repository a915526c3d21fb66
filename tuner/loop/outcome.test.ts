/** Outcomes of stored experiments in lists. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { complete, measured } from '../../reports/samples.contract.ts'
import type { ExperimentRecord } from '../../trials/types.ts'
import { formatOutcome, resolveOutcome } from './outcome.ts'
import { reevaluate } from './reevaluation.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-outcome-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const prices = join(folder, 'prices.yaml')
const priced = (t4: number) =>
  writeFileSync(prices, `gpus: { T4: ${t4}, L4: 0.6 }\nvcpu: 0.02\nmemoryGiB: 0.003\n`)

const on = (gpu: string) => ({ cpuCores: 1, gpu, gpuMemoryPercent: 100, batchSize: 8 })
const trials = [complete(1, on('T4'), measured(300, 20)), complete(2, on('L4'), measured(500, 20))]
const record: ExperimentRecord = {
  id: 'bert-1',
  name: 'bert',
  createdAt: '2026-11-20T10:00:00.000Z',
  provenance: 'simulated',
  seed: 1,
  state: 'done',
  spec: {
    model: { name: 'bert', architecture: 'bert' },
    slo: { percentile: 'p99', limit: '50ms' },
    backend: 'simulated',
    devices: 'auto',
    space: { cpuCores: [1], gpu: ['T4', 'L4'], gpuMemoryPercent: [100], batchSize: [8] },
    prices,
  },
}

/** Counts how often the trials are read. */
function storeOf(experiment: ExperimentRecord) {
  const reads = { count: 0 }
  const load = async () => {
    reads.count++
    return { experiment, trials }
  }
  return { reads, store: { load } }
}

test('the outcome is the stored recommendation, without loading trials, until a price changes', async () => {
  priced(0.2)
  const { recommendation } = await reevaluate({ experiment: record, trials })
  expect(recommendation.best?.configuration.gpu).toBe('T4')
  const ended = { ...record, result: recommendation }
  const { reads, store } = storeOf(ended)
  expect(await resolveOutcome(store, ended)).toEqual({ recommendation })
  expect(reads.count).toBe(0)

  priced(3.5)
  const after = await resolveOutcome(store, ended)
  expect(reads.count).toBe(1)
  expect(formatOutcome(after)).toContain('L4')
})

test('the outcome is ranked from the trials where there is no stored recommendation of this version', async () => {
  priced(0.2)
  for (const result of [undefined, { schema: 'other' }, 'text', null]) {
    const one = { ...record, result } as ExperimentRecord
    const { reads, store } = storeOf(one)
    expect(formatOutcome(await resolveOutcome(store, one))).toContain('T4')
    expect(reads.count).toBe(1)
  }
})

test('the outcome of an unreadable experiment says why', async () => {
  const one = { ...record, spec: { model: 7 } }
  expect(formatOutcome(await resolveOutcome(storeOf(one).store, one))).toMatch(/^cannot be read: /)
})
