/**
 * `npm test`: tests that only compute take what time the others leave, at the lowest priority and
 * in a vitest of their own, whose words come at the end; the others wait for processes and loads
 * more than they compute. With arguments, vitest's own, one vitest runs them all.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { constants, setPriority } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

const projects = (...names: string[]) => names.flatMap((name) => ['--project', name])
const vitest = join(
  createRequire(import.meta.url).resolve('vitest/package.json'),
  '..',
  'vitest.mjs',
)
const run = (args: readonly string[], stdio: 'inherit' | 'pipe') =>
  spawn(process.execPath, [vitest, 'run', ...args], {
    stdio: ['inherit', stdio, stdio],
    env: { ...process.env, ...(stdio === 'pipe' && process.stdout.isTTY && { FORCE_COLOR: '1' }) },
  })
const ended = async (child: ChildProcess): Promise<number> => {
  const [code] = await once(child, 'exit')
  return code ?? 1
}
// Ctrl-C reaches them too; this process waits for how they end.
process.on('SIGINT', () => {})

const own = process.argv.slice(2)
if (own.length > 0)
  process.exitCode = await ended(
    run([...projects('pure', 'processes', 'measured'), ...own], 'inherit'),
  )
else {
  const pure = run([...projects('pure'), '--outputFile.json=.ci/results/pure.json'], 'pipe')
  setPriority(pure.pid!, constants.priority.PRIORITY_LOW)
  const said = Promise.all([text(pure.stdout!), text(pure.stderr!)])
  const codes = await Promise.all([
    ended(run(projects('processes', 'measured'), 'inherit')),
    ended(pure),
  ])
  process.stdout.write(`\n${(await said).join('')}`)
  process.exitCode = Math.max(...codes)
}
