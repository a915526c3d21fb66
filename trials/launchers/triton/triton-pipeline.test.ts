/** Ensembles and BLS models, against a stand-in for Triton (testing/triton.mjs) that runs them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { inspectMachine } from '../../machine/machine-facts.ts'
import type { TritonModel } from '../../servers/server-start.ts'
import type { Launcher, Predictor } from '../../types.ts'
import { createLocalLauncher } from '../local/local-launcher.ts'
import type { CommandTemplate } from '../template.ts'
import { createTritonLauncher } from './triton-launcher.ts'

const fake = fileURLToPath(new URL('../testing/triton.mjs', import.meta.url))
const machine = await inspectMachine()
const never = new AbortController().signal
const tensors = `input { name: "x" data_type: TYPE_FP32 dims: [ 3 ] }
output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] }
`
const parameter = (key: string, value: string) =>
  `parameters { key: "${key}" value { string_value: "${value}" } }\n`
const step = (model: string, from: string, to: string) =>
  `step { model_name: "${model}" input_map { key: "x" value: "${from}" } output_map { key: "y" value: "${to}" } }\n`
const configs: Readonly<Record<string, string>> = {
  both: `platform: "ensemble" max_batch_size: 8
${tensors}ensemble_scheduling { ${step('first', 'x', 't')}${step('second', 't', 'y')} }
`,
  first: `max_batch_size: 8\n${tensors}instance_group { kind: KIND_CPU }\n${parameter('base_ms', '4')}`,
  second: `max_batch_size: 8\n${tensors}`,
  bls: `backend: "python"\n${tensors.replaceAll('[ 3 ]', '[ 1, 3 ]')}${parameter('bls_calls', 'both,second')}${parameter('base_ms', '2')}`,
}
const models: Readonly<Record<'both' | 'bls', readonly TritonModel[]>> = {
  both: [
    { name: 'both', steps: ['first', 'second'] },
    { name: 'first', stage: 'first', minBatchSize: 1 },
    { name: 'second', stage: 'second' },
  ],
  bls: [
    { name: 'bls', stage: 'bls' },
    { name: 'both', steps: ['first', 'second'] },
    { name: 'first', stage: 'first', minBatchSize: 1 },
    { name: 'second', stage: 'second' },
  ],
}
let folder: string
let launcher: Launcher
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-triton-'))
  for (const [name, text] of Object.entries(configs)) {
    mkdirSync(join(folder, 'models', name, '1'), { recursive: true })
    writeFileSync(join(folder, 'models', name, 'config.pbtxt'), `name: "${name}"\n${text}`)
  }
})
afterEach(async () => {
  await launcher.close?.()
  rmSync(folder, { recursive: true })
})

const create = (entry: 'both' | 'bls'): Launcher => {
  const template: CommandTemplate = {
    kind: 'command',
    model: entry,
    command: [process.execPath, fake],
    protocol: 'oip-v2',
    server: {
      kind: 'triton',
      modelPath: join(folder, 'models', entry),
      models: models[entry],
    },
    readyTimeoutS: 20,
  }
  const parameters = [
    { name: 'cpuCores', category: 'resource' as const },
    ...['bls.instances', 'first.batchSize', 'first.instances', 'second.instances'].map((name) => ({
      name,
      category: 'server' as const,
    })),
  ]
  const protocol = protocolFor('oip-v2', {})
  const payload = { kind: 'generated', seed: 1, count: 2 } as const
  const runDirectory = join(folder, 'experiment')
  return createTritonLauncher(
    createLocalLauncher({ template, parameters, protocol, payload, runDirectory, machine }),
    { template, parameters, protocol, payload },
  )
}
const urlOf = ({ target }: Predictor) => (target.kind === 'http' ? target.url : '')
const read = async (predictor: Predictor, path: string) =>
  (await (await fetch(`${urlOf(predictor)}${path}`)).json()) as Record<string, unknown>
const configOf = (predictor: Predictor, model: string) =>
  read(predictor, `/v2/models/${model}/config`)
const ask = async (predictor: Predictor, model: string, shape = [1, 3]) => {
  const response = await fetch(`${urlOf(predictor)}/v2/models/${model}/infer`, {
    method: 'POST',
    body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape, data: [1, 2, 3] }] }),
  })
  return (await response.json()) as { outputs: { data: number[] }[] }
}
/** What the stages did while requests were sent, as a load observes it. */
const observe = async (predictor: Predictor, send: () => Promise<unknown>) => {
  const record = predictor.target.kind === 'http' ? predictor.target.observeLoad?.() : undefined
  // The counters are read beside the first requests of a load, which are too many for it to matter.
  await setTimeout(200)
  await send()
  record?.({} as Parameters<typeof record>[0])
  return (await predictor.usage()).stages!
}

test('each model of an ensemble gets its own values in one server', async () => {
  launcher = create('both')
  const first = await launcher.launch(
    { cpuCores: 1, 'first.batchSize': 4, 'first.instances': 2, 'second.instances': 1 },
    1,
    never,
  )
  expect((await ask(first, 'both')).outputs[0]!.data).toEqual([4, 8, 12])
  expect(await configOf(first, 'first')).toMatchObject({
    max_batch_size: 4,
    instance_group: [{ kind: 'KIND_CPU', count: 2 }],
  })
  // Its batches are those that every trial allows.
  expect(await configOf(first, 'both')).toMatchObject({ max_batch_size: 1 })
  await first.stop()
  const second = await launcher.launch(
    { cpuCores: 1, 'first.batchSize': 1, 'first.instances': 1, 'second.instances': 3 },
    2,
    never,
  )
  expect(urlOf(second)).toBe(urlOf(first))
  expect(second.isolation).toContain('models reloaded')
  expect(await configOf(second, 'second')).toMatchObject({ instance_group: [{ count: 3 }] })
  expect((await ask(second, 'both')).outputs[0]!.data).toEqual([4, 8, 12])
  await second.stop()
})

test('the stages of an ensemble report their visits, times and instances', async () => {
  launcher = create('both')
  const predictor = await launcher.launch(
    { cpuCores: 1, 'first.batchSize': 1, 'first.instances': 1 },
    1,
    never,
  )
  const stages = await observe(predictor, async () => {
    for (let i = 0; i < 10; i++) await ask(predictor, 'both')
  })
  expect(stages.map(({ stage, visits }) => [stage, visits])).toEqual([
    ['first', 1],
    ['second', 1],
  ])
  const [first, second] = stages
  expect(first!.meanMs).toBeGreaterThanOrEqual(4)
  expect(first!.busyShare).toBeGreaterThan(second!.busyShare)
  expect(first!.busyShare).toBeLessThanOrEqual(1)
  expect(first!.busier).toBe('instances')
  await predictor.stop()
})

test('a BLS model calls an ensemble, and its own time is without its calls', async () => {
  launcher = create('bls')
  const predictor = await launcher.launch(
    { cpuCores: 1, 'bls.instances': 2, 'first.batchSize': 1, 'second.instances': 2 },
    1,
    never,
  )
  const stages = await observe(predictor, async () => {
    for (let i = 0; i < 5; i++) await ask(predictor, 'bls', [1, 3])
  })
  expect(stages.map(({ stage, visits }) => [stage, visits])).toEqual([
    ['bls', 1],
    ['first', 1],
    ['second', 2],
  ])
  expect(stages[0]!.meanMs).toBeGreaterThan(1)
  expect(await configOf(predictor, 'bls')).toMatchObject({ instance_group: [{ count: 2 }] })
  await predictor.stop()
})

test('a refused value names the stage, and the server stays', async () => {
  launcher = create('both')
  const first = await launcher.launch({ cpuCores: 1, 'first.instances': 1 }, 1, never)
  await first.stop()
  await expect(
    launcher.launch({ cpuCores: 1, 'first.instances': 0 }, 2, never),
  ).rejects.toMatchObject({
    name: 'InfeasibleError',
    message: expect.stringMatching(/^stage first: .*must have 'count' >= 1/),
  })
  const third = await launcher.launch({ cpuCores: 1, 'first.instances': 2 }, 3, never)
  expect(urlOf(third)).toBe(urlOf(first))
  await third.stop()
})
