/** Other values on a predictor that serves, as its launcher gives them between trials. */
import { expect, onTestFinished, test } from 'vitest'
import { startPredictor } from './predictor.ts'
import { readSettings, SettingsError } from './settings.ts'
import { get, metric, post, startForTest, testSettings } from './testing.contract.ts'

const texts = (...data: string[]) => ({
  inputs: [{ name: 'text', shape: [data.length], datatype: 'BYTES', data }],
})

async function controlled(env: Record<string, string> = {}) {
  const started = {
    PORT: '0',
    ENGINE: 'emulated',
    GPU: 'T4',
    MODEL: 'bert-tiny',
    MODEL_CONTROL: 'explicit',
    ...env,
  }
  const predictor = await startPredictor(
    testSettings(started),
    (values) => readSettings([], { ...started, ...values })!,
  )
  onTestFinished(() => predictor.stop())
  const { url } = predictor
  return {
    url,
    load: (parameters: object) =>
      post(`${url}/v2/repository/models/bert-tiny/load`, { parameters }),
    infer: (...data: string[]) => post(`${url}/v2/models/bert-tiny/infer`, texts(...data)),
    device: async () => (await get(`${url}/v2/models/bert-tiny`)).json.parameters.device as string,
  }
}

test('device, batch, length and cores are those that it was told last, and what it counts goes on', async () => {
  const { url, load, infer, device } = await controlled({ BATCH_SIZE: '1' })
  const before = (await infer('a', 'b', 'c')).json.outputs[0].data
  expect(await metric(url, 'predictor_batches_total')).toBe(3)
  expect(
    (await load({ GPU: 'A100-40GB', GPU_MEMORY_PERCENT: 50, BATCH_SIZE: 4, CPU_CORES: 3 })).status,
  ).toBe(200)
  expect(await device()).toBe('A100-40GB (emulated), 50 % by time-slice')
  expect((await infer('a', 'b', 'c')).json.outputs[0].data).toEqual(before)
  expect(await metric(url, 'predictor_batches_total')).toBe(4)
  expect((await load({ CPU_CORES: 1, SEQUENCE_LENGTH: 16 })).status).toBe(200)
  expect((await get(`${url}/v2/models/bert-tiny`)).json.parameters.sequence_length).toBe(16)
  // Each time the values are those of the start and those that are given now.
  expect(await device()).toBe('T4 (emulated)')
  expect((await infer('a')).status).toBe(200)
})

test('what is in flight is answered before other values count', async () => {
  const { load, infer } = await controlled({ MAX_DELAY_MS: '200', BATCH_SIZE: '64' })
  const waiting = Array.from({ length: 20 }, (_, i) => infer(`text ${i}`))
  const loads = [load({ BATCH_SIZE: 2 }), load({ BATCH_SIZE: 8 })]
  // A load that comes before a request says that nothing is served just then.
  expect(
    (await Promise.all(waiting))
      .map(({ status }) => status)
      .filter((status) => status !== 200 && status !== 503),
  ).toEqual([])
  expect((await Promise.all(loads)).map(({ status }) => status)).toEqual([200, 200])
  expect((await infer('after')).status).toBe(200)
})

test('what does not fit is refused with 507, and the next that fits is served', async () => {
  const { url, load, infer } = await controlled()
  const { status, json } = await load({ GPU_MEMORY_PERCENT: 0.1 })
  expect(status).toBe(507)
  expect(json.error).toMatch(/^CUDA out of memory \(emulated\): bert-tiny, batch 1/)
  expect((await get(`${url}/v2/health/ready`)).status).toBe(503)
  expect((await load({ GPU_MEMORY_PERCENT: 100 })).status).toBe(200)
  expect((await infer('again')).status).toBe(200)
})

test('wrong values are refused, all at once, and what is served stays', async () => {
  const { url, load, infer, device } = await controlled()
  const { status, json } = await load({ BATCH_SIZE: 0, CPU_CORES: 'two' })
  expect(status).toBe(400)
  expect(json.error).toMatch(/BATCH_SIZE/)
  expect(json.error).toMatch(/CPU_CORES/)
  expect((await post(`${url}/v2/repository/models/other/load`, {})).status).toBe(404)
  expect((await post(`${url}/v2/repository/models/bert-tiny/load`, '{')).status).toBe(400)
  expect(
    (await post(`${url}/v2/repository/models/bert-tiny/load`, { parameters: [1] })).status,
  ).toBe(400)
  expect(await device()).toBe('T4 (emulated)')
  expect((await infer('still')).status).toBe(200)
})

test('without explicit control nothing is taken, and no other engine has it', async () => {
  const { url } = await startForTest({})
  expect((await post(`${url}/v2/repository/models/bert-tiny/load`, {})).status).toBe(404)
  expect(() => readSettings([], { MODEL: 'bert-tiny', MODEL_CONTROL: 'explicit' })).toThrow(
    SettingsError,
  )
})
