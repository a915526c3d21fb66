/** What a trial keeps on disk, below its run directory. */
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { makePrivateFolder, privateFile } from '../../private-files.ts'
import { LaunchError } from '../../types.ts'
import type { FilledTemplate } from '../fill.ts'

/** Runs what writes below the run directory. @throws LaunchError where the disk does not take it */
export const onDisk = <T>(write: () => T): T => {
  try {
    return write()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
    throw new LaunchError(
      `cannot write the files of the trial: ${(error as Error).message}`,
      'check that the disk is neither full nor read-only',
    )
  }
}

export const writeFiles = (folder: string, files: FilledTemplate['files']): void => {
  for (const { path, contents } of files) {
    makePrivateFolder(dirname(join(folder, path)))
    writeFileSync(join(folder, path), contents, { mode: privateFile })
  }
}
