/** Writes result files whole or not at all. */
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, open, realpath, rename, rm, stat } from 'node:fs/promises'
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
 * text or the new one, never a part. Creates the folder if it is missing.
 * @throws WriteError, and leaves nothing behind
 */
export async function writeAtomically(path: string, text: string): Promise<void> {
  await writeViaTemporaryFile(path, text)
}

/**
 * Replaces a file of the user's: it keeps its mode, and if it is a symbolic link, the file that it
 * leads to is replaced.
 * @throws WriteError
 */
export async function replaceAtomically(path: string, text: string): Promise<void> {
  let file: { readonly target: string; readonly mode: number }
  try {
    await access(path, constants.W_OK)
    const target = await realpath(path)
    file = { target, mode: (await stat(target)).mode & 0o7777 }
  } catch (error) {
    throw new WriteError(path, 'make the file writable, or print the patch without --write', error)
  }
  await writeViaTemporaryFile(file.target, text, file.mode)
}

async function writeViaTemporaryFile(path: string, text: string, mode?: number): Promise<void> {
  const temporary = join(dirname(path), `.${randomBytes(6).toString('hex')}.tmp`)
  try {
    const existing = await stat(path).catch(() => undefined)
    // A rename would replace a device or a pipe by a regular file.
    if (existing !== undefined && !existing.isFile()) throw new Error('it is not a regular file')
    makeFolder(dirname(path))
    const file = await open(temporary, 'wx')
    try {
      await file.writeFile(text)
      // open() narrows its mode by the process's mask, so set it here.
      if (mode !== undefined) await file.chmod(mode)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {
      // The folder cannot be written at all; that is what the error below says.
    })
    throw new WriteError(path, 'choose another place, or free some space', error)
  }
}
