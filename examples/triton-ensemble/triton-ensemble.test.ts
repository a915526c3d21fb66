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

test('tunes every model of the ensemble in one server, and writes their config.pbtxt', async ({
  skip,
}) => {
  const { code, stdout, stderr } = await box.tune('--max-trials', '3', '--time-limit', '60s')
  await box.skipIfDisturbed(skip)
  expect(recommends, `${stdout}\n${stderr}`).toContain(code)
  expect(box.completeTrials().length).toBeGreaterThan(1)
  expect(box.starts().trim().split('\n')).toHaveLength(1)
  for (const stage of ['tokenise', 'embed', 'rank'])
    expect(stdout).toMatch(
      new RegExp(`Stage ${stage}: [\\d.]+ % busy, [\\d.]+ ms a visit, [\\d.]+ %`),
    )
  const spec = await box.run(['spec', '--target', 'triton'])
  expect(spec.stdout, spec.stderr).toMatch(
    /file: embed\/config.pbtxt[\s\S]*max_batch_size: \d+[\s\S]*file: rank\/config.pbtxt/,
  )
  expect(spec.stdout).toContain('ensemble_scheduling')
})
