/** What the parts that resolve an experiment share. */
import { existsSync } from 'node:fs'
import { isAbsolute, relative } from 'node:path'
import type { CustomDevices } from '../../trials/devices/custom-devices.ts'
import type { Settings } from './schema/experiment-schema.ts'
import type { MachineFacts } from './types.ts'
import type { Path } from './yaml-file.ts'

export interface Surroundings {
  /** Working directory. */
  readonly cwd: string
  readonly machine: MachineFacts
  /**
   * The entries are an experiment of a store, whose space has every parameter: no default is added,
   * and nothing is held against this machine.
   */
  readonly stored?: boolean
  /** It is looked at, and nothing of it is started: files and folders that it names may be gone. */
  readonly onlyLookedAt?: boolean
}

/** Whether a path that the experiment needs is not there. */
export const isMissing = (path: string, { onlyLookedAt }: Surroundings): boolean =>
  !onlyLookedAt && !existsSync(path)

/** A path as it is found from the working directory, for messages. */
export function shortPath(path: string, { cwd }: Pick<Surroundings, 'cwd'>): string {
  const near = relative(cwd, path)
  return near.startsWith('..') || isAbsolute(near) ? path : near
}

/** Notes something wrong with the value at a path of the experiment file. */
export type Report = (path: Path, what: string, hint: string) => void

/** What is known before the user's own files are read. */
export interface FileContext {
  readonly entries: Settings
  readonly report: Report
  /** Folder of the layer that set a value, else the working directory. */
  readonly folderOf: (path: Path) => string
  readonly broken: ReadonlySet<string>
  readonly around: Surroundings
}

export interface Context extends FileContext {
  readonly own: CustomDevices
}
