import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { parseRecommendation } from '../reports/report/recommendation-json.ts'
import { CliBox, recommends } from './testing/run-cli.ts'

const server = fileURLToPath(new URL('../trials/launchers/testing/server.mjs', import.meta.url))

let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(async () => {
  await vi.waitFor(() => expect(box.processes()).toEqual([]), { timeout: 5_000 })
  box.dispose()
})

const write = (name: string, text: string) => writeFileSync(join(box.folder, name), text)

/** An experiment on a predictor that behaves as told. */
const experiment = (behaviour: string, { maxTrials = 5, trialTime = '1s', readyTimeout = '3s' } = {}) => `
name: fault
model: m
slo: 200ms
predictor:
  command: [${JSON.stringify(process.execPath)}, ${JSON.stringify(server)}, '--port=\${port}']
  env: { BEHAVIOUR: ${behaviour} }
  protocol: json
  path: /predict
  readyTimeout: ${readyTimeout}
load: { trialTime: ${trialTime}, confirmTime: 250ms }
space:
  maxBatchSize: { values: [1, 2, 4, 8, 16, 32], category: env }
budget: { maxTrials: ${maxTrials} }
`

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
      ['show', '--db', 'nowhere.db'],
      ['nowhere.db', '--db'],
    ],
  ])('tune %j', async (args, words) => {
    const { code, stderr, stdout } = await box.run(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    for (const word of words) expect(stderr).toContain(word)
    expect(existsSync(join(box.folder, '.tune'))).toBe(false)
  })

  test('every problem of a file with its line', async () => {
    write('bad.yaml', 'model: bert\nslo: 50 parsecs\nspcae:\n  batchSize: [1]\nbudget:\n  maxTrials: none\n')
    const { code, stderr } = await box.run(['-f', 'bad.yaml'])
    expect(code).toBe(2)
    expect(stderr).toMatch(/bad\.yaml:2:\d+: .*parsecs/)
    expect(stderr).toMatch(/bad\.yaml:3:\d+: .*spcae/)
    expect(stderr).toContain('space')
    expect(stderr).toMatch(/bad\.yaml:6:\d+/)
  })
})

describe('faults of predictors', () => {
  test.each([
    // Each of four tries waits so long for those that never serve.
    ['never-ready', '1s', /never said it was ready/],
    ['crash', '3s', /unsupported batch size/],
    ['error-500', '1s', /shape mismatch/],
    ['garbage', '1s', /JSON|answer/i],
    ['silent', '1s', /answer|time/i],
    ['mortal', '3s', /crashed|died/],
  ])(
    '%s, given %s: exit 1, the reason, nothing left running',
    async (behaviour, readyTimeout, reason) => {
      write('experiment.yaml', experiment(behaviour, { readyTimeout }))
      const { code, stderr, stdout } = await box.run(['-f', 'experiment.yaml'])
      expect(stderr + stdout).toMatch(reason)
      expect(code, `${stdout}\n${stderr}`).toBe(1)
      const listed = await box.run(['list', '--json'])
      expect(JSON.parse(listed.stdout)[0].trials).toBeGreaterThan(0)
    },
    90_000,
  )

  test('a command that is not there', async () => {
    write('experiment.yaml', experiment('serve').replace(/command: .*/, `command: [no-such-server, "\${port}"]`))
    const { code, stderr } = await box.run(['-f', 'experiment.yaml'])
    expect(code).toBe(1)
    expect(stderr).toContain('no-such-server')
  }, 60_000)
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
      db.exec('PRAGMA user_version = 9999; CREATE TABLE x (y)', (error) => (error ? reject(error) : db.close(() => resolve())))
    })
    const { code, stderr } = await box.run(['list', '--db', 'newer.db'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/newer[\s\S]*hint:/)
  })

  test('a folder in the place of the database', async () => {
    mkdirSync(join(box.folder, 'folder.db'))
    const { code, stderr } = await box.run(['--model', 'bert', '--slo', '50ms', '--db', 'folder.db'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/folder\.db[\s\S]*hint:/)
  })

  test.skipIf(process.getuid?.() === 0)('a folder that cannot be written (not as root, who may write anywhere)', async () => {
    chmodSync(box.folder, 0o500)
    const { code, stderr } = await box.run(['--model', 'bert', '--slo', '50ms'])
    expect(code).toBe(1)
    expect(stderr).toContain('hint:')
  })
})

describe('a whole run', () => {
  test('from its sources, as `npm run dev` does it', async () => {
    const dev = ['--import', import.meta.resolve('tsx'), fileURLToPath(new URL('./cli.ts', import.meta.url))]
    const args = ['--model', 'bert', '--slo', '50ms', '--backend', 'simulated', '--max-trials', '1', '--no-confirm', '--json']
    const { stdout } = await promisify(execFile)(process.execPath, [...dev, ...args], { cwd: box.folder })
    expect(JSON.parse(stdout)).toMatchObject({ provenance: 'simulated', trials: 1 })
  })

  test('writes its files, is listed, shown, and ranked anew under another SLO', async () => {
    write('experiment.yaml', experiment('serve', { maxTrials: 2 }))
    const run = await box.run(['-f', 'experiment.yaml', '--json'])
    expect(recommends, run.stderr).toContain(run.code)
    const document = JSON.parse(run.stdout)
    expect(document.schema).toBe('tune.recommendation/v1')
    expect(document.best.capacityRps).toBeGreaterThan(0)
    for (const file of document.files) expect(existsSync(join(box.folder, file))).toBe(true)
    const json = document.files.find((file: string) => file.endsWith('recommendation.json'))
    expect(parseRecommendation(readFileSync(join(box.folder, json), 'utf8')).experimentId).toBe(document.experimentId)

    const shown = await box.run(['show', document.experimentId])
    expect(shown.code).toBe(run.code)
    expect(shown.stdout).toContain(document.best.label)
    const hopeless = await box.run(['show', document.experimentId, '--slo', '0.01ms'])
    expect(hopeless.code).toBe(3)
  }, 90_000)

  test('an SLO that nothing meets: exit 3 and the nearest', async () => {
    write('experiment.yaml', experiment('serve', { maxTrials: 2 }).replace('slo: 200ms', 'slo: 0.02ms'))
    const { code, stdout } = await box.run(['-f', 'experiment.yaml'])
    expect(code).toBe(3)
    expect(stdout).toContain('No configuration meets')
    expect(stdout).toContain('nearest')
  }, 60_000)

  test('every event as a line of JSON', async () => {
    write('experiment.yaml', experiment('serve'))
    const { stdout, stderr } = await box.run(['-f', 'experiment.yaml', '--events', '--max-trials', '2', '--no-confirm'])
    const types = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).type)
    expect(types[0]).toBe('experiment-started')
    expect(types.at(-1)).toBe('recommended')
    expect(types).toContain('load-step')
    expect(types.filter((t) => t === 'trial-finished').length).toBeGreaterThanOrEqual(2)
    expect(stderr).toBe('')
  }, 60_000)
})

describe('interrupts', () => {
  test('Ctrl-C drains, exits 130, says how to resume; resume goes on with what was kept', async () => {
    write('experiment.yaml', experiment('serve', { trialTime: '2s' }))
    const run = box.start(['-f', 'experiment.yaml', '--no-confirm'])
    await run.said('trial 2 of at most')
    run.child.kill('SIGINT')
    const { code, stderr } = await run.result
    expect(code).toBe(130)
    const [, id] = /tune resume (\S+)/.exec(stderr) ?? []
    expect(id).toBeDefined()
    expect(box.processes()).toEqual([])

    const resumed = await box.run(['resume', id!, '--max-trials', '2', '--json'])
    expect(recommends, resumed.stderr).toContain(resumed.code)
    expect(resumed.stderr).toContain('1 trials from before')
    expect(JSON.parse(resumed.stdout).trials).toBeGreaterThanOrEqual(2)
  }, 180_000)

  test('kill -9 in a trial loses nothing that was finished; resume sweeps the leftovers', async () => {
    write('experiment.yaml', experiment('serve', { trialTime: '2s' }))
    const run = box.start(['-f', 'experiment.yaml', '--no-confirm'])
    await run.said('ready after', 2)
    run.child.kill('SIGKILL')
    await run.result
    expect(box.processes()).not.toEqual([])
    const resumed = await box.run(['resume', '--max-trials', '2', '--json'])
    expect(recommends, resumed.stderr).toContain(resumed.code)
    expect(resumed.stderr).toContain('1 trials from before')
    expect(box.processes()).toEqual([])
  }, 180_000)

  test('a second Ctrl-C kills at once', async () => {
    write('experiment.yaml', experiment('stubborn', { trialTime: '2s' }))
    const run = box.start(['-f', 'experiment.yaml'])
    await run.said('ready after')
    run.child.kill('SIGINT')
    await run.said('press again to kill')
    run.child.kill('SIGINT')
    const { code } = await run.result
    expect(code).toBe(130)
  }, 60_000)
})
