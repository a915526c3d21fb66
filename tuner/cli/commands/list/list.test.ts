/** What a terminal of 80 columns shows of a store, and how commands are found. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CliBox, cli } from '../../../testing/run-cli.ts'
import { WarmCli } from '../../../testing/warm-cli.ts'

const tune = new WarmCli()
const box = new CliBox()
const run = (...words: string[]) => tune.run(box, words)

beforeAll(async () => {
  const simulated = ['--model', 'bert', '--backend', 'simulated', '--max-trials', '2', '--plain']
  await run(...simulated, '--slo', '50ms')
  await run(...simulated, '--slo', '0.5ms', '--name', 'none')
})
afterAll(async () => {
  await box.end()
  await tune.end()
})

describe('tune list', () => {
  test('keeps to 80 columns on a terminal that says it has none', ({ skip }) => {
    if (process.platform !== 'linux') skip('needs the command script of util-linux')
    const { stdout } = spawnSync(
      'script',
      ['-qec', `'${process.execPath}' '${cli}' list`, '/dev/null'],
      {
        cwd: box.folder,
        env: { ...process.env, NO_COLOR: '1' },
        stdio: ['ignore', 'pipe', 'ignore'],
        encoding: 'utf8',
      },
    )
    const lines = stdout.trimEnd().split(/\r?\n/)
    expect(lines.length).toBeGreaterThan(4)
    expect(lines.filter((line) => line.length > 80)).toEqual([])
  })

  test('has age, SLO, status and what each came to, an experiment in two lines for who reads them from a pipe', async () => {
    const { stdout } = await run('list')
    const lines = stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(4)
    expect(lines[0]).toMatch(
      /^none-\w+ +done +(just now|\d+ (s|min) ago) +\d+ trials +simulated +p99 <= 0.5 ms$/,
    )
    expect(lines[1]).toMatch(/^ {2}No configuration meets p99 <= 0.5 ms/)
    expect(stdout).toMatch(
      /bert-\w+ .* p99 <= 50 ms\n {2}\w+: .*\$[\d.]+ +per\s+million\s+requests/s,
    )
  })

  test('as JSON the same, one object for each', async () => {
    const [none, bert] = JSON.parse((await run('list', '--json')).stdout)
    expect(none).toMatchObject({
      slo: 'p99 <= 0.5 ms',
      conclusion: 'none',
      trials: expect.any(Number),
    })
    expect(bert).toMatchObject({
      slo: 'p99 <= 50 ms',
      status: expect.any(String),
      verdict: expect.stringContaining('per million requests'),
    })
  })
})

describe('commands are found', () => {
  test.each([
    [['lst'], "there is no command 'lst'", 'did you mean list?'],
    [['help', 'shwo'], "there is no command 'shwo'", 'did you mean show?'],
    [['completion', 'tcsh'], 'tcsh', 'bash, zsh, fish'],
  ])('%j is answered with what was meant, exit code 2', async (words, what, hint) => {
    const { code, stderr } = await run(...words)
    expect([code, stderr]).toEqual([2, expect.stringContaining(what)])
    expect(stderr).toContain(hint)
  })

  test('tune help COMMAND is its --help', async () => {
    const [help, flag] = [await run('help', 'show'), await run('show', '--help')]
    expect(help.stdout).toContain('Usage: tune show')
    expect([help.code, help.stdout]).toEqual([0, flag.stdout])
  })

  test('bash completes commands and their flags by what tune prints', async () => {
    const script = join(box.folder, 'completion.bash')
    writeFileSync(script, (await run('completion', 'bash')).stdout)
    const complete = (...words: string[]) => {
      const asked = `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tune; echo "\${COMPREPLY[*]}"`
      return spawnSync('bash', ['-c', asked, script, ...words], { encoding: 'utf8' }).stdout.trim()
    }
    expect(complete('tune', 'li')).toBe('list')
    expect(complete('tune', 'list', '--')).toBe('--tag --all --db --json --help')
    expect(complete('tune', 'help', 'da')).toBe('dashboard')
    expect(complete('tune', '--slo-e')).toBe('--slo-e2e')
  })

  test.each(['zsh', 'fish'])('for %s every command and flag is named', async (shell) => {
    const { stdout } = await run('completion', shell)
    for (const name of ['dashboard', 'completion', 'slo-ttft', 'patch'])
      expect(stdout).toContain(name)
  })
})
