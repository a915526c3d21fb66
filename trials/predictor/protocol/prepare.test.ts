import { describe, expect, test } from 'vitest'
import { prepareInputs } from './prepare.ts'
import type { ServedModelInfo, WireTensor } from './tensors.ts'

const model: ServedModelInfo = {
  name: 'net',
  version: '1',
  task: 'tensor',
  inputs: [
    { name: 'x', datatype: 'FP32', shape: [-1, 2] },
    { name: 'n', datatype: 'INT32', shape: [-1, -1] },
  ],
  outputs: [{ name: 'y', datatype: 'FP32', shape: [-1] }],
  sequenceLength: 4,
  provenance: 'measured',
  maxItems: 8,
}
const x: WireTensor = { name: 'x', shape: [2, 2], datatype: 'FP64', values: [1, 2, 3, 0.5] }
const n: WireTensor = { name: 'n', shape: [2, 3], datatype: 'INT64', values: [1, 2, 3, 4, 5, 6] }

describe("a user's own tensors", () => {
  test('are taken by name, in any order and number type that fits', async () => {
    const { items, tensors } = await prepareInputs([n, x], model, {})
    expect(items).toBe(2)
    expect(tensors.x).toEqual({
      datatype: 'FP32',
      shape: [2, 2],
      data: new Float32Array([1, 2, 3, 0.5]),
    })
    expect(tensors.n).toEqual({
      datatype: 'INT32',
      shape: [2, 3],
      data: new Int32Array([1, 2, 3, 4, 5, 6]),
    })
  })

  test.each<[string, WireTensor[], RegExp]>([
    ['missing', [x], /input 'n' is missing; model 'net' takes x, n/],
    ['unknown', [x, n, { ...x, name: 'z' }], /unknown input 'z'/],
    ['shape', [{ ...x, shape: [2, 1] }, n], /'x' must be \[-1,2\], not \[2,1\]/],
    ['dimensions', [x, { ...n, shape: [2] }], /'n' must be \[-1,-1\], not \[2\]/],
    [
      'fractions for whole numbers',
      [x, { ...n, datatype: 'FP32', values: [1, 2, 3, 4, 5, 6] }],
      /'n' must be INT32, not FP32/,
    ],
    [
      'text for numbers',
      [{ name: 'x', shape: [2, 2], datatype: 'BYTES', values: ['a', 'b', 'c', 'd'] }, n],
      /'x' must be FP32, not BYTES/,
    ],
    [
      'too wide',
      [x, { ...n, values: [1, 2, 3, 4, 5, 2 ** 31] }],
      /'n' contains 2147483648, which exceeds/,
    ],
    ['no dimension', [{ ...x, shape: [] }, n], /at least one item/],
    ['too many items', [{ ...x, shape: [9, 2] }, n], /may contain at most 8 items, not 9/],
  ])('refused: %s', async (_what, inputs, message) => {
    await expect(prepareInputs(inputs, model, {})).rejects.toThrow(message)
    await expect(prepareInputs(inputs, model, {})).rejects.toMatchObject({ status: 400 })
  })
})

test('texts are encoded one after the other, from strings or bytes', async () => {
  const asked: string[] = []
  const tokenizer = {
    encode: (text: string, length: number) => {
      asked.push(`${text}/${length}`)
      return {
        inputIds: new Int32Array([9, text.length, 0, 0]),
        attentionMask: new Int32Array([1, 1, 0, 0]),
      }
    },
  }
  const text: WireTensor = {
    name: 'text',
    shape: [2, 1],
    datatype: 'BYTES',
    values: ['one', new TextEncoder().encode('zwölf')],
  }
  const { tensors } = await prepareInputs([text], { ...model, task: 'text' }, { tokenizer })
  expect(asked).toEqual(['one/4', 'zwölf/4'])
  expect(tensors.input_ids).toEqual({
    datatype: 'INT32',
    shape: [2, 4],
    data: new Int32Array([9, 3, 0, 0, 9, 5, 0, 0]),
  })
  expect(tensors.attention_mask!.data).toEqual(new Int32Array([1, 1, 0, 0, 1, 1, 0, 0]))
})
