/** The built-in server with an emulated GPU, kept from one trial to the next. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import type { Configuration, Parameter } from '../../../search/types.ts'
import { inspectMachine } from '../../machine/machine-facts.ts'
import { nodeFlags } from '../../predictor/node-flags.ts'
import type { Launcher, Predictor } from '../../types.ts'
import { launcherContract } from '../launcher.contract.ts'
import type { BuiltinTemplate } from '../template.ts'
import { createLocalLauncher } from './local-launcher.ts'
import { canReuseBuiltin, reuseBuiltin } from './reuse-builtin.ts'

const machine = await inspectMachine()
const never = new AbortController().signal
const template: BuiltinTemplate = {
  kind: 'builtin',
  model: 'bert-tiny',
  engine: 'emulated',
  readyTimeoutS: 30,
}
const gpu: Parameter = {
  name: 'gpu',
  category: 'resource',
  kind: 'categorical',
  values: ['T4', 'A100-40GB'],
}
const ordinal = (
  name: string,
  values: number[],
  category: Parameter['category'] = 'server',
): Parameter => ({
  name,
  category,
  kind: 'ordinal',
  values,
  scale: 'log',
})
const cores = ordinal('cpuCores', [1, 2], 'resource')
const parameters = [
  cores,
  gpu,
  ordinal('gpuMemoryPercent', [1, 50, 100], 'resource'),
  ordinal('batchSize', [1, 8]),
]
const good = { cpuCores: 1, gpu: 'T4', gpuMemoryPercent: 100, batchSize: 1 }

let folder: string
let launcher: Launcher | undefined
const create = (over: readonly Parameter[] = parameters): Launcher => {
  const protocol = protocolFor('oip-v2')
  const payload = { kind: 'generated', seed: 1, count: 2 } as const
  const common = { template, parameters: over, protocol, payload, machine }
  launcher = reuseBuiltin(
    createLocalLauncher({ ...common, runDirectory: join(folder, 'experiment') }),
    common,
  )
  return launcher
}
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-kept-'))
})
afterEach(async () => {
  await launcher?.close?.()
  rmSync(folder, { recursive: true })
})

launcherContract('the built-in server that is kept', {
  create: () => create(),
  good,
  other: machine.affinity.length > 1 ? { ...good, gpu: 'A100-40GB' } : { skip: 'one core here' },
  infeasible: {
    configuration: { ...good, gpuMemoryPercent: 1, batchSize: 8 },
    reason: 'out-of-memory',
  },
  leftovers: () =>
    existsSync(join(folder, 'running')) ? readdirSync(join(folder, 'running')) : [],
  abortAfterMs: [10, 150, 400],
})

const metadata = async ({ target }: Predictor) => {
  const url = target.kind === 'http' ? target.url : ''
  return (await (await fetch(`${url}/v2/models/bert-tiny`)).json()) as {
    parameters: { device: string }
  }
}
const pidOf = ({ target }: Predictor) => (target.kind === 'http' ? target.serverPids!()[0]! : 0)
const coresOf = (pid: number) =>
  readdirSync(`/proc/${pid}/task`).map(
    (thread) =>
      /^Cpus_allowed_list:\s*(\S+)/m.exec(
        readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8'),
      )?.[1],
  )

test('one process serves trial after trial, each with its own device, batch and cores, and goes on after one that does not fit', async () => {
  const launcher = create()
  expect([...launcher.changesRunning!]).toEqual([
    'cpuCores',
    'gpu',
    'gpuMemoryPercent',
    'batchSize',
  ])
  const seen: {
    pid: number
    device: string
    isolation: string
    launchSeconds?: number
    startSeconds?: number
  }[] = []
  const all: Configuration[] = [
    good,
    { ...good, gpu: 'A100-40GB', gpuMemoryPercent: 50, batchSize: 8 },
  ]
  for (const [i, configuration] of all.entries()) {
    const predictor = await launcher.launch(configuration, i + 1, never)
    const { launchSeconds, startSeconds } = await predictor.usage()
    const { device } = (await metadata(predictor)).parameters
    seen.push({
      pid: pidOf(predictor),
      device,
      isolation: predictor.isolation,
      launchSeconds,
      startSeconds,
    })
    await predictor.stop()
  }
  expect(seen[1]!.pid).toBe(seen[0]!.pid)
  // As its image starts it.
  expect(readFileSync(`/proc/${seen[0]!.pid}/cmdline`, 'utf8').split('\0').slice(1)).toEqual(
    expect.arrayContaining([...nodeFlags]),
  )
  expect(seen.map(({ device }) => device)).toEqual([
    'T4 (emulated)',
    'A100-40GB (emulated), 50 % by time-slice',
  ])
  expect(seen[1]!.isolation).toMatch(/GPU A100-40GB emulated, 50 %; server reused, reconfigured$/)
  // What it took to start is not what it took to be told.
  expect(seen[0]!.startSeconds).toBeUndefined()
  expect(seen[1]!.startSeconds).toBe(seen[0]!.launchSeconds)
  expect(seen[1]!.launchSeconds).toBeLessThan(seen[1]!.startSeconds!)

  const tooLarge = { ...good, gpuMemoryPercent: 1, batchSize: 8 }
  await expect(launcher.launch(tooLarge, 3, never)).rejects.toMatchObject({
    name: 'InfeasibleError',
    reason: 'out-of-memory',
  })
  const next = await launcher.launch({ ...good, batchSize: 8 }, 4, never)
  expect(pidOf(next)).toBe(seen[0]!.pid)
  await next.stop()
})

test.skipIf(machine.taskset === undefined || machine.affinity.length < 2)(
  'every thread moves to the cores of the configuration (skipped: no taskset, or one core)',
  async () => {
    const launcher = create()
    const lists: (string | undefined)[][] = []
    for (const [i, cpuCores] of [1, 2, 1].entries()) {
      const predictor = await launcher.launch({ ...good, cpuCores }, i + 1, never)
      lists.push([...new Set(coresOf(pidOf(predictor)))])
      await predictor.stop()
    }
    const last = machine.affinity.slice(-2)
    const two = last[1]! - last[0]! === 1 ? last.join('-') : last.join(',')
    expect(lists).toEqual([[String(last[1])], [two], [String(last[1])]])
  },
)

test.skipIf(machine.affinity.length < 2)(
  'a server that waits holds no cores (skipped: one core)',
  async () => {
    const launcher = create()
    const both = await Promise.all([
      launcher.launch(good, 1, never),
      launcher.launch(good, 2, never),
    ])
    expect(new Set(both.map(pidOf)).size).toBe(2)
    await Promise.all(both.map((predictor) => predictor.stop()))
    const wide = await launcher.launch({ ...good, cpuCores: 2 }, 3, never)
    expect(both.map(pidOf)).toContain(pidOf(wide))
    await wide.stop()
  },
)

test('parts of a core, and what a start alone can take, start another server', () => {
  expect([
    ...create([
      ordinal('cpuCores', [0.5, 1], 'resource'),
      gpu,
      ordinal('memoryMiB', [256, 512], 'resource'),
    ]).changesRunning!,
  ]).toEqual(['gpu'])
})

describe('kept where one predictor can serve all of the space:', () => {
  const kept = (over: Partial<Parameters<typeof canReuseBuiltin>[0]>) =>
    canReuseBuiltin({ template, parameters, machine, ...over })
  test('GPUs that are emulated, over HTTP', () => {
    expect(kept({})).toBe(true)
    expect(kept({ template: { ...template, protocol: 'tfserving' } })).toBe(true)
  })
  test('not where a configuration has no GPU, over gRPC, or for language models', () => {
    expect(kept({ parameters: [cores] })).toBe(false)
    expect(kept({ parameters: [cores, { ...gpu, values: ['none', 'T4'] } as Parameter] })).toBe(
      false,
    )
    expect(kept({ template: { ...template, protocol: 'grpc-v2' } })).toBe(false)
    expect(kept({ template: { ...template, protocol: 'openai' } })).toBe(false)
  })
  test('not where one of the GPUs is real', () => {
    const own = {
      ...machine,
      gpus: [
        {
          index: 0,
          uuid: 'GPU-1',
          name: 'Tesla T4',
          memoryMiB: 15_360,
          vendor: 'nvidia',
          driver: '550.1',
        },
      ],
    }
    const packages = [
      {
        name: '@tensorflow/tfjs-node-gpu',
        gives: 'models on an NVIDIA GPU',
        state: 'ok',
        version: '4.22.0',
      },
    ]
    const real = { ...own, packages } as unknown as typeof machine
    expect(kept({ machine: real, template: { ...template, engine: 'auto' } })).toBe(false)
    expect(kept({ machine: real })).toBe(true)
  })
})
