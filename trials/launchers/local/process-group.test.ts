import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openLog } from '../predictor-log.ts'
import { startGroup } from './process-group.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-group-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** What waits for output that may never end waits for ever. */
const forOutput = 200
vi.mock('node:timers/promises', async (original) => {
  const real = await original<typeof import('node:timers/promises')>()
  return {
    ...real,
    setTimeout: (ms: number) => (ms === forOutput ? new Promise(() => {}) : real.setTimeout(ms)),
  }
})

test.each([
  ['closes its output before it ends', 'exec >&- 2>&-; sleep 0.2; exit 3'],
  ['ends with its output', 'echo last words; exit 3'],
])('a program that %s has ended once it has', { timeout: 10_000 }, async (_, script) => {
  const command = { argv: ['/bin/sh', '-c', script], env: { PATH: process.env.PATH! }, cwd: folder }
  const { exited } = await startGroup(command, 'a cookie', openLog(folder))
  expect(await exited).toEqual({ code: 3, signal: null })
})
