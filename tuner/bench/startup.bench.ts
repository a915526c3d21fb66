/**
 * `npm run bench:startup`: how long `tune --help`, `tune list` and `tune spec` take from the build,
 * beside an empty Node process. Takes about half a minute.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { formatTable } from '../cli/render/columns.ts'

const runs = 15
const cli = fileURLToPath(new URL('../../dist/tuner/cli.js', import.meta.url))
if (!existsSync(cli)) throw new Error('build first: npm run build')
const folder = mkdtempSync(join(tmpdir(), 'tune-startup-'))

const measureMs = (args: readonly string[]): number => {
  const start = performance.now()
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stderr}`)
  return performance.now() - start
}
const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!

const commands = {
  'node -e 0': ['-e', '0'],
  'tune --help': [cli, '--help'],
  'tune list': [cli, 'list'],
  'tune spec': [cli, 'spec', '--image', 'registry.example/bert:1'],
}

try {
  const simulated = ['--model', 'bert', '--slo', '50ms', '--backend', 'simulated', '--plain']
  measureMs([cli, ...simulated, '--max-trials', '4'])
  // In turn, so that a drift of the machine's speed affects all of them.
  const rounds = Array.from({ length: runs }, () => Object.values(commands).map(measureMs))
  const rows = Object.keys(commands).map((name, i) => [
    name,
    `${median(rounds.map((times) => times[i]!)).toFixed(0)} ms`,
    `${median(rounds.map((times) => times[i]! / times[0]!)).toFixed(2)} x`,
  ])
  console.log(formatTable([['', `median of ${runs}`, 'of an empty process'], ...rows]).join('\n'))
} finally {
  rmSync(folder, { recursive: true })
}
