/** `tune ci` and `tune compare` on experiments in virtual time, as a build server calls them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliBox } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
const run = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  tune.run(box, words, env)
const at = (name: string) => join(box.folder, name)
const simulated = [
  '--model',
  'bert',
  '--slo',
  '50ms',
  '--backend',
  'simulated',
  '--max-trials',
  '3',
  '--seed',
  '1',
]
let good = ''

beforeAll(async () => {
  await run([...simulated, '--gpus', 'A100-40GB', '--name', 'good'])
  good = JSON.parse((await run(['list', '--json'])).stdout)[0].id
  expect((await run(['ci', '--save-baseline', 'baseline.json'])).code).toBe(0)
})
afterAll(async () => {
  await box.end()
  await tune.end()
})

describe('tune ci', () => {
  test('passes what is as the baseline was, and does not call simulated figures confirmed', async () => {
    const { code, stdout } = await run(['ci', '--baseline', 'baseline.json', '--json'])
    expect(code).toBe(0)
    const { checks } = JSON.parse(stdout)
    expect(
      checks.map(({ name, state }: { name: string; state: string }) => `${name} ${state}`),
    ).toEqual(['slo passed', 'confirmed undecided', 'regression passed'])
  })

  test('fails what became more expensive, in every form that a build server reads', async () => {
    await run([...simulated, '--gpus', 'V100', '--name', 'dear'])
    const env = { GITHUB_ACTIONS: 'true', GITHUB_STEP_SUMMARY: at('summary.md') }
    const { code, stdout, stderr } = await run(
      ['ci', '--baseline', good, '--junit', 'tune.xml'],
      env,
    )
    expect(code).toBe(6)
    expect(stdout).toMatch(/regression: .* % more expensive \(90 %: .*than the baseline \(/)
    expect(stderr).toMatch(/^::error title=tune dear%3A regression::/m)
    expect(readFileSync(at('summary.md'), 'utf8')).toContain('| regression | failed |')
    expect(readFileSync(at('tune.xml'), 'utf8')).toMatch(
      /<testsuite name="dear" tests="3" failures="1" errors="0" skipped="1">/,
    )
    expect((await run(['ci', good, '--baseline', 'baseline.json'])).code).toBe(0)
  })

  test('a limit that nothing keeps is exit code 3', async () => {
    await run([
      '--model',
      'bert',
      '--slo',
      '0.5ms',
      '--backend',
      'simulated',
      '--max-trials',
      '2',
      '--name',
      'none',
    ])
    expect((await run(['ci', '--save-baseline', 'none.json'])).code).toBe(0)
    const { code, stdout } = await run(['ci', '--baseline', 'none.json'])
    expect(code).toBe(3)
    expect(stdout).toContain('slo: No configuration meets')
  })

  test.each([
    [[], 'needs a baseline'],
    [
      ['--baseline', 'baseline.json', '--max-regression', 'lots'],
      "--max-regression lots: 'lots' is not a share",
    ],
    [['--baseline', 'gone.json'], 'cannot read the recommendation gone.json'],
    [['--baseline', 'gone'], 'no experiment "gone" in the store'],
    [['--baseline', 'broken.json'], 'broken.json: is not JSON'],
    [['--baseline', 'other.json'], 'other.json: is not a recommendation: schema'],
    [['--baseline', 'baseline.json', '--junit', '.'], '--junit .: is a folder'],
    [['none', '--baseline', 'baseline.json'], 'no experiment "none"'],
  ])('%j is refused', async (words, said) => {
    writeFileSync(at('broken.json'), '{"schema":')
    writeFileSync(at('other.json'), '{"schema":"else/v1"}')
    const { code, stdout, stderr } = await run(['ci', ...words])
    expect(stderr).toContain(said)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })

  test('another SLO than the baseline is another question', async () => {
    const { code, stderr } = await run(['ci', '--baseline', good])
    expect(code).toBe(2)
    expect(stderr).toContain('another question: the SLO: p99 <= 50 ms, now p99 <= 0.5 ms')
  })
})

describe('tune compare', () => {
  test('has a block for each, and the change against the first', async () => {
    const dear = JSON.parse((await run(['list', '--json'])).stdout).find(
      ({ name }: { name: string }) => name === 'dear',
    ).id
    const { code, stdout } = await run(['compare', good, dear, 'baseline.json'])
    expect(code).toBe(0)
    expect(stdout).toMatch(new RegExp(`more expensive \\(90 %: .*\\) than ${good}`))
    expect(stdout).toContain(`0 % more expensive (90 %: `)
    expect(stdout).toContain(', statistically tied')
    const [first, second] = JSON.parse((await run(['compare', good, dear, '--json'])).stdout)
    expect(first).not.toHaveProperty('change')
    expect(second.change.worse).toBeGreaterThan(0)
  })

  test('one alone is beside the newest, and what was asked otherwise has no change', async () => {
    const { stdout } = await run(['compare', 'baseline.json'])
    expect(stdout).toContain('not comparable: the SLO: p99 <= 50 ms, now p99 <= 0.5 ms')
    expect(stdout).not.toContain('more expensive')
  })
})
