/**
 * The process that `warden.ts` starts: waits for the end of its standard input, then ends the
 * predictors of the folder whose tuners no longer run.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { sweepLeftovers } from './leftovers.ts'

/** A killed tuner takes a moment to end, and a restarted one sweeps by itself. */
const sweepDelayMs = 500
/** Time from SIGTERM to SIGKILL of the predictors. */
const graceMs = 1_000
/** Twice: at the first sweep the tuner may not have ended yet. */
const sweepCount = 2

const [, , folder] = process.argv
process.stdin.resume()
process.stdin.on('end', async () => {
  for (let n = 0; n < sweepCount; n++) {
    await sleep(sweepDelayMs)
    await sweepLeftovers(folder!, graceMs)
  }
  process.exit(0)
})
