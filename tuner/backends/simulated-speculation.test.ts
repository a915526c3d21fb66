import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { tune } from '../library/tune-experiment.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-speculation-'))
afterAll(() => rmSync(folder, { recursive: true }))

/**
 * What the search recommends among these numbers of draft tokens; undefined if none keeps the
 * limit.
 */
async function found(tpot: string, speculativeTokens: number[], maxNumSeqs: number[]) {
  const { recommendation } = await tune({
    experiment: {
      model: 'llama-3.1-8b',
      slo: { percentile: 'p90', ttft: '1s', tpot },
      backend: 'simulated',
      pin: { gpu: 'H100', maxNumBatchedTokens: 2048 },
      space: { maxNumSeqs, speculativeTokens },
      budget: { maxTrials: 8 },
      load: { trialTime: '4s' },
      db: join(folder, `${tpot}-${speculativeTokens.join('-')}.db`),
      confirm: false,
    },
  })
  return recommendation.best
}

test('a tight limit of the time per token takes drafts, which a loose one does without', async () => {
  const [tight, loose] = [
    await found('6.5ms', [0, 2, 4], [32, 256]),
    await found('60ms', [0, 2, 4], [32, 256]),
  ]
  expect(tight!.configuration.speculativeTokens).toBeGreaterThan(0)
  // A step alone takes longer than that: seven milliseconds.
  expect(await found('6.5ms', [0], [32])).toBeUndefined()
  expect(loose!.configuration.speculativeTokens).toBe(0)
  expect(loose!.capacityRps).toBeGreaterThan(1.1 * (await found('60ms', [4], [256]))!.capacityRps)
})
