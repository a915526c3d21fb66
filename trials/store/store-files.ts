/** The store's files: regular ones, readable by their owner alone. */
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
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
      `cannot create the folder of the trial store ${file}: ${(error as Error).message}`,
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
      `${file} is not a file but a ${kindOf(found)}`,
      'set the path of the trial store with --db',
    )
}

const kindOf = (found: { isDirectory(): boolean; isFIFO(): boolean }): string =>
  found.isDirectory() ? 'folder' : found.isFIFO() ? 'pipe' : 'device or socket'

/** Whether committed pages may stand in the log beside the file. */
export const hasLog = (file: string): boolean =>
  (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0

/** Whether a process has it open, or ended without closing it. */
export const isInUse = (file: string): boolean =>
  existsSync(`${file}-shm`) || existsSync(`${file}-journal`)

/** Works on a copy of a store and of its log, in a private folder of its own. */
export async function withCopy<T>(file: string, work: (copy: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-store-'))
  try {
    const copy = join(folder, 'tune.db')
    for (const suffix of ['', '-wal'])
      if (existsSync(file + suffix)) copyFileSync(file + suffix, copy + suffix)
    return await work(copy)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
