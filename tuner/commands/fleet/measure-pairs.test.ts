import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { planFleet } from '../../../reports/fleet/fleet-plan.ts'
import { interferenceOf } from '../../../reports/fleet/interference.ts'
import { readPairs } from '../../../reports/fleet/measured-pairs.ts'
import { unmeasuredContents } from '../../../reports/fleet/sharing-blocks.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { type FleetFile, readFleetFile } from './fleet-file.ts'
import { measurePairs } from './measure-pairs.ts'
import { openSource } from './model-source.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pairs-'))
  writeFileSync(
    join(folder, 'a.csv'),
    'gpu,gpuSharePercent,batch,throughputRps,latencyMs,memoryMiB\nT4,50,4,200,20,3000\nT4,100,4,300,12,3000\n',
  )
})
afterAll(() => rmSync(folder, { recursive: true }))

async function planned(second: string) {
  const path = join(folder, 'fleet.yaml')
  writeFileSync(
    path,
    `gpus: {T4: {mps: true}}\nmodels:\n  a: {table: a.csv, slo: 300ms, demand: 40, builtin: bert}\n  b: {table: a.csv, slo: 300ms, demand: 40${second}}\n`,
  )
  const file: FleetFile = readFleetFile(path, defaultPriceBook)
  const models = []
  for (const entry of file.models) models.push({ ...(await openSource(entry, 'none', file)), name: entry.name, demand: entry.demand })
  const plan = await planFleet(models, file.kinds, 0, 5, 'UTC', file.rules)
  return { file, models, plan }
}

const asked = (path: string) => ({ path, seconds: 2, signal: new AbortController().signal, say: () => {} })

test('both are launched on their shares, loaded alone and beside one another, and what was seen is planned with', async () => {
  const { file, models, plan } = await planned(', builtin: bert-large')
  const path = join(folder, 'pairs.csv')
  const found = await measurePairs({ plan, models: file.models, ...asked(path) })
  expect(found.map(({ model, others, othersShare, emulated }) => [model, others, othersShare, emulated])).toEqual([
    ['a', ['b'], 0.5, true],
    ['b', ['a'], 0.5, true],
  ])
  // The larger model's batches take longer: which was which.
  expect(found[1]!.aloneMs).toBeGreaterThan(found[0]!.aloneMs)
  const read = readPairs(readFileSync(path, 'utf8'), 'pairs.csv')
  expect(read.map(({ slowdown }) => slowdown)).toEqual(found.map(({ slowdown }) => expect.closeTo(slowdown, 2)))
  const again = await planFleet(models, file.kinds, 0, 5, 'UTC', { ...file.rules, slows: interferenceOf(read) })
  expect(again.atPeaks.gpus[0]!.slots.map(({ segment }) => segment!.beside!.how)).toEqual(['emulated', 'emulated'])
  expect(unmeasuredContents(again.atPeaks)).toEqual([])
  expect(await measurePairs({ plan: again, models: file.models, ...asked(path) })).toEqual([])
})

test('a model that nothing says how to serve is named before anything starts', async () => {
  const { file, plan } = await planned('')
  const path = join(folder, 'none.csv')
  await expect(measurePairs({ plan, models: file.models, ...asked(path) })).rejects.toThrow('nothing says what serves b')
  expect(existsSync(path)).toBe(false)
})
