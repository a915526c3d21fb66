/**
 * Whether results can be written where a user wants them, found out before they cost anything: what
 * is tried is taken away again.
 */
import { existsSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { makeFolder } from '../trials/private-files.ts'
import { exitCodes, UserError } from './exit-codes.ts'

/**
 * @param files by the flag that names them; those that are not named are left out
 * @throws UserError, exit code 2, for a place where no file can be written
 */
export function mustBeWritable(files: Readonly<Record<string, string | undefined>>): void {
  for (const [flag, path] of Object.entries(files)) if (path !== undefined) mustBeFile(flag, path)
}

function mustBeFile(flag: string, path: string): void {
  const wrong = (what: string) =>
    new UserError(`${flag} ${path}: ${what}`, 'choose a file in a writable folder', exitCodes.usage)
  if (path === '') throw wrong('no file name')
  try {
    const there = statSync(path, { throwIfNoEntry: false })
    if (there?.isDirectory()) throw wrong('is a folder')
    if (there !== undefined && !there.isFile())
      throw wrong('is not a file, but a device, a pipe or a socket')
    probeFolder(dirname(path))
  } catch (error) {
    throw error instanceof UserError ? error : wrong((error as Error).message)
  }
}

/**
 * @param flag that names the folder
 * @throws UserError, exit code 2, for a folder in which no file can be written
 */
export function mustTakeFiles(flag: string, folder: string | undefined): void {
  if (folder === undefined) return
  const wrong = (what: string) =>
    new UserError(
      `${flag} ${JSON.stringify(folder)}: ${what}`,
      'choose a writable folder',
      exitCodes.usage,
    )
  if (folder === '') throw wrong('no folder name')
  try {
    probeFolder(folder)
  } catch (error) {
    throw wrong((error as Error).message)
  }
}

/**
 * Makes the folder and one in it, and takes away what it made: names that are too long, links to
 * nowhere and file systems that refuse are seen in no other way. Throws what the file system says.
 */
export function probeFolder(folder: string): void {
  const there = nearest(folder)
  try {
    makeFolder(folder)
    rmdirSync(mkdtempSync(join(folder, '.tune-')))
  } finally {
    for (let at = resolve(folder); at !== there && at !== dirname(at); at = dirname(at))
      removeIfEmpty(at)
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // It was never made, or another run has begun to use it.
  }
}

/** The folder or file itself, or what of the path there is. */
export function nearest(path: string): string {
  for (let at = resolve(path); ; at = dirname(at))
    if (existsSync(at) || at === dirname(at)) return at
}
