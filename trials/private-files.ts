import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/** File modes for private data: stores, and files of trials (filled templates, predictor logs). */
export const privateFileMode = 0o600
const privateFolderMode = 0o700

export const makePrivateFolder = (path: string): string => {
  makeFolder(path, privateFolderMode)
  return path
}

/**
 * Creates a folder with missing parents. Node's `recursive` loops forever on file systems that
 * answer ENOENT, such as /proc.
 * @throws the file system's errors
 */
export function makeFolder(path: string, mode = 0o777): void {
  const folder = resolve(path)
  try {
    mkdirSync(folder, mode)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (existsSync(folder) && statSync(folder).isDirectory()) return
    if (code !== 'ENOENT' || existsSync(dirname(folder))) throw error
    makeFolder(dirname(folder), mode)
    makeFolder(folder, mode)
  }
}
