/** The store's files: regular ones, readable by their owner alone. */
import { closeSync, existsSync, openSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { makePrivateFolder, privateFile } from '../private-files.ts'
import { StoreError } from './store-error.ts'

/**
 * Makes the folder of a store, closed to others where it is new, and the file itself. Throws
 * StoreError.
 */
export function makeStoreFile(file: string): void {
  try {
    makePrivateFolder(dirname(file))
  } catch (error) {
    throw new StoreError(
      'cannot-open',
      `cannot make the folder of the trial store ${file}: ${(error as Error).message}`,
      'use another file with --db',
      { cause: error },
    )
  }
  mustBeFile(file)
  try {
    closeSync(openSync(file, 'a', privateFile))
  } catch {
    // On a disk that is read-only or full: what that means shows when it is opened.
  }
}

/**
 * Refuses what stands at `file` and is no regular file: a folder, a device or a pipe would be read
 * for ever. Throws StoreError.
 */
export function mustBeFile(file: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found && !found.isFile())
    throw new StoreError(
      'cannot-open',
      `${file} is no file but a ${kindOf(found)}`,
      'name the trial store with --db',
    )
}

const kindOf = (found: { isDirectory(): boolean; isFIFO(): boolean }): string =>
  found.isDirectory() ? 'folder' : found.isFIFO() ? 'pipe' : 'device or socket'

/** The first of NAME, NAME.2, NAME.3, ... that is not taken. */
export function unused(name: string): string {
  for (let n = 1; ; n++) {
    const candidate = n === 1 ? name : `${name}.${n}`
    if (!existsSync(candidate)) return candidate
  }
}

export function moveIfThere(from: string, to: string): void {
  if (existsSync(from)) renameSync(from, to)
}
