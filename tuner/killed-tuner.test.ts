/** What is left on this machine when the tuner itself is killed. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { CliBox } from './testing/run-cli.ts'

const server = fileURLToPath(new URL('../trials/launchers/testing/server.mjs', import.meta.url))
let box: CliBox
beforeEach(() => {
  box = new CliBox()
})
afterEach(() => box.dispose())

/** An experiment on a foreign command, with a helper that leaves its group and session. */
const experiment = (command: string[], behaviour = 'family') => `
name: killed
model: m
slo: 200ms
predictor:
  command: ${JSON.stringify(command)}
  env: { BEHAVIOUR: ${behaviour} }
  protocol: json
  path: /predict
load: { trialTime: 20s }
space:
  maxBatchSize: { values: [1, 2], category: env }
`
const run = async (
  command = [process.execPath, server, '--port=${port}', `--pids=${join(box.folder, 'pids')}`],
) => {
  writeFileSync(join(box.folder, 'experiment.yaml'), experiment(command))
  const running = box.start(['-f', 'experiment.yaml', '--plain'])
  await running.said('ready after')
  return running
}

describe.runIf(process.platform === 'linux')('a tuner killed with SIGKILL', () => {
  test('leaves no process of a foreign command', async () => {
    const { child, result } = await run()
    expect(box.processes().length).toBeGreaterThanOrEqual(3)
    child.kill('SIGKILL')
    await result
    await vi.waitFor(() => expect(box.processes()).toEqual([]), { timeout: 60_000, interval: 50 })
  })

  test('nor one that ignores SIGTERM', async () => {
    const stubborn = [
      '/bin/sh',
      '-c',
      `trap '' TERM; BEHAVIOUR=stubborn exec ${process.execPath} ${server} --port=\${port}`,
    ]
    const { child, result } = await run(stubborn)
    child.kill('SIGKILL')
    await result
    await vi.waitFor(() => expect(box.processes()).toEqual([]), { timeout: 60_000, interval: 50 })
  })

  test('and what outlived everything is shown and ended by tune clean, from any folder', async () => {
    const env = {
      ...process.env,
      TUNE_PREDICTOR: 'a-cookie',
      TUNE_RUNNING_FOLDER: join(box.folder, 'gone'),
      TUNE_EXPERIMENT_ID: 'lost-1',
    }
    const left = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], {
      env,
      stdio: 'ignore',
    })
    const ended = new Promise((resolve) => left.on('exit', (_code, signal) => resolve(signal)))
    try {
      const shown = await box.run(['clean', '--local', '--json'])
      expect(JSON.parse(shown.stdout)).toMatchObject({
        removed: false,
        predictors: expect.arrayContaining([
          expect.objectContaining({
            experiment: 'lost-1',
            processes: [expect.objectContaining({ pid: left.pid })],
          }),
        ]),
      })
      const { code, stdout } = await box.run(['clean', 'lost-1', '--local'])
      expect([code, stdout.includes(`process ${left.pid}`)]).toEqual([0, true])
      expect(await ended).toBe('SIGTERM')
      expect((await box.run(['clean', 'lost-1', '--local'])).stdout).toContain(
        'no remains of lost-1',
      )
    } finally {
      left.kill('SIGKILL')
    }
  })

  test('and who is known by nothing but the port of its predictor is shown by tune clean, and left alone', async () => {
    const serve = `require('net').createServer().listen(0, '127.0.0.1', function () { console.log(this.address().port) })`
    const left = spawn(process.execPath, ['-e', serve], {
      env: {},
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    try {
      const [said] = await once(left.stdout!, 'data')
      const port = Number(String(said))
      const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
      const predictor = { leader: 2 ** 30, leaderStartTicks: 1, cookie: 'gone', bootId }
      mkdirSync(join(box.folder, '.tune/running'), { recursive: true })
      const note = {
        predictor,
        controlGroups: [],
        port,
        owner: { pid: 2 ** 30, startTicks: 1, bootId },
      }
      writeFileSync(join(box.folder, '.tune/running/gone.json'), JSON.stringify(note))
      const shown = await box.run(['clean', '--local', '--json'])
      expect(JSON.parse(shown.stdout).listening).toEqual([
        { pid: left.pid, port, command: expect.stringContaining('createServer') },
      ])
      expect((await box.run(['clean', 'lost-2', '--local'])).stdout).toContain(
        `end it: kill ${left.pid}`,
      )
      expect(left.exitCode).toBeNull()
    } finally {
      left.kill('SIGKILL')
    }
  })

  test('while a running experiment is no leftover', async () => {
    const { child, result } = await run()
    const { stdout } = await box.run(['clean', '--local', '--json'])
    expect(
      JSON.parse(stdout).predictors.filter((p: { experiment: string }) =>
        p.experiment.startsWith('killed-'),
      ),
    ).toEqual([])
    child.kill('SIGINT')
    await result
    await vi.waitFor(() => expect(box.processes()).toEqual([]), { timeout: 60_000, interval: 50 })
  })
})
