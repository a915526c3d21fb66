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
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { inspectCgroups } from '../../machine/cgroups.ts'
import { InfeasibleError, LaunchError } from '../../types.ts'
import { fillPrepare } from '../fill.ts'
import type { PrepareStep } from '../template.ts'
import { createControlGroup } from './control-group.ts'
import { prepare } from './prepare-step.ts'
import { isAlive, readProcessStat } from './processes.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'tune-prepare-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const cgroups = inspectCgroups()
const never = new AbortController().signal
/** Writes down that it ran, then does as told. */
const script = (then: string) => [
  process.execPath,
  '-e',
  `const fs = require('fs'); fs.appendFileSync(${JSON.stringify(join(root, 'runs'))}, process.argv.slice(1).join(' ') + '\\n'); ${then}`,
]
const build = (...words: string[]): PrepareStep => ({
  command: [
    ...script(`fs.writeFileSync(process.argv[1] + '/engine', process.argv.slice(2).join(' '))`),
    '${prepared}',
    ...words,
  ],
})
const run = (
  step: PrepareStep,
  configuration = {},
  { signal = never, device }: { signal?: AbortSignal; device?: string } = {},
) => {
  const folder = join(root, 'trial')
  mkdirSync(folder, { recursive: true })
  return prepare(
    fillPrepare(step, configuration, { model: 'm', cpuCores: 1 }),
    {
      preparedDirectory: join(root, 'prepared'),
      runningDirectory: join(root, 'running'),
      folder,
      env: process.env as Record<string, string>,
      cwd: root,
      prefix: [],
      controlGroup: () =>
        createControlGroup(cgroups, `tune-prepare-${process.pid}-${performance.now()}`, {
          trackProcesses: true,
        }),
      device,
      graceMs: 500,
    },
    signal,
  )
}
const runs = () =>
  existsSync(join(root, 'runs'))
    ? readFileSync(join(root, 'runs'), 'utf8').trim().split('\n').length
    : 0
const failure = (step: PrepareStep, configuration = {}) =>
  run(step, configuration).then(
    () => {
      throw new Error('it was prepared')
    },
    (error: Error) => error,
  )
const leftovers = () => [
  ...readdirSync(join(root, 'prepared')),
  ...readdirSync(join(root, 'running')),
]

describe('what a step makes is kept by what it is made from', () => {
  test('the same values are prepared once, others anew, and a value that does not stand in it changes nothing', async () => {
    const step = build('${precision}')
    const first = await run(step, { precision: 'fp16', workers: 1 })
    expect(first.reused).toBe(false)
    expect(readFileSync(join(first.folder, 'engine'), 'utf8')).toBe('fp16')
    expect(await run(step, { precision: 'fp16', workers: 4 })).toMatchObject({
      reused: true,
      folder: first.folder,
    })
    const other = await run(step, { precision: 'int8', workers: 1 })
    expect(readFileSync(join(other.folder, 'engine'), 'utf8')).toBe('int8')
    expect(runs()).toBe(2)
  })

  test('a file that its words name, one in a folder of its inputs, its environment and the GPU are inputs', async () => {
    writeFileSync(join(root, 'model.onnx'), 'one')
    mkdirSync(join(root, 'data'))
    writeFileSync(join(root, 'data/a'), '1')
    const step = {
      ...build('--model=model.onnx'),
      inputs: [join(root, 'data')],
      env: { LEVEL: '${level}' },
    }
    const again = async (level: number, device?: string) =>
      (await run(step, { level }, { device })).reused
    expect(await again(1)).toBe(false)
    expect(await again(1)).toBe(true)
    writeFileSync(join(root, 'model.onnx'), 'two')
    expect(await again(1)).toBe(false)
    writeFileSync(join(root, 'data/a'), '2')
    expect(await again(1)).toBe(false)
    expect(await again(2)).toBe(false)
    expect(await again(2, 'L4')).toBe(false)
    expect(await again(2, 'L4')).toBe(true)
  })

  test('two at once run it once', async () => {
    const step = {
      command: [
        ...script(`setTimeout(() => fs.writeFileSync(process.argv[1] + '/engine', ''), 300)`),
        '${prepared}',
      ],
    }
    const both = await Promise.all([run(step), run(step)])
    expect(both.map(({ reused }) => reused).sort()).toEqual([false, true])
    expect(runs()).toBe(1)
    expect(both.every(({ folder }) => existsSync(join(folder, 'engine')))).toBe(true)
  })

  test('what a killed tuner half made is made anew, and its lock keeps nobody waiting', async () => {
    const step = build()
    const { folder } = await run(step)
    rmSync(`${folder}.json`)
    writeFileSync(join(folder, 'half'), '')
    writeFileSync(
      `${folder}.lock`,
      JSON.stringify({ pid: process.pid, startTicks: 1, bootId: 'another boot' }),
    )
    expect((await run(step)).reused).toBe(false)
    expect(readdirSync(folder)).toEqual(['engine'])
    expect(existsSync(`${folder}.lock`)).toBe(false)
  })
})

describe('a step that fails', () => {
  test('with this configuration: infeasible, in its own words, and nothing is left', async () => {
    const step = {
      command: [
        ...script(`console.error('no kernel for ' + process.argv[1]); process.exit(3)`),
        '${precision}',
      ],
    }
    const error = await failure(step, { precision: 'fp8' })
    expect(error).toBeInstanceOf(InfeasibleError)
    expect(error.message).toMatch(/prepare ended: exit code 3.*no kernel for fp8/)
    expect((error as InfeasibleError).logPath).toMatch(/prepare\.log$/)
    expect(leftovers()).toEqual([])
  })

  test('with any configuration: the experiment is at fault', async () => {
    const error = await failure({
      command: script(`console.error('no such model'); process.exit(1)`),
    })
    expect(error).toMatchObject({ name: 'LaunchError', final: 'experiment' })
    expect(error.message).toContain('no such model')
    const missing = await failure({ command: ['no-such-builder'] })
    expect(missing).toMatchObject({ name: 'LaunchError', final: 'experiment' })
    expect(missing.message).toContain("no program 'no-such-builder'")
  })

  test('out of memory is the configuration, whatever stands in it', async () => {
    const error = await failure({
      command: script(`console.error('CUDA out of memory'); process.exit(1)`),
    })
    expect(error).toMatchObject({ name: 'InfeasibleError', reason: 'out-of-memory' })
  })

  test('an input that is not there is named', async () => {
    const error = await failure({ ...build(), inputs: [join(root, 'gone')] })
    expect(error).toBeInstanceOf(LaunchError)
    expect(error.message).toContain(join(root, 'gone'))
  })
})

describe('its processes', () => {
  /** Starts a helper that goes on. */
  const helper = (after: string) =>
    script(
      `const child = require('child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)'], {detached: true, stdio: 'ignore'}); child.unref(); fs.writeFileSync(${JSON.stringify(join(root, 'pids'))}, child.pid + ' ' + process.pid); ${after}`,
    )
  const living = () =>
    readFileSync(join(root, 'pids'), 'utf8')
      .split(' ')
      .map(Number)
      .filter((pid) => isAlive(pid, readProcessStat(pid)?.startTicks ?? -1))

  test('what it leaves in the background is ended', async () => {
    await run({ command: helper('') })
    expect(living()).toEqual([])
  })

  test('one that takes too long is ended, and named with what to raise', async () => {
    const error = await failure({ command: helper('setInterval(() => {}, 1e6)'), timeoutS: 1 })
    expect(error).toMatchObject({ name: 'InfeasibleError', reason: 'never-ready' })
    expect(error.message).toContain('prepare.timeout')
    expect(living()).toEqual([])
    expect(leftovers()).toEqual([])
  })

  test('one that is interrupted is ended, and begins anew', async () => {
    const stop = new AbortController()
    const step = { command: helper('setInterval(() => {}, 1e6)') }
    const under = run(step, {}, { signal: stop.signal }).catch((error: Error) => error)
    while (
      !existsSync(join(root, 'pids')) ||
      !readFileSync(join(root, 'pids'), 'utf8').includes(' ')
    )
      await new Promise((go) => setTimeout(go, 20))
    stop.abort(new Error('interrupted'))
    expect(await under).toMatchObject({ message: 'interrupted' })
    expect(living()).toEqual([])
    expect(leftovers()).toEqual([])
  })
})

test.skipIf(cgroups.holdParent === undefined)(
  'a daemon that a step lets go of, with nothing inherited, ends with it (where a control group may be made)',
  async () => {
    const daemon = `${process.execPath} -e "require('fs').writeFileSync('${root}/daemon', String(process.pid)); setInterval(() => {}, 1e6)"`
    const waits = `while [ ! -s ${root}/daemon ]; do sleep 0.05; done; touch "$0/engine"`
    const silent = `setsid env -i ${daemon} >/dev/null 2>&1 </dev/null &`
    const { folder } = await run({
      command: ['/bin/sh', '-c', `${silent} ${waits}`, '${prepared}'],
    })
    expect(existsSync(join(folder, 'engine'))).toBe(true)
    expect(['Z', undefined]).toContain(
      readProcessStat(Number(readFileSync(join(root, 'daemon'), 'utf8')))?.state,
    )
    expect(
      readdirSync(cgroups.holdParent!).filter((name) =>
        name.startsWith(`tune-prepare-${process.pid}-`),
      ),
    ).toEqual([])
  },
)
