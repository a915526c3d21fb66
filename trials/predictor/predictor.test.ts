import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startPredictor } from './predictor.ts'
import type { RunningPredictor } from './running-predictor.ts'
import { get, metric, post, startForTest, testSettings } from './testing.contract.ts'

const texts = (...data: string[]) => ({
  inputs: [{ name: 'text', shape: [data.length], datatype: 'BYTES', data }],
})

describe('Open Inference Protocol', () => {
  let predictor: RunningPredictor
  let url: string
  let infer: string
  beforeAll(async () => {
    predictor = await startPredictor(testSettings({ BATCH_SIZE: '3', SEQUENCE_LENGTH: '8' }))
    url = predictor.url
    infer = `${url}/v2/models/bert-tiny/infer`
  })
  afterAll(() => predictor.stop())

  test('server, health, model metadata and readiness', async () => {
    expect((await get(`${url}/v2`)).json).toMatchObject({
      name: 'tune-predictor',
      extensions: ['binary_tensor_data'],
    })
    const healthy = [
      '/v2/health/live',
      '/v2/health/ready',
      '/v2/models/bert-tiny/ready',
      '/v2/models/bert-tiny/versions/1/ready',
    ]
    for (const path of healthy) expect((await get(url + path)).status).toBe(200)
    expect((await get(`${url}/v2/models/bert-tiny`)).json).toMatchObject({
      name: 'bert-tiny',
      versions: ['1'],
      inputs: [{ name: 'text', datatype: 'BYTES', shape: [-1] }],
      outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, 2] }],
      parameters: { provenance: 'emulated', device: 'T4 (emulated)' },
    })
  })

  test('infers texts, and says that the device was emulated', async () => {
    const { status, json } = await post(infer, {
      id: 'a "quoted" id',
      ...texts('one', 'another text'),
    })
    expect(status).toBe(200)
    expect(json).toMatchObject({
      model_name: 'bert-tiny',
      model_version: '1',
      id: 'a "quoted" id',
      parameters: { provenance: 'emulated' },
      outputs: [{ name: 'logits', datatype: 'FP32', shape: [2, 2] }],
    })
    expect(json.outputs[0].data).toHaveLength(4)
  })

  test('the same item gets the same answer, alone or in any batch', async () => {
    const alone = (await post(infer, texts('b'))).json.outputs[0].data
    const together = (await post(infer, texts('some', 'longer text', 'b', 'and', 'more'))).json
      .outputs[0]
    expect(together.shape).toEqual([5, 2])
    expect(together.data.slice(4, 6)).toEqual(alone)
  })

  test('takes token ids, with or without a mask', async () => {
    const ids = { name: 'input_ids', shape: [1, 4], datatype: 'INT64', data: [101, 7592, 102, 0] }
    const mask = { name: 'attention_mask', shape: [1, 4], datatype: 'INT64', data: [1, 1, 1, 0] }
    const bare = await post(infer, { inputs: [ids] })
    const masked = await post(infer, { inputs: [ids, mask] })
    expect([bare.status, masked.status]).toEqual([200, 200])
    expect(bare.json.outputs).toEqual(masked.json.outputs)
  })
})

test('version folders: the newest answers unless a version is asked for', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'versions-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const version of ['1', '2', '3']) mkdirSync(join(folder, version))
  const { url } = await startForTest({ MODEL_PATH: folder, MODEL_VERSION_POLICY: 'specific:1,3' })
  expect((await get(`${url}/v2/models/bert-tiny`)).json.versions).toEqual(['1', '3'])
  expect(
    (await get(`${url}/v1/models/bert-tiny`)).json.model_version_status.map(
      (s: { version: string }) => s.version,
    ),
  ).toEqual(['1', '3'])
  expect((await post(`${url}/v2/models/bert-tiny/infer`, texts('x'))).json.model_version).toBe('3')
  expect(
    (await post(`${url}/v2/models/bert-tiny/versions/1/infer`, texts('x'))).json.model_version,
  ).toBe('1')
  expect((await post(`${url}/v2/models/bert-tiny/versions/2/infer`, texts('x'))).status).toBe(404)
  expect(
    (await post(`${url}/v1/models/bert-tiny/versions/1:predict`, { instances: ['x'] })).status,
  ).toBe(200)
})

test('a vocabulary that cannot be used keeps the predictor from starting', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'vocabulary-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'vocab.txt'), 'nothing\nof\nuse\n')
  await expect(startPredictor(testSettings({ MODEL_PATH: folder }))).rejects.toThrow(
    /CPU worker failed: .*vocab/,
  )
})

test('requests that come together share batches', async () => {
  const { url } = await startForTest({ MODEL: 'bert-base', BATCH_SIZE: '8' })
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, i) =>
      post(`${url}/v2/models/bert-base/infer`, texts(`text ${i}`)),
    ),
  )
  expect(answers.every((answer) => answer.status === 200)).toBe(true)
  expect(await metric(url, 'predictor_items_total')).toBe(40)
  expect(await metric(url, 'predictor_batches_total')).toBeLessThanOrEqual(12)
})

test('utilisation agrees with the work done', async () => {
  const { url } = await startForTest({ MODEL: 'bert-base' })
  for (let i = 0; i < 5; i++) await post(`${url}/v2/models/bert-base/infer`, texts('x'))
  const busyMs = (await metric(url, 'predictor_device_busy_seconds_total')) * 1000
  const computeMs = (await metric(url, 'predictor_compute_seconds_sum')) * 1000
  expect(busyMs).toBeGreaterThan(5)
  expect(computeMs).toBeGreaterThan(busyMs * 0.9)
  expect(await metric(url, 'predictor_device_memory_bytes')).toBeGreaterThan(100 * 2 ** 20)
})

test('a full queue answers 429 and says when to come again', async () => {
  const { url } = await startForTest({ MODEL: 'bert-large', QUEUE_LIMIT: '2' })
  const answers = await Promise.all(
    Array.from({ length: 12 }, () => post(`${url}/v2/models/bert-large/infer`, texts('x'))),
  )
  const refused = answers.filter((answer) => answer.status === 429)
  expect(answers.filter((answer) => answer.status === 200).length).toBeGreaterThan(0)
  expect(refused.length).toBeGreaterThan(0)
  expect(answers.length).toBe(
    answers.filter((answer) => answer.status === 200).length + refused.length,
  )
  expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(refused[0]!.json.error).toMatch(/queue is full/)
  expect(await metric(url, 'predictor_rejected_total')).toBe(refused.length)
})

test('stopping answers what is in flight, refuses what is new, and frees the port', async () => {
  const predictor = await startForTest({ MODEL: 'bert-large', BATCH_SIZE: '2' })
  const infer = `${predictor.url}/v2/models/bert-large/infer`
  const inFlight = Array.from({ length: 6 }, () => post(infer, texts('x')))
  while ((await metric(predictor.url, 'predictor_batches_total')) === 0)
    await new Promise((resolve) => setImmediate(resolve))
  const stopped = predictor.stop()
  const late = await post(infer, texts('late')).then(
    (answer) => answer.status,
    () => 'refused',
  )
  expect([503, 'refused']).toContain(late)
  for (const { status } of await Promise.all(inFlight)) expect(status).toBe(200)
  await stopped
  await expect(fetch(infer)).rejects.toThrow()
})
