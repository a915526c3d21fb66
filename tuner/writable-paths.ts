/**
 * Checks that result files can be written before anything runs. Created test files and folders are
 * removed again.
 */
import { existsSync, mkdtempSync, rmdirSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { makeFolder } from '../trials/private-files.ts'
import { exitCodes, UserError } from './exit-codes.ts'

/**
 * @param files flag → path; undefined ones are skipped
 * @throws UserError with exit code 2 for a path that cannot be written
 */
export function requireWritableFiles(files: Readonly<Record<string, string | undefined>>): void {
  for (const [flag, path] of Object.entries(files))
    if (path !== undefined) requireWritableFile(flag, path)
}

function requireWritableFile(flag: string, path: string): void {
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
 * @throws UserError with exit code 2 for a folder that cannot be written
 */
export function requireWritableFolder(flag: string, folder: string | undefined): void {
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
 * Creates the folder and one inside, then removes what it created. Only trying reveals too long
 * names, dangling links and read-only file systems.
 * @throws the error of the file system
 */
export function probeFolder(folder: string): void {
  const there = findExistingParent(folder)
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
    // It was not created, or another run uses it.
  }
}

/** Finds the path itself, or its nearest existing parent. */
export function findExistingParent(path: string): string {
  for (let at = resolve(path); ; at = dirname(at))
    if (existsSync(at) || at === dirname(at)) return at
}
