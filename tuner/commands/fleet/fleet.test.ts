import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { readFleetFile } from './fleet-file.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fleet-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const fileOf = (text: string) => {
  const path = join(folder, 'fleet.yaml')
  writeFileSync(path, text)
  return readFleetFile(path, defaultPriceBook)
}

test('GPUs with their prices and ways to cut them, models with their demand', () => {
  writeFileSync(join(folder, 'day.csv'), '0,5\n3600,9\n7200,9\n')
  const { kinds, models, headroom } = fileOf(
    'gpus: {A100-80GB: {count: 3}, H100: {price: 2, mig: false}, T4: }\nheadroom: 10%\nmodels:\n  a: {table: a.csv, gpu: t4, slo: 50ms, demand: 12}\n  b: {experiment: b-1, demand: {trace: day.csv}}\n',
  )
  expect(kinds.map(({ name, pricePerHour, count, partitions }) => [name, pricePerHour, count, partitions.length > 1])).toEqual([
    ['A100-80GB', 2.44, 3, true],
    ['H100', 2, undefined, false],
    ['T4', 0.35, undefined, false],
  ])
  expect(headroom).toBeCloseTo(0.1, 12)
  expect(models[0]).toMatchObject({ name: 'a', table: join(folder, 'a.csv'), gpu: 'T4', sloMs: 50, demand: { what: 'a steady 12 req/s' } })
  expect(models[1]!.demand.spans.map(({ rps }) => rps)).toEqual([5, 9, 9])
})

test('all that is wrong is told at once, with its line', () => {
  const wrong = () =>
    fileOf(
      'gpus: {A100-80GB: {count: -1}}\nmodels:\n  a: {demand: 5}\n  b: {table: b.csv, demand: 0-8:5}\n  c: {table: c.csv, demand: 5, oops: 1}\n',
    )
  for (const message of [
    /fleet.yaml:1: gpus.A100-80GB.count/,
    /fleet.yaml:3: models.a: needs what was measured of it/,
    /fleet.yaml:4: models.b.demand: hour 8 is not given .*got "0-8:5"/,
    /fleet.yaml:5: models.c: unknown key 'oops'/,
  ])
    expect(wrong).toThrow(message)
  expect(() => fileOf('gpus: {T5: {}}\nmodels: {a: {table: a.csv, demand: 1}}\n')).toThrow(/gpus: .*T5/)
  expect(() => fileOf('gpus: {GB300: {}}\nmodels: {a: {table: a.csv, demand: 1}}\n')).toThrow()
  expect(() => fileOf('gpus: {T4: {}}\nmodels: {}\n')).toThrow('has no models')
})
