import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { inspectCgroups } from '../../machine/cgroups.ts'
import { inspectMachine, type MachineFacts } from '../../machine/machine-facts.ts'
import { InfeasibleError, LaunchError, type Predictor } from '../../types.ts'
import { launcherContract } from '../launcher.contract.ts'
import type { CommandTemplate } from '../template.ts'
import type { LocalLauncherOptions } from './launch.ts'
import { createLocalLauncher } from './local-launcher.ts'
import { areListenersForeign, isAlive, readProcessStat } from './processes.ts'

const server = fileURLToPath(new URL('../testing/server.mjs', import.meta.url))
const never = new AbortController().signal

let folder: string
let machine: MachineFacts
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tune-local-'))
  machine = await inspectMachine()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const template = (behaviour: string, more: Partial<CommandTemplate> = {}): CommandTemplate => ({
  kind: 'command',
  model: 'm',
  command: [process.execPath, server, '--port=${port}', `--pids=${join(folder, 'pids')}`],
  env: { BEHAVIOUR: behaviour },
  protocol: 'json',
  readyTimeoutS: 10,
  ...more,
})
const launcher = (given: CommandTemplate, more: Partial<LocalLauncherOptions> = {}) =>
  createLocalLauncher({
    template: given,
    parameters: [],
    protocol: protocolFor('json', { expect: 'arguments' }),
    payload: { kind: 'generated', seed: 1, count: 2 },
    runDirectory: join(folder, 'experiment'),
    machine,
    graceMs: 1_000,
    ...more,
  })

/** Every process that any test server has written down, and lives. */
const living = (): number[] => {
  const path = join(folder, 'pids')
  if (!existsSync(path)) return []
  return readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map(Number)
    .filter((pid) => {
      const stat = readProcessStat(pid)
      return stat !== undefined && isAlive(pid, stat.startTicks)
    })
}
const notes = () =>
  existsSync(join(folder, 'running')) ? readdirSync(join(folder, 'running')) : []
const leftovers = () => [
  ...living().map((pid) => `process ${pid}`),
  ...notes().map((name) => `note ${name}`),
]
const failure = async (
  given: CommandTemplate,
  more: Partial<LocalLauncherOptions> = {},
): Promise<Error> => {
  const outcome = await launcher(given, more)
    .launch({}, 1, never)
    .catch((error: Error) => error)
  if (!(outcome instanceof Error)) {
    await outcome.stop()
    throw new Error('it launched')
  }
  expect(leftovers()).toEqual([])
  return outcome
}
const ask = async (predictor: Predictor, path?: string): Promise<Record<string, unknown>> => {
  if (predictor.target.kind !== 'http') throw new Error('not http')
  const response = await fetch(new URL(path ?? predictor.target.path, predictor.target.url), {
    method: 'POST',
    body: '{}',
  })
  return (await response.json()) as Record<string, unknown>
}

const withTakenPort = async <T>(use: (port: number) => Promise<T>): Promise<T> => {
  const other = createServer((_, response) => response.end('{"arguments": []}')).listen(
    0,
    '127.0.0.1',
  )
  await once(other, 'listening')
  try {
    return await use((other.address() as AddressInfo).port)
  } finally {
    other.close()
  }
}

launcherContract('a local launcher', {
  create: () =>
    launcher(template('serve', { env: { BEHAVIOUR: '${behaviour}' } }), {
      defaults: { behaviour: 'serve' },
    }),
  good: { cpuCores: 1 },
  other: { cpuCores: 1, behaviour: 'family' },
  infeasible: { configuration: { behaviour: 'cuda-oom' }, reason: 'out-of-memory' },
  leftovers,
  abortAfterMs: [0, 1, 5, 20, 60, 120, 250],
})

describe('what a configuration becomes', () => {
  test('environment, arguments, placeholders and files', async () => {
    const given = template('serve', {
      command: [
        process.execPath,
        server,
        '--port=${port}',
        '${args}',
        '--config=${dir}/server.conf',
      ],
      env: { CORES: '${coreList}' },
      argFormat: ['--${kebab-name}=${value}'],
      files: [{ path: 'server.conf', template: 'queue = ${queueSize}\ncost = $${literal}\n' }],
    })
    const predictor = await launcher(given, {
      parameters: [
        { name: 'maxBatchSize', category: 'env' },
        { name: 'workerCount', category: 'args' },
        { name: 'queueSize', category: 'server' },
      ],
    }).launch({ maxBatchSize: 8, workerCount: 3, queueSize: 64, cpuCores: 1 }, 7, never)
    try {
      const answer = await ask(predictor)
      expect(answer.batch).toBe('8')
      expect(answer.arguments).toEqual(expect.arrayContaining(['--worker-count=3']))
      expect(answer.cores).toMatch(/^\d+$/)
      expect(readFileSync(join(folder, 'experiment/trials/7/server.conf'), 'utf8')).toBe(
        'queue = 64\ncost = ${literal}\n',
      )
    } finally {
      await predictor.stop()
    }
  })

  test.runIf(process.platform === 'linux')(
    'cores: the predictor and its children run on those alone',
    async () => {
      const predictor = await launcher(template('family')).launch({ cpuCores: 1 }, 1, never)
      try {
        const held = machine.affinity.at(-1)
        expect(predictor.isolation).toContain(`core ${held} `)
        if (machine.taskset === undefined) expect(predictor.isolation).toContain('not held')
        else
          for (const pid of living())
            expect(readFileSync(`/proc/${pid}/status`, 'utf8')).toMatch(
              new RegExp(`Cpus_allowed_list:\\s*${held}\\n`),
            )
      } finally {
        await predictor.stop()
      }
    },
  )

  const { cpuParent } = inspectCgroups()
  test.skipIf(cpuParent === undefined)(
    'half a core: a control group, where one may be made, and none afterwards',
    async () => {
      const before = readdirSync(cpuParent!)
      const predictor = await launcher(template('family')).launch({ cpuCores: 0.5 }, 1, never)
      const made = readdirSync(cpuParent!).filter(
        (name) => !before.includes(name) && name.startsWith('tune-'),
      )
      const inside = made.flatMap((name) =>
        readFileSync(join(cpuParent!, name, 'cgroup.procs'), 'utf8')
          .trim()
          .split('\n')
          .map(Number),
      )
      expect(predictor.isolation).toContain('CPU time of 0.5 cores by cgroup')
      expect(inside).toEqual(expect.arrayContaining(living()))
      await predictor.stop()
      expect(made.filter((name) => existsSync(join(cpuParent!, name)))).toEqual([])
    },
  )

  test('more cores than there are is refused with the way out', async () => {
    const error = await launcher(template('serve'))
      .launch({ cpuCores: 4096 }, 1, never)
      .catch((e: unknown) => e)
    expect(error).toBeInstanceOf(LaunchError)
    expect((error as LaunchError).hint).toContain('--pin cpuCores=')
  })

  test('a GPU that is not here cannot serve', async () => {
    const error = await launcher(template('serve'), { machine: { ...machine, gpus: [] } })
      .launch({ gpu: 'T4' }, 1, never)
      .catch((e: unknown) => e)
    expect(error).toMatchObject({ name: 'InfeasibleError', reason: 'no-such-gpu' })
  })
})

describe('why a predictor does not serve', () => {
  test.each([
    ['cuda-oom', InfeasibleError, 'out-of-memory', /CUDA out of memory/],
    ['crash', InfeasibleError, 'crashed', /exit code 3 .*last lines: .*unsupported batch size/],
    ['exit-0', InfeasibleError, 'crashed', /must stay in the foreground/],
    ['missing-module', LaunchError, undefined, /No module named 'torch'/],
    ['killed', LaunchError, undefined, /SIGKILL, sent by another program/],
    ['error-500', LaunchError, undefined, /500/],
    ['garbage', LaunchError, undefined, /not with JSON/],
  ])('%s', async (behaviour, kind, reason, message) => {
    const error = await failure(template(behaviour))
    expect(error).toBeInstanceOf(kind)
    expect(error.message).toMatch(message)
    if (reason) expect(error).toMatchObject({ reason })
    expect(readFileSync((error as LaunchError).logPath!, 'utf8')).toContain(
      `behaviour ${behaviour}`,
    )
  })

  test.each([
    ['never-ready', 2, /did not become ready/],
    // Long enough for it to say that it is ready where other tests have the cores.
    ['silent', 8, /reports that it is ready but did not answer/],
  ])('%s, within the deadline', async (behaviour, readyTimeoutS, message) => {
    const error = await failure(template(behaviour, { readyTimeoutS }))
    expect(error).toMatchObject({ reason: 'never-ready' })
    expect(error.message).toMatch(message)
  })

  test('no such program', async () => {
    const error = await failure(
      template('serve', { command: ['no-such-server', '--port=${port}'] }),
    )
    expect(error).toMatchObject({
      name: 'LaunchError',
      final: 'experiment',
      message: "no program 'no-such-server' on the PATH",
    })
    const named = template('serve', {
      command: ['vllm', 'serve', 'm'],
      server: { kind: 'vllm', modelPath: 'm' },
      env: { PATH: '/nowhere' },
    })
    expect(await failure(named)).toMatchObject({
      final: 'experiment',
      hint: 'pip install vllm==0.11.0',
    })
    const misspelt = await failure(
      template('serve', {
        command: ['nodee', '--port=${port}'],
        env: { PATH: dirname(process.execPath) },
      }),
    )
    expect(misspelt).toMatchObject({ hint: expect.stringContaining('did you mean node') })
    const tuned = await failure(
      template('serve', { command: ['./servers/${model}', '--port=${port}'] }),
    )
    expect(tuned).toMatchObject({
      final: 'configuration',
      message: expect.stringContaining('is not an executable program'),
    })
  })

  test('no such working directory', async () => {
    expect((await failure(template('serve', { cwd: join(folder, 'nowhere') }))).message).toContain(
      'nowhere',
    )
  })

  test('no room for its files', async () => {
    writeFileSync(join(folder, 'in-the-way'), '')
    const error = await failure(template('serve'), {
      runDirectory: join(folder, 'in-the-way', 'experiment'),
    })
    expect(error).toMatchObject({ name: 'LaunchError', hint: expect.stringContaining('disk') })
  })

  test('a payload that cannot be read is not held against the predictor', async () => {
    const error = await failure(template('serve'), {
      payload: { kind: 'file', path: join(folder, 'nowhere.jsonl') },
    })
    expect(error.name).toBe('PayloadError')
    expect(error.message).toContain('nowhere.jsonl')
  })

  test('a system whose processes it cannot hold', async () => {
    const error = await failure(template('serve'), { machine: { ...machine, platform: 'darwin' } })
    expect(error).toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('need Linux'),
      hint: expect.stringContaining('simulated'),
    })
  })

  test('a placeholder without a value', async () => {
    expect((await failure(template('serve', { env: { X: '${nothing}' } }))).message).toContain(
      'no value for nothing',
    )
  })

  describe('a port that another server has', () => {
    // The other server is started by the predictor: in a control group it would be its own.
    const unheld = () => ({ machine: { ...machine, cgroups: { version: 0 } as const } })
    test('others are tried, then it says so', async () => {
      const error = await withTakenPort((port) =>
        failure(template('serve', { command: [process.execPath, server, `--port=${port}`] })),
      )
      expect(error).toBeInstanceOf(LaunchError)
      expect(error.message).toMatch(/3 ports tried.*EADDRINUSE/s)
    })
    test('is seen when the predictor goes on trying, too', async () => {
      const stuck = (port: number) =>
        template('stuck', {
          command: [process.execPath, server, `--port=${port}`],
          readyTimeoutS: 2,
        })
      const error = await withTakenPort((port) => failure(stuck(port)))
      expect(error).toBeInstanceOf(LaunchError)
      expect(error.message).toContain('EADDRINUSE')
    })
    test.runIf(process.platform === 'linux')(
      'is seen when that other server answers as the predictor should',
      async () => {
        const error = await failure(
          template('usurped', { command: [process.execPath, server, '--port=${port}'] }),
          unheld(),
        )
        expect(error).toBeInstanceOf(LaunchError)
        expect(error.message).toMatch(/3 ports tried.*another server answers/s)
      },
    )
    test.runIf(process.platform === 'linux').each(['serve', 'error-500'])(
      'is left to one that came first while the predictor still loads (%s)',
      async (usurper) => {
        const command = [
          process.execPath,
          server,
          '--port=${port}',
          `--pids=${join(folder, 'pids')}`,
          `--once=${join(folder, usurper)}`,
        ]
        const env = { BEHAVIOUR: 'outrun once', USURPER: usurper }
        const predictor = await launcher(
          template('outrun once', { command, env }),
          unheld(),
        ).launch({}, 1, never)
        try {
          const said = (await ask(predictor)).arguments as string[]
          expect(said).toContain(`--once=${join(folder, usurper)}`)
        } finally {
          await predictor.stop()
        }
        expect(leftovers()).toEqual([])
      },
    )
    test.runIf(process.platform === 'linux')(
      'is told from one of its own by age and by whose it is',
      () =>
        withTakenPort(async (port) => {
          const group = { leader: -1, cookie: 'of-this', bootId: '' }
          expect(
            areListenersForeign(port, { ...group, leaderStartTicks: Number.POSITIVE_INFINITY }),
          ).toBe(true)
          expect(areListenersForeign(port, { ...group, leaderStartTicks: 0 })).toBe(false)
        }),
    )
  })
})

describe('while it runs', () => {
  test('a death under load is told, with what happened', async () => {
    const predictor = await launcher(template('serve')).launch({}, 1, never)
    await ask(predictor, '/die').catch(() => undefined)
    expect(await predictor.died).toEqual({
      what: 'the predictor ended: exit code 9',
      outOfMemory: false,
    })
    await predictor.stop()
    expect(leftovers()).toEqual([])
  })

  test('and whether it was for memory', async () => {
    const predictor = await launcher(template('serve')).launch({}, 1, never)
    await ask(predictor, '/allocate').catch(() => undefined)
    expect(await predictor.died).toMatchObject({
      outOfMemory: true,
      what: expect.stringContaining('std::bad_alloc'),
    })
    await predictor.stop()
  })

  test.runIf(process.platform === 'linux')(
    'CPU time and memory are those of the whole group',
    async () => {
      const predictor = await launcher(template('serve')).launch({}, 1, never)
      const readyMs = performance.now()
      try {
        await ask(predictor, '/burn')
        const usage = await predictor.usage()
        // It burnt 0.3 s of CPU time.
        expect((usage.cpuCores! * (performance.now() - readyMs)) / 1000).toBeGreaterThan(0.2)
        expect(usage.peakRssMiB).toBeGreaterThan(20)
        expect(usage.launchSeconds).toBeGreaterThan(0)
      } finally {
        await predictor.stop()
      }
    },
  )

  test('one that ignores SIGTERM is ended all the same, with its family', async () => {
    for (const behaviour of ['stubborn', 'family']) {
      const predictor = await launcher(template(behaviour), { graceMs: 200 }).launch({}, 1, never)
      expect(living().length).toBeGreaterThan(0)
      await predictor.stop()
      expect(leftovers()).toEqual([])
    }
  })

  test('a retried trial keeps the log of its first try', async () => {
    const run = async () => {
      const predictor = await launcher(template('serve')).launch({}, 99, never)
      await predictor.stop()
      return predictor.logPath
    }
    expect(await run()).toMatch(/trials\/99\/predictor\.log$/)
    expect(await run()).toMatch(/trials\/99\/predictor-2\.log$/)
  })

  test('a second trial waits for the cores of the first', async () => {
    const one = { ...machine, affinity: machine.affinity.slice(0, 1) }
    const shared = launcher(template('serve'), { machine: one })
    const first = await shared.launch({ cpuCores: 1 }, 1, never)
    let second: Predictor | undefined
    const waiting = shared.launch({ cpuCores: 1 }, 2, never).then((predictor) => {
      second = predictor
    })
    await ask(first)
    expect(second).toBeUndefined()
    await first.stop()
    await waiting
    await second!.stop()
  })
})
