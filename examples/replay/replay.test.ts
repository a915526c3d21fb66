import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { CliBox } from '../../tuner/testing/run-cli.ts'

const box = new CliBox()
afterAll(() => box.dispose())
cpSync(fileURLToPath(new URL('.', import.meta.url)), join(box.folder, 'examples/replay'), {
  recursive: true,
})

test('the recorded table is searched as its README says', async () => {
  const { code, stdout, stderr } = await box.run([
    'replay',
    '--task',
    'examples/replay/task.yaml',
    '--json',
  ])
  expect(stderr).toMatch(
    /columns that the task does not mention: host\n.*configurations appear in several rows and are averaged/,
  )
  expect(code).toBe(0)
  const { regret, configurations, trials } = JSON.parse(stdout)
  expect(configurations).toBeGreaterThan(200)
  expect(trials.length).toBeLessThanOrEqual(40)
  expect(regret).toBeLessThan(0.1)
})
