import { describe, expect, test } from 'vitest'
import { createBuiltinGraph } from '../../predictor/engines/onnx/builtin-graph.ts'
import { GraphWriter } from '../../predictor/engines/onnx/onnx-writer.ts'
import { onnxModel } from '../../predictor/engines/onnx/write-model.contract.ts'
import { countParameters, findArchitecture } from '../architecture.ts'
import { countFlops } from '../call-work.ts'
import { findGpu } from '../catalogue.ts'
import { predictDeviceLatency, predictGpuMemory } from '../device-model.ts'
import { densenet121, detector, exportedBert, NetworkWriter, vgg19 } from '../testing/graphs.ts'
import { countWork } from '../work.ts'
import type { OnnxGraph } from './graph.ts'
import { createGraphArchitecture, describeCount } from './graph-architecture.ts'
import { countGraph, countMultiplyAdds } from './graph-count.ts'
import { readOnnx } from './graph-file.ts'

const at = { sequenceLength: 128, imageSize: 224 }
const giga = (bytes: Uint8Array, sizes = at) =>
  countMultiplyAdds(countGraph(readOnnx(bytes, 'x.onnx'), sizes)) / 1e9
const millions = (bytes: Uint8Array) =>
  createGraphArchitecture(readOnnx(bytes, 'x.onnx'), 'x').parameters / 1e6
const engineOptions = { sequenceLength: 128, seed: 1, precision: 'fp32' } as Parameters<
  typeof createBuiltinGraph
>[0]

const builtin = (model: string) => createBuiltinGraph({ ...engineOptions, model })
const resnet50 = builtin('resnet50')

describe('published counts', () => {
  test.each([
    ['VGG-19', vgg19(), 19.63, 143.67],
    ['DenseNet-121', densenet121(), 2.83, 7.98],
    ['BERT-base, 128 tokens', exportedBert(), 11.17, 109.4],
  ])('%s: multiply-adds and weights', (_, bytes, macs, weights) => {
    expect(Math.abs(giga(bytes) / macs - 1)).toBeLessThan(0.02)
    expect(Math.abs(millions(bytes) / weights - 1)).toBeLessThan(0.02)
    expect(countGraph(readOnnx(bytes, 'x'), at).unsupportedOperators).toEqual({})
  })

  test('ResNet-50 in an exported file, 4.1 G; weights with their values', () => {
    expect(giga(resnet50)).toBeCloseTo(4.09, 2)
    expect(millions(resnet50)).toBeCloseTo(25.5, 0)
  })
})

describe('open axes', () => {
  test('a text: attention grows with the square of its length', () => {
    const bytes = exportedBert(2)
    const [short, long] = [
      giga(bytes, { ...at, sequenceLength: 128 }),
      giga(bytes, { ...at, sequenceLength: 256 }),
    ]
    const quadratic = (2 * 2 * 768 * 128 ** 2) / 1e9
    expect(long - 2 * short).toBeCloseTo(2 * quadratic, 2)
  })

  test('a picture: four times the work for twice the side', () => {
    const bytes = densenet121('side')
    expect(giga(bytes, { ...at, imageSize: 448 }) / giga(bytes)).toBeCloseTo(4, 1)
  })

  test('a batch that the file fixes counts for one item', () => {
    const net = new NetworkWriter()
    const bytes = net.bytes([8, 3, 32, 32], net.conv('image', 3, 16, 3))
    expect(giga(bytes)).toBeCloseTo((32 * 32 * 16 * 27) / 1e9, 9)
  })
})

describe('what an engine makes of it', () => {
  test.each([
    ['minilm', builtin('minilm')],
    ['resnet50', resnet50],
    ['mobilenetv2', builtin('mobilenetv2')],
  ])('%s by its graph is as by its name: work, kernels, time, memory', (name, bytes) => {
    const known = findArchitecture(name)
    const graph = createGraphArchitecture(readOnnx(bytes, 'x'), 'x')
    const [a, b] = [countWork(known, { batch: 8 }, 'fp16'), countWork(graph, { batch: 8 }, 'fp16')]
    expect(countFlops(b) / countFlops(a)).toBeCloseTo(1, 2)
    expect(b.kernels / a.kernels).toBeGreaterThan(0.9)
    expect(b.kernels / a.kernels).toBeLessThan(1.15)
    expect(graph.parameters / countParameters(known)).toBeCloseTo(1, 1)
    const gpu = findGpu('A10G') // no tables: both by physics
    for (const batch of [1, 8, 64]) {
      const ratio =
        predictDeviceLatency({ architecture: graph, gpu, batch }).ms /
        predictDeviceLatency({ architecture: known, gpu, batch }).ms
      expect(Math.abs(ratio - 1)).toBeLessThan(0.12)
      const memory =
        predictGpuMemory({ architecture: graph, gpu, batch }).mib /
        predictGpuMemory({ architecture: known, gpu, batch }).mib
      expect(Math.abs(memory - 1)).toBeLessThan(0.25)
    }
  })

  test('queries, keys and values are one product, scores and what they weigh one kernel', () => {
    const { products, attention, kernels } = countGraph(readOnnx(exportedBert(1), 'x'), at)
    expect(products.map(({ columns, depth }) => [columns, depth])).toEqual([
      [2304, 768],
      [768, 768],
      [3072, 768],
      [768, 3072],
      [768, 768],
      [2, 768],
    ])
    expect(attention).toEqual([{ count: 1, blocks: 12, flopsPerBlock: 4 * 128 ** 2 * 64 }])
    expect(kernels).toBeLessThan(15)
  })

  test('is stated wider than a model of the tables', () => {
    const graph = createGraphArchitecture(readOnnx(exportedBert(), 'x'), 'bert-base')
    const of = (architecture: typeof graph | ReturnType<typeof findArchitecture>) =>
      predictDeviceLatency({ architecture, gpu: findGpu('T4'), batch: 8 }).relativeError
    expect(of(graph)).toBeGreaterThan(2 * of(findArchitecture('bert')))
  })
})

describe('operators', () => {
  const single = (
    op: string,
    shape: readonly number[],
    weights: readonly (readonly number[])[],
    attributes = {},
  ) => {
    const writer = new NetworkWriter()
    const made = writer.graph.addNode(
      op,
      ['x', ...weights.map((w) => writer.weight(...w))],
      attributes,
    )
    return writer.graph.finish(
      [{ name: 'x', type: 'float', shape }],
      [{ name: made, type: 'float', shape: [1] }],
    )
  }
  test.each([
    ['ConvTranspose', [1, 16, 10, 10], [[16, 8, 2, 2]], { strides: [2, 2] }, 16 * 8 * 4 * 100],
    ['Conv', [1, 16, 10, 10], [[32, 4, 3, 3]], { group: 4 }, 32 * 4 * 9 * 64],
    ['Conv', [1, 16, 10], [[32, 16, 3]], { dilations: [2] }, 32 * 16 * 3 * 6],
    ['MatMul', [1, 7, 5], [[5, 3]], {}, 7 * 5 * 3],
  ])('%s of %j', (op, shape, weights, attributes, macs) => {
    expect(giga(single(op, shape, weights, attributes)) * 1e9).toBeCloseTo(macs, 6)
  })

  test('Einsum of a weight, and of two matrices', () => {
    const equations = (equation: string, second: readonly number[], constant: boolean) => {
      const node = { op: 'Einsum', inputs: ['x', 'y'], outputs: ['z'], attributes: { equation } }
      const input = (name: string, shape: readonly number[]) => ({
        name,
        shape,
        isFloatingPoint: true,
      })
      const inputs = [input('x', [1, 4, 7, 5]), ...(constant ? [] : [input('y', second)])]
      const weights: OnnxGraph['weights'] = constant
        ? { y: { shape: second, isFloatingPoint: true } }
        : {}
      return countGraph({ nodes: [node], weights, inputs, outputs: ['z'], shapes: {} }, at)
    }
    expect(equations('bhqd,dk->bhqk', [5, 3], true).products).toMatchObject([
      { rows: 28, columns: 3, depth: 5 },
    ])
    expect(equations('bhqd,bhkd->bhqk', [1, 4, 9, 5], false).attention).toEqual([
      { count: 1, blocks: 4, flopsPerBlock: 2 * 7 * 5 * 9 },
    ])
  })

  test('a recurrent layer: a product of all steps, and one of each', () => {
    const nodes: OnnxGraph['nodes'] = [
      { op: 'Transpose', inputs: ['x'], outputs: ['steps'], attributes: { perm: [1, 0, 2] } },
      { op: 'LSTM', inputs: ['steps', 'w', 'r'], outputs: ['y'], attributes: { hidden_size: 8 } },
    ]
    const weights = {
      w: { shape: [1, 32, 6], isFloatingPoint: true },
      r: { shape: [1, 32, 8], isFloatingPoint: true },
    }
    const inputs = [{ name: 'x', shape: ['batch', 'steps', 6], isFloatingPoint: true }]
    const count = countGraph(
      { nodes, weights, inputs, outputs: ['y'], shapes: {} },
      { ...at, sequenceLength: 10 },
    )
    expect([countMultiplyAdds(count), count.kernels]).toEqual([10 * 32 * (6 + 8), 10])
  })

  test('the attention of ONNX Runtime', () => {
    const inputs = [{ name: 'x', shape: ['batch', 'sequence', 64], isFloatingPoint: true }]
    const node = {
      op: 'com.microsoft:Attention',
      inputs: ['x', 'w'],
      outputs: ['y'],
      attributes: { num_heads: 4 },
    }
    const weights = { w: { shape: [64, 192], isFloatingPoint: true } }
    expect(
      countMultiplyAdds(
        countGraph({ nodes: [node], weights, inputs, outputs: ['y'], shapes: {} }, at),
      ),
    ).toBe(128 * 64 * 192 + 2 * 128 ** 2 * 64)
  })

  test('what depends on values, and what nobody knows, is named', () => {
    const found = createGraphArchitecture(readOnnx(detector(), 'x'), 'ssd')
    expect(countGraph(found.graph, at).unsupportedOperators).toMatchObject({ NonMaxSuppression: 1 })
    expect(describeCount(found)).toMatch(
      /^ssd, counted from its graph: 0\.\d+ G multiply-adds for an image of 320 pixels, .* not counted, .*NonMaxSuppression/,
    )
    const own = new GraphWriter()
    const bytes = own.finish(
      [{ name: 'x', type: 'float', shape: ['n', 3] }],
      [{ name: own.addNode('MyOperator', ['x']), type: 'float', shape: ['n', 3] }],
    )
    expect(countGraph(readOnnx(bytes, 'x'), at).unsupportedOperators).toEqual({ MyOperator: 1 })
  })

  test('no ONNX file is none', () => {
    const model = onnxModel({ inputs: [], outputs: [], nodes: [] })
    for (const bytes of [
      Buffer.from('{"not": "onnx"}'),
      new Uint8Array(0),
      model,
      vgg19().subarray(0, 2000),
    ])
      expect(() => readOnnx(bytes, 'net.onnx')).toThrow(
        /^net.onnx is not an ONNX model: .*; export it again/,
      )
  })
})
