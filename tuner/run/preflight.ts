/**
 * Preflight checks of a run: result folder, disk space, requests and ports. They fail before the
 * first trial, because a later failure would waste the time of the trials.
 */
import { statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { PayloadError } from '../../profiler/profiler-errors.ts'
import { checkPayload } from '../../profiler/protocols/content.ts'
import { reservePort } from '../../trials/launchers/local/port.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import { LaunchError } from '../../trials/types.ts'
import { resultNames, specName } from '../artifacts/result-files.ts'
import type { Experiment } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import { findExistingParent, probeFolder } from '../writable-paths.ts'

const MiB = 2 ** 20
/** Free disk space for store, logs and results; an hour of trials takes a few MiB. */
const minFreeMiB = 16
/** Free inodes for store, logs and results: a few files for each trial. */
const minFreeFiles = 100

/**
 * @param outDir folder for result files; absent: none are written
 * @throws UserError
 */
export async function runPreflightChecks(
  experiment: Experiment,
  outDir: string | undefined,
): Promise<void> {
  if (outDir !== undefined) checkResultsFolder(outDir)
  for (const path of new Set([outDir ?? experiment.dbPath, experiment.dbPath])) checkDiskSpace(path)
  await checkRequests(experiment)
  await checkPort(experiment)
}

function checkResultsFolder(outDir: string): void {
  const hint = 'choose a writable folder with --out'
  const createFolderError = (what: string) =>
    new UserError(`results cannot be written to ${outDir}: ${what}`, hint, exitCodes.usage)
  const existingParent = findExistingParent(outDir)
  if (!statSync(existingParent).isDirectory())
    throw createFolderError(`${existingParent} is not a folder`)
  try {
    probeFolder(outDir)
  } catch (error) {
    throw createFolderError((error as Error).message)
  }
  const folder = [...resultNames, specName].find((name) =>
    statSync(join(outDir, name), { throwIfNoEntry: false })?.isDirectory(),
  )
  if (folder !== undefined) throw createFolderError(`its entry ${folder} is a folder, not a file`)
}

function checkDiskSpace(path: string): void {
  const existingParent = findExistingParent(path)
  const { bavail, bsize, blocks, files, ffree } = statfsSync(existingParent)
  const freeMiB = (bavail * bsize) / MiB
  // File systems without a size report 0 for everything.
  const shortage =
    blocks > 0 && freeMiB < minFreeMiB
      ? `${freeMiB.toFixed(1)} MiB are left, but a run needs ${minFreeMiB} MiB`
      : files > 0 && ffree < minFreeFiles
        ? `only ${ffree} more files can be created, but a run needs ${minFreeFiles}`
        : undefined
  if (shortage !== undefined)
    throw new UserError(
      `the disk at ${existingParent} is full: ${shortage}`,
      'free some space, or choose other places with --out and --db',
    )
}

/** Reads all requests of a file, and the first images of a folder. */
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
    const { release } = await reservePort('127.0.0.1')
    release()
  } catch (error) {
    if (!(error instanceof LaunchError)) throw error
    throw new UserError(error.message, error.hint)
  }
}
