import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sweepLeftovers } from './leftovers.ts'
import { readBootId, readProcessStat } from './processes.ts'

let folder: string
let started: ChildProcess[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-sweep-'))
})
afterEach(() => {
  for (const child of started) child.kill('SIGKILL')
  started = []
  rmSync(folder, { recursive: true, force: true })
})

const running = () => join(folder, 'running')
const notes = () => readdirSync(running())
const isRunning = (pid: number) => !['Z', undefined].includes(readProcessStat(pid)?.state)
const pidsOf = () => {
  const path = join(folder, 'pids')
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n').map(Number) : []
}
const start = (...args: string[]) => {
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  started.push(child)
  return child
}
/** A tuner with a predictor that has a helper in its group and one that left it. */
const launchingTuner = async () => {
  const tuner = start(
    '--import',
    'tsx',
    fileURLToPath(new URL('../testing/launch.ts', import.meta.url)),
    folder,
    'family',
  )
  await once(tuner.stdout!, 'data')
  while (pidsOf().length < 3) await new Promise((resolve) => setTimeout(resolve, 20))
  return tuner
}

describe.runIf(process.platform === 'linux')('sweep', () => {
  test('ends what a killed tuner left behind, whatever group its processes moved to', async () => {
    const tuner = await launchingTuner()
    tuner.kill('SIGKILL')
    await once(tuner, 'exit')
    expect(pidsOf().filter(isRunning)).toHaveLength(3)
    await sweepLeftovers(running(), 500)
    expect(pidsOf().filter(isRunning)).toEqual([])
    expect(notes()).toEqual([])
  })

  test('also when the predictor’s first process has ended and its helpers have not', async () => {
    const tuner = await launchingTuner()
    tuner.kill('SIGKILL')
    await once(tuner, 'exit')
    process.kill(pidsOf()[0]!, 'SIGKILL')
    await sweepLeftovers(running(), 500)
    expect(pidsOf().filter(isRunning)).toEqual([])
  })

  test('leaves the predictors of a tuner that lives', async () => {
    await launchingTuner()
    await sweepLeftovers(running(), 500)
    expect(pidsOf().filter(isRunning)).toHaveLength(3)
    expect(notes()).toHaveLength(1)
    // Its own end is that of a tuner that exits: nothing stays.
    const [tuner] = started
    tuner!.kill('SIGKILL')
    await once(tuner!, 'exit')
    await sweepLeftovers(running(), 500)
  })

  test('a tuner that exits without stopping its predictor ends it on the way out', async () => {
    const script = `await import(${JSON.stringify(new URL('../testing/launch.ts', import.meta.url).href)}); process.exit(1)`
    const path = join(folder, 'exiting.mjs')
    writeFileSync(path, script)
    const tuner = start('--import', import.meta.resolve('tsx'), path, folder, 'serve')
    await once(tuner, 'exit')
    expect(pidsOf()).toHaveLength(1)
    expect(pidsOf().filter(isRunning)).toEqual([])
    await sweepLeftovers(running(), 500)
    expect(notes()).toEqual([])
  })

  test('never ends a process that has got the pid of a dead predictor', async () => {
    const innocent = start('-e', 'setInterval(() => {}, 1e6)')
    await once(innocent, 'spawn')
    const startTicks = readProcessStat(innocent.pid!)!.startTicks
    mkdirSync(running())
    const owner = { pid: innocent.pid!, startTicks: startTicks - 1, bootId: readBootId() }
    const predictors = [
      {
        leader: innocent.pid!,
        leaderStartTicks: startTicks - 100,
        cookie: 'a',
        bootId: readBootId(),
      },
      { leader: innocent.pid!, leaderStartTicks: startTicks, cookie: 'b', bootId: 'another boot' },
    ]
    for (const predictor of predictors)
      writeFileSync(
        join(running(), `${predictor.cookie}.json`),
        JSON.stringify({ predictor, controlGroups: [], owner }),
      )
    await sweepLeftovers(running(), 100)
    expect(isRunning(innocent.pid!)).toBe(true)
    expect(notes()).toEqual([])
  })

  test('takes no folder, and a note that was cut short, for nothing to do', async () => {
    await sweepLeftovers(join(folder, 'nowhere'), 100)
    mkdirSync(running())
    writeFileSync(join(running(), 'cut.json'), '{"predictor": {"lead')
    await sweepLeftovers(running(), 100)
    expect(notes()).toEqual([])
  })
})
