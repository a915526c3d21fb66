/**
 * A configuration that answers otherwise than the first one cannot win: from the experiment file to
 * the trial.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { inspectMachine } from '../trials/machine/machine-facts.ts'
import type { FinishedTrial } from '../trials/types.ts'
import { experimentIn } from './backends/testing/served.ts'
import { runTrial } from './loop/trial-runner.ts'
import { openBackend } from './run/assemble.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-right-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const predictor = {
  command: [process.execPath, fileURLToPath(new URL('./testing/answering.mjs', import.meta.url))],
  env: { PORT: '${port}', BATCH: '${batch}' },
  protocol: 'json',
  path: '/predict',
}

/** One trial of each batch, in order. */
async function trialsOf(batches: readonly number[], rest: object): Promise<FinishedTrial[]> {
  const space = { batch: { values: [...batches], category: 'server' } }
  const experiment = experimentIn(folder, {
    predictor,
    space,
    pin: { cpuCores: 1 },
    db: 'tune.db',
    ...rest,
  })
  const backend = await openBackend(experiment, 'e', await inspectMachine())
  const hooks = { now: () => performance.now(), onReady: () => undefined, onStep: () => undefined }
  const trials: FinishedTrial[] = []
  try {
    for (const [i, batch] of batches.entries()) {
      const request = {
        number: i + 1,
        configuration: { batch, cpuCores: 1 },
        why: 'test',
        attempt: 1,
      }
      trials.push(
        await runTrial(backend, { kind: 'trial' }, request, hooks, new AbortController().signal),
      )
    }
  } finally {
    await backend.close()
  }
  return trials
}

test('broken batches are infeasible before a load or under it, with both answers; ids, times and echoes are not compared', async () => {
  const [, two, four, eight] = await trialsOf([1, 2, 4, 8], { load: { trialTime: '1s' } })
  expect(two!.state).toBe('complete')
  const both = /request \d+, score: [\d.]+ in place of [\d.]+, the answer of trial 1/
  expect(four).toMatchObject({
    state: 'infeasible',
    reason: 'answers-differ',
    detail: expect.stringMatching(new RegExp(`^${both.source}`)),
  })
  expect(eight).toMatchObject({
    state: 'infeasible',
    reason: 'answers-differ',
    detail: expect.stringMatching(`^under load: ${both.source}`),
  })
})

test('what is expected is held against each, and off compares none', async () => {
  writeFileSync(join(folder, 'short.txt'), 'a short text\nand another\n')
  const expected = { golden: 'off', expect: { batch: { value: 2, tolerance: 2 }, label: 'short' } }
  const [four, eight] = await trialsOf([4, 8], {
    ...expected,
    load: { trialTime: '1s', payload: 'short.txt' },
  })
  expect(four!.state).toBe('complete')
  expect(eight).toMatchObject({
    reason: 'answers-differ',
    detail: 'request 0 was answered, but batch is 8, and 2 within 2 is expected',
  })
})
