/**
 * The BERT family as ONNX graphs: the computation of `models/encoder.ts`, with the same seeded
 * weights. B: batch, S: sequence length, H: hidden width, A: heads, D = H / A.
 */
import type { Encoder } from '../../../devices/architecture.ts'
import {
  classes,
  type EncoderVariant,
  getVariant,
  tokenizerVocabularySize,
} from '../../models/encoder.ts'
import { createSeededNoise } from '../../models/weights.ts'
import { GraphWriter } from './onnx-writer.ts'

/** Standard deviation of seeded weights: BERT's initializer_range. */
const weightSd = 0.02

/**
 * @param half arithmetic in fp16: weights stay fp32 in the file, and the runtime folds their
 * conversion when it loads them
 */
export function createEncoderGraph(
  spec: Encoder,
  sequenceLength: number,
  seed: number,
  half: boolean,
): Uint8Array {
  const writer = new EncoderWriter(spec, getVariant(spec), sequenceLength, seed, half)
  const output = writer.buildLogits()
  const declareTokenInput = (name: string) => ({
    name,
    type: 'int32' as const,
    shape: ['batch', sequenceLength],
  })
  return writer.graph.finish(
    [declareTokenInput('input_ids'), declareTokenInput('attention_mask')],
    [{ name: output, type: 'float', shape: ['batch', classes] }],
  )
}

class EncoderWriter {
  readonly graph = new GraphWriter()
  readonly #weightsByName = new Map<string, string>()

  constructor(
    readonly spec: Encoder,
    readonly variant: EncoderVariant,
    readonly length: number,
    readonly seed: number,
    readonly half: boolean,
  ) {}

  buildLogits(): string {
    const { graph, spec } = this
    const { hidden, layers, sharedLayers } = spec
    const mask = this.#addMask()
    let x = this.#addEmbeddings()
    for (let i = 0; i < layers; i++) {
      const layer = sharedLayers ? 'layer' : `layer${i}`
      const attended = this.#addDense(
        `${layer}/attention_output`,
        this.#addAttention(x, layer, mask),
        hidden,
        hidden,
      )
      const inner = this.#addNorm(
        `${layer}/attention_norm`,
        graph.addNode('Add', [attended, x]),
        hidden,
      )
      const expanded = this.#addActivation(
        this.#addDense(`${layer}/intermediate`, inner, hidden, spec.intermediate),
      )
      const feedForward = this.#addDense(`${layer}/output`, expanded, spec.intermediate, hidden)
      x = this.#addNorm(`${layer}/output_norm`, graph.addNode('Add', [feedForward, inner]), hidden)
    }
    // The hidden state of [CLS], the first token.
    const clsState = graph.addNode(
      'Gather',
      [x, graph.addInitializer('first', [], Int32Array.of(0))],
      { axis: 1 },
    )
    const pooled = graph.addNode(this.variant.pooler === 'tanh' ? 'Tanh' : 'Relu', [
      this.#addDense('pooler', clsState, hidden, hidden),
    ])
    return graph.cast(this.#addDense('classifier', pooled, hidden, classes), 'float', 'logits')
  }

  /** B×S×H. */
  #addEmbeddings(): string {
    const { graph, spec, variant, length } = this
    const width = spec.embedding ?? spec.hidden
    // A model with a smaller vocabulary than the tokenizer's: fold ids into its range.
    const ids =
      spec.vocabulary < tokenizerVocabularySize
        ? graph.addNode('Mod', [
            'input_ids',
            graph.addInitializer('vocabulary', [], Int32Array.of(spec.vocabulary)),
          ])
        : 'input_ids'
    const words = graph.addNode('Gather', [
      this.#addNoise('embeddings/word', [spec.vocabulary, width]),
      ids,
    ])
    const positions = createSeededNoise(
      this.seed,
      'embeddings/position',
      spec.maxSequenceLength * width,
      weightSd,
    ).subarray(0, length * width)
    const types =
      variant.tokenTypes === 0
        ? undefined
        : createSeededNoise(this.seed, 'embeddings/type', variant.tokenTypes * width, weightSd)
    const positionsAndTypes = types
      ? positions.map((value, i) => value + types[i % width]!)
      : positions
    const normed = this.#addNorm(
      'embeddings/norm',
      graph.addNode('Add', [
        words,
        this.#addWeight('embeddings/places', [length, width], () => positionsAndTypes),
      ]),
      width,
    )
    return width === spec.hidden
      ? normed
      : this.#addDense('embeddings/projection', normed, width, spec.hidden)
  }

  /** B×1×1×S: 0 for tokens, -10000 for padding. */
  #addMask(): string {
    const { graph } = this
    const mask = graph.cast('attention_mask', this.half ? 'half' : 'float')
    const maskBias = graph.addNode('Mul', [
      graph.addNode('Sub', [this.#addNumber(1), mask]),
      this.#addNumber(-10_000),
    ])
    return graph.addNode('Unsqueeze', [maskBias, graph.addShapeConstant(1, 2)])
  }

  /** softmax(Q Kᵀ / √D + mask) V for each head (Vaswani et al. 2017, equation 1). */
  #addAttention(x: string, layer: string, mask: string): string {
    const { graph, spec, length } = this
    const { hidden, heads } = spec
    const size = hidden / heads
    const splitHeads = (rows: string, perm: readonly number[]) =>
      graph.addNode(
        'Transpose',
        [graph.addNode('Reshape', [rows, graph.addShapeConstant(0, length, heads, size)])],
        {
          perm,
        },
      )
    const queries = splitHeads(
      graph.addNode('Mul', [
        this.#addDense(`${layer}/query`, x, hidden, hidden),
        this.#addNumber(1 / Math.sqrt(size)),
      ]),
      [0, 2, 1, 3],
    )
    const keys = splitHeads(this.#addDense(`${layer}/key`, x, hidden, hidden), [0, 2, 3, 1])
    const values = splitHeads(this.#addDense(`${layer}/value`, x, hidden, hidden), [0, 2, 1, 3])
    const scores = graph.addNode('Add', [graph.addNode('MatMul', [queries, keys]), mask])
    const mixed = graph.addNode('MatMul', [graph.addNode('Softmax', [scores]), values])
    return graph.addNode('Reshape', [
      graph.addNode('Transpose', [mixed], { perm: [0, 2, 1, 3] }),
      graph.addShapeConstant(0, length, hidden),
    ])
  }

  /** GELU by the error function, or by tanh written as a sigmoid (see `models/encoder.ts`). */
  #addActivation(x: string): string {
    const { graph } = this
    if (this.variant.activation === 'gelu') {
      const erf = graph.addNode('Erf', [graph.addNode('Mul', [x, this.#addNumber(Math.SQRT1_2)])])
      return graph.addNode('Mul', [
        graph.addNode('Mul', [x, this.#addNumber(0.5)]),
        graph.addNode('Add', [erf, this.#addNumber(1)]),
      ])
    }
    const c = 2 * Math.sqrt(2 / Math.PI)
    const inner = graph.addNode('Add', [
      graph.addNode('Mul', [graph.addNode('Mul', [x, x]), this.#addNumber(c * 0.044715)]),
      this.#addNumber(c),
    ])
    return graph.addNode('Mul', [x, graph.addNode('Sigmoid', [graph.addNode('Mul', [x, inner])])])
  }

  #addDense(name: string, x: string, from: number, to: number): string {
    const product = this.graph.addNode('MatMul', [x, this.#addNoise(`${name}/kernel`, [from, to])])
    return this.graph.addNode('Add', [product, this.#addNoise(`${name}/bias`, [to])])
  }

  #addNorm(name: string, x: string, width: number): string {
    const gain = this.#addWeight(`${name}/gain`, [width], () => new Float32Array(width).fill(1))
    const bias = this.#addWeight(`${name}/bias`, [width], () => new Float32Array(width))
    return this.graph.addNode('LayerNormalization', [x, gain, bias], {
      axis: 2,
      epsilon: { float: 1e-12 },
    })
  }

  #addNoise(name: string, shape: readonly number[]): string {
    const size = shape.reduce((a, b) => a * b, 1)
    return this.#addWeight(name, shape, () => createSeededNoise(this.seed, name, size, weightSd))
  }

  #addNumber(value: number): string {
    return this.#addWeight(`number ${value}`, [], () => Float32Array.of(value))
  }

  /** Adds a weight once: layers may share it. */
  #addWeight(name: string, shape: readonly number[], values: () => Float32Array): string {
    const existing = this.#weightsByName.get(name)
    if (existing !== undefined) return existing
    const stored = this.graph.addInitializer(name, shape, values())
    const weight = this.half ? this.graph.cast(stored, 'half') : stored
    this.#weightsByName.set(name, weight)
    return weight
  }
}
