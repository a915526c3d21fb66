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
  requireFile(file)
  try {
    closeSync(openSync(file, 'a', privateFile))
  } catch {
    // A read-only or full disk: opening reports the consequence.
  }
}

/**
 * Rejects an existing `file` that is no regular file: reading a device or pipe might never end.
 * Throws StoreError.
 */
export function requireFile(file: string): void {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found && !found.isFile())
    throw new StoreError(
      'cannot-open',
      `${file} is not a file but a ${describeKind(found)}`,
      'set the path of the trial store with --db',
    )
}

const describeKind = (found: { isDirectory(): boolean; isFIFO(): boolean }): string =>
  found.isDirectory() ? 'folder' : found.isFIFO() ? 'pipe' : 'device or socket'

/** Whether the log may contain committed pages. */
export const hasLog = (file: string): boolean =>
  (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0

/** Whether a process has it open, or ended without closing it. */
export const isInUse = (file: string): boolean =>
  existsSync(`${file}-shm`) || existsSync(`${file}-journal`)

/** Works on a copy of a store and its log, in a private temporary folder. */
export async function useCopy<T>(file: string, work: (copy: string) => Promise<T>): Promise<T> {
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
