/** A sound store, opened for one short look beside whoever writes. */
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Transaction } from './connection.ts'
import { openSound } from './open-sound.ts'
import { StoreError } from './store-error.ts'

/** Throws StoreError. */
export async function reading<T>(file: string, look: (sql: Transaction) => Promise<T>): Promise<T> {
  try {
    return await readFrom(file, look)
  } catch (error) {
    if (
      error instanceof StoreError &&
      (error.fault === 'cannot-open' || error.fault === 'read-only')
    )
      return await readFromCopy(file, look)
    throw error
  }
}

async function readFrom<T>(file: string, look: (sql: Transaction) => Promise<T>): Promise<T> {
  const connection = await openSound(file)
  try {
    return await connection.read(look)
  } finally {
    await connection.close()
  }
}

/**
 * Where a crash left a log and nothing can be written beside it, SQLite reads neither: a copy of
 * both is read.
 */
async function readFromCopy<T>(file: string, look: (sql: Transaction) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'tune-store-'))
  try {
    const copy = join(folder, 'tune.db')
    for (const suffix of ['', '-wal'])
      if (existsSync(file + suffix)) copyFileSync(file + suffix, copy + suffix)
    return await readFrom(copy, look)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
