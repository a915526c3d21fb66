/**
 * Image classifiers as ONNX graphs: the computation of `models/convnet.ts`, with the same seeded
 * weights. Input images are batch×side×side×3, and are transposed to channels first.
 */
import type { Convnet, Stage } from '../../../devices/convnets.ts'
import { createSeededNoise } from '../../models/weights.ts'
import { GraphWriter } from './onnx-writer.ts'

/** @param half arithmetic in fp16 */
export function createConvnetGraph(network: Convnet, seed: number, half: boolean): Uint8Array {
  const writer = new ConvnetWriter(network, seed, half)
  const side = network.imageSize
  const output = writer.logits()
  return writer.graph.finish(
    [{ name: 'image', type: 'float', shape: ['batch', side, side, 3] }],
    [{ name: output, type: 'float', shape: ['batch', writer.channels] }],
  )
}

interface Convolution {
  readonly stride?: number
  readonly pad?: number
  readonly active?: boolean
  /** See `models/convnet.ts`. */
  readonly gain?: number
}

class ConvnetWriter {
  readonly graph = new GraphWriter()
  channels = 3
  readonly #clips: boolean
  readonly #branchGain: number

  constructor(
    readonly network: Convnet,
    readonly seed: number,
    readonly half: boolean,
  ) {
    this.#clips = network.name.startsWith('mobilenet')
    const blocks = network.stages.reduce(
      (sum, s) => sum + (s.kind === 'bottleneck' || s.kind === 'inverted' ? s.repeat : 0),
      0,
    )
    this.#branchGain = 1 / Math.sqrt(Math.max(1, blocks))
  }

  logits(): string {
    const { graph, network } = this
    const image = this.half ? graph.cast('image', 'half') : 'image'
    let x = graph.addNode('Transpose', [image], { perm: [0, 3, 1, 2] })
    network.stages.forEach((stage, i) => {
      x = this.#addStage(x, stage, `stage${i}`, i === network.stages.length - 1)
    })
    return graph.cast(graph.addNode('Flatten', [x]), 'float', 'logits')
  }

  #addStage(x: string, stage: Stage, name: string, last: boolean): string {
    switch (stage.kind) {
      case 'conv':
        return this.#addConvolution(x, name, stage.out, stage.kernel, {
          stride: stage.stride,
          pad: stage.pad,
          active: true,
        })
      case 'pool':
        return this.graph.addNode('MaxPool', [x], {
          kernel_shape: [stage.kernel, stage.kernel],
          strides: [stage.stride, stage.stride],
          pads: repeatFourTimes(stage.pad ?? 0),
        })
      case 'global-pool':
        return this.graph.addNode('GlobalAveragePool', [x])
      case 'dense':
        return this.#addConvolution(x, name, stage.out, 1, { active: !last })
      case 'bottleneck':
        return applyRepeatedly(x, stage.repeat, (y, i) =>
          this.#addBottleneck(
            y,
            `${name}/block${i}`,
            stage.mid,
            stage.out,
            i === 0 ? stage.stride : 1,
            i === 0,
          ),
        )
      case 'separable':
        return applyRepeatedly(x, stage.repeat ?? 1, (y, i) =>
          this.#addConvolution(
            this.#addDepthwise(y, `${name}/block${i}/depthwise`, i === 0 ? stage.stride : 1),
            `${name}/block${i}/pointwise`,
            stage.out,
            1,
            {
              active: true,
            },
          ),
        )
      case 'inverted':
        return applyRepeatedly(x, stage.repeat, (y, i) =>
          this.#addInverted(
            y,
            `${name}/block${i}`,
            stage.expand,
            stage.out,
            i === 0 ? stage.stride : 1,
          ),
        )
      default:
        throw new Error(`no way to write a stage of kind '${(stage as Stage).kind}' (${name})`)
    }
  }

  #addBottleneck(
    x: string,
    name: string,
    mid: number,
    out: number,
    stride: number,
    projected: boolean,
  ): string {
    const from = this.channels
    const reduced = this.#addConvolution(x, `${name}/reduce`, mid, 1, { active: true })
    const spatial = this.#addConvolution(reduced, `${name}/spatial`, mid, 3, {
      stride,
      active: true,
    })
    const branch = this.#addConvolution(spatial, `${name}/expand`, out, 1, {
      gain: this.#branchGain,
    })
    this.channels = from
    const shortcut = projected
      ? this.#addConvolution(x, `${name}/shortcut`, out, 1, { stride, pad: 0, gain: 1 })
      : x
    this.channels = out
    return this.graph.addNode('Relu', [this.graph.addNode('Add', [branch, shortcut])])
  }

  #addInverted(x: string, name: string, expand: number, out: number, stride: number): string {
    const from = this.channels
    const residual = stride === 1 && from === out
    const wide =
      expand > 1 ? this.#addConvolution(x, `${name}/expand`, from * expand, 1, { active: true }) : x
    const spatial = this.#addDepthwise(wide, `${name}/depthwise`, stride)
    const narrow = this.#addConvolution(spatial, `${name}/project`, out, 1, {
      gain: residual ? this.#branchGain : 1,
    })
    return residual ? this.graph.addNode('Add', [narrow, x]) : narrow
  }

  #addConvolution(
    x: string,
    name: string,
    out: number,
    kernel: number,
    options: Convolution,
  ): string {
    const { stride = 1, pad = Math.floor(kernel / 2), active = false, gain = Math.SQRT2 } = options
    const from = this.channels
    const filter = this.#addFilter(name, kernel, from, out, gain / Math.sqrt(kernel ** 2 * from))
    this.channels = out
    const attributes = {
      kernel_shape: [kernel, kernel],
      strides: [stride, stride],
      pads: repeatFourTimes(pad),
    }
    const made = this.graph.addNode('Conv', [x, filter, this.#addBias(name, out)], attributes)
    return active ? this.#addActivation(made) : made
  }

  /** One 3×3 filter a channel. */
  #addDepthwise(x: string, name: string, stride: number): string {
    const filter = this.#addFilter(name, 3, this.channels, 1, Math.SQRT2 / 3)
    const attributes = {
      kernel_shape: [3, 3],
      strides: [stride, stride],
      pads: repeatFourTimes(1),
      group: this.channels,
    }
    return this.#addActivation(
      this.graph.addNode('Conv', [x, filter, this.#addBias(name, this.channels)], attributes),
    )
  }

  #addActivation(x: string): string {
    return this.#clips
      ? this.graph.addNode('Clip', [
          x,
          this.#addWeight('zero', [], Float32Array.of(0)),
          this.#addWeight('six', [], Float32Array.of(6)),
        ])
      : this.graph.addNode('Relu', [x])
  }

  /**
   * Transposes a seeded filter kernel×kernel×from×out to out×from×kernel×kernel; a depthwise one
   * (out = 1) to from×1×kernel×kernel.
   */
  #addFilter(name: string, kernel: number, from: number, out: number, deviation: number): string {
    const area = kernel ** 2
    const seeded = createSeededNoise(this.seed, `${name}/filter`, area * from * out, deviation)
    const values = new Float32Array(seeded.length)
    for (let place = 0; place < area; place++)
      for (let i = 0; i < from; i++)
        for (let o = 0; o < out; o++)
          values[(o * from + i) * area + place] = seeded[(place * from + i) * out + o]!
    return this.#addWeight(
      `${name}/filter`,
      out === 1 ? [from, 1, kernel, kernel] : [out, from, kernel, kernel],
      values,
    )
  }

  #addBias(name: string, out: number): string {
    return this.#addWeight(
      `${name}/bias`,
      [out],
      createSeededNoise(this.seed, `${name}/bias`, out, 0.02),
    )
  }

  readonly #made = new Map<string, string>()
  #addWeight(name: string, shape: readonly number[], values: Float32Array): string {
    const known = this.#made.get(name)
    if (known !== undefined) return known
    const stored = this.graph.addInitializer(name, shape, values)
    const made = this.half ? this.graph.cast(stored, 'half') : stored
    this.#made.set(name, made)
    return made
  }
}

const repeatFourTimes = (pad: number) => [pad, pad, pad, pad]

const applyRepeatedly = (
  x: string,
  times: number,
  step: (x: string, i: number) => string,
): string => {
  let made = x
  for (let i = 0; i < times; i++) made = step(made, i)
  return made
}
