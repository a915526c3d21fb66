/**
 * The example as its user runs it, with a stand-in for TorchServe on the PATH
 * (trials/launchers/testing/torchserve.mjs).
 */
import { afterAll, expect, test } from 'vitest'
import { recommends } from '../../tuner/testing/run-cli.ts'
import { ExampleBox } from '../../tuner/testing/stand-in.ts'

const box = new ExampleBox(import.meta.url, {
  program: 'torchserve',
  script: 'torchserve.mjs',
  note: 'echo "$@"',
})
afterAll(() => box.dispose())

test('tunes workers and batching through config.properties', async ({ skip }) => {
  const { code, stdout, stderr } = await box.tune('--max-trials', '1', '--no-confirm')
  await box.skipIfDisturbed(skip)
  expect(recommends, `${stdout}\n${stderr}`).toContain(code)
  // One whose figure is not settled is tried again.
  expect(box.completeTrials()).not.toHaveLength(0)
})

test('init writes the file of a command as it is started by hand, and finds how the model is called', async () => {
  const words = [
    'torchserve',
    '--start',
    '--ncs',
    '--disable-token-auth',
    '--model-store=/srv/model-store',
    '--models=bert=bert.mar',
  ]
  const { code, stdout, stderr } = await box.init(...words)
  expect(code, stderr).toBe(0)
  expect(stderr).toContain('Recognised TorchServe: nettyThreads, workers, batchSize, maxBatchDelay')
  expect(stdout).toContain('"label"')
})
