/**
 * What `warden.ts` starts: waits for the end of its standard input, then ends the predictors of the
 * folder whose tuners live no more.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { sweepLeftovers } from './leftovers.ts'

/**
 * A tuner that is started anew at once sweeps by itself, and one that has just been killed takes a
 * moment to be gone.
 */
const firstMs = 500
const graceMs = 1_000
/** Twice: a note may be of a tuner that was not quite gone. */
const sweeps = 2

const [, , folder] = process.argv
process.stdin.resume()
process.stdin.on('end', async () => {
  for (let n = 0; n < sweeps; n++) {
    await sleep(firstMs)
    await sweepLeftovers(folder!, graceMs)
  }
  process.exit(0)
})
