/** Custom models, described by the graph of their ONNX file. */

import { basename } from 'node:path'
import { type Precision, precisions } from '../catalogue.ts'
import type { GraphTensor, OnnxGraph } from './graph.ts'
import { countGraph, countMultiplyAdds, type GraphCount } from './graph-count.ts'
import { detectInputKind, type InputKind, listDynamicAxes, readFixedSize } from './graph-inputs.ts'
import { countElements, readTensor } from './tensor-info.ts'

/** Plain data: it crosses process boundaries. */
export interface GraphArchitecture {
  readonly kind: 'graph'
  readonly name: string
  readonly inputKind: InputKind
  /** Tokens of a text, or side of an image, if the file fixes it. */
  readonly fixedSize?: number
  /** Default side of images. */
  readonly imageSize: number
  readonly maxSequenceLength: number
  /** Number of weights. */
  readonly parameters: number
  /** Precision of most weights. */
  readonly precision?: Precision
  readonly graph: OnnxGraph
}

/** Side of images for graphs with a dynamic image size: that of most image classifiers. */
const defaultImageSize = 224
const defaultSequenceLength = 128
/** Length limit of graphs without a table of position embeddings. */
const defaultMaxSequenceLength = 512

/** Name of a graph: 'vgg19' for models/vgg19.onnx. */
export const nameGraph = (path: string): string => basename(path).replace(/\.\w+$/, '')
export const isOnnxFile = (path: string | undefined): path is string =>
  path !== undefined && /\.onnx$/i.test(path)

export function createGraphArchitecture(graph: OnnxGraph, name: string): GraphArchitecture {
  const inputKind = detectInputKind(graph)
  const fixed = readFixedSize(graph, inputKind)
  const weights = listWeights(graph)
  const elements = (of: (tensor: GraphTensor) => boolean) =>
    weights.reduce((sum, one) => sum + (of(one) ? countElements(one.shape) : 0), 0)
  const weightsByPrecision = precisions.map(
    (one) => [one, elements((tensor) => tensor.precision === one)] as const,
  )
  const [precision] = weightsByPrecision.reduce<readonly [Precision | undefined, number]>(
    (max, one) => (one[1] > max[1] ? one : max),
    [undefined, 0],
  )
  return {
    kind: 'graph',
    name,
    inputKind,
    ...(fixed !== undefined && { fixedSize: fixed }),
    imageSize: inputKind === 'image' ? (fixed ?? defaultImageSize) : defaultImageSize,
    maxSequenceLength: fixed ?? countPositions(graph) ?? defaultMaxSequenceLength,
    parameters: elements((tensor) => tensor.isFloatingPoint),
    ...(precision !== undefined && { precision }),
    graph,
  }
}

/** Lists all weights; some exporters write them as Constant operators. */
const listWeights = ({ weights, nodes }: OnnxGraph): GraphTensor[] => [
  ...Object.values(weights),
  ...nodes.flatMap((node) => (node.op === 'Constant' ? (readTensor(node, 'value') ?? []) : [])),
]

/** Counts the rows of the position embeddings, found by usual names. */
const countPositions = ({ weights }: OnnxGraph): number | undefined =>
  Object.entries(weights).find(
    ([name, { shape }]) => /position_?embedding|\bwpe\b/i.test(name) && shape.length === 2,
  )?.[1].shape[0]

/** Memoised counts by graph, and by length or size. */
const counts = new WeakMap<OnnxGraph, Map<string, GraphCount>>()

/** Counts one item at a length or size; memoised. */
export function countGraphItem(
  { graph, inputKind, fixedSize, imageSize: ownSize }: GraphArchitecture,
  {
    sequenceLength = defaultSequenceLength,
    imageSize = ownSize,
  }: { readonly sequenceLength?: number; readonly imageSize?: number },
): GraphCount {
  const countsBySize = counts.get(graph) ?? new Map<string, GraphCount>()
  counts.set(graph, countsBySize)
  const key = `${inputKind === 'image' ? imageSize : sequenceLength}`
  const graphCount =
    countsBySize.get(fixedSize === undefined ? key : '') ??
    countGraph(graph, { sequenceLength, imageSize })
  countsBySize.set(fixedSize === undefined ? key : '', graphCount)
  return graphCount
}

/**
 * Describes the count: 'counted from its graph: 19.6 G multiply-adds and 143.7 M weights for an
 * image of 224 pixels; not counted: ...'.
 */
export function describeCount(architecture: GraphArchitecture): string {
  const { inputKind, fixedSize, imageSize, parameters, precision, name } = architecture
  const count = countGraphItem(architecture, {})
  const dynamicAxes = listDynamicAxes(architecture.graph)
  const item =
    dynamicAxes.length === 0
      ? 'an item'
      : `an item with ${dynamicAxes.join(' and ')} of ${defaultSequenceLength}`
  const of = {
    text: `a text of ${fixedSize ?? defaultSequenceLength} tokens`,
    image: `an image of ${imageSize} pixels`,
    tensor: item,
  }[inputKind]
  const missing = Object.entries(count.unsupportedOperators).map(([op, times]) =>
    times > 1 ? `${times} x ${op}` : op,
  )
  const omissionNote =
    missing.length === 0
      ? ''
      : `; not counted, so the real model is slower than modelled: ${missing.join(', ')}`
  const precisionNote = precision === undefined || precision === 'fp32' ? '' : ` in ${precision}`
  return `${name}, counted from its graph: ${(countMultiplyAdds(count) / 1e9).toPrecision(3)} G multiply-adds for ${of}, ${(parameters / 1e6).toPrecision(3)} M weights${precisionNote}${omissionNote}`
}
