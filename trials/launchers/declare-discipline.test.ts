import { expect, test } from 'vitest'
import { declareDiscipline } from './declare-discipline.ts'
import type { BuiltinTemplate, CommandTemplate } from './template.ts'

const builtin: BuiltinTemplate = { kind: 'builtin', model: 'bert', engine: 'auto' }
const triton: CommandTemplate = {
  kind: 'command',
  model: 'bert',
  protocol: 'oip-v2',
  command: ['tritonserver'],
  server: { kind: 'triton', modelPath: '/models/bert' },
}

test('the built-in predictor declares its batcher; an instance for each core without a GPU', () => {
  expect(declareDiscipline(builtin, { cpuCores: 4, batchSize: 8, maxDelayMs: 5 })).toEqual({
    workers: 4,
    maxBatch: 8,
    maxDelayMs: 5,
    queueLimit: 1024,
  })
  expect(
    declareDiscipline(builtin, { gpu: 'T4', instances: 2, batchSize: 16, queueLimit: 64 }),
  ).toMatchObject({ workers: 2, maxBatch: 16, queueLimit: 64 })
  const fixed = { ...builtin, env: { INSTANCES: '3', BATCH_SIZE: '2' } }
  expect(declareDiscipline(fixed, { cpuCores: 4 })).toMatchObject({ workers: 3, maxBatch: 2 })
})

test('Triton declares its discipline where batch size and instances are tuned', () => {
  expect(declareDiscipline(triton, { maxBatchSize: 8, instances: 2, maxDelayMs: 5 })).toEqual({
    workers: 2,
    maxBatch: 8,
    maxDelayMs: 5,
    queueLimit: undefined,
  })
  expect(declareDiscipline(triton, { maxBatchSize: 8 })).toBeUndefined()
})

test('other servers and impossible configurations declare nothing', () => {
  const { server: _, ...own } = triton
  expect(declareDiscipline(own, { workers: 4 })).toBeUndefined()
  expect(declareDiscipline(builtin, { gpu: 'no such GPU' })).toBeUndefined()
})
