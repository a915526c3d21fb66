import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { openReader } from '../trials/store/index.ts'
import { CliBox } from './testing/run-cli.ts'

const box = new CliBox()
afterAll(() => box.dispose())

const run = (body: string, ...flags: string[]) => {
  const steps = join(box.folder, 'steps.mjs')
  writeFileSync(steps, body)
  const args = [
    '--model',
    'bert',
    '--slo',
    '50ms',
    '--backend',
    'simulated',
    '--no-confirm',
    '--events',
    ...flags,
  ]
  return box.run(args, { NODE_OPTIONS: `--import ${pathToFileURL(steps)}` })
}
const eventsOf = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
const setBy = (hours: number) =>
  `let steps = 0; const now = Date.now; Date.now = () => now() + ${hours} * 3600_000 * steps++`

test('a date that is set back by an hour again and again makes no negative trial and no negative price', async () => {
  const { code, stdout, stderr } = await run(setBy(-1), '--max-trials', '5')
  expect(code, stderr).toBe(0)
  const events = eventsOf(stdout)
  const spent = events
    .filter((event) => event.type === 'trial-finished')
    .map((event) => event.spent)
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

test('a time limit is of time that has passed, though the date is set back again and again', async () => {
  const { stdout } = await run(
    setBy(-1),
    ...['--sampler', 'random', '--max-trials', '100000', '--time-limit', '1s'],
  )
  const stopped = eventsOf(stdout).find(({ type }) => type === 'stopped')
  expect(stopped).toMatchObject({ reason: 'time-limit' })
})

test('a date that is set forward again and again ends no run early, and makes no trial dearer', async () => {
  const { stdout } = await run(setBy(24), '--max-trials', '3', '--time-limit', '23h')
  const events = eventsOf(stdout)
  expect(events.find(({ type }) => type === 'stopped').reason).not.toBe('time-limit')
  // A day of any GPU costs more.
  expect(events.findLast(({ type }) => type === 'trial-finished').spent).toBeLessThan(1)
})
