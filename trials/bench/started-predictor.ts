/** The built-in predictor in a process of its own: the build where there is one, else the sources. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { resolveProcessEntry } from '../../profiler/module-entry.ts'
import { nodeFlags } from '../predictor/node-flags.ts'

const built = fileURLToPath(new URL('../../dist/trials/predictor/main.js', import.meta.url))
export const isBuilt = existsSync(built)
const entry = isBuilt
  ? { path: built, execArgv: [] }
  : resolveProcessEntry('../predictor/main', import.meta.url)

interface StartedPredictor {
  readonly url: string
  readonly pid: number
  readonly startMs: number
  stop(): Promise<void>
}

export async function startPredictor(...args: readonly string[]): Promise<StartedPredictor> {
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    [...nodeFlags, ...entry.execArgv, entry.path, '--port', '0', ...args],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout.once('data', (chunk) => resolve(String(chunk)))
    child.once('exit', (code) => reject(new Error(`the predictor ended with ${code}`)))
  })
  const exit = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  return {
    url: JSON.parse(line).url,
    pid: child.pid!,
    startMs: performance.now() - startedAt,
    stop: () => {
      child.kill('SIGTERM')
      return exit
    },
  }
}
