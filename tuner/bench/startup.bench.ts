/**
 * `npm run bench:startup`: how long `tune --help` takes from the build, beside an empty Node
 * process.
 */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { table } from '../render/columns.ts'

const runs = 15
const cli = fileURLToPath(new URL('../../dist/tuner/cli.js', import.meta.url))
if (!existsSync(cli)) throw new Error('build first: npm run build')

const timed = (args: readonly string[]): number => {
  const start = performance.now()
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${args.join(' ')} ended with ${status}: ${stderr}`)
  return performance.now() - start
}
const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!

// In turn, so that a drift of the machine's speed meets both.
const pairs = Array.from({ length: runs }, () => ({
  empty: timed(['-e', '0']),
  help: timed([cli, '--help']),
}))
const empty = median(pairs.map((p) => p.empty))
const help = median(pairs.map((p) => p.help))
const rows = [
  ['', 'median of', String(runs)],
  ['node -e 0', `${empty.toFixed(0)} ms`, ''],
  [
    'tune --help',
    `${help.toFixed(0)} ms`,
    `${median(pairs.map((p) => p.help / p.empty)).toFixed(2)} x`,
  ],
]
console.log(table(rows).join('\n'))
