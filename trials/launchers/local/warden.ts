/**
 * Outlives its tuner by a moment: when the tuner ends, however it ends, its predictors are ended too, foreign commands among them. A process of
 * a session of its own, whose standard input is the tuner's to hold open.
 */
import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { processEntry } from '../../../profiler/module-entry.ts'

const watched = new Set<string>()

/** Has the predictors that are noted in a folder ended when this process ends. */
export function watchOver(runningDirectory: string): void {
  if (watched.has(runningDirectory)) return
  watched.add(runningDirectory)
  const { path, execArgv } = processEntry('./warden-process', import.meta.url)
  const warden = spawn(process.execPath, [...execArgv, path, runningDirectory], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  // Without it the next experiment or `tune clean` ends what is left.
  warden.on('error', () => watched.delete(runningDirectory))
  warden.on('exit', () => watched.delete(runningDirectory))
  warden.stdin.on('error', () => {})
  warden.unref()
  ;(warden.stdin as Socket).unref()
}
