import '@tensorflow/tfjs-backend-cpu'
import * as tf from '@tensorflow/tfjs-core'
import * as runtime from 'onnxruntime-node'
import { expect, test } from 'vitest'
import type { Convnet } from '../../../devices/convnets.ts'
import { buildConvnet } from '../../models/convnet.ts'
import { createSeededNoise } from '../../models/weights.ts'
import { createConvnetGraph } from './convnet-graph.ts'

const head = [{ kind: 'global-pool' }, { kind: 'dense', out: 5 }] as const
const small = (name: string, stages: Convnet['stages']): Convnet => ({
  kind: 'convnet',
  name,
  imageSize: 16,
  stages,
})
const networks: readonly Convnet[] = [
  small('resnet-small', [
    { kind: 'conv', out: 8, kernel: 7, stride: 2 },
    { kind: 'pool', kernel: 3, stride: 2, pad: 1 },
    { kind: 'bottleneck', mid: 4, out: 16, repeat: 2, stride: 2 },
    ...head,
  ]),
  small('mobilenet-small', [
    { kind: 'conv', out: 8, kernel: 3, stride: 2 },
    { kind: 'separable', out: 12, stride: 2 },
    { kind: 'inverted', expand: 3, out: 12, repeat: 2, stride: 1 },
    ...head,
  ]),
]

const image = createSeededNoise(1, 'image', 2 * 16 * 16 * 3, 1)

test.each(networks.map((network) => [network.name, network] as const))(
  '%s computes what the built-in model computes, in fp32 and fp16',
  async (_, network) => {
    await tf.setBackend('cpu')
    const { logits } = await buildConvnet(network, 3).run({
      image: tf.tensor4d(image, [2, 16, 16, 3]),
    })
    const expected = await logits!.data<'float32'>()
    for (const half of [false, true]) {
      const session = await runtime.InferenceSession.create(createConvnetGraph(network, 3, half), {
        executionProviders: ['cpu'],
        logSeverityLevel: 3,
      })
      const given = (
        await session.run({ image: new runtime.Tensor('float32', image, [2, 16, 16, 3]) })
      ).logits!
      await session.release()
      expect(given.dims).toEqual([2, 5])
      for (const [i, value] of (given.data as Float32Array).entries())
        expect(Math.abs(value - expected[i]!)).toBeLessThan(half ? 2e-2 : 1e-4)
    }
    expect(new Set(expected).size).toBe(10)
  },
)
