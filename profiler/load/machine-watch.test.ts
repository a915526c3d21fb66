import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startTestServer } from '../testing/servers.ts'
import { HttpLoadGenerator } from './http-generator.ts'
import { summariseRun } from './load-point.ts'
import { watchMachine } from './machine-watch.ts'

describe('with a fake process file system', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'proc-'))
  })
  afterEach(() => rmSync(root, { recursive: true }))

  interface State {
    /** Of each core, ticks of 10 ms. */
    readonly busy: readonly number[]
    readonly stolen?: number
    /** Ticks of children that have ended, of each process. */
    readonly reaped?: Readonly<Record<number, number>>
    /** Of each thread of a process: ms run, ms waited, how often it was given a core. */
    readonly threads: Readonly<
      Record<number, readonly (readonly [ranMs: number, waitedMs: number, turns?: number])[]>
    >
  }
  const write = (
    { busy, stolen = 0, reaped = {}, threads }: State,
    cores: Readonly<Record<number, string>>,
  ) => {
    const lines = busy.map((ticks, core) => `cpu${core} ${ticks} 0 0 1000 0 5 7 ${stolen} 0 0`)
    writeFileSync(join(root, 'stat'), `cpu  1 2 3\n${lines.join('\n')}\nintr 5\n`)
    for (const [pid, all] of Object.entries(threads)) {
      mkdirSync(join(root, pid), { recursive: true })
      writeFileSync(
        join(root, pid, 'status'),
        `Name:\tx\nCpus_allowed_list:\t${cores[Number(pid)]}\n`,
      )
      writeFileSync(join(root, pid, 'schedstat'), '1 2 3\n')
      const times = `9 9 ${reaped[Number(pid)] ?? 0} 0`
      writeFileSync(join(root, pid, 'stat'), `${pid} (a (b) c) S 1 2 3 4 5 6 7 8 9 10 ${times} 20`)
      for (const [i, [ranMs, waitedMs, turns = 0]] of all.entries()) {
        mkdirSync(join(root, pid, 'task', `${pid}${i}`), { recursive: true })
        writeFileSync(
          join(root, pid, 'task', `${pid}${i}`, 'schedstat'),
          `${ranMs * 1e6} ${waitedMs * 1e6} ${turns}\n`,
        )
      }
    }
  }
  /** A second in which a server (10) and a generator (20) did this, as shares of it. */
  const waits = async (
    after: State,
    cores: Readonly<Record<number, string>> = { 10: '0', 20: '1' },
    serverPids: () => readonly number[] = () => [10],
  ) => {
    write({ busy: after.busy.map(() => 0), threads: { 10: [[0, 0]], 20: [[0, 0]] } }, cores)
    const told = watchMachine(serverPids, [20], root)!
    const startMs = performance.now()
    await new Promise((resolve) => setTimeout(resolve, 50))
    write(after, cores)
    const wait = told()
    const scale = (performance.now() - startMs) / 1000
    return {
      server: wait.server! * scale,
      generator: wait.generator! * scale,
      generatorMs: wait.generatorMs!,
      stolen: wait.stolen! * scale,
    }
  }

  test('threads that wait for one another are no interference', async () => {
    const { server, generator } = await waits({ busy: [100, 30], threads: { 10: [[500, 400], [500, 400]], 20: [[300, 5]] } }) // biome-ignore format: one state
    expect([server, generator]).toEqual([0, 0])
  })

  test('a server with more threads than cores loses a share of all its cores', async () => {
    const four = Array.from({ length: 4 }, () => [14, 100] as const)
    const both = { 10: '0-1', 20: '0-1' }
    const { server } = await waits({ busy: [4, 4], threads: { 10: four, 20: [[0, 0]] } }, both)
    // Others ran 4 ms, half of it on each core.
    expect(server).toBeCloseTo(0.002, 3)
  })

  test('processes that the server starts or ends meanwhile are no interference', async () => {
    const cores = { 10: '0', 11: '0', 20: '1' }
    const threads = { 10: [[5, 20]], 20: [[0, 0]] } as const
    const pids = [[10], [10, 11]]
    const forked = { busy: [5, 0], threads: { ...threads, 11: [[40, 1]] } } as const
    expect((await waits(forked, cores, () => pids.shift() ?? [])).server).toBe(0)
    expect((await waits({ busy: [5, 0], threads, reaped: { 10: 4 } }, cores)).server).toBe(0)
    expect((await waits({ busy: [5, 0], threads }, cores)).server).toBeGreaterThan(0.01)
  })

  test('a wait counts in proportion to the CPU time of other processes', async () => {
    const { server, generator } = await waits({
      busy: [100, 0],
      threads: { 10: [[20, 15]], 20: [[0, 0]] },
    })
    // Others ran 970 of 990 ms.
    expect(server).toBeCloseTo(0.015 * (970 / 990), 3)
    expect(generator).toBe(0)
  })

  test('a wait counts for at most that CPU time', async () => {
    const { server } = await waits({ busy: [5, 0], threads: { 10: [[10, 45], [0, 45]], 20: [[0, 0]] } }) // biome-ignore format: one state
    expect(server).toBeCloseTo(0.03 * (90 / 90), 3)
  })

  test('cores that the server may not use do not count', async () => {
    const { server, generator } = await waits({
      busy: [2, 100],
      threads: { 10: [[20, 10]], 20: [[20, 30]] },
    })
    expect(server).toBe(0)
    expect(generator).toBeGreaterThan(0.02)
  })

  test('reports the mean wait of the generator as well', async () => {
    const { generatorMs } = await waits({ busy: [0, 100], threads: { 10: [[0, 0]], 20: [[10, 30, 50], [10, 10, 150]] } }) // biome-ignore format: one state
    expect(generatorMs).toBeCloseTo((40 * (970 / 990)) / 200, 6)
    expect(
      (await waits({ busy: [0, 0], threads: { 10: [[0, 0]], 20: [[0, 0]] } })).generatorMs,
    ).toBe(0)
  })

  test('steal time is a share of all cores', async () => {
    expect(
      (await waits({ busy: [0, 0], stolen: 2, threads: { 10: [[0, 0]], 20: [[0, 0]] } })).stolen,
    ).toBeCloseTo(0.02, 3)
  })

  test('returns undefined on a system without these times', () => {
    expect(watchMachine(() => [10], [20], join(root, 'nothing'))).toBeUndefined()
    write({ busy: [0], threads: { 20: [[0, 0]] } }, { 20: '0' })
    expect(watchMachine(() => [], [20], root)!().server).toBeUndefined()
  })
})

describe.skipIf(process.platform !== 'linux')(
  'on this machine (skipped where there is no /proc)',
  () => {
    const generator = new HttpLoadGenerator()
    const busy: ChildProcess[] = []
    afterAll(async () => {
      for (const child of busy) child.kill('SIGKILL')
      await generator.close()
    })

    test('two busy loops per core make a window invalid', async () => {
      const server = await startTestServer()
      const load = {
        kind: 'open',
        rateRps: 200,
        arrivals: { kind: 'poisson' },
        durationS: 1,
        seed: 1,
      } as const
      const { signal } = new AbortController()
      await generator.play(server.target, { ...load, durationS: 0.1 }, signal)
      for (let i = 0; i < 2 * availableParallelism(); i++)
        busy.push(spawn('sh', ['-c', 'while :; do :; done'], { stdio: 'ignore' }))
      const run = await generator.play(server.target, load, signal)
      await server.stop()
      expect(Math.max(run.machineWait!.server!, run.machineWait!.generator!)).toBeGreaterThan(0.05)
      expect(
        summariseRun(run, { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }).invalid,
      ).toBe(true)
    })
  },
)
