/** Files of the SQLite store: checks, creation, and copies that only their owner can read. */
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
import { makePrivateFolder, privateFileMode } from '../private-files.ts'
import { StoreError } from './store-error.ts'

/**
 * Creates the file of a store and its folder, which only their owner can read if they are new.
 * @throws StoreError
 */
export function createStoreFile(file: string): void {
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
  requireRegularFile(file)
  try {
    closeSync(openSync(file, 'a', privateFileMode))
  } catch {
    // Ignored: opening the store reports a read-only or full disk.
  }
}

/**
 * Rejects an existing `file` that is not a regular file: reading a device or pipe might never end.
 * @throws StoreError
 */
export function requireRegularFile(file: string): void {
  const stats = statSync(file, { throwIfNoEntry: false })
  if (stats && !stats.isFile())
    throw new StoreError(
      'cannot-open',
      `${file} is not a file but a ${describeKind(stats)}`,
      'set the path of the trial store with --db',
    )
}

const describeKind = (stats: { isDirectory(): boolean; isFIFO(): boolean }): string =>
  stats.isDirectory() ? 'folder' : stats.isFIFO() ? 'pipe' : 'device or socket'

/** Whether the write-ahead log may contain commits that are not in the main file. */
export const hasWriteAheadLog = (file: string): boolean =>
  (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) > 0

/** Whether a process has the store open, or ended without closing it. */
export const isInUse = (file: string): boolean =>
  existsSync(`${file}-shm`) || existsSync(`${file}-journal`)

/** Runs `work` on a copy of a store and its log, in a private temporary folder. */
export async function withStoreCopy<T>(
  file: string,
  work: (copy: string) => Promise<T>,
): Promise<T> {
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
