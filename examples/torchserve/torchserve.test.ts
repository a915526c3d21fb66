/** The example as its user runs it, with a stand-in for TorchServe on the PATH (trials/launchers/testing/torchserve.mjs). */
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { CliBox } from '../../tuner/testing/run-cli.ts'

const fake = fileURLToPath(new URL('../../trials/launchers/testing/torchserve.mjs', import.meta.url))
const box = new CliBox()
afterAll(() => box.dispose())

test('tunes workers and batching through config.properties', async () => {
  copyFileSync(fileURLToPath(new URL('experiment.yaml', import.meta.url)), join(box.folder, 'experiment.yaml'))
  const bin = join(box.folder, 'bin')
  mkdirSync(bin)
  const program = join(bin, 'torchserve')
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${fake}' "$@"\n`)
  chmodSync(program, 0o755)
  const short = ['--pin', 'cpuCores=1', '--sampler', 'random', '--slo', '200ms', '--max-trials', '1', '--trial-time', '1s', '--no-confirm']
  const { code, stdout, stderr } = await box.run(['-f', 'experiment.yaml', ...short], { PATH: `${bin}:${process.env.PATH}` })
  expect(code, `${stdout}\n${stderr}`).toBe(0)
  const [experiment] = readdirSync(join(box.folder, 'tune-results'))
  expect(readFileSync(join(box.folder, 'tune-results', experiment!, 'trials.csv'), 'utf8')).toMatch(/complete/)
}, 120_000)
