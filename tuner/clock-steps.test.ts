import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { openReader } from '../trials/store/index.ts'
import { CliBox } from './testing/run-cli.ts'

const box = new CliBox()
afterEach(() => box.dispose())

test('a date that is set back by an hour again and again makes no negative trial and no negative price', async () => {
  const steps = join(box.folder, 'steps.mjs')
  writeFileSync(steps, `let steps = 0; const now = Date.now; Date.now = () => now() - 3600_000 * steps++`)
  const { code, stdout, stderr } = await box.run(
    ['--model', 'bert', '--slo', '50ms', '--backend', 'simulated', '--max-trials', '5', '--no-confirm', '--events'],
    { NODE_OPTIONS: `--import ${pathToFileURL(steps)}` },
  )
  expect(code, stderr).toBe(0)
  const events = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const spent = events.filter((event) => event.type === 'trial-finished').map((event) => event.spent)
  expect(spent.length).toBeGreaterThanOrEqual(3)
  expect(spent.every((value, i) => value >= (spent[i - 1] ?? 0))).toBe(true)
  const stamps = events.map((event) => event.at)
  expect(stamps).toEqual([...stamps].sort())
  const reader = await openReader(join(box.folder, '.tune/tune.db'))
  const [experiment] = await reader.list()
  const { trials } = (await reader.load(experiment!.id))!
  await reader.close()
  for (const trial of trials) expect(trial.seconds).toBeGreaterThanOrEqual(0)
})
