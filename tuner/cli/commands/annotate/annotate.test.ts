/** Notes, tags, putting away and deleting as their user does it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliBox } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
const run = (...words: string[]) => tune.run(box, words)
let [older, newer] = ['', '']

beforeAll(async () => {
  const simulated = [
    '--model',
    'bert',
    '--backend',
    'simulated',
    '--max-trials',
    '2',
    '--plain',
    '--slo',
    '50ms',
  ]
  await run(...simulated, '--name', 'older')
  await run(...simulated, '--name', 'newer')
  ;[newer, older] = JSON.parse((await run('list', '--json')).stdout).map(
    ({ id }: { id: string }) => id,
  )
})
afterAll(async () => {
  await box.end()
  await tune.end()
})

const listed = async (...words: string[]): Promise<string[]> =>
  JSON.parse((await run('list', '--json', ...words)).stdout).map(({ id }: { id: string }) => id)

describe('tune annotate', () => {
  test('writes what tune list and tune show tell, without what would move a cursor', async () => {
    const { code, stdout } = await run(
      'annotate',
      older,
      '--note',
      'driver 560 \u001b[31mred',
      '--tag',
      'nightly',
      '--tag',
      'a100',
    )
    expect([code, stdout]).toEqual([0, `${older}\n  tags: a100, nightly\n  note: driver 560 red\n`])
    await run('annotate', older, '--trial', '1', '--tag', 'odd')
    expect((await run('show', older)).stdout).toMatch(
      /tags: a100, nightly\n +note: driver 560 red\n.*\n {4}tags: odd\n/,
    )
    expect((await run('list')).stdout).toContain('  tags: a100, nightly\n  note: driver 560 red\n')
    expect(JSON.parse((await run('list', '--json', older)).stdout)).toMatchObject([
      { note: expect.any(String), tags: ['a100', 'nightly'] },
    ])
  })

  test('what is asked for is found by words of name, verdict, note and tags, and by tag', async () => {
    expect(await listed('DRIVER', '560')).toEqual([older])
    expect(await listed('newer')).toEqual([newer])
    expect(await listed('per million', 'simulated')).toEqual([newer, older])
    expect(await listed('--tag', 'nightly')).toEqual([older])
    expect(await listed('--tag', 'nightly', '--tag', 'none')).toEqual([])
    expect((await run('list', 'no such words')).stdout).toMatch(/^none of 2 experiments matches/)
  })

  test('one that is put away is listed when asked for, is not the newest, and comes back', async () => {
    await run('annotate', newer, '--archive')
    expect(await listed()).toEqual([older])
    expect(await listed('--all')).toEqual([newer, older])
    expect((await run('show')).stdout).toMatch(new RegExp(`^${older}`))
    expect((await run('show', newer)).stdout).toMatch(/archived on \d{4}-/)
    await run('annotate', newer, '--restore')
    expect(await listed()).toEqual([newer, older])
  })

  test.each([
    [[], /nothing to write/],
    [['--archive', '--restore'], /--archive and --restore exclude each other/],
    [['--archive', '--trial', '1'], /a trial cannot be archived/],
    [['--trial', 'x', '--note', 'y'], /--trial x is not a trial number/],
  ])('%j is refused, exit code 2', async (words, message) => {
    const { code, stderr } = await run('annotate', ...words)
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)])
  })

  test('a trial that is not there is named', async () => {
    const { code, stderr } = await run('annotate', older, '--trial', '77', '--note', 'y')
    expect([code, stderr]).toEqual([1, expect.stringContaining('has no trial 77')])
  })
})

describe('tune delete', () => {
  test('asks nobody where there is no terminal, and deletes nothing', async () => {
    const { code, stderr } = await run('delete', older)
    expect([code, stderr]).toEqual([2, expect.stringContaining('--yes')])
    expect(await listed()).toHaveLength(2)
  })

  test('an id that is not there is named, and nothing is deleted', async () => {
    const { code, stderr } = await run('delete', older, 'nobody', '--yes')
    expect([code, stderr]).toEqual([2, expect.stringContaining('nobody')])
    expect(await listed()).toHaveLength(2)
  })

  test('removes it with its trials', async () => {
    const { code, stdout } = await run('delete', older, '--yes', '--json')
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      { deleted: [older], trials: expect.any(Number) },
    ])
    expect(await listed('--all')).toEqual([newer])
    expect((await run('show', older)).code).toBe(2)
  })
})
