/** The main job in virtual time: whole runs of the loop, confirmations included. */
import {
  runVirtualJob,
  type VirtualJobSettings,
  virtualJobs,
  virtualJobTruth,
} from '../virtual-job.ts'
import { aTenthMore, geometricMean, readingsOf, shareRight } from './rows.ts'
import { gateSeeds, seedsFrom } from './seeds.ts'
import type { Cases, Part } from './types.ts'

/** Seeds of each job. */
const seeds = 5
/** As a share: what is near enough to the cheapest. */
const within = 0.05
/** Servers that take two minutes to start, and cost on the CPU what the device model expects. */
const settings: VirtualJobSettings = {
  launchS: 120,
  parallel: 1,
  ahead: false,
  figures: 'trials',
  cpuFactor: 1,
  coreSpeed: 1,
  gains: false,
}

async function runJob(index: number): Promise<Cases> {
  const job = virtualJobs[index]!
  const { excessOf } = await virtualJobTruth(job, settings)
  const cases: Record<string, Cases[string]> = {}
  for (const seed of seedsFrom(gateSeeds.virtualJobs, seeds)) {
    const { recommended, confirmed, trials, hours } = await runVirtualJob(job, seed, settings)
    cases[`${job.name} ${seed}`] = {
      confirmed: Number(confirmed),
      within: Number(excessOf(recommended) <= within),
      trials,
      seconds: Math.round(3600 * hours),
    }
  }
  return cases
}

const means = (baseline: Cases, now: Cases, reading: string) => ({
  baseline: geometricMean(readingsOf(baseline, reading)),
  now: geometricMean(readingsOf(now, reading)),
  cases: Object.keys(now).length,
})

export const simulatedJob: Part = {
  name: 'simulated-job',
  pieceSeconds: 30,
  pieces: virtualJobs.length,
  run: runJob,
  compare: (baseline, now) => [
    shareRight('main job, simulated: confirmed', 'confirmed', baseline, now),
    shareRight('main job, simulated: within 5 % of the cheapest', 'within', baseline, now),
    aTenthMore(
      {
        measure: 'main job, simulated: trials, geometric mean',
        ...means(baseline, now, 'trials'),
      },
      'trials',
    ),
    aTenthMore(
      {
        measure: 'main job, simulated: virtual time, geometric mean',
        ...means(baseline, now, 'seconds'),
      },
      's',
    ),
  ],
}
