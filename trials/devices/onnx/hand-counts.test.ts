/**
 * Small graphs whose work is counted by hand beside: operators as exporters of several opsets and
 * quantisers write them.
 */
import { describe, expect, test } from 'vitest'
import type { Precision } from '../catalogue.ts'
import type { GraphAttribute, GraphDimension, OnnxGraph } from './graph.ts'
import { createGraphArchitecture, describeCount } from './graph-architecture.ts'
import { countGraph, countMultiplyAdds, type GraphCount } from './graph-count.ts'

type Node = readonly [
  op: string,
  inputs: string,
  outputs: string,
  attributes?: Readonly<Record<string, GraphAttribute>>,
]
interface Spec {
  readonly inputs: Readonly<Record<string, readonly GraphDimension[]>>
  readonly weights?: Readonly<Record<string, readonly number[]>>
  /** What shapes are told: constants with their values. */
  readonly values?: Readonly<Record<string, readonly number[]>>
  readonly nodes: readonly Node[]
  readonly shapes?: OnnxGraph['shapes']
}

/** Names of inputs and outputs in one text, '-' for one that is not given. */
const names = (list: string) => list.split(' ').map((name) => (name === '-' ? '' : name))
const graphOf = ({ inputs, weights = {}, values = {}, nodes, shapes = {} }: Spec): OnnxGraph => ({
  inputs: Object.entries(inputs).map(([name, shape]) => ({ name, shape, isFloatingPoint: true })),
  weights: {
    ...Object.fromEntries(
      Object.entries(weights).map(([name, shape]) => [name, { shape, isFloatingPoint: true }]),
    ),
    ...Object.fromEntries(
      Object.entries(values).map(([name, list]) => [
        name,
        { shape: [list.length], values: list, isFloatingPoint: false },
      ]),
    ),
  },
  nodes: nodes.map(([op, from, to, attributes = {}]) => ({
    op,
    inputs: names(from),
    outputs: names(to),
    attributes,
  })),
  outputs: [],
  shapes,
})
const counted = (
  spec: Spec,
  sizes = { sequenceLength: 10, imageSize: 8 },
): GraphCount & { macs: number } => {
  const count = countGraph(graphOf(spec), sizes)
  return { ...count, macs: countMultiplyAdds(count) }
}
const image = { x: [1, 16, 10, 10] }

describe('convolutions', () => {
  test('depthwise, then pointwise', () => {
    const { macs, kernels, activations } = counted({
      inputs: { x: ['batch', 32, 56, 56] },
      weights: { d: [32, 1, 3, 3], p: [64, 32, 1, 1] },
      nodes: [
        [
          'Conv',
          'x d',
          'a',
          { group: 32, kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] },
        ],
        ['Clip', 'a', 'b'],
        ['Conv', 'b p', 'c'],
      ],
    })
    const [before, between, after] = [32 * 56 * 56, 32 * 28 * 28, 64 * 28 * 28]
    expect(macs).toBe(between * 9 + after * 32)
    expect(kernels).toBe(2)
    expect(activations).toBe(before + between + (between + after))
  })

  test('transposed, in groups, with padding of its output: each input pixel by every weight of its group', () => {
    const attributes = {
      group: 2,
      strides: [2, 2],
      pads: [1, 1, 1, 1],
      output_padding: [1, 1],
      kernel_shape: [3, 3],
    }
    const spec: Spec = {
      inputs: image,
      weights: { w: [16, 4, 3, 3], p: [5, 8, 1, 1] },
      nodes: [
        ['ConvTranspose', 'x w', 'a', attributes],
        ['Conv', 'a p', 'b'],
      ],
    }
    expect(counted(spec).macs).toBe(100 * 16 * 4 * 9 + 20 * 20 * 8 * 5)
  })

  test('of an open length that is shorter than the window: named, and no work made up', () => {
    const spec: Spec = {
      inputs: { x: ['batch', 1, 'samples'] },
      weights: { w: [4, 1, 16] },
      nodes: [['Conv', 'x w', 'y']],
    }
    expect(counted(spec)).toMatchObject({ macs: 0, unsupportedOperators: { Conv: 1 } })
    expect(counted(spec, { sequenceLength: 100, imageSize: 8 })).toMatchObject({
      macs: 85 * 4 * 16,
      unsupportedOperators: {},
    })
  })

  test.each([
    ['no window that begins behind the picture', [2, 2], [3, 3], [1, 1, 1, 1], 4],
    ['a window that overhangs', [3, 3], [2, 2], [0, 0, 0, 0], 5],
  ])('pooled with ceil_mode: %s, as ONNX Runtime pools it', (_, kernel, strides, pads, side) => {
    const pool = { kernel_shape: kernel, strides, pads, ceil_mode: 1 }
    const nodes: Node[] = [
      ['MaxPool', 'x', 'a', pool],
      ['Conv', 'a w', 'b'],
    ]
    expect(counted({ inputs: image, weights: { w: [8, 16, 1, 1] }, nodes }).macs).toBe(
      side ** 2 * 8 * 16,
    )
  })

  test.each<[string, Node, Spec['values']]>([
    ['9 (Upsample)', ['Upsample', 'x s', 'a'], { s: [1, 1, 2, 2] }],
    ['7 (Upsample)', ['Upsample', 'x', 'a', { scales: [1, 1, 2, 2] }], {}],
    ['10', ['Resize', 'x s', 'a'], { s: [1, 1, 2, 2] }],
    ['11', ['Resize', 'x - s', 'a'], { s: [1, 1, 2, 2] }],
    ['13, by sizes', ['Resize', 'x - - z', 'a'], { z: [1, 16, 20, 20] }],
    ['18, of two axes', ['Resize', 'x - s', 'a', { axes: [2, 3] }], { s: [2, 2] }],
  ])('after a picture is made larger, as opset %s writes it', (_, enlarge, values) => {
    const spec: Spec = {
      inputs: image,
      weights: { w: [8, 16, 1, 1] },
      values,
      nodes: [enlarge, ['Conv', 'a w', 'b']],
    }
    expect(counted(spec)).toMatchObject({ macs: 20 * 20 * 8 * 16, unsupportedOperators: {} })
  })
})

describe('recurrent layers', () => {
  const weights = { w: [2, 24, 6], r: [2, 24, 8] }
  const bidirectional = { hidden_size: 8, direction: 'bidirectional' }
  const each = 10 * 2 * 24 * (6 + 8)

  test.each<[string, readonly GraphDimension[], Readonly<Record<string, GraphAttribute>>]>([
    ['steps first, of any number', ['steps', 'batch', 6], {}],
    ['steps first, three items fixed', [10, 3, 6], {}],
    ['items first', ['batch', 'steps', 6], { layout: 1 }],
    ['items first, three fixed', [3, 10, 6], { layout: 1 }],
  ])('a GRU both ways, %s: the work and the steps of one item', (_, shape, layout) => {
    const { macs, kernels } = counted({
      inputs: { x: shape },
      weights,
      nodes: [['GRU', 'x w r', 'y h', { ...bidirectional, ...layout }]],
    })
    expect([macs, kernels]).toEqual([each, 2 * 10])
  })

  test('what reads its steps, and its last state', () => {
    const dense = { w: [1, 32, 6], r: [1, 32, 8], d: [8, 5], e: [8, 3] }
    const { macs } = counted({
      inputs: { x: [3, 10, 6] },
      weights: dense,
      nodes: [
        ['LSTM', 'x w r', 'y h c', { hidden_size: 8, layout: 1 }],
        ['MatMul', 'y d', 'all'],
        ['MatMul', 'h e', 'last'],
      ],
    })
    expect(macs).toBe(10 * 32 * (6 + 8) + 10 * 8 * 5 + 8 * 3)
  })
})

describe('attention', () => {
  test('of grouped keys and values, 3 dimensions (opset 23), and what follows it', () => {
    const { macs, attention } = counted({
      inputs: { q: ['batch', 'steps', 64], k: ['batch', 'steps', 16], v: ['batch', 'steps', 16] },
      weights: { o: [64, 32] },
      nodes: [
        ['Attention', 'q k v', 'a', { q_num_heads: 8, kv_num_heads: 2 }],
        ['MatMul', 'a o', 'b'],
      ],
    })
    expect(attention).toEqual([{ count: 1, blocks: 8, flopsPerBlock: 4 * 10 * 10 * 8 }])
    expect(macs).toBe(2 * 10 * 10 * 64 + 10 * 64 * 32)
  })

  test('to other keys than its queries, 4 dimensions', () => {
    const spec: Spec = {
      inputs: { q: [1, 4, 7, 16], k: [1, 4, 9, 16], v: [1, 4, 9, 16] },
      nodes: [['Attention', 'q k v', 'a']],
    }
    expect(counted(spec).macs).toBe(2 * 4 * 7 * 9 * 16)
  })

  test('whose keys are turned within the product (ONNX Runtime)', () => {
    const spec: Spec = {
      inputs: { q: [1, 4, 7, 5], k: [1, 4, 9, 5] },
      nodes: [['com.microsoft:FusedMatMul', 'q k', 's', { transB: 1 }]],
    }
    expect(counted(spec)).toMatchObject({ macs: 4 * 7 * 9 * 5, unsupportedOperators: {} })
    const turned: Spec = {
      inputs: { q: [1, 4, 5, 7], k: [1, 4, 5, 9] },
      nodes: [['com.microsoft:FusedMatMul', 'q k', 's', { transA: 1 }]],
    }
    expect(counted(turned).macs).toBe(4 * 7 * 9 * 5)
  })

  test('with residuals that a fused norm hands on', () => {
    const { macs, unsupportedOperators } = counted({
      inputs: { x: ['batch', 'steps', 8], y: ['batch', 'steps', 8] },
      weights: { g: [8], w: [8, 8] },
      nodes: [
        ['com.microsoft:SkipSimplifiedLayerNormalization', 'x y g', 'n - - sum'],
        ['MatMul', 'n w', 'm'],
        ['com.microsoft:SkipSimplifiedLayerNormalization', 'sum m g', 'z'],
        ['MatMul', 'z w', 'end'],
      ],
    })
    expect([macs, unsupportedOperators]).toEqual([2 * 10 * 8 * 8, {}])
  })
})

describe('quantised', () => {
  test('QDQ: a product of its own, one kernel, its weights as they are', () => {
    const graph = graphOf({
      inputs: image,
      weights: { w8: [32, 16, 3, 3], s: [1] },
      nodes: [
        ['QuantizeLinear', 'x s', 'xq'],
        ['DequantizeLinear', 'xq s', 'xd'],
        ['DequantizeLinear', 'w8 s', 'w'],
        ['Conv', 'xd w', 'y'],
        ['QuantizeLinear', 'y s', 'yq'],
      ],
    })
    const count = countGraph(graph, { sequenceLength: 1, imageSize: 10 })
    expect(countMultiplyAdds(count)).toBe(8 * 8 * 32 * 16 * 9)
    expect(count.unsupportedOperators).toEqual({})
    expect(createGraphArchitecture(graph, 'net').parameters).toBe(32 * 16 * 9 + 1)
  })

  test('when it runs: int8 products, by themselves and fused', () => {
    const text = { x: ['batch', 'steps', 64] }
    const apart: Spec = {
      inputs: text,
      weights: { w: [64, 32] },
      nodes: [
        ['DynamicQuantizeLinear', 'x', 'q scale zero'],
        ['MatMulInteger', 'q w zero', 'i'],
        ['Cast', 'i', 'f'],
        ['Mul', 'f scale', 'y'],
      ],
    }
    expect(counted(apart).macs).toBe(10 * 64 * 32)
    for (const op of ['com.microsoft:DynamicQuantizeMatMul', 'com.microsoft:MatMulIntegerToFloat'])
      expect(
        counted({ inputs: text, weights: { w: [64, 32] }, nodes: [[op, 'x w', 'y']] }),
      ).toMatchObject({ macs: 10 * 64 * 32 })
    const fourBit: Node = [
      'com.microsoft:MatMulNBits',
      'x w s',
      'y',
      { K: 64, N: 32, bits: 4, block_size: 32 },
    ]
    expect(
      counted({ inputs: text, weights: { w: [32, 2, 16], s: [64] }, nodes: [fourBit] }),
    ).toMatchObject({
      macs: 10 * 64 * 32,
      unsupportedOperators: {},
    })
  })

  test('by operators that take scales beside (QOperator)', () => {
    const [conv, dense] = [{ w: [8, 16, 1, 1], s: [1], z: [1] }, { d: [16, 10] }]
    const { macs, unsupportedOperators } = counted({
      inputs: image,
      weights: { ...conv, ...dense },
      nodes: [
        ['QLinearConv', 'x s z w s z s z', 'a'],
        ['com.microsoft:QLinearConcat', 's z a s z a s z', 'b', { axis: 1 }],
        ['com.microsoft:QLinearGlobalAveragePool', 'b s z s z', 'c'],
        ['Flatten', 'c', 'e'],
        ['com.microsoft:QGemm', 'e s z d s z', 'f'],
      ],
    })
    expect([macs, unsupportedOperators]).toEqual([100 * 8 * 16 + 16 * 10, {}])
  })
})

test('weights that are written as constants within the graph are weights', () => {
  const value = { shape: [64, 32], isFloatingPoint: true }
  const graph = graphOf({
    inputs: { x: ['batch', 64] },
    nodes: [
      ['Constant', '-', 'w', { value }],
      ['MatMul', 'x w', 'y'],
    ],
  })
  expect(createGraphArchitecture(graph, 'net').parameters).toBe(64 * 32)
  expect(countMultiplyAdds(countGraph(graph, { sequenceLength: 1, imageSize: 1 }))).toBe(64 * 32)
})

test('what runs inside a condition or a loop is named; what follows is counted where the file tells the shapes', () => {
  const spec: Spec = {
    inputs: { x: ['batch', 64], flag: [1] },
    weights: { w: [64, 8] },
    nodes: [
      ['If', 'flag', 'a'],
      ['Loop', 'flag flag a', 'b'],
      ['MatMul', 'b w', 'c'],
    ],
  }
  expect(counted(spec)).toMatchObject({
    macs: 0,
    unsupportedOperators: { If: 1, Loop: 1, MatMul: 1 },
  })
  expect(counted({ ...spec, shapes: { b: ['batch', 64] } })).toMatchObject({
    macs: 64 * 8,
    unsupportedOperators: { If: 1, Loop: 1 },
  })
})

test('a file says what its weights are written in', () => {
  const of = (precision: Precision, other: Precision) =>
    createGraphArchitecture(
      {
        ...graphOf({ inputs: { x: ['batch', 5] }, nodes: [['MatMul', 'x w', 'y']] }),
        weights: {
          w: { shape: [5, 3], isFloatingPoint: true, precision },
          scale: { shape: [1], isFloatingPoint: true, precision: other },
        },
      },
      'net',
    )
  expect(of('int8', 'fp32').precision).toBe('int8')
  expect(describeCount(of('fp16', 'fp32'))).toMatch(/ M weights in fp16$/)
  expect(describeCount(of('fp32', 'int8'))).toMatch(/ M weights$/)
})

test('open axes of what is neither text nor picture are said with the length that they are counted at', () => {
  const graph = graphOf({
    inputs: { wave: ['batch', 'samples'], more: ['batch', 3, '?2'] },
    nodes: [['Relu', 'wave', 'y']],
  })
  expect(describeCount(createGraphArchitecture(graph, 'net'))).toContain(
    'for an item with samples and axis 2 of 128, ',
  )
  const closed = graphOf({ inputs: { x: ['batch', 5] }, nodes: [['Relu', 'x', 'y']] })
  expect(describeCount(createGraphArchitecture(closed, 'net'))).toContain('for an item, ')
})
