import * as tf from '@tensorflow/tfjs-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startWasm, type WasmBackend } from './wasm.ts'

let backend: WasmBackend
beforeAll(async () => {
  backend = await startWasm(1)
})
afterAll(() => backend.close())

const table = () => tf.tensor2d([0, 1, 10, 11, 20, 21], [3, 2])

test('rows come in the order asked for, with the shape of the numbers', () => {
  tf.tidy(() => {
    expect(tf.gather(table(), tf.tensor1d([2, 0, 2], 'int32')).arraySync()).toEqual([[20, 21], [0, 1], [20, 21]]) // biome-ignore format: rows
    expect(tf.gather(table(), tf.tensor2d([[1], [0]], [2, 1], 'int32')).arraySync()).toEqual([
      [[10, 11]],
      [[0, 1]],
    ])
  })
})

test('other axes and ranks are as ever', () => {
  tf.tidy(() => {
    expect(tf.gather(table(), tf.tensor1d([1], 'int32'), 1).arraySync()).toEqual([[1], [11], [21]])
    expect(tf.gather(tf.tensor1d([5, 6, 7]), tf.tensor1d([2, 1], 'int32')).arraySync()).toEqual([
      7, 6,
    ])
  })
})

test.each([-1, 3])('row %d of three is refused and leaves nothing behind', (row) => {
  const before = tf.memory().numDataBuffers
  expect(() => tf.tidy(() => tf.gather(table(), tf.tensor1d([row], 'int32')))).toThrow(
    `${row} is not one of the table's 3 rows`,
  )
  expect(tf.memory().numDataBuffers).toBe(before)
})
