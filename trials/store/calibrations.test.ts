import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ServerCalibration } from '../devices/server-calibration.ts'
import { dropCalibrations, keepCalibration, readCalibrations } from './calibrations.ts'
import { openStore } from './sqlite-store.ts'

let folder: string
let path: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'calibrations-'))
  path = join(folder, 'tune.db')
})
afterEach(() => rmSync(folder, { recursive: true }))

const calibration = (name: string, latencyMs = 5): ServerCalibration => ({
  name,
  server: 'triton',
  model: 'resnet50',
  device: 'A10',
  measuredAt: '2026-11-20T10:00:00.000Z',
  configuration: { gpu: 'A10', batchSize: 64 },
  points: [{ batch: 1, latencyMs, processes: 1 }],
  memory: [],
})

test('none where there is no store, and the question makes none', async () => {
  expect(await readCalibrations(path)).toEqual([])
  expect(await readCalibrations(path)).toEqual([])
})

test('kept by name, the later in the place of the earlier, and removed by name', async () => {
  await keepCalibration(path, calibration('b'))
  await keepCalibration(path, calibration('a'))
  await keepCalibration(path, calibration('b', 7))
  expect(await readCalibrations(path)).toEqual([calibration('a'), calibration('b', 7)])
  await dropCalibrations(path, ['a', 'never-there'])
  expect(await readCalibrations(path)).toEqual([calibration('b', 7)])
})

test('beside the experiments of a store of version 1, which has none of them yet', async () => {
  copyFileSync(fileURLToPath(new URL('./fixtures/v1.db', import.meta.url)), path)
  expect(await readCalibrations(path)).toEqual([])
  await keepCalibration(path, calibration('a'))
  const store = await openStore(path)
  expect((await store.list()).length).toBeGreaterThan(0)
  await store.close()
  expect(await readCalibrations(path)).toEqual([calibration('a')])
})
