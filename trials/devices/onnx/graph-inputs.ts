/** Inputs of a graph, and sizes for its dynamic dimensions. */
import type { GraphDimension, GraphInput, OnnxGraph } from './graph.ts'

/** Input of a model: texts as token ids, images, or any tensors. */
export type InputKind = 'text' | 'image' | 'tensor'

/** Sizes of dynamic dimensions. */
export interface GraphSizes {
  /** Tokens of a text, or steps of a sequence. */
  readonly sequenceLength: number
  /** Side of square images. */
  readonly imageSize: number
}

const isIndices = ({ shape, isFloatingPoint }: GraphInput) => !isFloatingPoint && shape.length === 2
const isImage = ({ shape, isFloatingPoint }: GraphInput) =>
  isFloatingPoint && shape.length === 4 && findChannelAxis(shape) !== undefined
const isChannelCount = (size: GraphDimension | undefined) => size === 1 || size === 3 || size === 4
const findChannelAxis = (shape: readonly GraphDimension[]): 1 | 3 | undefined =>
  isChannelCount(shape[1])
    ? 1
    : isChannelCount(shape[3])
      ? 3
      : // Two named axes after the batch: assume channels first.
        typeof shape[1] === 'string' && typeof shape[2] === 'string'
        ? 1
        : undefined
const findSpatialAxes = (shape: readonly GraphDimension[]): readonly [number, number] =>
  findChannelAxis(shape) === 3 ? [1, 2] : [2, 3]

export function detectInputKind({ inputs }: Pick<OnnxGraph, 'inputs'>): InputKind {
  if (inputs.some(isIndices)) return 'text'
  return inputs.some(isImage) ? 'image' : 'tensor'
}

const recurrentLayers: ReadonlySet<string> = new Set(['LSTM', 'GRU', 'RNN'])
/**
 * Axis of the batch: 1 for inputs that a recurrent layer reads in ONNX's default layout, else 0.
 */
const findBatchAxis = ({ nodes }: Pick<OnnxGraph, 'nodes'>, { name }: GraphInput): number =>
  nodes.some(
    ({ op, inputs, attributes }) =>
      recurrentLayers.has(op) && inputs[0] === name && attributes.layout !== 1,
  )
    ? 1
    : 0

const isBatchAxis = (graph: OnnxGraph, input: GraphInput, axis: number, size: string): boolean =>
  axis === findBatchAxis(graph, input) || /^batch/i.test(size)

/** Fixed batch size of the file; undefined if dynamic. */
export function readFixedBatch(graph: Pick<OnnxGraph, 'inputs' | 'nodes'>): number | undefined {
  const first = graph.inputs.find(({ shape }) => shape.length > 0)
  const size = first?.shape[findBatchAxis(graph, first)]
  return typeof size === 'number' ? size : undefined
}

/** Tokens of a text, or side of an image, where the file fixes it. */
export function readFixedSize(
  { inputs }: Pick<OnnxGraph, 'inputs'>,
  inputKind: InputKind,
): number | undefined {
  const sizes = inputs.flatMap((input) =>
    inputKind === 'text' && isIndices(input)
      ? [input.shape[1]]
      : inputKind === 'image' && isImage(input)
        ? [input.shape[findSpatialAxes(input.shape)[0]]]
        : [],
  )
  return sizes.find((size): size is number => typeof size === 'number')
}

/**
 * Shapes of the inputs with all dimensions bound, and the size of each named dimension. The batch
 * is one item, or the file's fixed batch.
 */
export function bindInputShapes(
  graph: OnnxGraph,
  sizes: GraphSizes,
): { shapes: Map<string, number[]>; names: Map<string, number> } {
  const names = new Map<string, number>()
  const shapes = new Map<string, number[]>()
  for (const input of graph.inputs) {
    const bound = input.shape.map((size, axis) => {
      if (typeof size === 'number') return size
      const number =
        names.get(size) ??
        (isBatchAxis(graph, input, axis, size) ? 1 : chooseSize(input, axis, sizes))
      // '?2' is the unnamed axis 2, which shares its size with no other.
      if (!size.startsWith('?')) names.set(size, number)
      return number
    })
    shapes.set(input.name, bound)
  }
  return { shapes, names }
}

/** Names of dynamic axes other than the batch. They are assumed to be as long as a text. */
export const listDynamicAxes = (graph: OnnxGraph): string[] => {
  const openAxes = graph.inputs.flatMap((input) =>
    input.shape.flatMap((size, axis) =>
      typeof size === 'number' || isBatchAxis(graph, input, axis, size)
        ? []
        : [size.replace(/^\?/, 'axis ')],
    ),
  )
  return [...new Set(openAxes)]
}

/** RGB, for images whose file leaves the number of channels open. */
const assumedChannels = 3

function chooseSize(
  input: GraphInput,
  axis: number,
  { sequenceLength, imageSize }: GraphSizes,
): number {
  if (isImage(input))
    return findSpatialAxes(input.shape).includes(axis) ? imageSize : assumedChannels
  return sequenceLength
}
