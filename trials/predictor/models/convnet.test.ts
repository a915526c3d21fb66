import * as tf from '@tensorflow/tfjs-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { findArchitecture } from '../../devices/architecture.ts'
import type { Convnet, Stage } from '../../devices/convnets.ts'
import { startWasm, type WasmBackend } from '../engines/tfjs/wasm.ts'
import { buildConvnet } from './convnet.ts'
import { createSeededNoise } from './weights.ts'

let backend: WasmBackend
beforeAll(async () => {
  backend = await startWasm(1)
})
afterAll(() => backend.close())

const seed = 5

/** A feature map in plain numbers: value(row, column, channel). */
interface Map3 {
  readonly side: number
  readonly channels: number
  readonly values: number[]
}
const at = (m: Map3, y: number, x: number, c: number) =>
  y < 0 || x < 0 || y >= m.side || x >= m.side ? 0 : m.values[(y * m.side + x) * m.channels + c]!
const mapOf = (
  side: number,
  channels: number,
  value: (y: number, x: number, c: number) => number,
): Map3 => ({
  side,
  channels,
  values: Array.from({ length: side * side * channels }, (_, i) => {
    const pixel = Math.floor(i / channels)
    return value(Math.floor(pixel / side), pixel % side, i % channels)
  }),
})

/** Convolution by its definition in doubles; `grouped`: each channel by itself. */
function convolve(
  m: Map3,
  name: string,
  out: number,
  kernel: number,
  stride: number,
  pad: number,
  gain: number,
  grouped = false,
): Map3 {
  const depth = grouped ? 1 : m.channels
  const filter = createSeededNoise(
    seed,
    `${name}/filter`,
    kernel * kernel * m.channels * (grouped ? 1 : out),
    gain / Math.sqrt(kernel * kernel * depth),
  )
  const bias = createSeededNoise(seed, `${name}/bias`, out, 0.02)
  return mapOf(Math.floor((m.side + 2 * pad - kernel) / stride) + 1, out, (y, x, o) => {
    let sum = bias[o]!
    for (let ky = 0; ky < kernel; ky++)
      for (let kx = 0; kx < kernel; kx++)
        for (let c = 0; c < depth; c++) {
          const source = grouped ? o : c
          const weight = grouped
            ? filter[(ky * kernel + kx) * m.channels + o]!
            : filter[((ky * kernel + kx) * m.channels + c) * out + o]!
          sum += weight * at(m, y * stride + ky - pad, x * stride + kx - pad, source)
        }
    return sum
  })
}
const mapped = (m: Map3, f: (v: number) => number): Map3 => ({ ...m, values: m.values.map(f) })
const relu = (m: Map3) => mapped(m, (v) => Math.max(0, v))
const relu6 = (m: Map3) => mapped(m, (v) => Math.min(6, Math.max(0, v)))
const plus = (a: Map3, b: Map3): Map3 => ({
  ...a,
  values: a.values.map((v, i) => v + b.values[i]!),
})
const he = Math.SQRT2

const image = mapOf(9, 3, (y, x, c) => Math.sin(3 * y + 7 * x + c))

function graphOf(name: string, stages: readonly Stage[]): number[] {
  const network: Convnet = { kind: 'convnet', name, imageSize: 9, stages }
  const model = buildConvnet(network, seed)
  const feed = tf.tensor4d(image.values, [1, 9, 9, 3])
  const { logits } = model.run({ image: feed }) as { logits: tf.Tensor }
  const values = [...logits.dataSync()]
  tf.dispose([logits, feed])
  model.dispose()
  return values
}
function expectSame(got: number[], want: Map3) {
  expect(got).toHaveLength(want.values.length)
  for (const [i, value] of want.values.entries()) expect(got[i]).toBeCloseTo(value, 4)
}

describe('each kind of stage agrees with plain loops over doubles', () => {
  test('convolution with stride and padding, pooling, dense', () => {
    const stages: Stage[] = [
      { kind: 'conv', out: 4, kernel: 3, stride: 2, pad: 1 },
      { kind: 'pool', kernel: 3, stride: 2, pad: 1 },
      { kind: 'global-pool' },
      { kind: 'dense', out: 5 },
    ]
    const first = relu(convolve(image, 'stage0', 4, 3, 2, 1, he))
    // Padding never wins: the values are not below 0.
    const pooled = mapOf(3, 4, (y, x, c) => {
      const window = [-1, 0, 1].flatMap((dy) =>
        [-1, 0, 1].map((dx) => at(first, 2 * y + dy, 2 * x + dx, c)),
      )
      return Math.max(...window)
    })
    const mean = mapOf(
      1,
      4,
      (_y, _x, c) => pooled.values.reduce((sum, v, i) => sum + (i % 4 === c ? v : 0), 0) / 9,
    )
    expectSame(graphOf('plain', stages), convolve(mean, 'stage3', 5, 1, 1, 0, he))
  })

  test('bottlenecks, projected and not (ResNet)', () => {
    const gain = 1 / Math.SQRT2
    const block = (x: Map3, name: string, stride: number) => {
      const reduced = relu(convolve(x, `${name}/reduce`, 2, 1, 1, 0, he))
      const spatial = relu(convolve(reduced, `${name}/spatial`, 2, 3, stride, 1, he))
      return convolve(spatial, `${name}/expand`, 6, 1, 1, 0, gain)
    }
    const first = relu(
      plus(
        block(image, 'stage0/block0', 2),
        convolve(image, 'stage0/block0/shortcut', 6, 1, 2, 0, 1),
      ),
    )
    const second = relu(plus(block(first, 'stage0/block1', 1), first))
    expectSame(
      graphOf('resnet', [{ kind: 'bottleneck', mid: 2, out: 6, stride: 2, repeat: 2 }]),
      second,
    )
  })

  test('depthwise separable (MobileNet v1)', () => {
    const depthwise = relu6(convolve(image, 'stage0/block0/depthwise', 3, 3, 2, 1, he, true))
    const pointwise = relu6(convolve(depthwise, 'stage0/block0/pointwise', 5, 1, 1, 0, he))
    expectSame(graphOf('mobilenet', [{ kind: 'separable', out: 5, stride: 2 }]), pointwise)
  })

  test('inverted residuals, with and without the sum (MobileNet v2)', () => {
    const gain = 1 / Math.SQRT2
    const block = (x: Map3, name: string, last: number) => {
      const wide = relu6(convolve(x, `${name}/expand`, 2 * x.channels, 1, 1, 0, he))
      const depthwise = relu6(
        convolve(wide, `${name}/depthwise`, 2 * x.channels, 3, 1, 1, he, true),
      )
      return convolve(depthwise, `${name}/project`, 4, 1, 1, 0, last)
    }
    const first = block(image, 'stage0/block0', 1)
    const second = plus(block(first, 'stage0/block1', gain), first)
    expectSame(
      graphOf('mobilenetv2', [{ kind: 'inverted', expand: 2, out: 4, stride: 1, repeat: 2 }]),
      second,
    )
  })
})

/**
 * Published parameter counts with two trained numbers per normalised channel (torchvision's
 * resnet50 and mobilenet_v2; Keras's MobileNet trains 4,231,976). Folding leaves one: the bias.
 */
test.each([
  ['resnet50', 25_557_032, 26_560],
  ['mobilenet', 4_231_976, 10_944],
  ['mobilenetv2', 3_504_872, 17_056],
])(
  '%s has the published parameters, and gives sound logits',
  (name, published, normalisedChannels) => {
    const network = findArchitecture(name) as Convnet
    const model = buildConvnet(network, 1)
    expect(model.parameters).toBe(published - normalisedChannels)
    const before = tf.memory().numTensors
    const feed = tf.tensor4d(createSeededNoise(1, 'image', 224 * 224 * 3, 1), [1, 224, 224, 3])
    const { logits } = model.run({ image: feed }) as { logits: tf.Tensor }
    const values = [...logits.dataSync()]
    tf.dispose([logits, feed])
    expect(tf.memory().numTensors).toBe(before)
    expect(values).toHaveLength(1000)
    const deviation = Math.sqrt(values.reduce((sum, v) => sum + v * v, 0) / 1000)
    expect(deviation).toBeGreaterThan(0.05)
    expect(deviation).toBeLessThan(20)
    model.dispose()
  },
)
