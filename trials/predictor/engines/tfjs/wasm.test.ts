import * as tf from '@tensorflow/tfjs-core'
import { afterEach, describe, expect, test } from 'vitest'
import { OutOfMemoryError } from '../../engine.ts'
import { startWasm, type WasmBackend } from './wasm.ts'

let backend: WasmBackend | undefined
afterEach(() => {
  backend?.close()
  backend = undefined
})

const wave = (rows: number, columns: number) =>
  tf.tensor2d(
    Float32Array.from({ length: rows * columns }, (_, i) => Math.sin(i)),
    [rows, columns],
  )
const product = () => tf.tidy(() => [...tf.matMul(wave(33, 40), wave(40, 21)).dataSync()])

test('the process answers uncaught errors as before', async () => {
  const listeners = () => [
    process.listenerCount('uncaughtException'),
    process.listenerCount('unhandledRejection'),
  ]
  const before = listeners()
  for (const threads of [1, 2]) {
    backend = await startWasm(threads)
    expect(listeners()).toEqual(before)
    backend.close()
    expect(listeners()).toEqual(before)
  }
  backend = undefined
})

test('any number of threads gives the same products', async () => {
  backend = await startWasm(1)
  const one = product()
  for (const threads of [2, 5, 8]) {
    backend.close()
    backend = await startWasm(threads)
    expect(backend.threads).toBe(threads)
    const got = product()
    for (const [i, value] of one.entries()) expect(got[i]).toBeCloseTo(value, 4)
  }
})

describe('packed dense layers', () => {
  test('give what they gave before, and are disposed like others', async () => {
    backend = await startWasm(1)
    const layer = {
      kernel: wave(7, 5),
      bias: tf.tensor1d([1, -2, 3, -4, 5]),
      activation: 'relu' as const,
    }
    const x = wave(3, 7)
    const run = () =>
      tf.tidy(() => [
        ...tf.fused
          .matMul({ a: x, b: layer.kernel, bias: layer.bias, activation: 'relu' })
          .dataSync(),
      ])
    const before = run()
    backend.pack(layer)
    // Whatever takes the freed memory must not show in the products.
    const others = Array.from({ length: 20 }, () => tf.fill([7, 5], 1e6))
    expect(run()).toEqual(before)
    tf.dispose([x, layer.kernel, layer.bias, ...others])
    expect(tf.memory().numTensors).toBe(0)
    expect(tf.memory().numDataBuffers).toBe(0)
  })
})

test('memory that is not to be had is an OutOfMemoryError, and the backend goes on', async () => {
  backend = await startWasm(1)
  for (const values of [2 ** 30 - 2 ** 15, 2 ** 30, 2 ** 31])
    expect(() => tf.fill([values], 1)).toThrow(OutOfMemoryError)
  expect(() => tf.fill([2 ** 30], 1)).toThrow(
    /no room for 4096 MiB in addition to \d+ MiB; WebAssembly can use 4096 MiB/,
  )
  expect(product()).toHaveLength(33 * 21)
})
