/** The example as its user runs it, with a stand-in for TensorFlow Serving on the PATH (trials/launchers/testing/tfserving.mjs). */
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { CliBox } from '../../tuner/testing/run-cli.ts'

const fake = fileURLToPath(new URL('../../trials/launchers/testing/tfserving.mjs', import.meta.url))
const box = new CliBox()
afterAll(() => box.dispose())

test('tunes batching through the file of batching parameters, under requests of one and of four items', async () => {
  cpSync(fileURLToPath(new URL('.', import.meta.url)), box.folder, { recursive: true })
  mkdirSync(join(box.folder, 'models/half_plus_two/1'), { recursive: true })
  const bin = join(box.folder, 'bin')
  mkdirSync(bin)
  const program = join(bin, 'tensorflow_model_server')
  writeFileSync(program, `#!/bin/sh\necho "$@" >> '${box.folder}/starts'\nexec '${process.execPath}' '${fake}' "$@"\n`)
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
  const starts = readFileSync(join(box.folder, 'starts'), 'utf8').trim().split('\n')
  for (const flags of starts) expect(flags).toMatch(/--port=0 --rest_api_port=\d+ --model_name=half_plus_two .*--batching_parameters_file=/)
  const spec = await box.run(['spec', '--target', 'tfserving'])
  expect(spec.stdout, spec.stderr).toMatch(/max_batch_size \{\s+value: \d+\s+\}[\s\S]*batch_timeout_micros/)
}, 120_000)
