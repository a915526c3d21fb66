import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { SavedRuns } from './saved-runs.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-bench-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Job {
  readonly task: string
  readonly seed: number
}

test('saved runs are reused, infinities included; an incomplete line is run again', () => {
  const file = join(folder, 'runs.ndjson')
  const first = new SavedRuns<Job, { trials: number; regret: number }>(file)
  first.add({ task: 'a', seed: 1 }, { trials: 41, regret: Number.POSITIVE_INFINITY })
  first.add({ task: 'a', seed: 2 }, { trials: 3, regret: 0.1 })
  appendFileSync(file, '{"job":{"task":"a","se')
  const next = new SavedRuns<Job, { trials: number; regret: number }>(file)
  expect(next.get({ task: 'a', seed: 1 })).toEqual({ trials: 41, regret: Number.POSITIVE_INFINITY })
  expect(next.get({ task: 'a', seed: 3 })).toBeUndefined()
  next.add({ task: 'a', seed: 3 }, { trials: 5, regret: 0 })
  expect(readFileSync(file, 'utf8').trim().split('\n')).toHaveLength(3)
  expect(new SavedRuns<Job, unknown>(file).get({ task: 'a', seed: 3 })).toEqual({
    trials: 5,
    regret: 0,
  })
})

test('without a file, results stay in memory', () => {
  const runs = new SavedRuns<Job, number>(undefined)
  runs.add({ task: 'a', seed: 1 }, 7)
  expect(runs.get({ task: 'a', seed: 1 })).toBe(7)
})
