/** Batching of TensorFlow Serving, Triton and MLServer, tuned or as in every trial. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Configuration } from '../../../search/types.ts'
import { renderSpec } from '../index.ts'
import type { Serving } from '../serving.ts'
import { serving } from '../spec-samples.contract.ts'
import { checkProto, readTextProto, tritonModelConfig } from '../validate.contract.ts'

const textOf = (files: readonly { name: string; text: string }[], name: string) =>
  files.find((f) => f.name === name)?.text ?? ''

test('TensorFlow Serving without a batching knob writes no batching file', async () => {
  const plain = { ...serving({ server: 'tfserving' }), configuration: { cpuCores: 2 } }
  const files = await renderSpec('tfserving', plain)
  expect(files.map((f) => f.name)).toEqual(['serve.sh', 'models.config'])
  expect(textOf(files, 'serve.sh')).not.toContain('batching')
})

test.each<[string, Serving['evidence']['batching'], Configuration, object]>([
  [
    'of the built-in predictor: also what was not tuned, as every trial ran with it',
    { instances: 1, maxDelayMs: 2 },
    { batchSize: 8 },
    {
      max_batch_size: [8],
      dynamic_batching: [{ preferred_batch_size: [8], max_queue_delay_microseconds: [2000] }],
      instance_group: [{ count: [1], kind: ['KIND_GPU'] }],
    },
  ],
  [
    'of the built-in predictor: what was tuned goes first; single requests are not gathered',
    { instances: 1, maxDelayMs: 2 },
    { batchSize: 1, instances: 3 },
    { max_batch_size: [1], instance_group: [{ count: [3], kind: ['KIND_GPU'] }] },
  ],
  [
    'of another server: only what was tuned',
    undefined,
    { batchSize: 8, preferredBatchSize: 4 },
    { max_batch_size: [8], dynamic_batching: [{ preferred_batch_size: [4] }] },
  ],
])('Triton: config.pbtxt %s', async (_, batching, configuration, expected) => {
  const s = serving({ server: 'triton' })
  const measured = { ...s, configuration, evidence: { ...s.evidence, batching } }
  const text = textOf(await renderSpec('triton', measured), 'config.pbtxt')
  const { name: _name, backend: _backend, ...config } = readTextProto(text)
  expect(checkProto(config, tritonModelConfig)).toEqual([])
  expect(config).toEqual(expected)
  expect(text.includes('# Note: not tuned, as in every trial: ')).toBe(batching !== undefined)
})

test('in place of the built-in predictor, TensorFlow Serving and MLServer batch as its trials did', async () => {
  const of = (server: 'tfserving' | 'mlserver', batchSize: number) => {
    const s = serving({ server })
    const batching = { instances: 1, maxDelayMs: 2 }
    return { ...s, configuration: { batchSize }, evidence: { ...s.evidence, batching } }
  }
  const files = await renderSpec('tfserving', of('tfserving', 8))
  const written = readTextProto(textOf(files, 'batching_parameters.txt'))
  expect(written).toMatchObject({
    max_batch_size: [{ value: [8] }],
    batch_timeout_micros: [{ value: [2000] }],
    num_batch_threads: [{ value: [1] }],
  })
  const [single] = await renderSpec('tfserving', of('tfserving', 1))
  expect(single!.text).not.toContain('as in every trial')
  const [mlserver] = await renderSpec('kubernetes', of('mlserver', 8))
  expect(mlserver!.text).toMatch(/MLSERVER_MODEL_MAX_BATCH_TIME\s+value: "0.002"/)
})

test('text of any kind survives the text format', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'binary', minLength: 1 }), async (name) => {
      const text = textOf(
        await renderSpec('triton', { ...serving({ server: 'triton' }), model: name }),
        'config.pbtxt',
      )
      expect(readTextProto(text.slice(text.indexOf('\nname:'))).name).toEqual([name])
    }),
  )
})
