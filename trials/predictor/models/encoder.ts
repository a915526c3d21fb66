/**
 * The BERT family (Devlin et al. 2018; Vaswani et al. 2017, section 3) as graphs of TensorFlow.js
 * operations, with a two-class head. B: batch, S: sequence length, H: hidden width, A: heads, D = H
 * / A.
 */
import * as tf from '@tensorflow/tfjs-core'
import type { Encoder } from '../../devices/architecture.ts'
import type { Model } from './model.ts'
import { type Dense, type Pack, SeededWeights } from './weights.ts'

/** Properties of an encoder other than its dimensions. */
export interface EncoderVariant {
  /**
   * 'gelu': x Φ(x) by the error function; 'gelu_new': its approximation by tanh (Hendrycks & Gimpel
   * 2016, section 2).
   */
  readonly activation: 'gelu' | 'gelu_new'
  /** Rows of the token type table; 0: none. */
  readonly tokenTypes: number
  /** Activation of the pooler over the first token. */
  readonly pooler: 'tanh' | 'relu'
}

const bert: EncoderVariant = { activation: 'gelu', tokenTypes: 2, pooler: 'tanh' }
const variants: Readonly<Record<string, EncoderVariant>> = {
  // Sanh et al. 2019: no token types, and a layer with ReLU before the classifier in the pooler's
  // place.
  distilbert: { activation: 'gelu', tokenTypes: 0, pooler: 'relu' },
  // Lan et al. 2019; albert-base-v2's configuration has hidden_act gelu_new.
  albert: { activation: 'gelu_new', tokenTypes: 2, pooler: 'tanh' },
}

/** Size of the tokenizer's vocabulary: its token ids lie below it. */
export const tokenizerVocabularySize = 30522
export const classes = 2

export const getVariant = ({ name }: Encoder): EncoderVariant => variants[name] ?? bert

interface Norm {
  readonly gain: tf.Tensor1D
  readonly bias: tf.Tensor1D
}
interface Layer {
  readonly query: Dense
  readonly key: Dense
  readonly value: Dense
  readonly attentionOutput: Dense
  readonly attentionNorm: Norm
  readonly intermediate: Dense
  readonly output: Dense
  readonly outputNorm: Norm
}

/**
 * Builds an encoder with seeded weights (standard deviation 0.02, as BERT is initialised).
 * Inputs: input_ids and attention_mask, int32 B×S. Output: logits, B×2.
 * @throws RangeError for a sequence that is longer than the position table
 */
export function buildEncoder(
  spec: Encoder,
  sequenceLength: number,
  seed: number,
  pack?: Pack,
  variant: EncoderVariant = getVariant(spec),
): Model {
  if (
    !Number.isInteger(sequenceLength) ||
    sequenceLength < 2 ||
    sequenceLength > spec.maxSequenceLength
  )
    throw new RangeError(
      `sequence length ${sequenceLength} does not fit ${spec.name}: it takes whole numbers from 2 to ${spec.maxSequenceLength}`,
    )
  const weights = new SeededWeights(seed, pack)
  const noise = { deviation: 0.02 }
  const dense = (name: string, from: number, to: number, activation?: 'relu') =>
    weights.dense(name, from, to, 0.02, activation)
  const norm = (name: string, width: number): Norm => ({
    gain: weights.tensor(`${name}/gain`, [width], 'ones'),
    bias: weights.tensor(`${name}/bias`, [width], 'zeros'),
  })
  const { hidden, heads, layers } = spec
  const width = spec.embedding ?? hidden
  const words = weights.tensor<tf.Tensor2D>('embeddings/word', [spec.vocabulary, width], noise)
  const positionEmbeddings = embedPositions(weights, spec, variant, width, sequenceLength)
  const embeddingNorm = norm('embeddings/norm', width)
  const projection = width === hidden ? undefined : dense('embeddings/projection', width, hidden)
  const layer = (name: string): Layer => ({
    query: dense(`${name}/query`, hidden, hidden),
    key: dense(`${name}/key`, hidden, hidden),
    value: dense(`${name}/value`, hidden, hidden),
    attentionOutput: dense(`${name}/attention_output`, hidden, hidden),
    attentionNorm: norm(`${name}/attention_norm`, hidden),
    intermediate: dense(`${name}/intermediate`, hidden, spec.intermediate),
    output: dense(`${name}/output`, spec.intermediate, hidden),
    outputNorm: norm(`${name}/output_norm`, hidden),
  })
  const shared = spec.sharedLayers ? layer('layer') : undefined
  const stack = Array.from({ length: layers }, (_, i) => shared ?? layer(`layer${i}`))
  const pooler = dense('pooler', hidden, hidden, variant.pooler === 'relu' ? 'relu' : undefined)
  const classifier = dense('classifier', hidden, classes)
  const activate = variant.activation === 'gelu' ? gelu : geluNew

  const run = ({ input_ids, attention_mask }: tf.NamedTensorMap): tf.NamedTensorMap => {
    const batch = input_ids!.shape[0]!
    const ids = tf.reshape(input_ids!, [-1])
    const foldedIds =
      spec.vocabulary < tokenizerVocabularySize
        ? tf.mod(ids, tf.scalar(spec.vocabulary, 'int32'))
        : ids
    const embedded = tf.add(
      tf.reshape(tf.gather(words, foldedIds), [batch, sequenceLength, width]),
      positionEmbeddings,
    )
    const normed = layerNorm(tf.reshape(embedded, [-1, width]), embeddingNorm)
    // Devlin et al.'s code: masked positions get -10000 before the softmax.
    const mask = tf.reshape(tf.mul(tf.sub(1, tf.cast(attention_mask!, 'float32')), -10000), [
      batch,
      1,
      1,
      sequenceLength,
    ])
    let x = projection ? apply(projection, normed) : normed
    for (const each of stack) {
      const attended = apply(
        each.attentionOutput,
        attention(x, each, mask, batch, sequenceLength, heads),
      )
      const inner = layerNorm(tf.add(attended, x), each.attentionNorm)
      const feedForward = apply(each.output, activate(apply(each.intermediate, inner)))
      x = layerNorm(tf.add(feedForward, inner), each.outputNorm)
    }
    const clsStates = tf.gather(x, tf.range(0, batch * sequenceLength, sequenceLength, 'int32'))
    const pooled =
      variant.pooler === 'tanh' ? tf.tanh(apply(pooler, clsStates)) : apply(pooler, clsStates)
    return { logits: apply(classifier, pooled) }
  }

  const text = (name: string) => ({ name, datatype: 'INT32' as const, shape: [-1, sequenceLength] })
  return {
    name: spec.name,
    parameters: weights.parameters,
    seeded: true,
    task: 'text',
    inputs: [text('input_ids'), text('attention_mask')],
    outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, classes] }],
    run: (inputs) => tf.tidy(() => run(inputs)),
    dispose: () => weights.dispose(),
  }
}

/**
 * Adds the position embeddings of the sequence and that of the first token type: S×width. All
 * tokens of a text have type 0.
 */
function embedPositions(
  weights: SeededWeights,
  spec: Encoder,
  variant: EncoderVariant,
  width: number,
  sequenceLength: number,
): tf.Tensor2D {
  const noise = { deviation: 0.02 }
  const positions = weights.tensor<tf.Tensor2D>(
    'embeddings/position',
    [spec.maxSequenceLength, width],
    noise,
  )
  const types =
    variant.tokenTypes === 0
      ? undefined
      : weights.tensor<tf.Tensor2D>('embeddings/type', [variant.tokenTypes, width], noise)
  const sum = tf.tidy(() => {
    const sequencePositions = tf.slice(positions, [0, 0], [sequenceLength, width])
    return types
      ? tf.add<tf.Tensor2D>(sequencePositions, tf.slice(types, [0, 0], [1, width]))
      : sequencePositions
  })
  weights.release(positions)
  if (types) weights.release(types)
  return weights.keep(sum)
}

/** x W + b, with the layer's activation, in one operation: rows×from to rows×to. */
const apply = ({ kernel, bias, activation }: Dense, x: tf.Tensor): tf.Tensor2D =>
  tf.fused.matMul({ a: x as tf.Tensor2D, b: kernel, bias, activation }) as tf.Tensor as tf.Tensor2D

/**
 * softmax(Q Kᵀ / √D + mask) V for each head (Vaswani et al. 2017, equation 1): (B S)×H to (B S)×H.
 * Keys are transposed as heads are split.
 */
function attention(
  x: tf.Tensor,
  layer: Layer,
  mask: tf.Tensor,
  batch: number,
  length: number,
  heads: number,
): tf.Tensor2D {
  const hidden = x.shape[1]!
  const size = hidden / heads
  const splitHeads = (rows: tf.Tensor, order: number[]) =>
    tf.transpose(tf.reshape(rows, [batch, length, heads, size]), order)
  const queries = splitHeads(tf.mul(apply(layer.query, x), 1 / Math.sqrt(size)), [0, 2, 1, 3])
  const keys = splitHeads(apply(layer.key, x), [0, 2, 3, 1])
  const values = splitHeads(apply(layer.value, x), [0, 2, 1, 3])
  const probabilities = tf.softmax(tf.add(tf.matMul(queries, keys), mask))
  return tf.reshape(tf.transpose(tf.matMul(probabilities, values), [0, 2, 1, 3]), [
    batch * length,
    hidden,
  ])
}

/**
 * (x - mean) / √(variance + 1e-12) × gain + bias over each row (Ba et al. 2016; epsilon as in
 * BERT's code).
 */
function layerNorm(x: tf.Tensor, { gain, bias }: Norm): tf.Tensor {
  const centred = tf.sub(x, tf.mean(x, -1, true))
  const scale = tf.rsqrt(tf.add(tf.mean(tf.square(centred), -1, true), 1e-12))
  return tf.add(tf.mul(tf.mul(centred, scale), gain), bias)
}

/**
 * x Φ(x) = x/2 (1 + erf(x/√2)) (Hendrycks & Gimpel 2016, section 2); WebAssembly's erf is the C
 * library's, 15 ns an element.
 */
const gelu = (x: tf.Tensor): tf.Tensor =>
  tf.mul(tf.mul(x, 0.5), tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1))

/**
 * x/2 (1 + tanh(z)), z = √(2/π) (x + 0.044715 x³) (ibid.), written x σ(2z), which is the same and
 * has a vector kernel.
 */
const geluNew = (x: tf.Tensor): tf.Tensor => {
  const c = 2 * Math.sqrt(2 / Math.PI)
  return tf.mul(x, tf.sigmoid(tf.mul(x, tf.add(tf.mul(tf.square(x), c * 0.044715), c))))
}
