import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { recommendationDocument } from '../reports/report/recommendation-json.ts'
import type { TuneEvent } from './loop/events.ts'
import { onTestServer } from './testing/experiment-on-test-server.ts'
import { CliBox, recommends } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

/** For what loads nothing. */
const tune = new WarmCli()
afterAll(() => tune.end())

let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(() => box.end())

const write = (name: string, text: string) => writeFileSync(join(box.folder, name), text)

describe('a whole run', () => {
  test('from its sources, as `npm run dev` does it', async () => {
    const dev = [
      '--import',
      import.meta.resolve('tsx'),
      fileURLToPath(new URL('./cli.ts', import.meta.url)),
    ]
    const args = [
      '--model',
      'bert',
      '--slo',
      '50ms',
      '--backend',
      'simulated',
      '--max-trials',
      '1',
      '--no-confirm',
      '--json',
    ]
    const { stdout } = await promisify(execFile)(process.execPath, [...dev, ...args], {
      cwd: box.folder,
    })
    expect(JSON.parse(stdout)).toMatchObject({ provenance: 'simulated', trials: 1 })
  })

  test('tells every event as a line of JSON, writes its files, is shown, and ranked anew under another SLO', async ({
    skip,
  }) => {
    write('experiment.yaml', onTestServer('serve', { maxTrials: 2 }))
    const run = await box.run(['-f', 'experiment.yaml', '--events'])
    expect(run.stderr).toBe('')
    const events: TuneEvent[] = run.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const types = events.map(({ type }) => type)
    expect(types[0]).toBe('experiment-started')
    expect(types).toContain('load-step')
    expect(types.filter((type) => type === 'trial-finished').length).toBeGreaterThanOrEqual(2)
    await box.skipIfDisturbed(skip)
    expect(recommends, run.stdout).toContain(run.code)
    const last = events.at(-1)
    expect(last).toMatchObject({ type: 'recommended' })
    const { files } = last as Extract<TuneEvent, { type: 'recommended' }>
    for (const file of files) expect(existsSync(join(box.folder, file))).toBe(true)
    const json = files.find((file) => file.endsWith('recommendation.json'))!
    const document = recommendationDocument.parse(
      JSON.parse(readFileSync(join(box.folder, json), 'utf8')),
    )
    expect(document).toMatchObject({ schema: 'tune.recommendation/v1' })
    // A trial that the machine disturbed is made again.
    expect(document.trials).toBeGreaterThanOrEqual(2)
    expect(document.best!.capacityRps).toBeGreaterThan(0)

    const shown = await tune.run(box, ['show', document.experimentId])
    expect(shown.code).toBe(run.code)
    expect(shown.stdout).toContain(document.best!.label)
    const hopeless = await tune.run(box, ['show', document.experimentId, '--slo', '0.01ms'])
    expect(hopeless.code).toBe(3)
  })

  test('simulated: repeats itself by seed, and says that it is simulated', async () => {
    const search = ['--model', 'bert', '--slo', '50ms', '--backend', 'simulated', '--seed', '7']
    const short = () => tune.run(box, [...search, '--max-trials', '3', '--no-confirm', '--json'])
    const [one, two] = [await short(), await short()]
    expect(one.stderr).toContain('SIMULATED')
    const [first, again] = [one, two].map(({ stdout }) => JSON.parse(stdout))
    expect(first).toMatchObject({ provenance: 'simulated', trials: 3 })
    expect(again.best.configuration).toEqual(first.best.configuration)
    expect(again.best.capacityRps).toBe(first.best.capacityRps)
  })

  // In real time, one trial that misses its SLO when idle is measured in
  // profiler/capacity/measure.test.ts.
  test('an SLO that nothing meets: exit 3 and the nearest', async () => {
    const simulated = [
      '--model',
      'bert',
      '--backend',
      'simulated',
      '--gpus',
      'T4',
      '--max-trials',
      '2',
    ]
    const { code, stdout } = await tune.run(box, [...simulated, '--slo', '0.02ms'])
    expect(code).toBe(3)
    expect(stdout).toContain('No configuration meets')
    expect(stdout).toContain('nearest')
  })
})

describe('interrupts', () => {
  test('Ctrl-C drains, exits 130, says how to resume; a kill -9 after that loses nothing; --once goes on with what its key began, sweeps what is left over, and tells again what was found', async ({
    skip,
  }) => {
    write('experiment.yaml', onTestServer('serve', { maxTrials: 2 }))
    const once = ['-f', 'experiment.yaml', '--no-confirm', '--once', 'job-7']
    const run = box.start([...once, '--plain'])
    await run.said(': #2 ')
    run.child.kill('SIGINT')
    const { code, stderr } = await run.result
    expect(code).toBe(130)
    const [, id] = /tune resume (\S+)/.exec(stderr) ?? []
    expect(id).toMatch(/-[0-9a-f]{8}$/)
    expect(box.processes()).toEqual([])

    const killed = box.start(['resume', id!])
    await killed.said('ready after')
    expect(box.processes()).not.toEqual([])
    killed.child.kill('SIGKILL')
    expect((await killed.result).stderr).toContain('1 trial from before')

    // Whatever the file says by now.
    write('experiment.yaml', onTestServer('serve', { maxTrials: 5 }))
    const second = await box.run([...once, '--plain'])
    expect(second.stderr).toContain('1 trial from before')
    expect(box.processes()).toEqual([])
    await box.skipIfDisturbed(skip)
    const { experiment, trials } = await box.stored()
    expect(experiment).toMatchObject({ id, state: 'done' })
    expect(trials.filter(({ state }) => state === 'complete').length).toBeGreaterThanOrEqual(1)
    const third = await tune.run(box, [...once, '--json'])
    expect([third.code, JSON.parse(third.stdout).experimentId]).toEqual([second.code, id])
    expect((await box.stored()).trials.length).toBe(trials.length)
  })

  test('a second Ctrl-C kills at once', async () => {
    write('experiment.yaml', onTestServer('stubborn'))
    const run = box.start(['-f', 'experiment.yaml'])
    await run.said('ready after')
    run.child.kill('SIGINT')
    await run.said('press again to kill')
    run.child.kill('SIGINT')
    const { code } = await run.result
    expect(code).toBe(130)
  })
})
