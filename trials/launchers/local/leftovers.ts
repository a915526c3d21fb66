/**
 * Writes a note to disk for each running predictor, so that a sweep ends the predictors of killed
 * tuners, and nothing else.
 */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder } from '../../private-files.ts'
import { endControlGroup } from './control-group.ts'
import { findRemainingListener } from './port.ts'
import { endGroup } from './process-group.ts'
import {
  type GroupIdentity,
  getOwnIdentity,
  isRunning,
  listMembers,
  type ProcessIdentity,
  readBootId,
} from './processes.ts'

interface Note {
  readonly predictor: GroupIdentity
  /** Folders of its control groups. */
  readonly controlGroups: readonly string[]
  /** The port that was reserved for it. */
  readonly port?: number
  /** The tuner that started it. While it runs, no one else ends the predictor. */
  readonly owner: ProcessIdentity
}

interface RunningNote {
  readonly cookie: string
  /** Adds the predictor's processes after its start. */
  addProcesses(predictor: GroupIdentity, port?: number): void
  remove(): void
}

/** Writes a note before the predictor starts, so that its cookie finds it whenever the tuner dies. */
export const writeRunningNote = (folder: string, controlGroups: readonly string[]): RunningNote => {
  makeFolder(folder)
  const cookie = randomUUID()
  const path = join(folder, `${cookie}.json`)
  const owner = getOwnIdentity()
  const write = (predictor: GroupIdentity, port?: number) =>
    writeFileSync(path, JSON.stringify({ predictor, controlGroups, port, owner } satisfies Note))
  write({ leader: notStarted, leaderStartTicks: 0, cookie, bootId: readBootId(), controlGroups })
  return { cookie, addProcesses: write, remove: () => rmSync(path, { force: true }) }
}

/** No process, group or session has this number. */
const notStarted = -1

/** Whether the note's tuner still runs. */
export const isOwned = (path: string): boolean => {
  const owner = readNote(path)?.owner
  return owner !== undefined && isRunning(owner)
}

/**
 * A process that listens on the port of a predictor whose tuner is gone, without any other sign that
 * it belongs to the predictor. Only the user may end it.
 */
interface PortListener {
  readonly pid: number
  readonly command: string
  readonly port: number
}

/** Processes that are known only by the port of a killed tuner's predictor. */
export const findLeftListeners = async (folder: string): Promise<PortListener[]> => {
  const listeners: PortListener[] = []
  for (const name of readNotes(folder)) {
    const path = join(folder, name)
    const note = readNote(path)
    if (note === undefined || isOwned(path)) continue
    const listener = await findListener(note)
    if (
      listener !== undefined &&
      !listMembers(note.predictor, false).some(({ pid }) => pid === listener.pid)
    )
      listeners.push(listener)
  }
  return listeners
}

const findListener = async ({ port, predictor }: Note): Promise<PortListener | undefined> => {
  if (port === undefined || predictor.bootId !== readBootId()) return undefined
  const listener = await findRemainingListener(port, predictor)
  return listener && { pid: listener.pid, command: listener.words.join(' '), port }
}

/**
 * Ends the predictors of tuners that no longer run, and removes their notes, except where a process
 * still listens on the port.
 * @param onLeft called with a sentence about such a process
 */
export const sweepLeftovers = async (
  folder: string,
  graceMs: number,
  onLeft: (what: string) => void = () => {},
): Promise<void> => {
  for (const name of readNotes(folder)) {
    const path = join(folder, name)
    const note = readNote(path)
    if (note !== undefined) {
      if (isOwned(path)) continue
      await endGroup(note.predictor, graceMs, false)
      for (const group of note.controlGroups) await endControlGroup(group)
      const listener = await findListener(note)
      if (listener !== undefined) {
        onLeft(describeListener(listener))
        continue
      }
    }
    rmSync(path, { force: true })
  }
}

const readNotes = (folder: string): string[] => {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.json'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** Undefined for a note that a crash or a full disk truncated, or that another sweep removed. */
const readNote = (path: string): Note | undefined => {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Note
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === 'ENOENT')
      return undefined
    throw error
  }
}

/** A sentence, with the remedy. */
export const describeListener = ({ pid, command, port }: PortListener): string =>
  `process ${pid} (${command.slice(0, 120)}) listens on port ${port}, which a predictor of a killed tuner used; nothing else identifies it. If it is that predictor, end it: kill ${pid}`
