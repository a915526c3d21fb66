/**
 * The program of a command, looked for before anything is started: what is not there now is not
 * there for the next configuration either.
 */
import { readdirSync } from 'node:fs'
import { delimiter, resolve } from 'node:path'
import { isProgram, programIn } from '../../machine/programs.ts'
import { closest } from '../../near-names.ts'
import { type Finality, LaunchError } from '../../types.ts'

/**
 * @param path the PATH that it is looked for in, where it names no folder
 * @param finality of its absence: other configurations may name other programs
 * @param install what brings it here, where that is known
 * @throws LaunchError when no such program can be executed from `cwd`
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
  if (programIn(folders, program) !== undefined) return
  if (install !== undefined)
    throw new LaunchError(`no program '${program}' on the PATH`, install, undefined, finality)
  const near = closest(program, [...new Set(folders.flatMap(namesIn))])
  const hint = near.length > 0 ? `did you mean ${near.join(', ')}? ${whereHint}` : whereHint
  throw new LaunchError(`no program '${program}' on the PATH`, hint, undefined, finality)
}

const whereHint = 'install it, or write its full path; tune runs `command` without a shell'

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => /^\w[\w.-]+$/.test(name))
  } catch {
    return [] // PATH may name folders that are not there.
  }
}
