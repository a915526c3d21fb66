/** Convolutional networks, layer by layer, from the tables of their papers. */
import type { Precision } from './catalogue.ts'

export interface Convnet {
  readonly kind: 'convnet'
  readonly name: string
  /** Side of the square images that the network is designed for. */
  readonly imageSize: number
  readonly stages: readonly Stage[]
}

/** Convolutions and dense layers in order; `repeat` blocks keep their stride for the first only. */
export type Stage =
  /** `normalised`: local response normalisation follows. */
  | {
      readonly kind: 'conv'
      readonly out: number
      readonly kernel: number
      readonly stride?: number
      readonly pad?: number
      readonly normalised?: boolean
    }
  | {
      readonly kind: 'pool'
      readonly kernel: number
      readonly stride: number
      readonly pad?: number
    }
  | {
      readonly kind: 'bottleneck'
      readonly mid: number
      readonly out: number
      readonly stride: number
      readonly repeat: number
    }
  | {
      readonly kind: 'separable'
      readonly out: number
      readonly stride: number
      readonly repeat?: number
    }
  | {
      readonly kind: 'inverted'
      readonly expand: number
      readonly out: number
      readonly stride: number
      readonly repeat: number
    }
  | { readonly kind: 'global-pool' }
  | { readonly kind: 'dense'; readonly out: number }

/** One convolution or dense product on one image, counts. */
interface ConvolutionLayer {
  /** Output pixels. */
  readonly rows: number
  /** Output channels. */
  readonly columns: number
  /** Weights of one output channel. */
  readonly depth: number
  /** 3 × 3 over all channels at stride 1. */
  readonly winograd: boolean
  /** Weights and biases. */
  readonly weights: number
  /** Elements read and written. */
  readonly inputs: number
  readonly outputs: number
  /** Output elements of a following local response normalisation. */
  readonly normalised: number
}

const conv = (out: number, kernel: number, stride = 1, pad = Math.floor(kernel / 2)): Stage => ({
  kind: 'conv',
  out,
  kernel,
  stride,
  pad,
})
const pool = (kernel: number, stride: number, pad = 0): Stage => ({
  kind: 'pool',
  kernel,
  stride,
  pad,
})
const dense = (out: number): Stage => ({ kind: 'dense', out })
const bottleneck = (mid: number, out: number, stride: number, repeat: number): Stage => ({
  kind: 'bottleneck',
  mid,
  out,
  stride,
  repeat,
})
const separable = (out: number, stride: number, repeat = 1): Stage => ({
  kind: 'separable',
  out,
  stride,
  repeat,
})
const inverted = (expand: number, out: number, stride: number, repeat: number): Stage => ({
  kind: 'inverted',
  expand,
  out,
  stride,
  repeat,
})
const vggBlock = (out: number, layers: number): Stage[] => [
  ...Array.from({ length: layers }, () => conv(out, 3)),
  pool(2, 2),
]

/**
 * ResNet-50 v1.5 (He et al. 2015, table 1; stride in the 3 × 3), MobileNet v1 and v2, VGG-16,
 * AlexNet (torchvision's), VGG-S (Chatfield et al. 2014).
 */
export const convnets: readonly Convnet[] = [
  {
    kind: 'convnet',
    name: 'resnet50',
    imageSize: 224,
    stages: [
      conv(64, 7, 2),
      pool(3, 2, 1),
      bottleneck(64, 256, 1, 3),
      bottleneck(128, 512, 2, 4),
      bottleneck(256, 1024, 2, 6),
      bottleneck(512, 2048, 2, 3),
      { kind: 'global-pool' },
      dense(1000),
    ],
  },
  {
    kind: 'convnet',
    name: 'mobilenet',
    imageSize: 224,
    stages: [
      conv(32, 3, 2),
      separable(64, 1),
      separable(128, 2),
      separable(128, 1),
      separable(256, 2),
      separable(256, 1),
      separable(512, 2),
      separable(512, 1, 5),
      separable(1024, 2),
      separable(1024, 1),
      { kind: 'global-pool' },
      dense(1000),
    ],
  },
  {
    kind: 'convnet',
    name: 'mobilenetv2',
    imageSize: 224,
    stages: [
      conv(32, 3, 2),
      inverted(1, 16, 1, 1),
      inverted(6, 24, 2, 2),
      inverted(6, 32, 2, 3),
      inverted(6, 64, 2, 4),
      inverted(6, 96, 1, 3),
      inverted(6, 160, 2, 3),
      inverted(6, 320, 1, 1),
      conv(1280, 1),
      { kind: 'global-pool' },
      dense(1000),
    ],
  },
  {
    kind: 'convnet',
    name: 'vgg16',
    imageSize: 224,
    stages: [
      ...vggBlock(64, 2),
      ...vggBlock(128, 2),
      ...vggBlock(256, 3),
      ...vggBlock(512, 3),
      ...vggBlock(512, 3),
      dense(4096),
      dense(4096),
      dense(1000),
    ],
  },
  {
    kind: 'convnet',
    name: 'alexnet',
    imageSize: 224,
    stages: [
      conv(64, 11, 4, 2),
      pool(3, 2),
      conv(192, 5),
      pool(3, 2),
      conv(384, 3),
      conv(256, 3),
      conv(256, 3),
      pool(3, 2),
      dense(4096),
      dense(4096),
      dense(1000),
    ],
  },
  {
    kind: 'convnet',
    name: 'vgg-s',
    imageSize: 224,
    stages: [
      { kind: 'conv', out: 96, kernel: 7, stride: 2, pad: 0, normalised: true },
      pool(3, 3, 1),
      conv(256, 5, 1, 0),
      pool(2, 2, 1),
      conv(512, 3),
      conv(512, 3),
      conv(512, 3),
      pool(3, 3, 1),
      dense(4096),
      dense(4096),
      dense(1000),
    ],
  },
]

export const getBytesPerElement = (precision: Precision): number =>
  precision === 'int8' || precision === 'fp8'
    ? 1
    : precision === 'fp16' || precision === 'bf16'
      ? 2
      : 4

const layersByNetwork = new Map<Convnet, readonly ConvolutionLayer[]>()

/**
 * Lists the network's convolutions and dense products in order, for one image of its native size.
 */
export function listConvolutions(network: Convnet): readonly ConvolutionLayer[] {
  const cached = layersByNetwork.get(network)
  if (cached) return cached
  const layers = unrollLayers(network)
  layersByNetwork.set(network, layers)
  return layers
}

function unrollLayers(network: Convnet): ConvolutionLayer[] {
  const layers: ConvolutionLayer[] = []
  let side = network.imageSize
  let channels = 3
  const convolve = (
    out: number,
    kernel: number,
    stride = 1,
    pad = Math.floor(kernel / 2),
    groups = 1,
    from = { side, channels },
    normalised = false,
  ) => {
    const after = Math.floor((from.side + 2 * pad - kernel) / stride) + 1
    const weights = (kernel ** 2 * from.channels * out) / groups
    layers.push({
      rows: after ** 2,
      columns: out,
      depth: weights / out,
      winograd: kernel === 3 && stride === 1 && groups === 1,
      weights: weights + out,
      inputs: from.side ** 2 * from.channels,
      outputs: after ** 2 * out,
      normalised: normalised ? after ** 2 * out : 0,
    })
    side = after
    channels = out
  }
  for (const stage of network.stages) {
    switch (stage.kind) {
      case 'conv':
        convolve(
          stage.out,
          stage.kernel,
          stage.stride,
          stage.pad,
          1,
          { side, channels },
          stage.normalised,
        )
        break
      case 'pool':
        side = Math.floor((side + 2 * (stage.pad ?? 0) - stage.kernel) / stage.stride) + 1
        break
      case 'global-pool':
        side = 1
        break
      case 'dense':
        layers.push({
          rows: 1,
          columns: stage.out,
          depth: side ** 2 * channels,
          winograd: false,
          weights: side ** 2 * channels * stage.out + stage.out,
          inputs: side ** 2 * channels,
          outputs: stage.out,
          normalised: 0,
        })
        side = 1
        channels = stage.out
        break
      case 'bottleneck':
        for (let i = 0; i < stage.repeat; i++) {
          const entry = { side, channels }
          convolve(stage.mid, 1)
          convolve(stage.mid, 3, i === 0 ? stage.stride : 1)
          convolve(stage.out, 1)
          if (i === 0) convolve(stage.out, 1, stage.stride, 0, 1, entry)
        }
        break
      case 'separable':
        for (let i = 0; i < (stage.repeat ?? 1); i++) {
          convolve(channels, 3, i === 0 ? stage.stride : 1, 1, channels)
          convolve(stage.out, 1)
        }
        break
      case 'inverted':
        for (let i = 0; i < stage.repeat; i++) {
          const expandedChannels = channels * stage.expand
          if (stage.expand > 1) convolve(expandedChannels, 1)
          convolve(expandedChannels, 3, i === 0 ? stage.stride : 1, 1, expandedChannels)
          convolve(stage.out, 1)
        }
        break
    }
  }
  return layers
}
