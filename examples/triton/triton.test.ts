/** The example as its user runs it, with a stand-in for Triton on the PATH (trials/launchers/testing/triton.mjs). */
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { CliBox } from '../../tuner/testing/run-cli.ts'

const fake = fileURLToPath(new URL('../../trials/launchers/testing/triton.mjs', import.meta.url))
const box = new CliBox()
afterAll(() => box.dispose())

test('tunes batching through model control and writes the config.pbtxt to deploy', async () => {
  cpSync(fileURLToPath(new URL('.', import.meta.url)), box.folder, { recursive: true })
  const bin = join(box.folder, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'tritonserver'), `#!/bin/sh\necho started >> '${box.folder}/starts'\nexec '${process.execPath}' '${fake}' "$@"\n`)
  chmodSync(join(bin, 'tritonserver'), 0o755)
  const flags = [
    '-f',
    'experiment.yaml',
    '--pin',
    'cpuCores=1',
    '--sampler',
    'random',
    '--slo',
    '200ms',
    '--max-trials',
    '2',
    '--trial-time',
    '1s',
    '--confirm-time',
    '500ms',
  ]
  const { code, stdout, stderr } = await box.run(flags, { PATH: `${bin}:${process.env.PATH}` })
  expect(code, `${stdout}\n${stderr}`).toBe(0)
  const [experiment] = readdirSync(join(box.folder, 'tune-results'))
  const rows = readFileSync(join(box.folder, 'tune-results', experiment!, 'trials.csv'), 'utf8')
    .trim()
    .split('\n')
    .slice(1)
  expect(rows.filter((row) => row.includes('complete')).length).toBeGreaterThan(1)
  expect(readFileSync(join(box.folder, 'starts'), 'utf8').trim().split('\n')).toHaveLength(1)
  const spec = await box.run(['spec', '--target', 'triton'])
  expect(spec.stdout, spec.stderr).toMatch(/name: "dense"\n[\s\S]*max_batch_size: \d+/)
}, 120_000)
