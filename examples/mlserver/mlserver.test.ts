/**
 * The example as its user runs it, with a stand-in for MLServer on the PATH
 * (trials/launchers/testing/mlserver.mjs).
 */
import { afterAll, expect, test } from 'vitest'
import { recommends } from '../../tuner/testing/run-cli.ts'
import { ExampleBox } from '../../tuner/testing/stand-in.ts'

const box = new ExampleBox(import.meta.url, {
  program: 'mlserver',
  script: 'mlserver.mjs',
  note: 'cat "$2/settings.json"',
})
afterAll(() => box.dispose())

test('tunes adaptive batching and workers through the settings files', async ({ skip }) => {
  const { code, stdout, stderr } = await box.tune('--max-trials', '1')
  await box.skipIfDisturbed(skip)
  expect(recommends, `${stdout}\n${stderr}`).toContain(code)
  // One whose figure is not settled is tried again.
  expect(box.completeTrials()).not.toHaveLength(0)
  expect(box.starts()).toMatch(/"parallel_workers": [012]\}/)
})
