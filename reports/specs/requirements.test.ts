import { expect, test } from 'vitest'
import { slo } from '../samples.contract.ts'
import { computeRequirements } from './requirements.ts'
import { llama, noGpu, ownCommand, streamed, whole } from './spec-samples.contract.ts'

const builtin = { server: 'builtin', engine: 'tfjs', weights: 'given' } as const
const bert = {
  ...ownCommand,
  server: 'builtin',
  engine: 'emulated',
  how: 'emulated',
  modelKind: 'encoder',
  weightsMiB: 418,
} as const
const own = { server: 'command', weights: 'own' } as const

test('memory is what was tuned, or measured with a margin, or not asked for; never made up', () => {
  const memory = (...args: Parameters<typeof computeRequirements>) =>
    computeRequirements(...args).memoryMiB
  expect(
    memory({ slo, measured: ownCommand, peakRssMiB: 1000 }, own, true, noGpu, { cpuCores: 2 }),
  ).toBe(1536)
  expect(memory({ slo, measured: ownCommand, peakRssMiB: 10 }, own, true, noGpu, {})).toBe(256)
  expect(
    memory({ slo, measured: ownCommand, peakRssMiB: 1000 }, own, true, noGpu, { memoryMiB: 1500 }),
  ).toBe(1500)
  expect(memory({ slo, measured: ownCommand }, own, true, noGpu, { cpuCores: 2 })).toBeUndefined()
  expect(
    memory({ slo, measured: bert, peakRssMiB: 200 }, builtin, false, whole, { cpuCores: 2 }),
  ).toBeUndefined()
  expect(
    computeRequirements({ slo, measured: bert, peakRssMiB: 200 }, builtin, false, whole, {}).reasons
      .memory,
  ).toBe('neither tuned nor measured for this server: set the request yourself once it has run')
})

test('what was tuned in emulation is raised to what a real start needs', () => {
  const computed = (memoryMiB: number, cpuCores = 2) =>
    computeRequirements(
      { slo, measured: bert },
      builtin,
      false,
      { ...whole, memoryMiB, cpuCores },
      { memoryMiB, cpuCores },
    )
  expect(computed(512)).toMatchObject({
    memoryMiB: 2304,
    reasons: { memory: 'tuned 512 MiB; a real start needs about 2304 MiB' },
  })
  expect(computed(8192).memoryMiB).toBe(8192)
  expect(computed(8192, 0.25)).toMatchObject({
    cpuCores: 0.5,
    reasons: { cpu: 'tuned 0.25, which the price is for; a real start needs 0.5' },
  })
  expect(
    computeRequirements(
      { slo, measured: ownCommand },
      own,
      true,
      { ...noGpu, cpuCores: 0.25 },
      { cpuCores: 0.25 },
    ).cpuCores,
  ).toBe(0.25)
})

test('a start may take three times the measured launch; no virtual or emulated one becomes a deadline', () => {
  const start = (
    launchSeconds: number | undefined,
    holds: boolean,
    measured: typeof ownCommand = ownCommand,
  ) => computeRequirements({ slo, measured, launchSeconds }, own, holds, noGpu, {}).startupSeconds
  expect(start(31, true)).toBe(93)
  expect(start(1.2, true)).toBe(60)
  expect(start(0, true)).toBe(300)
  expect(start(1.2, false)).toBe(300)
  expect(start(undefined, true)).toBe(300)
  // Weights are read at 200 MiB/s.
  expect(start(0, false, { ...bert, weightsMiB: 30_000 })).toBe(450)
})

test('a wait for a node is told, and is no part of the start', () => {
  const { startupSeconds, reasons } = computeRequirements(
    { slo, measured: ownCommand, launchSeconds: 31, nodeWaitSeconds: 240 },
    own,
    true,
    noGpu,
    {},
  )
  expect(startupSeconds).toBe(93)
  expect(reasons.startup).toContain('240 s that its pod waited for a node')
})

test('of a server that ran already nobody knows what it held', () => {
  expect(
    computeRequirements(
      { slo, measured: { ...ownCommand, server: 'url' } },
      { server: 'url', weights: 'own' },
      false,
      noGpu,
      {},
    ).cpuCores,
  ).toBeUndefined()
})

const vllm = { server: 'vllm', weights: 'given' } as const

test('a server of language models holds its weights, a worker for each GPU and what they share, where nothing was measured of it', () => {
  const computed = (gpus: number, configuration = {}, memoryMiB = 4096) =>
    computeRequirements(
      { slo: streamed, measured: llama },
      vllm,
      false,
      { ...whole, cpuCores: 1, memoryMiB, gpus },
      configuration,
    )
  // 15,317 of weights, 2,048, 4,096 and 2,048 MiB, in whole GiB.
  expect(computed(1)).toMatchObject({ cpuCores: 3, memoryMiB: 23 * 1024, sharedMemoryMiB: 2048 })
  expect(computed(4)).toMatchObject({ cpuCores: 6, memoryMiB: 49 * 1024, sharedMemoryMiB: 16_384 })
  expect(computed(1, { memoryMiB: 4096 })).toMatchObject({ memoryMiB: 23 * 1024 })
  expect(computed(1, { memoryMiB: 65_536 }, 65_536)).toMatchObject({ memoryMiB: 65_536 })
  expect(computed(1).reasons.memory).toContain('estimated: weights 15317 MiB')
  const { weightsMiB: _, ...unknown } = llama
  expect(
    computeRequirements({ slo, measured: unknown }, vllm, false, whole, {}).memoryMiB,
  ).toBeUndefined()
})

test('what a language server took is held with what its processes share beside it', () => {
  const measured = { ...llama, server: 'vllm', how: 'measured' } as const
  expect(
    computeRequirements({ slo, measured, peakRssMiB: 10_000 }, vllm, true, whole, {}).memoryMiB,
  ).toBe(15_040 + 2048)
})

test('a start has the time to read the weights, and where the server fetches them itself, to download them', () => {
  const computed = (uri?: string, launchSeconds?: number) =>
    computeRequirements(
      { slo, measured: llama, launchSeconds },
      vllm,
      launchSeconds !== undefined,
      whole,
      {},
      uri,
    )
  expect(computed('s3://bucket/llama')).toMatchObject({
    startupSeconds: 377,
    progressSeconds: 600 + 377 + 307,
  })
  expect(computed('org/model')).toMatchObject({
    startupSeconds: 377 + 307,
    progressSeconds: 600 + 377 + 307,
  })
  expect(computed('org/model', 200)).toMatchObject({
    startupSeconds: 600 + 307,
    progressSeconds: 600 + 600 + 307,
  })
})

test('a replica that ends has as long as the longest answer that it accepts takes at the pace of the SLO', () => {
  const grace = (
    configuration: Record<string, number>,
    slowestMs = 0,
    of: typeof streamed | typeof slo = streamed,
  ) =>
    computeRequirements({ slo: of, measured: llama, slowestMs }, vllm, false, whole, configuration)
      .graceSeconds
  // 4,096 tokens of 30 ms, after 300 ms.
  expect(grace({})).toBe(10 + 124)
  expect(grace({ maxModelLen: 8192 })).toBe(10 + 247)
  expect(grace({}, 100_000)).toBe(10 + 200)
  expect(grace({ maxModelLen: 1_000_000 })).toBe(10 + 3600)
  expect(grace({}, 45_000, slo)).toBe(100)
})
