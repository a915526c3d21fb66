import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { planFleet } from '../../../reports/fleet/fleet-plan.ts'
import { interferenceOf } from '../../../reports/fleet/interference.ts'
import type { MeasuredPair } from '../../../reports/fleet/measured-pairs.ts'
import type { FleetModel } from '../../../reports/fleet/packing.ts'
import { unmeasuredContents } from '../../../reports/fleet/sharing-blocks.ts'
import { mpsPull } from '../../../trials/devices/mps-pull.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { type FleetModelEntry, readFleetFile } from './fleet-file.ts'
import { measurePairs } from './measure-pairs.ts'
import { openSource } from './model-source.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pairs-'))
  writeFileSync(
    join(folder, 'a.csv'),
    'gpu,gpuSharePercent,batch,sequenceLength,throughputRps,latencyMs,memoryMiB\nT4,50,8,128,200,20,3000\nT4,100,8,128,300,12,3000\n',
  )
})
afterAll(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true })
})

async function planned(ofA: string, ofB: string) {
  const path = join(folder, 'fleet.yaml')
  writeFileSync(
    path,
    `gpus: {T4: {mps: true}}\nmodels:\n  a: {table: a.csv, slo: 300ms, demand: 40${ofA}}\n  b: {table: a.csv, slo: 300ms, demand: 40${ofB}}\n`,
  )
  const file = readFleetFile(path, defaultPriceBook)
  const models: (FleetModel & Pick<FleetModelEntry, 'demand'>)[] = []
  for (const entry of file.models) models.push({ ...(await openSource(entry, 'none', file)), name: entry.name, demand: entry.demand })
  const packed = (pairs: readonly MeasuredPair[]) =>
    planFleet(models, file.kinds, 0, 5, 'UTC', { ...file.rules, ...(pairs.length > 0 && { slows: interferenceOf(pairs) }) })
  return { file, packed, plan: await packed([]) }
}

const asked = (more: { readonly signal?: AbortSignal; readonly say?: (what: string) => void; readonly keep?: () => void } = {}) => ({
  seconds: 1.5,
  signal: new AbortController().signal,
  say: () => {},
  keep: () => {},
  ...more,
})

/** Processes that this one has started. */
const childrenOf = () =>
  readdirSync('/proc/self/task').flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, 'utf8').split(' ').filter(Boolean))

test('both are launched on their shares, loaded alone and beside one another, and what was seen is planned with', async ({ skip }) => {
  const { file, packed, plan } = await planned(', builtin: bert', ', builtin: bert-large')
  const kept: MeasuredPair[] = []
  const keep = (pairs: readonly MeasuredPair[]) => void kept.push(...pairs)
  const found = await measurePairs({ atPeaks: plan.atPeaks, models: file.models, ...asked(), keep }).catch((error: Error) => {
    if (/kept its GPU busy|did not tell/.test(error.message)) skip(`disturbed: ${error.message}`)
    throw error
  })
  expect(found.map(({ model, others, emulated }) => [model, others, emulated])).toEqual([
    ['a', ['b'], true],
    ['b', ['a'], true],
  ])
  expect(kept).toEqual(found)
  // The larger model's batches take longer: which was which.
  expect(found[1]!.aloneMs).toBeGreaterThan(2 * found[0]!.aloneMs)
  const again = await packed(found)
  expect(again.atPeaks.gpus[0]!.slots.map(({ segment }) => segment!.beside)).toMatchObject(
    Array(2).fill({ how: 'measured', emulated: true }),
  )
  expect(unmeasuredContents(again.atPeaks)).toEqual([])
  expect(await measurePairs({ atPeaks: again.atPeaks, models: file.models, ...asked() })).toEqual([])
  // What emulated GPUs do, by what the neighbour on the other half took.
  if (found.some(({ othersShare }) => othersShare < 0.35)) skip('disturbed: a neighbour was kept from being busy')
  for (const { slowdown, othersShare } of found) {
    expect(othersShare).toBeLessThanOrEqual(0.5)
    expect((slowdown - 1) / othersShare / mpsPull.mean).toBeGreaterThan(0.5)
    expect((slowdown - 1) / othersShare / mpsPull.mean).toBeLessThan(1.5)
  }
})

test('models that nothing says how to serve are named before anything starts', async () => {
  const { file, plan } = await planned('', '')
  const said: string[] = []
  await expect(measurePairs({ atPeaks: plan.atPeaks, models: file.models, ...asked({ say: (what) => said.push(what) }) })).rejects.toThrow(
    'nothing says what serves a and b',
  )
  expect(said).toEqual([])
})

test('interrupted while one is loaded, it ends at once and leaves no server and no folder', async () => {
  const { file, plan } = await planned(', builtin: bert', ', builtin: bert-large')
  const own = mkdtempSync(join(folder, 'own-'))
  vi.stubEnv('TMPDIR', own)
  const left = () => readdirSync(own).filter((name) => name.startsWith('tune-pairs-'))
  const stop = new AbortController()
  let running: string[] = []
  const say = (what: string) => {
    if (!what.startsWith('a alone')) return
    running = childrenOf()
    expect(left()).toHaveLength(1)
    stop.abort(new Error('enough'))
  }
  await expect(measurePairs({ atPeaks: plan.atPeaks, models: file.models, ...asked({ signal: stop.signal, say }) })).rejects.toThrow(
    'enough',
  )
  expect(running.length).toBeGreaterThanOrEqual(2)
  expect(childrenOf().filter((pid) => running.includes(pid))).toEqual([])
  expect(left()).toEqual([])
})
