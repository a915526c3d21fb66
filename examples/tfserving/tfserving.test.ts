/**
 * The example as its user runs it, with a stand-in for TensorFlow Serving on the PATH
 * (trials/launchers/testing/tfserving.mjs).
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { recommends } from '../../tuner/testing/run-cli.ts'
import { ExampleBox } from '../../tuner/testing/stand-in.ts'

const box = new ExampleBox(import.meta.url, {
  program: 'tensorflow_model_server',
  script: 'tfserving.mjs',
  note: 'echo "$@"',
})
afterAll(() => box.dispose())

test('tunes batching through the file of batching parameters, under requests of one and of four items', async ({
  skip,
}) => {
  mkdirSync(join(box.folder, 'models/half_plus_two/1'), { recursive: true })
  const { code, stdout, stderr } = await box.tune('--max-trials', '1')
  await box.skipIfDisturbed(skip)
  expect(recommends, `${stdout}\n${stderr}`).toContain(code)
  // One whose figure is not settled is tried again.
  expect(box.completeTrials()).not.toHaveLength(0)
  for (const flags of box.starts().trim().split('\n'))
    expect(flags).toMatch(
      /--port=0 --rest_api_port=\d+ --model_name=half_plus_two .*--batching_parameters_file=/,
    )
  const spec = await box.run(['spec', '--target', 'tfserving'])
  expect(spec.stdout, spec.stderr).toMatch(
    /max_batch_size \{\s+value: \d+\s+\}[\s\S]*batch_timeout_micros/,
  )
})
