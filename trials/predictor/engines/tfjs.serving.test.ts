/** The tfjs engine behind the whole predictor: HTTP in, HTTP out. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createTokenizer } from '../preprocess/text-input.ts'
import { post, startForTest } from '../testing.contract.ts'
import { createEngine } from './tfjs.ts'

const cpu = { ENGINE: 'tfjs', GPU: 'none', SEQUENCE_LENGTH: '16' }
const text = (...data: string[]) => ({
  inputs: [{ name: 'text', shape: [data.length], datatype: 'BYTES', data }],
})
const texts = ['The quick brown fox', 'jumps over', 'the lazy dog, twice!', '']

test('texts over HTTP get what the engine gives for their tokens, alone and in batches', async () => {
  const engine = createEngine({
    model: 'bert-tiny',
    batchSize: 1,
    sequenceLength: 16,
    precision: 'fp32',
    gpuMemoryPercent: 100,
    gpuSharing: 'time-slice',
    instances: 1,
    warmUpBatch: 0,
    cpuThreads: 1,
    seed: 5,
  })
  await engine.load()
  onTestFinished(() => engine.close())
  const tokenizer = createTokenizer()
  const want: number[][] = []
  for (const one of texts) {
    const { inputIds, attentionMask } = tokenizer.encode(one, 16)
    const tensor = (data: Int32Array) => ({ datatype: 'INT32' as const, shape: [1, 16], data })
    const { logits } = await engine.infer(
      { input_ids: tensor(inputIds), attention_mask: tensor(attentionMask) },
      0,
    )
    want.push([...logits!.data])
  }
  const { url } = await startForTest({
    ...cpu,
    MODEL: 'bert-tiny',
    BATCH_SIZE: '4',
    MAX_DELAY_MS: '20',
    CPU_CORES: '2',
    SEED: '5',
  })
  const infer = `${url}/v2/models/bert-tiny/infer`
  const together = await post(infer, text(...texts))
  expect(together.json).toMatchObject({
    parameters: { provenance: 'measured' },
    outputs: [{ name: 'logits', shape: [4, 2] }],
  })
  const got: number[] = together.json.outputs[0].data
  for (const [i, value] of want.flat().entries()) expect(got[i]).toBeCloseTo(value, 5)
  const apart = await Promise.all(texts.map((one) => post(infer, text(one))))
  for (const [i, answer] of apart.entries()) {
    const alone: number[] = answer.json.outputs[0].data
    for (const [j, value] of want[i]!.entries()) expect(alone[j]).toBeCloseTo(value, 5)
  }
})

test("a user's own model and vocabulary are served by path, newest version first", async () => {
  const folder = mkdtempSync(join(tmpdir(), 'own-model-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const version of ['1', '2']) writeVersion(join(folder, version), version)
  const { url } = await startForTest({
    ...cpu,
    MODEL: 'mine',
    MODEL_PATH: folder,
    SEQUENCE_LENGTH: '8',
  })
  const { status, json } = await post(`${url}/v1/models/mine:predict`, { instances: ['unaffable'] })
  expect(status).toBe(200)
  // [CLS] un ##aff ##able [SEP] and padding, plus the mask's ones, times the version.
  expect(json.predictions).toEqual([
    [2, 4, 5, 6, 3, 0, 0, 0].map((id, i) => 2 * (id + (i < 5 ? 1 : 0))),
  ])
})

/** A model that gives back its tokens: (input_ids + attention_mask) × version, as floats. */
function writeVersion(path: string, version: string): void {
  mkdirSync(path)
  const type = (name: string) => ({ type: name })
  const input = (name: string) => ({
    name,
    op: 'Placeholder',
    attr: { dtype: type('DT_INT32'), shape: { shape: { dim: [{ size: '-1' }, { size: '8' }] } } },
  })
  const node = [
    input('input_ids'),
    input('attention_mask'),
    {
      name: 'sum',
      op: 'AddV2',
      input: ['input_ids', 'attention_mask'],
      attr: { T: type('DT_INT32') },
    },
    {
      name: 'floats',
      op: 'Cast',
      input: ['sum'],
      attr: { SrcT: type('DT_INT32'), DstT: type('DT_FLOAT') },
    },
    { name: 'factor', op: 'Const', attr: { dtype: type('DT_FLOAT') } },
    { name: 'scores', op: 'Mul', input: ['floats', 'factor'], attr: { T: type('DT_FLOAT') } },
  ]
  const weights = [{ name: 'factor', shape: [], dtype: 'float32' }]
  const json = {
    format: 'graph-model',
    modelTopology: { versions: { producer: 440 }, node },
    weightsManifest: [{ paths: ['weights.bin'], weights }],
  }
  writeFileSync(join(path, 'model.json'), JSON.stringify(json))
  writeFileSync(join(path, 'weights.bin'), new Uint8Array(Float32Array.of(Number(version)).buffer))
  writeFileSync(join(path, 'vocab.txt'), '[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\n')
}
