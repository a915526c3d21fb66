import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startWasm, type WasmBackend } from './wasm.ts'

let backend: WasmBackend
beforeAll(async () => {
  backend = await startWasm(1)
})
afterAll(() => backend.close())

/** a×b by definition, in doubles. */
function plain(a: tf.Tensor3D, b: tf.Tensor3D): number[] {
  const [x, y] = [a.arraySync(), b.arraySync()]
  return Array.from({ length: Math.max(x.length, y.length) }, (_, i) => {
    const [left, right] = [x[i % x.length]!, y[i % y.length]!]
    return left.flatMap((row) =>
      right[0]!.map((_, n) => row.reduce((sum, value, k) => sum + value * right[k]![n]!, 0)),
    )
  }).flat()
}

const size = fc.integer({ min: 1, max: 9 })
const values = (shape: [number, number, number]) =>
  tf.tensor3d(
    Float32Array.from({ length: shape[0] * shape[1] * shape[2] }, (_, i) => Math.sin(i * i + 1)),
    shape,
  )

test('products of batches are right, however they are transposed or broadcast, and leave nothing behind', () => {
  fc.assert(
    fc.property(
      size,
      size,
      size,
      size,
      fc.boolean(),
      fc.boolean(),
      fc.boolean(),
      (batch, m, k, n, transposeA, transposeB, broadcast) => {
        const before = { ...tf.memory() }
        tf.tidy(() => {
          const a = values([batch, m, k])
          const b = values([broadcast ? 1 : batch, k, n])
          const given = tf.matMul(
            transposeA ? tf.transpose(a, [0, 2, 1]) : a,
            transposeB ? tf.transpose(b, [0, 2, 1]) : b,
            transposeA,
            transposeB,
          )
          expect(given.shape).toEqual([batch, m, n])
          const want = plain(a, b)
          for (const [i, value] of [...given.dataSync()].entries())
            expect(value).toBeCloseTo(want[i]!, 4)
        })
        expect(tf.memory().numTensors).toBe(before.numTensors)
        expect(tf.memory().numDataBuffers).toBe(before.numDataBuffers)
      },
    ),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 60 },
  )
})

test('batches of batches keep their shape', () => {
  tf.tidy(() => {
    const a = tf.reshape(values([6, 4, 5]), [2, 3, 4, 5])
    const b = tf.reshape(values([6, 5, 7]), [2, 3, 5, 7])
    expect(tf.matMul(a, b).shape).toEqual([2, 3, 4, 7])
  })
})
