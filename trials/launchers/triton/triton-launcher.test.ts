/** Against a stand-in for Triton that keeps to its protocol documents (testing/triton.mjs). */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import type { Configuration } from '../../../search/types.ts'
import { inspectMachine } from '../../machine/machine-facts.ts'
import { Knobs } from '../../servers/knobs.ts'
import { applyTuning, createTritonTuning } from '../../servers/triton.ts'
import type { Launcher, Predictor } from '../../types.ts'
import { launcherContract } from '../launcher.contract.ts'
import { createLocalLauncher } from '../local/local-launcher.ts'
import type { TunedParameter } from '../placeholders.ts'
import type { CommandTemplate } from '../template.ts'
import { createTritonLauncher } from './triton-launcher.ts'

const fake = fileURLToPath(new URL('../testing/triton.mjs', import.meta.url))
const machine = await inspectMachine()
const never = new AbortController().signal
const parameters: TunedParameter[] = [
  { name: 'cpuCores', category: 'resource' },
  ...['batchSize', 'maxDelayMs', 'instances'].map(
    (name): TunedParameter => ({ name, category: 'server' }),
  ),
  { name: 'preferredBatchSize', category: 'env' },
  { name: 'ITEM_MS', category: 'env' },
]

let folder: string
let launcher: Launcher
const create = (
  env: Record<string, string> = {},
  more: Partial<CommandTemplate> = {},
): Launcher => {
  const template: CommandTemplate = {
    kind: 'command',
    model: 'double',
    command: [process.execPath, fake],
    env,
    protocol: 'oip-v2',
    server: { kind: 'triton', modelPath: join(folder, 'models', 'double') },
    readyTimeoutS: 20,
    ...more,
  }
  const protocol = protocolFor('oip-v2', {})
  const payload = { kind: 'generated', seed: 1, count: 2 } as const
  const runDirectory = join(folder, 'experiment')
  return createTritonLauncher(
    createLocalLauncher({ template, parameters, protocol, payload, runDirectory, machine }),
    {
      template,
      parameters,
      protocol,
      payload,
    },
  )
}
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-triton-'))
  mkdirSync(join(folder, 'models', 'double', '1'), { recursive: true })
})
const leftovers = () =>
  existsSync(join(folder, 'running')) ? readdirSync(join(folder, 'running')) : []
afterEach(async () => {
  await launcher?.close?.()
  expect(leftovers()).toEqual([])
  rmSync(folder, { recursive: true })
})

launcherContract('Triton', {
  create: () => create(),
  good: { batchSize: 2 },
  other: { batchSize: 4 },
  infeasible: { configuration: { batchSize: 4, preferredBatchSize: 8 }, reason: 'crashed' },
  leftovers,
  abortAfterMs: [10, 150, 400],
})

const urlOf = ({ target }: Predictor) => (target.kind === 'http' ? target.url : '')
const configOf = async (predictor: Predictor) =>
  (await (await fetch(`${urlOf(predictor)}/v2/models/double/config`)).json()) as Record<
    string,
    unknown
  >
const ask = async (predictor: Predictor) => {
  const body = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 3], data: [1, 2, 3] }] }
  const response = await fetch(`${urlOf(predictor)}/v2/models/double/infer`, {
    method: 'POST',
    body: JSON.stringify(body),
  })
  return (await response.json()) as { outputs: { data: number[] }[] }
}
const trials = async (...configurations: Configuration[]): Promise<string[]> => {
  const urls: string[] = []
  for (const [i, configuration] of configurations.entries()) {
    const predictor = await launcher.launch(configuration, i + 1, never)
    urls.push(urlOf(predictor))
    await predictor.stop()
  }
  return urls
}

describe('a server that is kept', () => {
  test('gets each configuration through its model control, without a restart', async () => {
    launcher = create()
    const first = await launcher.launch(
      { cpuCores: 1, batchSize: 8, maxDelayMs: 2.5, instances: 2 },
      1,
      never,
    )
    expect(await configOf(first)).toMatchObject({
      max_batch_size: 8,
      dynamic_batching: { max_queue_delay_microseconds: 2500, preserve_ordering: false },
      instance_group: [{ count: 2, kind: 'KIND_CPU', name: 'double' }],
      input: [{ name: 'x', dims: [3] }],
    })
    expect((await ask(first)).outputs[0]!.data).toEqual([2, 4, 6])
    expect(first.isolation).not.toContain('reloaded')
    await first.stop()
    const second = await launcher.launch(
      { cpuCores: 1, batchSize: 1, maxDelayMs: 0, instances: 1 },
      2,
      never,
    )
    expect(urlOf(second)).toBe(urlOf(first))
    const config = await configOf(second)
    expect(config).toMatchObject({ max_batch_size: 1, instance_group: [{ count: 1 }] })
    expect(config).not.toHaveProperty('dynamic_batching')
    expect(second.isolation).toContain('model reloaded')
    await second.stop()
    // The first trial's configuration leaves nothing behind.
    const third = await launcher.launch(
      { cpuCores: 1, batchSize: 16, preferredBatchSize: 8 },
      3,
      never,
    )
    expect((await configOf(third)).dynamic_batching).toEqual({
      preferred_batch_size: [8],
      max_queue_delay_microseconds: 0,
      preserve_ordering: false,
    })
    await third.stop()
  })

  test('is restarted where anything else changes', async () => {
    launcher = create()
    const urls = await trials(
      { batchSize: 2, ITEM_MS: 0.1 },
      { batchSize: 4, ITEM_MS: 0.1 },
      { batchSize: 4, ITEM_MS: 0.3 },
    )
    expect(urls[1]).toBe(urls[0])
    expect(urls[2]).not.toBe(urls[1])
    await expect(fetch(`${urls[0]}/v2/health/live`)).rejects.toThrow()
  })

  test('is restarted where a tuned value stands in its environment', async () => {
    launcher = create({ BASE_MS: '${batchSize}' })
    const urls = await trials({ batchSize: 2 }, { batchSize: 4 })
    expect(urls[1]).not.toBe(urls[0])
  })

  test('tells each trial’s realised batch and no other’s', async () => {
    launcher = create({ BASE_MS: '20' })
    const first = await launcher.launch({ batchSize: 1 }, 1, never)
    await Promise.all([ask(first), ask(first), ask(first), ask(first)])
    expect((await first.usage()).realisedBatch).toBe(1)
    await first.stop()
    const second = await launcher.launch({ batchSize: 4, maxDelayMs: 200 }, 2, never)
    await Promise.all([ask(second), ask(second), ask(second), ask(second)])
    expect(await second.usage()).toMatchObject({
      realisedBatch: 4,
      launchSeconds: expect.any(Number),
    })
    await second.stop()
  })

  test('two trials at once have a server each', async () => {
    launcher = create()
    const one = await launcher.launch({ batchSize: 2 }, 1, never)
    const two = await launcher.launch({ batchSize: 4 }, 2, never)
    expect(urlOf(two)).not.toBe(urlOf(one))
    await Promise.all([one.stop(), two.stop(), one.stop()])
  })

  test('that died is started anew', async () => {
    launcher = create()
    const first = await launcher.launch({ batchSize: 2 }, 1, never)
    process.kill(pidOn(urlOf(first)), 'SIGKILL')
    await first.died
    await first.stop()
    const second = await launcher.launch({ batchSize: 2 }, 2, never)
    expect((await ask(second)).outputs[0]!.data).toEqual([2, 4, 6])
    await second.stop()
  })
})

/** By the port among its arguments. */
const pidOn = (url: string): number => {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name)))
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      if (line.startsWith(process.execPath) && line.includes(`--http-port=${new URL(url).port}`))
        return Number(pid)
    } catch {
      // It ended while we looked.
    }
  throw new Error(`nothing listens at ${url}`)
}

describe('what Triton refuses', () => {
  test('is a configuration that cannot serve, in Triton’s words, and the server stays', async () => {
    launcher = create()
    const [url] = await trials({ batchSize: 8 })
    await expect(
      launcher.launch({ batchSize: 4, preferredBatchSize: 8 }, 2, never),
    ).rejects.toMatchObject({
      name: 'InfeasibleError',
      reason: 'crashed',
      message: expect.stringContaining('preferred size must be <= max batch size'),
    })
    expect(await trials({ batchSize: 2 })).toEqual([url])
  })

  test('for want of memory is out of memory', async () => {
    launcher = create({ MEMORY_ITEMS: '16' })
    await expect(launcher.launch({ batchSize: 8, instances: 4 }, 1, never)).rejects.toMatchObject({
      reason: 'out-of-memory',
    })
    await trials({ batchSize: 8, instances: 2 })
  })

  test('a model that is not in the repository ends the start, with the log', async () => {
    launcher = create(
      {},
      { model: 'triple', server: { kind: 'triton', modelPath: join(folder, 'models', 'triple') } },
    )
    await expect(launcher.launch({ batchSize: 8 }, 1, never)).rejects.toThrow(
      /failed to load 'triple', failed to poll from model repository/,
    )
  })
})

test('the tuned configuration keeps what the model says of itself', () => {
  const base = {
    name: 'm',
    max_batch_size: 4,
    dynamic_batching: { preserve_ordering: true },
    instance_group: [{ kind: 'KIND_GPU', gpus: [0], count: 1 }],
  }
  expect(applyTuning(base, { instance_group: { count: 3 } }, 'KIND_CPU')).toEqual({
    ...base,
    instance_group: [{ kind: 'KIND_GPU', gpus: [0], count: 3 }],
  })
  expect(applyTuning({ name: 'm' }, { max_batch_size: 1 }, 'KIND_CPU')).toEqual({
    name: 'm',
    max_batch_size: 1,
  })
})

test.each<[string, Parameters<typeof applyTuning>[0], Configuration, Record<string, unknown>]>([
  [
    'a delay alone keeps what else dynamic batching has',
    { name: 'm', dynamic_batching: { preserve_ordering: true, preferred_batch_size: [4] } },
    { maxDelayMs: 2 },
    {
      dynamic_batching: {
        preserve_ordering: true,
        preferred_batch_size: [4],
        max_queue_delay_microseconds: 2000,
      },
    },
  ],
  [
    'a queue limit keeps the rest of the queue policy',
    {
      name: 'm',
      dynamic_batching: { default_queue_policy: { timeout_action: 'DELAY', max_queue_size: 5 } },
    },
    { batchSize: 4, queueLimit: 9 },
    {
      max_batch_size: 4,
      dynamic_batching: { default_queue_policy: { timeout_action: 'DELAY', max_queue_size: 9 } },
    },
  ],
  [
    'every instance group keeps its place',
    { name: 'm', instance_group: [{ gpus: [0] }, { gpus: [1], profile: ['p'] }] },
    { instances: 2 },
    {
      instance_group: [
        { gpus: [0], count: 2 },
        { gpus: [1], profile: ['p'], count: 2 },
      ],
    },
  ],
])('%s', (_what, base, configuration, tuned) => {
  const { name, ...config } = applyTuning(
    base,
    createTritonTuning(new Knobs(configuration)),
    'KIND_GPU',
  )
  expect(name).toBe('m')
  expect(JSON.parse(JSON.stringify(config))).toEqual(tuned)
})
