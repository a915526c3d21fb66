/** Programs that this user may execute. */
import { accessSync, constants, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Finds the first of the folders' programs of that name, by its path; undefined if none has one.
 */
export const findProgram = (folders: readonly string[], name: string): string | undefined =>
  folders.map((folder) => join(folder, name)).find(isProgram)

export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false // Not there, or not to be executed by this user.
  }
}
