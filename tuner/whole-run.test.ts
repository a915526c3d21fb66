import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { recommendationDocument } from '../reports/report/recommendation-json.ts'
import { onTestServer } from './testing/experiment-on-test-server.ts'
import { CliBox, recommends } from './testing/run-cli.ts'

let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(() => box.end())

const write = (name: string, text: string) => writeFileSync(join(box.folder, name), text)

describe('a whole run', () => {
  test('from its sources, as `npm run dev` does it', async () => {
    const dev = ['--import', import.meta.resolve('tsx'), fileURLToPath(new URL('./cli.ts', import.meta.url))]
    const args = ['--model', 'bert', '--slo', '50ms', '--backend', 'simulated', '--max-trials', '1', '--no-confirm', '--json']
    const { stdout } = await promisify(execFile)(process.execPath, [...dev, ...args], { cwd: box.folder })
    expect(JSON.parse(stdout)).toMatchObject({ provenance: 'simulated', trials: 1 })
  })

  test('writes its files, is listed, shown, and ranked anew under another SLO', async () => {
    write('experiment.yaml', onTestServer('serve', { maxTrials: 2 }))
    const run = await box.run(['-f', 'experiment.yaml', '--json'])
    expect(recommends, run.stderr).toContain(run.code)
    const document = JSON.parse(run.stdout)
    expect(document.schema).toBe('tune.recommendation/v1')
    expect(document.best.capacityRps).toBeGreaterThan(0)
    for (const file of document.files) expect(existsSync(join(box.folder, file))).toBe(true)
    const json = document.files.find((file: string) => file.endsWith('recommendation.json'))
    expect(recommendationDocument.parse(JSON.parse(readFileSync(join(box.folder, json), 'utf8'))).experimentId).toBe(document.experimentId)

    const shown = await box.run(['show', document.experimentId])
    expect(shown.code).toBe(run.code)
    expect(shown.stdout).toContain(document.best.label)
    const hopeless = await box.run(['show', document.experimentId, '--slo', '0.01ms'])
    expect(hopeless.code).toBe(3)
  }, 90_000)

  test('an SLO that nothing meets: exit 3 and the nearest', async () => {
    write('experiment.yaml', onTestServer('serve', { maxTrials: 2 }).replace('slo: 200ms', 'slo: 0.02ms'))
    const { code, stdout } = await box.run(['-f', 'experiment.yaml'])
    expect(code).toBe(3)
    expect(stdout).toContain('No configuration meets')
    expect(stdout).toContain('nearest')
  }, 60_000)

  test('every event as a line of JSON', async () => {
    write('experiment.yaml', onTestServer('serve'))
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
    write('experiment.yaml', onTestServer('serve', { trialTime: '2s' }))
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
    write('experiment.yaml', onTestServer('serve', { trialTime: '2s' }))
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
    write('experiment.yaml', onTestServer('stubborn', { trialTime: '2s' }))
    const run = box.start(['-f', 'experiment.yaml'])
    await run.said('ready after')
    run.child.kill('SIGINT')
    await run.said('press again to kill')
    run.child.kill('SIGINT')
    const { code } = await run.result
    expect(code).toBe(130)
  }, 60_000)
})
