/** Models of a user's own, known by the graph of their ONNX file. */

import { basename } from 'node:path'
import { type Precision, precisions } from '../catalogue.ts'
import type { GraphTensor, OnnxGraph } from './graph.ts'
import { countGraph, type GraphCount, multiplyAdds } from './graph-count.ts'
import { fixedSize, openAxes, type Takes, takesOfGraph } from './graph-inputs.ts'
import { sizeOf, tensorOf } from './known-tensor.ts'

/** Plain data: it crosses process boundaries. */
export interface GraphArchitecture {
  readonly kind: 'graph'
  readonly name: string
  readonly takes: Takes
  /** Tokens of a text, or the side of a picture, where the file fixes them. */
  readonly fixedSize?: number
  /** Side of the pictures that it is counted at where nothing else is said. */
  readonly imageSize: number
  readonly maxSequenceLength: number
  /** Weights, count. */
  readonly parameters: number
  /** What most of them are written in. */
  readonly precision?: Precision
  readonly graph: OnnxGraph
}

/** The size of most image classifiers, of a graph that takes any. */
const usualImageSize = 224
const usualSequenceLength = 128
/** Of a graph in which no table of positions is found. */
const usualLongest = 512

/** What a graph goes by: 'vgg19' for models/vgg19.onnx. */
export const graphName = (path: string): string => basename(path).replace(/\.\w+$/, '')
export const isOnnxFile = (path: string | undefined): path is string =>
  path !== undefined && /\.onnx$/i.test(path)

export function graphArchitecture(graph: OnnxGraph, name: string): GraphArchitecture {
  const takes = takesOfGraph(graph)
  const fixed = fixedSize(graph, takes)
  const weights = weightsOf(graph)
  const elements = (of: (tensor: GraphTensor) => boolean) =>
    weights.reduce((sum, one) => sum + (of(one) ? sizeOf(one.shape) : 0), 0)
  const weighed = precisions.map(
    (one) => [one, elements((tensor) => tensor.precision === one)] as const,
  )
  const [precision] = weighed.reduce<readonly [Precision | undefined, number]>(
    (most, one) => (one[1] > most[1] ? one : most),
    [undefined, 0],
  )
  return {
    kind: 'graph',
    name,
    takes,
    ...(fixed !== undefined && { fixedSize: fixed }),
    imageSize: takes === 'image' ? (fixed ?? usualImageSize) : usualImageSize,
    maxSequenceLength: fixed ?? positionsOf(graph) ?? usualLongest,
    parameters: elements((tensor) => tensor.floating),
    ...(precision !== undefined && { precision }),
    graph,
  }
}

/** Some exporters write weights as operators that make a constant. */
const weightsOf = ({ weights, nodes }: OnnxGraph): GraphTensor[] => [
  ...Object.values(weights),
  ...nodes.flatMap((node) => (node.op === 'Constant' ? (tensorOf(node, 'value') ?? []) : [])),
]

/** Rows of the table of positions, by its usual names. */
const positionsOf = ({ weights }: OnnxGraph): number | undefined =>
  Object.entries(weights).find(
    ([name, { shape }]) => /position_?embedding|\bwpe\b/i.test(name) && shape.length === 2,
  )?.[1].shape[0]

const counts = new WeakMap<OnnxGraph, Map<string, GraphCount>>()

/** Counts of one item at a length or size; counted once each. */
export function graphCountOf(
  { graph, takes, fixedSize, imageSize: ownSize }: GraphArchitecture,
  {
    sequenceLength = usualSequenceLength,
    imageSize = ownSize,
  }: { readonly sequenceLength?: number; readonly imageSize?: number },
): GraphCount {
  const known = counts.get(graph) ?? new Map<string, GraphCount>()
  counts.set(graph, known)
  const key = `${takes === 'image' ? imageSize : sequenceLength}`
  const found =
    known.get(fixedSize === undefined ? key : '') ??
    countGraph(graph, { sequenceLength, imageSize })
  known.set(fixedSize === undefined ? key : '', found)
  return found
}

/**
 * 'counted from its graph: 19.6 G multiply-adds and 143.7 M weights for an image of 224 pixels; not
 * counted: ...'.
 */
export function countText(architecture: GraphArchitecture): string {
  const { takes, fixedSize, imageSize, parameters, precision, name } = architecture
  const count = graphCountOf(architecture, {})
  const open = openAxes(architecture.graph)
  const item =
    open.length === 0 ? 'an item' : `an item with ${open.join(' and ')} of ${usualSequenceLength}`
  const of = {
    text: `a text of ${fixedSize ?? usualSequenceLength} tokens`,
    image: `an image of ${imageSize} pixels`,
    tensor: item,
  }[takes]
  const missing = Object.entries(count.notCounted).map(([op, times]) =>
    times > 1 ? `${times} x ${op}` : op,
  )
  const rest =
    missing.length === 0
      ? ''
      : `; not counted, so the real model is slower than modelled: ${missing.join(', ')}`
  const written = precision === undefined || precision === 'fp32' ? '' : ` in ${precision}`
  return `${name}, counted from its graph: ${(multiplyAdds(count) / 1e9).toPrecision(3)} G multiply-adds for ${of}, ${(parameters / 1e6).toPrecision(3)} M weights${written}${rest}`
}
