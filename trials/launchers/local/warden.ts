/**
 * A process that ends the tuner's predictors after the tuner has ended in any way. It runs in its
 * own session, and detects the end of the tuner by the end of its standard input.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { resolveProcessEntry } from '../../../profiler/module-entry.ts'

interface Warden {
  readonly process: ChildProcess
  /** Resolves at its end. */
  readonly ended: Promise<void>
  /** Number of predictors that it watches. */
  watched: number
}

const wardens = new Map<string, Warden>()

/**
 * Has the warden of a folder watch one more predictor.
 * @returns call it when the predictor has stopped; with the last predictor of the folder the warden
 * ends too, before the promise resolves
 */
export function watchPredictor(runningDirectory: string): () => Promise<void> {
  const warden = wardens.get(runningDirectory) ?? startWarden(runningDirectory)
  warden.watched++
  return async () => {
    warden.watched--
    if (warden.watched > 0) return
    if (wardens.get(runningDirectory) === warden) wardens.delete(runningDirectory)
    // Otherwise a tuner with no other pending work would exit here with code 13.
    warden.process.ref()
    warden.process.kill('SIGKILL')
    await warden.ended
  }
}

function startWarden(runningDirectory: string): Warden {
  const { path, execArgv } = resolveProcessEntry('./warden-process', import.meta.url)
  const child = spawn(process.execPath, [...execArgv, path, runningDirectory], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  const ended = new Promise<void>((resolve) => {
    child.on('error', () => resolve())
    child.on('exit', () => resolve())
  })
  const warden: Warden = { process: child, ended, watched: 0 }
  wardens.set(runningDirectory, warden)
  // If the warden ends early, the next experiment or `tune clean` ends the predictors.
  ended.then(() => {
    if (wardens.get(runningDirectory) === warden) wardens.delete(runningDirectory)
  })
  child.stdin.on('error', () => {})
  child.unref()
  ;(child.stdin as Socket).unref()
  return warden
}
