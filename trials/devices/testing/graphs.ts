/**
 * ONNX files of well-known networks, written by script without their weights' values: exporters'
 * ways with shapes, and counts that are published.
 */
import { GraphWriter } from '../../predictor/engines/onnx/onnx-writer.ts'

const none = new Float32Array(0)

/** Operators with weights of which only the size is written. */
export class NetworkWriter {
  readonly graph = new GraphWriter()
  #weights = 0

  weight(...shape: readonly number[]): string {
    return this.graph.addInitializer(`w${this.#weights++}`, shape, none)
  }

  conv(
    x: string,
    from: number,
    to: number,
    kernel: number,
    { stride = 1, group = 1 } = {},
  ): string {
    const pad = Math.floor(kernel / 2)
    const weights = [this.weight(to, from / group, kernel, kernel), this.weight(to)]
    return this.graph.addNode('Conv', [x, ...weights], {
      kernel_shape: [kernel, kernel],
      strides: [stride, stride],
      pads: [pad, pad, pad, pad],
      group,
    })
  }

  normed(x: string, channels: number): string {
    return this.graph.addNode('Relu', [
      this.graph.addNode('BatchNormalization', [
        x,
        ...[1, 2, 3, 4].map(() => this.weight(channels)),
      ]),
    ])
  }

  dense(x: string, from: number, to: number): string {
    return this.graph.addNode('Gemm', [x, this.weight(to, from), this.weight(to)], { transB: 1 })
  }

  bytes(image: readonly (number | string)[], output: string): Uint8Array {
    return this.graph.finish(
      [{ name: 'image', type: 'float', shape: image }],
      [{ name: output, type: 'float', shape: ['batch', 'classes'] }],
    )
  }
}

/** Simonyan and Zisserman 2014, configuration E. */
export function vgg19(): Uint8Array {
  const net = new NetworkWriter()
  let x = 'image'
  let from = 3
  for (const [to, layers] of [
    [64, 2],
    [128, 2],
    [256, 4],
    [512, 4],
    [512, 4],
  ] as const) {
    for (let i = 0; i < layers; i++) {
      x = net.graph.addNode('Relu', [net.conv(x, from, to, 3)])
      from = to
    }
    x = net.graph.addNode('MaxPool', [x], { kernel_shape: [2, 2], strides: [2, 2] })
  }
  x = net.graph.addNode('Flatten', [x])
  for (const [wide, to] of [
    [25088, 4096],
    [4096, 4096],
    [4096, 1000],
  ] as const)
    x = net.dense(x, wide, to)
  return net.bytes(['batch', 3, 224, 224], x)
}

/** Huang et al. 2016: every layer reads what all before it made. */
export function densenet121(side: number | string = 224): Uint8Array {
  const net = new NetworkWriter()
  const { graph } = net
  let x = graph.addNode('MaxPool', [net.normed(net.conv('image', 3, 64, 7, { stride: 2 }), 64)], {
    kernel_shape: [3, 3],
    strides: [2, 2],
    pads: [1, 1, 1, 1],
  })
  let channels = 64
  ;[6, 12, 24, 16].forEach((layers, block, blocks) => {
    for (let i = 0; i < layers; i++) {
      const narrow = net.normed(net.conv(net.normed(x, channels), channels, 128, 1), 128)
      x = graph.addNode('Concat', [x, net.conv(narrow, 128, 32, 3)], { axis: 1 })
      channels += 32
    }
    x = net.normed(x, channels)
    if (block === blocks.length - 1) return
    x = graph.addNode('AveragePool', [net.conv(x, channels, channels / 2, 1)], {
      kernel_shape: [2, 2],
      strides: [2, 2],
    })
    channels /= 2
  })
  const pooled = graph.addNode('Flatten', [graph.addNode('GlobalAveragePool', [x])])
  return net.bytes(['batch', 3, side, side], net.dense(pooled, channels, 1000))
}

/**
 * BERT-base as PyTorch exports it with open axes: sizes computed within the graph, norms taken
 * apart, heads by Reshape to a concatenated shape.
 */
export function exportedBert(layers = 12): Uint8Array {
  const [hidden, heads, width, intermediate] = [768, 12, 64, 3072]
  const net = new NetworkWriter()
  const { graph } = net
  const numbers = (...values: readonly number[]) => graph.addShapeConstant(...values)
  const scalar = (value: number, name: string) =>
    graph.addInitializer(name, [], BigInt64Array.of(BigInt(value)))
  const [zero, one] = [scalar(0, 'zero'), scalar(1, 'one')]
  const sizeAt = (x: string, index: string) =>
    graph.addNode('Unsqueeze', [
      graph.addNode('Gather', [graph.addNode('Shape', [x]), index]),
      numbers(0),
    ])
  const dense = (x: string, from: number, to: number) =>
    graph.addNode('Add', [net.weight(to), graph.addNode('MatMul', [x, net.weight(from, to)])])
  const norm = (x: string) => {
    const centred = graph.addNode('Sub', [x, graph.addNode('ReduceMean', [x], { axes: [2] })])
    const variance = graph.addNode('ReduceMean', [graph.addNode('Pow', [centred, net.weight()])], {
      axes: [2],
    })
    const scaled = graph.addNode('Div', [
      centred,
      graph.addNode('Sqrt', [graph.addNode('Add', [variance, net.weight()])]),
    ])
    return graph.addNode('Add', [
      graph.addNode('Mul', [scaled, net.weight(hidden)]),
      net.weight(hidden),
    ])
  }
  const places = graph.addNode('Slice', [
    graph.addInitializer('positions', [1, 512], new BigInt64Array(0)),
    numbers(0),
    sizeAt('input_ids', one),
    numbers(1),
  ])
  const tables = [
    graph.addNode('Gather', [net.weight(30522, hidden), 'input_ids']),
    graph.addNode('Gather', [net.weight(512, hidden), places]),
  ]
  let x = norm(graph.addNode('Add', tables))
  const mask = graph.addNode('Unsqueeze', ['attention_mask', numbers(1, 2)])
  const hides = graph.addNode('Mul', [
    graph.addNode('Sub', [net.weight(), graph.cast(mask, 'float')]),
    net.weight(),
  ])
  const split = (y: string, perm: readonly number[]) => {
    const shape = graph.addNode(
      'Concat',
      [sizeAt(y, zero), sizeAt(y, one), numbers(heads), numbers(width)],
      { axis: 0 },
    )
    return graph.addNode('Transpose', [graph.addNode('Reshape', [y, shape])], { perm })
  }
  for (let i = 0; i < layers; i++) {
    const [queries, keys, values] = [
      [0, 2, 1, 3],
      [0, 2, 3, 1],
      [0, 2, 1, 3],
    ].map((perm) => split(dense(x, hidden, hidden), perm)) as [string, string, string]
    const scores = graph.addNode('Add', [
      graph.addNode('Div', [graph.addNode('MatMul', [queries, keys]), net.weight()]),
      hides,
    ])
    const mixed = graph.addNode(
      'Transpose',
      [graph.addNode('MatMul', [graph.addNode('Softmax', [scores]), values])],
      { perm: [0, 2, 1, 3] },
    )
    const whole = graph.addNode(
      'Concat',
      [sizeAt(mixed, zero), sizeAt(mixed, one), numbers(hidden)],
      {
        axis: 0,
      },
    )
    const inner = norm(
      graph.addNode('Add', [dense(graph.addNode('Reshape', [mixed, whole]), hidden, hidden), x]),
    )
    const wide = dense(inner, hidden, intermediate)
    const erf = graph.addNode('Add', [
      graph.addNode('Erf', [graph.addNode('Div', [wide, net.weight()])]),
      net.weight(),
    ])
    const active = graph.addNode('Mul', [graph.addNode('Mul', [wide, erf]), net.weight()])
    x = norm(graph.addNode('Add', [dense(active, intermediate, hidden), inner]))
  }
  const first = graph.addNode('Gather', [x, zero], { axis: 1 })
  const logits = net.dense(graph.addNode('Tanh', [net.dense(first, hidden, hidden)]), hidden, 2)
  const text = (name: string) => ({ name, type: 'int64' as const, shape: ['batch', 'sequence'] })
  return graph.finish(
    [text('input_ids'), text('attention_mask')],
    [{ name: logits, type: 'float', shape: ['batch', 2] }],
  )
}

/** A picture's features, boxes out of them, and what depends on their values. */
export function detector(): Uint8Array {
  const net = new NetworkWriter()
  const { graph } = net
  const features = net.normed(net.conv('image', 3, 64, 3, { stride: 2 }), 64)
  const boxes = graph.addNode('Reshape', [
    net.conv(features, 64, 4, 1),
    graph.addShapeConstant(0, 4, 25600),
  ])
  const scores = graph.addNode('Reshape', [
    net.conv(features, 64, 2, 1),
    graph.addShapeConstant(0, 2, 25600),
  ])
  const kept = graph.addNode('NonMaxSuppression', [
    graph.addNode('Transpose', [boxes], { perm: [0, 2, 1] }),
    scores,
  ])
  return net.bytes([1, 3, 320, 320], graph.addNode('Gather', [boxes, kept], { axis: 2 }))
}
