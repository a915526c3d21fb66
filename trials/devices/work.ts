/** Counts the work of one inference call by architecture. */
import {
  type Architecture,
  type CallShape,
  countKvBytesPerToken,
  type Decoder,
  defaultSequenceLength,
  type Encoder,
} from './architecture.ts'
import { countFlops, type Work } from './call-work.ts'
import type { Precision } from './catalogue.ts'
import { type Convnet, getBytesPerElement, listConvolutions } from './convnets.ts'
import { countGraphItem, type GraphArchitecture } from './onnx/graph-architecture.ts'

export function countWork(
  architecture: Architecture,
  shape: CallShape,
  precision: Precision,
): Work {
  switch (architecture.kind) {
    case 'encoder':
      return countEncoderWork(
        architecture,
        shape.batch,
        shape.sequenceLength ?? defaultSequenceLength,
        getBytesPerElement(precision),
      )
    case 'decoder':
      return countDecoderWork(architecture, shape, precision)
    case 'convnet':
      return countConvnetWork(
        architecture,
        shape.batch,
        shape.imageSize ?? architecture.imageSize,
        getBytesPerElement(precision),
      )
    case 'graph':
      return countGraphWork(architecture, shape, getBytesPerElement(precision))
  }
}

/** Whether convolutions make up most of its operations. */
export const isConvolutional = (architecture: Architecture): boolean => {
  if (architecture.kind !== 'graph') return architecture.kind === 'convnet'
  const { products } = countGraphItem(architecture, {})
  return (
    countFlops({ products: products.filter(({ convolution }) => convolution) }) >
    countFlops({ products }) / 2
  )
}

/** The count of one item, scaled to the batch. */
function countGraphWork(a: GraphArchitecture, shape: CallShape, bytes: number): Work {
  const { kernels, products, attention, activations, meanKernelTraffic } = countGraphItem(a, shape)
  const { batch } = shape
  return {
    kernels,
    products: products.map((product) => ({ ...product, rows: product.rows * batch })),
    attention: attention.map((one) => ({ ...one, blocks: one.blocks * batch })),
    weightElementBytes: bytes,
    activationBytes: activations * batch * bytes,
    workingSetBytes: meanKernelTraffic * batch * bytes,
    kvBytes: 0,
  }
}

/**
 * Seven kernels a layer: fused QKV, attention, output projection, norm, two feed-forward products,
 * norm. Activations are counted as elements that these kernels read and write per token.
 */
function countEncoderWork(a: Encoder, batch: number, length: number, bytes: number): Work {
  const rows = batch * length
  const { layers, hidden, intermediate, heads } = a
  return {
    kernels: 7 * layers,
    products: [
      { rows, columns: 3 * hidden, depth: hidden, count: layers },
      { rows, columns: hidden, depth: hidden, count: layers },
      { rows, columns: intermediate, depth: hidden, count: layers },
      { rows, columns: hidden, depth: intermediate, count: layers },
    ],
    attention: [
      { count: layers, blocks: batch * heads, flopsPerBlock: 4 * length ** 2 * (hidden / heads) },
    ],
    weightElementBytes: bytes,
    activationBytes: layers * rows * (14 * hidden + 2 * intermediate) * bytes,
    workingSetBytes: rows * (hidden + intermediate) * bytes,
    kvBytes: 0,
  }
}

/** Query rows of one thread block in FlashAttention. */
const queryBlock = 128

/**
 * Ten kernels a layer, assumed. Activations are counted as for an encoder.
 */
function countDecoderWork(a: Decoder, shape: CallShape, precision: Precision): Work {
  const length = shape.sequenceLength ?? defaultSequenceLength
  const isDecode = shape.phase === 'decode'
  const rows = isDecode ? shape.batch : shape.batch * length
  const bytes = getBytesPerElement(precision)
  // Activations stay at least 16 bit.
  const bytesPerActivation = Math.max(bytes, 2)
  const { layers, hidden, intermediate, headSize, heads, kvHeads } = a
  return {
    kernels: 10 * layers,
    products: [
      { rows, columns: (heads + 2 * kvHeads) * headSize, depth: hidden, count: layers },
      { rows, columns: hidden, depth: heads * headSize, count: layers },
      { rows, columns: 2 * intermediate, depth: hidden, count: layers },
      { rows, columns: hidden, depth: intermediate, count: layers },
      // Only each sequence's last token is unembedded.
      { rows: shape.batch, columns: a.vocabulary, depth: hidden, count: 1 },
    ],
    // Causal: on average half of the keys. A decoding step splits each sequence's keys over several
    // blocks.
    attention: [
      isDecode
        ? {
            count: layers,
            blocks: shape.batch * kvHeads * Math.ceil(length / queryBlock),
            flopsPerBlock: (4 * queryBlock * headSize * heads) / kvHeads,
          }
        : {
            count: layers,
            blocks: shape.batch * heads * Math.ceil(length / queryBlock),
            flopsPerBlock: 2 * Math.min(length, queryBlock) * length * headSize,
          },
    ],
    weightElementBytes: bytes,
    activationBytes: layers * rows * (8 * hidden + 3 * intermediate) * bytesPerActivation,
    workingSetBytes: rows * (hidden + intermediate) * bytesPerActivation,
    kvBytes: countKvBytesPerToken(a, precision) * shape.batch * (isDecode ? length : 0),
  }
}

function countConvnetWork(a: Convnet, batch: number, imageSize: number, bytes: number): Work {
  const scale = (imageSize / a.imageSize) ** 2
  const layers = listConvolutions(a)
  const perImage = layers.map((l) => (l.rows > 1 ? scale : 1) * (l.inputs + l.outputs))
  const total = perImage.reduce((sum, n) => sum + n, 0)
  return {
    kernels: layers.length,
    products: layers.map(({ rows, columns, depth, winograd }) => ({
      rows: batch * Math.max(1, rows > 1 ? rows * scale : 1),
      columns,
      depth,
      count: 1,
      winograd,
    })),
    weightElementBytes: bytes,
    activationBytes: total * batch * bytes,
    // Weighted by bytes: large layers cause most cache misses.
    workingSetBytes: (perImage.reduce((sum, n) => sum + n ** 2, 0) / total) * batch * bytes,
    kvBytes: 0,
  }
}
