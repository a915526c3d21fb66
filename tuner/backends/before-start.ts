/**
 * What a run needs of this machine and of its files, looked at before anything is kept or started:
 * what is missing after an hour of trials costs the hour.
 */
import { statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PayloadError } from '../../profiler/profiler-errors.ts'
import { checkPayload } from '../../profiler/protocols/content.ts'
import { reservePort } from '../../trials/launchers/local/port.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import { LaunchError } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import { resultNames, specName } from '../delivery/results-files.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { nearest, probeFolder } from '../writable-places.ts'

const MiB = 2 ** 20
/** Of a run's store, logs and results; trials of an hour take a few MiB. */
const leastFreeMiB = 16

/**
 * @param outDir where results go; absent: nowhere
 * @throws UserError that names what is wrong, where, and what to do
 */
export async function checkBeforeStart(
  experiment: Experiment,
  outDir: string | undefined,
): Promise<void> {
  if (outDir !== undefined) checkResultsFolder(outDir)
  for (const path of new Set([outDir ?? experiment.dbPath, experiment.dbPath])) checkSpace(path)
  await checkRequests(experiment)
  await checkPort(experiment)
}

function checkResultsFolder(outDir: string): void {
  const hint = 'choose a writable folder with --out'
  const wrong = (what: string) =>
    new UserError(`results cannot be written to ${outDir}: ${what}`, hint, exitCodes.usage)
  const there = nearest(outDir)
  if (!statSync(there).isDirectory()) throw wrong(`${there} is not a folder`)
  try {
    probeFolder(outDir)
  } catch (error) {
    throw wrong((error as Error).message)
  }
  const folder = [...resultNames, specName].find((name) =>
    statSync(join(outDir, name), { throwIfNoEntry: false })?.isDirectory(),
  )
  if (folder !== undefined) throw wrong(`its entry ${folder} is a folder, not a file`)
}

function checkSpace(path: string): void {
  const there = nearest(path)
  const { bavail, bsize, blocks, files, ffree } = statfsSync(there)
  const freeMiB = (bavail * bsize) / MiB
  // File systems without a size of their own say 0 of everything.
  const full =
    blocks > 0 && freeMiB < leastFreeMiB ? `${freeMiB.toFixed(1)} MiB are left` : undefined
  const what =
    full ?? (files > 0 && ffree < 100 ? `only ${ffree} more files can be created` : undefined)
  if (what !== undefined)
    throw new UserError(
      `the disk at ${there} is full: ${what}, but a run needs ${leastFreeMiB} MiB`,
      'free some space, or choose other places with --out and --db',
    )
}

/** Requests of a file are read whole, and pictures begun. */
async function checkRequests({ load }: Experiment): Promise<void> {
  try {
    await checkPayload(load.payload)
  } catch (error) {
    if (!(error instanceof PayloadError)) throw error
    throw new UserError(error.message, error.hint, exitCodes.usage)
  }
}

async function checkPort({ backend, predictor }: Experiment): Promise<void> {
  if (backend !== 'local' || !isStarted(predictor)) return
  try {
    const { giveBack } = await reservePort('127.0.0.1')
    giveBack()
  } catch (error) {
    if (!(error instanceof LaunchError)) throw error
    throw new UserError(error.message, error.hint)
  }
}
