/** Result files, written whole or not at all. */
import { randomBytes } from 'node:crypto'
import { open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeFolder } from '../../trials/private-files.ts'

/** A result file could not be written. */
class WriteError extends Error {
  constructor(
    readonly path: string,
    readonly hint: string,
    cause: unknown,
  ) {
    super(`cannot write ${path}: ${(cause as Error).message}`, { cause })
    this.name = 'WriteError'
  }
}

/**
 * Writes a file beside its final name, flushes it, and renames it into place: a reader sees the old
 * text or the new one, never a part. Makes the folder when missing. Throws WriteError and leaves
 * nothing behind.
 */
export async function writeAtomically(path: string, text: string): Promise<void> {
  const temporary = join(dirname(path), `.${randomBytes(6).toString('hex')}.tmp`)
  try {
    const there = await stat(path).catch(() => undefined)
    // A rename would put a file in the place of a device.
    if (there !== undefined && !there.isFile()) throw new Error('no regular file stands there')
    makeFolder(dirname(path))
    const file = await open(temporary, 'wx')
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {
      // The folder cannot be written at all; that is what the error below says.
    })
    throw new WriteError(path, 'name another place, or free some space', error)
  }
}
