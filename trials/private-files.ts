import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/**
 * Modes of what only its owner may see: stores, and what trials write (filled files, their
 * predictors' own words).
 */
export const privateFile = 0o600
const privateFolder = 0o700

export const makePrivateFolder = (path: string): string => {
  makeFolder(path, privateFolder)
  return path
}

/**
 * Makes a folder and those around it that are missing. Node's own `recursive` never ends where a
 * file system answers ENOENT to what it will not make, as /proc does.
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
