/**
 * Outlives its tuner by a moment: when the tuner ends, however it ends, its predictors are ended
 * too, foreign commands among them. A process of a session of its own, whose standard input is the
 * tuner's to hold open.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { processEntry } from '../../../profiler/module-entry.ts'

interface Warden {
  readonly process: ChildProcess
  /** Resolves once it has ended. */
  readonly ended: Promise<void>
  /** Predictors that it watches. */
  watched: number
}

const wardens = new Map<string, Warden>()

/**
 * Has a predictor that is noted in a folder ended when this process ends. What is returned says
 * that it has been stopped: with the last one of the folder its warden goes too, and is gone when
 * the promise resolves.
 */
export function watchOver(runningDirectory: string): () => Promise<void> {
  const warden = wardens.get(runningDirectory) ?? appoint(runningDirectory)
  warden.watched++
  return async () => {
    warden.watched--
    if (warden.watched > 0) return
    if (wardens.get(runningDirectory) === warden) wardens.delete(runningDirectory)
    // Held again, or a tuner with nothing else to do would end here (exit code 13) in place of
    // going on.
    warden.process.ref()
    warden.process.kill('SIGKILL')
    await warden.ended
  }
}

function appoint(runningDirectory: string): Warden {
  const { path, execArgv } = processEntry('./warden-process', import.meta.url)
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
  // Without it the next experiment or `tune clean` ends what is left.
  ended.then(() => {
    if (wardens.get(runningDirectory) === warden) wardens.delete(runningDirectory)
  })
  child.stdin.on('error', () => {})
  child.unref()
  ;(child.stdin as Socket).unref()
  return warden
}
