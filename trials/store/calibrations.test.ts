import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ServerCalibration } from '../devices/server-calibration.ts'
import { deleteCalibrations, readCalibrations, saveCalibration } from './calibrations.ts'
import { Connection } from './connection.ts'
import { backUpStore, checkStore } from './maintenance.ts'
import { openStore } from './sqlite-store.ts'
import type { Damage } from './stored-rows.ts'

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
  await saveCalibration(path, calibration('b'))
  await saveCalibration(path, calibration('a'))
  await saveCalibration(path, calibration('b', 7))
  expect(await readCalibrations(path)).toEqual([calibration('a'), calibration('b', 7)])
  await deleteCalibrations(path, ['a', 'never-there'])
  expect(await readCalibrations(path)).toEqual([calibration('b', 7)])
})

test('a damaged one is named, left out, and not copied; the others stay', async () => {
  for (const name of ['a', 'b', 'c', 'd']) await saveCalibration(path, calibration(name))
  const store = await openStore(path)
  await store.create({
    id: 'e',
    name: 'e',
    createdAt: '2026-11-20T10:00:00.000Z',
    spec: {},
    provenance: 'simulated',
    seed: 1,
  })
  await store.close()
  const connection = await Connection.open(path, 100)
  await connection.runOutsideTransaction((sql) =>
    sql.exec(`UPDATE calibrations SET calibration = substr(calibration, 1, 30) WHERE name = 'a';
      UPDATE calibrations SET calibration = replace(calibration, '"latencyMs":5', '"latencyMs":7') WHERE name = 'b';
      UPDATE calibrations SET calibration = replace(calibration, '"latencyMs":5', '"latencyMs":"x"') WHERE name = 'c'`),
  )
  await connection.close()
  const damage: Damage[] = []
  expect(await readCalibrations(path, (one) => damage.push(one))).toEqual([calibration('d')])
  expect(damage.map(({ where, what }) => `${where}: ${what}`)).toEqual([
    expect.stringMatching(/^calibration a: its text is not JSON/),
    expect.stringMatching(/^calibration b: it has changed since it was written/),
    expect.stringMatching(/^calibration c: it has changed since it was written/),
  ])
  expect((await checkStore(path)).damage).toEqual(damage)
  const copy = `${path}.copy`
  expect((await backUpStore(path, copy)).damage).toEqual(damage)
  expect((await checkStore(copy)).damage).toEqual([])
  expect(await readCalibrations(copy)).toEqual([calibration('d')])
})

test('of a file with damaged pages those that can be read are used, and the file stays as it is', async () => {
  await saveCalibration(path, calibration('a'))
  const bytes = readFileSync(path)
  bytes.fill(0xa5, 4096, 8192)
  writeFileSync(path, bytes)
  const damage: Damage[] = []
  expect(await readCalibrations(path, (one) => damage.push(one))).toEqual([calibration('a')])
  expect(damage[0]!.where).toContain(path)
  await expect(saveCalibration(path, calibration('b'))).rejects.toMatchObject({ fault: 'corrupt' })
  expect(readFileSync(path).equals(bytes)).toBe(true)
})
