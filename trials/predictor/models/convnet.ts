/**
 * Convolutional image classifiers as graphs of TensorFlow.js operations, from the stages of their
 * papers' tables: ResNet-50 v1.5 (He et al. 2015, table 1, stride in the 3×3), MobileNet v1 (Howard
 * et al. 2017, table 1) and v2 (Sandler et al. 2018, table 2). As for serving, batch normalisation
 * is folded into the convolutions' weights and biases.
 */
import * as tf from '@tensorflow/tfjs-core'
import type { Convnet, Stage } from '../../devices/convnets.ts'
import type { Model } from './model.ts'
import { SeededWeights } from './weights.ts'

type Activation = 'relu' | 'relu6' | undefined
type Step = (x: tf.Tensor4D) => tf.Tensor4D

/**
 * Builds a network with seeded weights. Input: image, float32 B×side×side×3. Output: logits,
 * B×classes.
 */
export function buildConvnet(network: Convnet, seed: number): Model {
  const builder = new Builder(new SeededWeights(seed), network)
  const steps = network.stages.map((stage, i) =>
    builder.step(stage, `stage${i}`, i === network.stages.length - 1),
  )
  const run = ({ image }: tf.NamedTensorMap): tf.NamedTensorMap => {
    const x = steps.reduce((value, step) => step(value), image as tf.Tensor4D)
    return { logits: tf.reshape(x, [x.shape[0], -1]) }
  }
  return {
    name: network.name,
    parameters: builder.weights.parameters,
    seeded: true,
    task: 'image',
    inputs: [
      { name: 'image', datatype: 'FP32', shape: [-1, network.imageSize, network.imageSize, 3] },
    ],
    outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, builder.channels] }],
    run: (inputs) => tf.tidy(() => run(inputs)),
    dispose: () => builder.weights.dispose(),
  }
}

/** Turns stages into steps, keeping track of the channels between them. */
class Builder {
  readonly weights: SeededWeights
  channels = 3
  /** MobileNets clip at 6. */
  readonly #activation: 'relu' | 'relu6'
  /** Scales residual branches so that their sum keeps its magnitude. */
  readonly #branchGain: number

  constructor(weights: SeededWeights, network: Convnet) {
    this.weights = weights
    this.#activation = network.name.startsWith('mobilenet') ? 'relu6' : 'relu'
    const blocks = network.stages.reduce(
      (sum, s) => sum + (s.kind === 'bottleneck' || s.kind === 'inverted' ? s.repeat : 0),
      0,
    )
    this.#branchGain = 1 / Math.sqrt(Math.max(1, blocks))
  }

  step(stage: Stage, name: string, last: boolean): Step {
    switch (stage.kind) {
      case 'conv':
        return this.#buildConvolution(name, stage.out, stage.kernel, {
          stride: stage.stride,
          pad: stage.pad,
          activation: this.#activation,
        })
      case 'pool':
        return (x) => tf.maxPool(x, stage.kernel, stage.stride, stage.pad ?? 0, 'floor')
      case 'global-pool':
        return (x) => tf.mean(x, [1, 2], true)
      case 'dense':
        return this.#buildConvolution(name, stage.out, 1, {
          activation: last ? undefined : this.#activation,
        })
      case 'bottleneck':
        return chainSteps(
          applyRepeatedly(stage.repeat, (i) =>
            this.#buildBottleneck(
              `${name}/block${i}`,
              stage.mid,
              stage.out,
              i === 0 ? stage.stride : 1,
              i === 0,
            ),
          ),
        )
      case 'separable':
        return chainSteps(
          applyRepeatedly(stage.repeat ?? 1, (i) =>
            this.#buildSeparable(`${name}/block${i}`, stage.out, i === 0 ? stage.stride : 1),
          ),
        )
      case 'inverted':
        return chainSteps(
          applyRepeatedly(stage.repeat, (i) =>
            this.#buildInverted(
              `${name}/block${i}`,
              stage.expand,
              stage.out,
              i === 0 ? stage.stride : 1,
            ),
          ),
        )
      default:
        throw new Error(`no way to build a stage of kind '${(stage as Stage).kind}' (${name})`)
    }
  }

  /**
   * 1×1, 3×3 with the stride, 1×1, plus the input, projected where the shape changes (He et al.
   * 2015, figure 5 right).
   */
  #buildBottleneck(
    name: string,
    mid: number,
    out: number,
    stride: number,
    projected: boolean,
  ): Step {
    const from = this.channels
    const branch = chainSteps([
      this.#buildConvolution(`${name}/reduce`, mid, 1, { activation: 'relu' }),
      this.#buildConvolution(`${name}/spatial`, mid, 3, { stride, activation: 'relu' }),
      this.#buildConvolution(`${name}/expand`, out, 1, { gain: this.#branchGain }),
    ])
    this.channels = from
    const shortcut = projected
      ? this.#buildConvolution(`${name}/shortcut`, out, 1, { stride, pad: 0, gain: 1 })
      : (x: tf.Tensor4D) => x
    this.channels = out
    return (x) => tf.relu(tf.add(branch(x), shortcut(x)))
  }

  /** Depthwise 3×3 then pointwise 1×1, each with ReLU6 (Howard et al. 2017, figure 3 right). */
  #buildSeparable(name: string, out: number, stride: number): Step {
    return chainSteps([
      this.#buildDepthwise(`${name}/depthwise`, stride),
      this.#buildConvolution(`${name}/pointwise`, out, 1, { activation: this.#activation }),
    ])
  }

  /**
   * Widen 1×1, depthwise 3×3, narrow 1×1 without activation; the input is added where shapes agree
   * (Sandler et al. 2018, table 1).
   */
  #buildInverted(name: string, expand: number, out: number, stride: number): Step {
    const from = this.channels
    const wide = from * expand
    const widen =
      expand > 1
        ? [this.#buildConvolution(`${name}/expand`, wide, 1, { activation: this.#activation })]
        : []
    const residual = stride === 1 && from === out
    const gain = residual ? this.#branchGain : 1
    const branch = chainSteps([
      ...widen,
      this.#buildDepthwise(`${name}/depthwise`, stride),
      this.#buildConvolution(`${name}/project`, out, 1, { gain }),
    ])
    return residual ? (x) => tf.add(branch(x), x) : branch
  }

  #buildConvolution(
    name: string,
    out: number,
    kernel: number,
    {
      stride = 1,
      pad = Math.floor(kernel / 2),
      activation,
      gain = Math.SQRT2,
    }: { stride?: number; pad?: number; activation?: Activation; gain?: number },
  ): Step {
    const { filter, bias } = this.#buildFilter(
      name,
      [kernel, kernel, this.channels, out],
      kernel ** 2 * this.channels,
      gain,
      out,
    )
    this.channels = out
    return (x) =>
      tf.fused.conv2d({
        x,
        filter,
        strides: stride,
        pad,
        dimRoundingMode: 'floor',
        bias,
        activation,
      })
  }

  #buildDepthwise(name: string, stride: number): Step {
    const { filter, bias } = this.#buildFilter(
      name,
      [3, 3, this.channels, 1],
      9,
      Math.SQRT2,
      this.channels,
    )
    const activation = this.#activation
    return (x) =>
      tf.fused.depthwiseConv2d({
        x,
        filter,
        strides: stride,
        pad: 1,
        dimRoundingMode: 'floor',
        bias,
        activation,
      })
  }

  /**
   * Deviation gain/√inputs keeps activations' size through ReLU with gain √2 (He et al. 2015b,
   * equation 10).
   */
  #buildFilter(
    name: string,
    shape: [number, number, number, number],
    inputs: number,
    gain: number,
    out: number,
  ) {
    return {
      filter: this.weights.tensor<tf.Tensor4D>(`${name}/filter`, shape, {
        deviation: gain / Math.sqrt(inputs),
      }),
      bias: this.weights.tensor<tf.Tensor1D>(`${name}/bias`, [out], { deviation: 0.02 }),
    }
  }
}

const chainSteps =
  (steps: readonly Step[]): Step =>
  (x) =>
    steps.reduce((value, step) => step(value), x)
const applyRepeatedly = (times: number, make: (i: number) => Step): Step[] =>
  Array.from({ length: times }, (_, i) => make(i))
