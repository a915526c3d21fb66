/**
 * Looks for the program of a command before anything starts: a missing program is missing for every
 * configuration.
 */
import { readdirSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'
import { findProgram, isProgram } from '../../machine/programs.ts'
import { findClosestNames } from '../../near-names.ts'
import { type Finality, LaunchError } from '../../types.ts'

/**
 * @param path the PATH for names without a folder
 * @param finality finality of a missing program: other configurations may use others
 * @param install how to install it, if known
 * @throws LaunchError if the program cannot be executed from `cwd`
 */
export function checkProgram(
  program: string,
  cwd: string,
  path: string,
  finality: Finality,
  install?: string,
): void {
  if (program.includes('/')) {
    const file = resolve(cwd, program)
    if (!isProgram(file))
      throw new LaunchError(`${file} is not an executable program`, whereHint, undefined, finality)
    return
  }
  const folders = path.split(delimiter).map((folder) => resolve(cwd, folder))
  if (findProgram(folders, program) !== undefined) return
  if (install !== undefined)
    throw new LaunchError(`no program '${program}' on the PATH`, install, undefined, finality)
  const near = findClosestNames(program, [...new Set(folders.flatMap(listNames))])
  const hint = near.length > 0 ? `did you mean ${near.join(', ')}? ${whereHint}` : whereHint
  throw new LaunchError(`no program '${program}' on the PATH`, hint, undefined, finality)
}

const whereHint = 'install it, or write its full path; tune runs `command` without a shell'

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\w[\w.-]+$/.test(name))
  } catch {
    return [] // PATH may name folders that are not there.
  }
}
