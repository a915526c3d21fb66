/**
 * One server for prompts and answers, or pools of each: which of them the search finds, by the SLO
 * and the prompts (DistServe, OSDI 2024, figure 1 and section 2).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { defaultPriceBook } from '../trials/prices/book.ts'
import { readFleetFile } from './cli/commands/fleet/fleet-file.ts'
import { readModelSource } from './cli/commands/fleet/model-source.ts'
import { tune } from './library/tune-experiment.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-pools-'))
afterAll(() => rmSync(folder, { recursive: true }))
const db = join(folder, 'tune.db')
const file = fileURLToPath(new URL('../examples/llm/pools.yaml', import.meta.url))

/** What suits both kinds of servers leaves five configurations: one server, or four pools. */
const pinned = { gpus: 4, maxNumSeqs: 64, maxNumBatchedTokens: 8192 }
const searched = async ({ pin, load, ...more }: Parameters<typeof tune>[0]['experiment'] = {}) => {
  const out = join(folder, 'results')
  const run = await tune({
    file,
    experiment: {
      ...{ db, history: false, out, confirm: false },
      ...more,
      pin: { ...pinned, ...pin },
      load: { trialTime: '4s', ...load },
    },
  })
  const { best } = run.recommendation
  if (best === undefined) throw new Error(run.detail)
  return { ...run, best, out, isPooled: Number(best.configuration.prefillReplicas) > 0 }
}

test('long prompts under a tight time between tokens: pools, whose deployment is written for SGLang alone', async () => {
  const { best, isPooled, recommendation, out } = await searched()
  expect(isPooled, best.label).toBe(true)
  expect(best.label).toMatch(/\d prefill \+ \d decode of \d x H100/)
  expect(recommendation.caveats.join()).toMatch(
    /Prefill and decode pools are SIMULATED and were not validated against real ones/,
  )
  expect(readFileSync(join(out, 'deployment.yaml'), 'utf8')).toMatch(
    /^# NOT WRITTEN: pools of prefill and decode servers are supported for SGLang/,
  )
  const { prefillReplicas, decodeReplicas } = best.configuration
  const pin = { prefillReplicas: prefillReplicas!, decodeReplicas: decodeReplicas! }
  const { experimentId } = await searched({ predictor: { server: 'sglang' }, pin })
  expect(readFileSync(join(out, 'deployment.yaml'), 'utf8')).toContain(
    '--disaggregation-mode=prefill',
  )
  // Who knows one node refuses them.
  const fleet = join(folder, 'fleet.yaml')
  writeFileSync(fleet, `gpus: {H100: {}}\nmodels: {a: {experiment: ${experimentId}, demand: 1}}\n`)
  const read = readFleetFile(fleet, defaultPriceBook)
  await expect(readModelSource(read.models[0]!, db)).rejects.toMatchObject({
    hint: expect.stringContaining(
      'does not pack configurations on shares of a GPU or with prefill and decode pools',
    ),
  })
})

test.each([
  ['a loose time between tokens', { slo: { percentile: 'p90', ttft: '4s', tpot: '200ms' } }],
  [
    'short prompts with long answers',
    { load: { payload: { inputTokens: 100, outputTokens: 1000 } } },
  ],
] as const)('%s: one server for both', async (_, more) => {
  const { best, isPooled } = await searched(more)
  expect(isPooled, best.label).toBe(false)
})
