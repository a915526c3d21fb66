/**
 * The BERT family as ONNX graphs: the computation of `models/encoder.ts`, with the same seeded
 * weights. B: batch, S: sequence length, H: hidden width, A: heads, D = H / A.
 */
import type { Encoder } from '../../../devices/architecture.ts'
import {
  classes,
  type EncoderVariant,
  getVariant,
  vocabularyOfTexts,
} from '../../models/encoder.ts'
import { createSeededNoise } from '../../models/weights.ts'
import { GraphWriter } from './onnx-writer.ts'

const deviation = 0.02

/** @param half arithmetic in fp16: weights stay fp32 in the file, and the runtime folds their conversion when it loads them */
export function createEncoderGraph(
  spec: Encoder,
  sequenceLength: number,
  seed: number,
  half: boolean,
): Uint8Array {
  const writer = new EncoderWriter(spec, getVariant(spec), sequenceLength, seed, half)
  const output = writer.logits()
  const text = (name: string) => ({
    name,
    type: 'int32' as const,
    shape: ['batch', sequenceLength],
  })
  return writer.graph.model(
    [text('input_ids'), text('attention_mask')],
    [{ name: output, type: 'float', shape: ['batch', classes] }],
  )
}

class EncoderWriter {
  readonly graph = new GraphWriter()
  readonly #made = new Map<string, string>()

  constructor(
    readonly spec: Encoder,
    readonly variant: EncoderVariant,
    readonly length: number,
    readonly seed: number,
    readonly half: boolean,
  ) {}

  logits(): string {
    const { graph, spec } = this
    const { hidden, layers, sharedLayers } = spec
    const mask = this.#mask()
    let x = this.#embedded()
    for (let i = 0; i < layers; i++) {
      const layer = sharedLayers ? 'layer' : `layer${i}`
      const attended = this.#dense(
        `${layer}/attention_output`,
        this.#attention(x, layer, mask),
        hidden,
        hidden,
      )
      const inner = this.#norm(`${layer}/attention_norm`, graph.op('Add', [attended, x]), hidden)
      const wide = this.#activated(
        this.#dense(`${layer}/intermediate`, inner, hidden, spec.intermediate),
      )
      const fed = this.#dense(`${layer}/output`, wide, spec.intermediate, hidden)
      x = this.#norm(`${layer}/output_norm`, graph.op('Add', [fed, inner]), hidden)
    }
    const first = graph.op('Gather', [x, graph.weight('first', [], Int32Array.of(0))], { axis: 1 })
    const pooled = graph.op(this.variant.pooler === 'tanh' ? 'Tanh' : 'Relu', [
      this.#dense('pooler', first, hidden, hidden),
    ])
    return graph.cast(this.#dense('classifier', pooled, hidden, classes), 'float', 'logits')
  }

  /** B×S×H. */
  #embedded(): string {
    const { graph, spec, variant, length } = this
    const width = spec.embedding ?? spec.hidden
    const known =
      spec.vocabulary < vocabularyOfTexts
        ? graph.op('Mod', [
            'input_ids',
            graph.weight('vocabulary', [], Int32Array.of(spec.vocabulary)),
          ])
        : 'input_ids'
    const words = graph.op('Gather', [
      this.#noise('embeddings/word', [spec.vocabulary, width]),
      known,
    ])
    const positions = createSeededNoise(
      this.seed,
      'embeddings/position',
      spec.maxSequenceLength * width,
      deviation,
    ).subarray(0, length * width)
    const types =
      variant.tokenTypes === 0
        ? undefined
        : createSeededNoise(this.seed, 'embeddings/type', variant.tokenTypes * width, deviation)
    const places = types ? positions.map((value, i) => value + types[i % width]!) : positions
    const normed = this.#norm(
      'embeddings/norm',
      graph.op('Add', [words, this.#weight('embeddings/places', [length, width], () => places)]),
      width,
    )
    return width === spec.hidden
      ? normed
      : this.#dense('embeddings/projection', normed, width, spec.hidden)
  }

  /** B×1×1×S: 0 for tokens, -10000 for padding. */
  #mask(): string {
    const { graph } = this
    const here = graph.cast('attention_mask', this.half ? 'half' : 'float')
    const hidden = graph.op('Mul', [
      graph.op('Sub', [this.#number(1), here]),
      this.#number(-10_000),
    ])
    return graph.op('Unsqueeze', [hidden, graph.shape(1, 2)])
  }

  /** softmax(Q Kᵀ / √D + mask) V for each head (Vaswani et al. 2017, equation 1). */
  #attention(x: string, layer: string, mask: string): string {
    const { graph, spec, length } = this
    const { hidden, heads } = spec
    const size = hidden / heads
    const part = (rows: string, perm: readonly number[]) =>
      graph.op('Transpose', [graph.op('Reshape', [rows, graph.shape(0, length, heads, size)])], {
        perm,
      })
    const queries = part(
      graph.op('Mul', [
        this.#dense(`${layer}/query`, x, hidden, hidden),
        this.#number(1 / Math.sqrt(size)),
      ]),
      [0, 2, 1, 3],
    )
    const keys = part(this.#dense(`${layer}/key`, x, hidden, hidden), [0, 2, 3, 1])
    const values = part(this.#dense(`${layer}/value`, x, hidden, hidden), [0, 2, 1, 3])
    const scores = graph.op('Add', [graph.op('MatMul', [queries, keys]), mask])
    const mixed = graph.op('MatMul', [graph.op('Softmax', [scores]), values])
    return graph.op('Reshape', [
      graph.op('Transpose', [mixed], { perm: [0, 2, 1, 3] }),
      graph.shape(0, length, hidden),
    ])
  }

  /** GELU by the error function, or by tanh written as a sigmoid (see `models/encoder.ts`). */
  #activated(x: string): string {
    const { graph } = this
    if (this.variant.activation === 'gelu') {
      const erf = graph.op('Erf', [graph.op('Mul', [x, this.#number(Math.SQRT1_2)])])
      return graph.op('Mul', [
        graph.op('Mul', [x, this.#number(0.5)]),
        graph.op('Add', [erf, this.#number(1)]),
      ])
    }
    const c = 2 * Math.sqrt(2 / Math.PI)
    const inner = graph.op('Add', [
      graph.op('Mul', [graph.op('Mul', [x, x]), this.#number(c * 0.044715)]),
      this.#number(c),
    ])
    return graph.op('Mul', [x, graph.op('Sigmoid', [graph.op('Mul', [x, inner])])])
  }

  #dense(name: string, x: string, from: number, to: number): string {
    const product = this.graph.op('MatMul', [x, this.#noise(`${name}/kernel`, [from, to])])
    return this.graph.op('Add', [product, this.#noise(`${name}/bias`, [to])])
  }

  #norm(name: string, x: string, width: number): string {
    const gain = this.#weight(`${name}/gain`, [width], () => new Float32Array(width).fill(1))
    const bias = this.#weight(`${name}/bias`, [width], () => new Float32Array(width))
    return this.graph.op('LayerNormalization', [x, gain, bias], {
      axis: 2,
      epsilon: { float: 1e-12 },
    })
  }

  #noise(name: string, shape: readonly number[]): string {
    const size = shape.reduce((a, b) => a * b, 1)
    return this.#weight(name, shape, () => createSeededNoise(this.seed, name, size, deviation))
  }

  #number(value: number): string {
    return this.#weight(`number ${value}`, [], () => Float32Array.of(value))
  }

  /** Created once: layers may share weights. */
  #weight(name: string, shape: readonly number[], values: () => Float32Array): string {
    const known = this.#made.get(name)
    if (known !== undefined) return known
    const stored = this.graph.weight(name, shape, values())
    const made = this.half ? this.graph.cast(stored, 'half') : stored
    this.#made.set(name, made)
    return made
  }
}
