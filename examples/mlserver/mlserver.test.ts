/** The example as its user runs it, with a stand-in for MLServer on the PATH (trials/launchers/testing/mlserver.mjs). */
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { CliBox } from '../../tuner/testing/run-cli.ts'

const fake = fileURLToPath(new URL('../../trials/launchers/testing/mlserver.mjs', import.meta.url))
const box = new CliBox()
afterAll(() => box.dispose())

test('tunes adaptive batching and workers through the settings files', async () => {
  cpSync(fileURLToPath(new URL('.', import.meta.url)), box.folder, { recursive: true })
  const bin = join(box.folder, 'bin')
  mkdirSync(bin)
  const program = join(bin, 'mlserver')
  writeFileSync(program, `#!/bin/sh\ncat "$2/settings.json" >> '${box.folder}/starts'\nexec '${process.execPath}' '${fake}' "$@"\n`)
  chmodSync(program, 0o755)
  const short = ['--pin', 'cpuCores=1', '--sampler', 'random', '--slo', '200ms', '--max-trials', '1', '--trial-time', '1s', '--no-confirm']
  const { code, stdout, stderr } = await box.run(['-f', 'experiment.yaml', ...short], { PATH: `${bin}:${process.env.PATH}` })
  expect(code, `${stdout}\n${stderr}`).toBe(0)
  const [experiment] = readdirSync(join(box.folder, 'tune-results'))
  const rows = readFileSync(join(box.folder, 'tune-results', experiment!, 'trials.csv'), 'utf8')
    .trim()
    .split('\n')
    .slice(1)
  expect(rows.filter((row) => row.includes('complete'))).toHaveLength(1)
  expect(readFileSync(join(box.folder, 'starts'), 'utf8')).toMatch(/"parallel_workers": [012]\}/)
}, 120_000)
