/** The main job for real: `tune --model bert --slo 50ms` as it is built, on this machine. */
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { measureCoreSpeed } from '../../../trials/machine/core-speed.ts'
import { isNearCheapest, modelledSpace, runMainJob } from '../main-job.ts'
import { geometricMean, readingsOf, shareRight, shown } from './rows.ts'
import { gateSeeds, seedsFrom } from './seeds.ts'
import type { Cases, Part } from './types.ts'

const seeds = 3
const flags = ['--model', 'bert', '--slo', '50ms']
/** Cores that others may use, all in all: a run fills both of a machine with two. */
const maxOthersCores = 0.1
const watchedMs = 3000
/** A run waits this long for the machine to get quiet, e.g. for a commit or an editor's check. */
const maxWaitMs = 300_000

/** Cores that were busy while this process slept. */
async function busyCores(): Promise<number> {
  const read = () =>
    cpus().reduce((sum, { times: { idle, ...busy } }) => {
      const { user, nice, sys, irq } = busy
      return sum + user + nice + sys + irq
    }, 0)
  const beforeMs = read()
  await sleep(watchedMs)
  return (read() - beforeMs) / watchedMs
}

/** Busy cores at the last look: below the limit as soon as the machine is quiet. */
async function awaitQuiet(): Promise<number> {
  const deadlineMs = performance.now() + maxWaitMs
  let busy = await busyCores()
  while (busy > maxOthersCores && performance.now() < deadlineMs) busy = await busyCores()
  return busy
}

/**
 * The readings, or none if others used the machine before one of the runs.
 * @param note told what is done next
 */
async function runReal(note: (line: string) => void): Promise<Cases | undefined> {
  const folder = mkdtempSync(join(tmpdir(), 'gate-real-'))
  const cases: Record<string, Cases[string]> = {}
  try {
    for (const seed of seedsFrom(gateSeeds.realJobs, seeds)) {
      const busy = await awaitQuiet()
      if (busy > maxOthersCores) {
        note(`main job, real: skipped, other work uses ${busy.toFixed(2)} cores`)
        return undefined
      }
      note(`main job, real: seed ${seed}, about a minute`)
      const coreSpeed = measureCoreSpeed()
      const run = await runMainJob(flags, seed, folder)
      const { modelled } = await modelledSpace(run.cwd, coreSpeed)
      cases[`tune ${flags.join(' ')} ${seed}`] = {
        confirmed: Number(run.recommendation.best?.status === 'confirmed'),
        within: Number(isNearCheapest(run, modelled)),
        seconds: run.seconds,
      }
    }
    return cases
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const realJob: Pick<Part, 'name' | 'compare'> & { readonly run: typeof runReal } = {
  name: 'real-job',
  run: runReal,
  compare: (baseline, now) => [
    shareRight('main job, real: confirmed', 'confirmed', baseline, now),
    shareRight('main job, real: within 5 % of the cheapest', 'within', baseline, now),
    shown(
      {
        measure: 'main job, real: time, geometric mean',
        baseline: geometricMean(readingsOf(baseline, 'seconds')),
        now: geometricMean(readingsOf(now, 'seconds')),
        cases: Object.keys(now).length,
      },
      (seconds) => `${seconds.toFixed(0)} s`,
    ),
  ],
}
