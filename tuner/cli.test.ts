import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { onTestServer } from './testing/experiment-on-test-server.ts'
import { CliBox } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

const tune = new WarmCli()
afterAll(() => tune.end())

let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(() => box.end())

const write = (name: string, text: string) => writeFileSync(join(box.folder, name), text)

describe('what is wrong with the input is said at once, with exit code 2', () => {
  test.each([
    [
      ['--model', 'brt', '--slo', '50ms'],
      ['--model', 'bert'],
    ],
    [['--model', 'bert', '--slo', '-5ms'], ['--slo']],
    [
      ['--model', 'bert', '--slo', 'banana'],
      ['--slo', 'banana'],
    ],
    [
      ['--model', 'bert', '--slo', '50ms', '--gpus', 'T5'],
      ['--gpus', 'T4'],
    ],
    [
      ['--model', 'bert', '--slo', '50ms', '--rps', 'NaN', '--max-trials', '-1'],
      ['--rps', '--max-trials'],
    ],
    [['--model', 'bert', '--slo', '50ms', '--prices', 'nowhere.yaml'], ['nowhere.yaml']],
    [['--model', 'bert', '--slo', '50ms', '--constraint', 'batchSize > 1000'], ['--constraint']],
    [
      ['--modle', 'bert'],
      ['--modle', '--model'],
    ],
    [
      ['bert', '--slo', '50ms'],
      ["there is no command 'bert'", 'tune --model bert --slo 50ms'],
    ],
    [
      ['--model', 'bert', '--slo', '50ms', '--batch', '1-32', '--headroom', '20'],
      ["--batch: '1-32' is not a number", 'write 1..32', "--headroom: '20'", 'write 20%'],
    ],
    [
      ['--model', 'bert', '--slo', '50ms', '--backend', 'k8s'],
      ['--backend: expected', 'did you mean kubernetes?'],
    ],
    ...['init', 'config', 'estimate', 'verify', 'calibrate'].map((command) => [
      [command, '--nosuch'],
      ["unknown option '--nosuch'", 'tune help options lists every flag'],
    ]),
    [
      ['show', '--db', 'nowhere.db'],
      ['nowhere.db', '--db'],
    ],
  ])('tune %j', async (args, words) => {
    const { code, stderr, stdout } = await tune.run(box, args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    for (const word of words) expect(stderr).toContain(word)
    expect(existsSync(join(box.folder, '.tune'))).toBe(false)
  })

  test('every problem of a file with its line', async () => {
    write(
      'bad.yaml',
      'model: bert\nslo: 50 parsecs\nspcae:\n  batchSize: [1]\nbudget:\n  maxTrials: none\n',
    )
    const { code, stderr } = await tune.run(box, ['-f', 'bad.yaml'])
    expect(code).toBe(2)
    expect(stderr).toMatch(/bad\.yaml:2:\d+: .*parsecs/)
    expect(stderr).toMatch(/bad\.yaml:3:\d+: .*spcae/)
    expect(stderr).toContain('space')
    expect(stderr).toMatch(/bad\.yaml:6:\d+/)
  })
})

test.each([
  ['slo: 50ms\nparamters:\n  batchSize: 1..8\n', 'bad.yaml:3:1', 'space (what is tuned)'],
  ['slo: 50ms\nspace:\n  batchSize: 1..8\n   cpuCores: 1\n', 'bad.yaml:5:4', 'indented by 3'],
  ['slo: 50ms\nspace:\n  batchSize: 1..8\n cpuCores: 1\n', 'bad.yaml:5:2', 'indented by 1'],
  ['slo: 50ms\nbudget:\nmaxTrials: 4\n', 'bad.yaml:3:8', 'indent its settings below it'],
])('a mistake in a file is named with its line: %j', async (text, where, what) => {
  write('bad.yaml', `model: bert\n${text}`)
  const { code, stderr } = await tune.run(box, ['-f', 'bad.yaml'])
  expect(code).toBe(2)
  expect(stderr).toContain(`${where}: `)
  expect(stderr).toContain(what)
})

describe('faults of predictors', () => {
  // They wait more than they compute, so they wait together. The launcher's tests have every fault;
  // here are one that no trial gets past, and one under load.
  test.concurrent.each([
    ['crash', /unsupported batch size/],
    ['mortal', /crashed|died/],
  ])('%s: exit 1, the reason, nothing left running', async (behaviour, reason) => {
    const own = new CliBox()
    writeFileSync(join(own.folder, 'experiment.yaml'), onTestServer(behaviour))
    const { code, stderr, stdout } = await own.run(['-f', 'experiment.yaml'])
    expect(stderr + stdout).toMatch(reason)
    expect(code, `${stdout}\n${stderr}`).toBe(1)
    const listed = await own.run(['list', '--json'])
    expect(JSON.parse(listed.stdout)[0].trials).toBeGreaterThan(0)
    await own.end()
  })

  test('a command that is not there', async () => {
    write(
      'experiment.yaml',
      onTestServer('serve').replace(/command: .*/, `command: [no-such-server, "\${port}"]`),
    )
    const { code, stderr } = await box.run(['-f', 'experiment.yaml'])
    expect(code).toBe(1)
    expect(stderr).toContain('no-such-server')
  })
})

test('the version names the commit', async () => {
  const { code, stdout } = await box.run(['--version'])
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+ \([0-9a-f]{7,}\)\n$/)])
})

describe('the store', () => {
  test('a newer database is refused with a hint', async () => {
    const { default: sqlite3 } = await import('sqlite3')
    const path = join(box.folder, 'newer.db')
    await new Promise<void>((resolve, reject) => {
      const db = new sqlite3.Database(path)
      db.exec('PRAGMA user_version = 9999; CREATE TABLE x (y)', (error) =>
        error ? reject(error) : db.close(() => resolve()),
      )
    })
    const { code, stderr } = await box.run(['list', '--db', 'newer.db'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/newer[\s\S]*hint:/)
  })

  test('a folder in the place of the database', async () => {
    mkdirSync(join(box.folder, 'folder.db'))
    const { code, stderr } = await box.run([
      '--model',
      'bert',
      '--slo',
      '50ms',
      '--db',
      'folder.db',
    ])
    expect(code).toBe(1)
    expect(stderr).toMatch(/folder\.db[\s\S]*hint:/)
  })

  test.skipIf(process.getuid?.() === 0)(
    'a folder that cannot be written (not as root, who may write anywhere)',
    async () => {
      chmodSync(box.folder, 0o500)
      const { code, stderr } = await box.run(['--model', 'bert', '--slo', '50ms'])
      expect(code).toBe(1)
      expect(stderr).toContain('hint:')
    },
  )
})
