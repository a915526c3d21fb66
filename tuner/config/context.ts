/** Inputs that every function which resolves a part of the experiment receives. */
import { existsSync } from 'node:fs'
import { isAbsolute, relative } from 'node:path'
import type { CustomDevices } from '../../trials/devices/custom-devices.ts'
import type { Settings } from './schema/experiment-schema.ts'
import type { MachineCapabilities } from './types.ts'
import type { Path } from './yaml-file.ts'

export interface HostContext {
  /** Working directory. */
  readonly cwd: string
  readonly machine: MachineCapabilities
  /**
   * The entries come from the trial store. Their space is complete, so no defaults are added, and
   * they are not checked against this machine.
   */
  readonly isStored?: boolean
  /**
   * The experiment is only displayed or re-ranked. Files and folders that it names may be missing.
   */
  readonly isReadOnly?: boolean
  /** Names of the stages that the predictor calls, if it is a stage of a pipeline. */
  readonly calledStages?: readonly string[]
}

/** Whether a path is missing that a run would need. */
export const isMissing = (path: string, { isReadOnly }: HostContext): boolean =>
  !isReadOnly && !existsSync(path)

/** A path relative to the working directory where it lies below it, for messages. */
export function shortenPath(path: string, { cwd }: Pick<HostContext, 'cwd'>): string {
  const near = relative(cwd, path)
  return near.startsWith('..') || isAbsolute(near) ? path : near
}

/** Records a problem with the value at a path of the experiment file. */
export type Report = (path: Path, what: string, hint: string) => void

/** Context before the user's GPU and architecture files are read. */
export interface SettingsContext {
  readonly entries: Settings
  readonly report: Report
  /** Folder that relative paths of a value start from. */
  readonly resolveFolder: (path: Path) => string
  readonly invalidKeys: ReadonlySet<string>
  readonly host: HostContext
}

export interface Context extends SettingsContext {
  readonly own: CustomDevices
}
