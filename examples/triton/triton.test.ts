/**
 * The example as its user runs it, with a stand-in for Triton on the PATH
 * (trials/launchers/testing/triton.mjs).
 */
import { afterAll, expect, test } from 'vitest'
import { recommends } from '../../tuner/testing/run-cli.ts'
import { ExampleBox } from '../../tuner/testing/stand-in.ts'

const box = new ExampleBox(import.meta.url, {
  program: 'tritonserver',
  script: 'triton.mjs',
  note: 'echo started',
})
afterAll(() => box.dispose())

test('tunes batching through model control and writes the config.pbtxt to deploy', async ({
  skip,
}) => {
  const { code, stdout, stderr } = await box.tune('--max-trials', '2', '--time-limit', '60s')
  await box.skipIfDisturbed(skip)
  expect(recommends, `${stdout}\n${stderr}`).toContain(code)
  expect(box.completeTrials().length).toBeGreaterThan(1)
  expect(box.starts().trim().split('\n')).toHaveLength(1)
  const spec = await box.run(['spec', '--target', 'triton'])
  expect(spec.stdout, spec.stderr).toMatch(/name: "dense"\n[\s\S]*max_batch_size: \d+/)
})
