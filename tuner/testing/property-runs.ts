/**
 * Property tests are drawn from one seed, so that a check says the same of the same sources
 * everywhere. `npm run soak` draws 200 times as many, each time anew; a failure prints the seed and
 * path that repeat it.
 */
import fc from 'fast-check'
import { vi } from 'vitest'

const runs = process.env.PROPERTY_RUNS
if (runs === undefined) fc.configureGlobal({ seed: 20_190_619 })
else {
  const longestMs = 60_000
  fc.configureGlobal({
    numRuns: Number(runs),
    interruptAfterTimeLimit: longestMs,
    markInterruptAsFailure: false,
  })
  vi.setConfig({ testTimeout: 3 * longestMs })
}
