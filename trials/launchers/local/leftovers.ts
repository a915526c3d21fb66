/** A note on disk for each predictor that runs, so that what a killed tuner left behind is found and ended, and nothing else is. */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../../private-files.ts'
import { endControlGroup } from './control-group.ts'
import { endGroup } from './process-group.ts'
import { bootId, type GroupIdentity, isAlive, processStat } from './processes.ts'

interface Note {
  readonly predictor: GroupIdentity
  /** Folders of the control groups made for it. */
  readonly controlGroups: readonly string[]
  /** The tuner that started it: while it lives, the predictor is its business. */
  readonly owner: { readonly pid: number; readonly startTicks: number; readonly bootId: string }
}

interface RunningNote {
  readonly cookie: string
  /** Adds what is known once the predictor has started. */
  started(predictor: GroupIdentity): void
  remove(): void
}

/** Writes a note before the predictor starts: from then on it can be found by its cookie, whenever the tuner dies. */
export const noteRunning = (folder: string, controlGroups: readonly string[]): RunningNote => {
  makeFolder(folder)
  const cookie = randomUUID()
  const path = join(folder, `${cookie}.json`)
  const owner = { pid: process.pid, startTicks: processStat(process.pid)?.startTicks ?? 0, bootId: bootId() }
  const write = (predictor: GroupIdentity) => writeFileSync(path, JSON.stringify({ predictor, controlGroups, owner } satisfies Note))
  write({ leader: notStarted, leaderStartTicks: 0, cookie, bootId: bootId(), controlGroups })
  return { cookie, started: write, remove: () => rmSync(path, { force: true }) }
}

/** No process, group or session has this number. */
const notStarted = -1

/** Whether a note is there, of a tuner that lives. */
export const isOwned = (path: string): boolean => {
  const owner = readNote(path)?.owner
  return owner !== undefined && owner.bootId === bootId() && isAlive(owner.pid, owner.startTicks)
}

/** Ends the predictors of tuners that live no more, and removes their notes. */
export const sweepLeftovers = async (folder: string, graceMs: number): Promise<void> => {
  for (const name of notesIn(folder)) {
    const path = join(folder, name)
    const note = readNote(path)
    if (note !== undefined) {
      if (isOwned(path)) continue
      await endGroup(note.predictor, graceMs, false)
      for (const group of note.controlGroups) await endControlGroup(group)
    }
    rmSync(path, { force: true })
  }
}

const notesIn = (folder: string): string[] => {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.json'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** Undefined for a note that a crash or a full disk cut short, or that another sweep has just removed. */
const readNote = (path: string): Note | undefined => {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Note
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
