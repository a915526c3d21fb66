/** What a graph takes, and numbers for the dimensions that it leaves open. */
import type { GraphDimension, GraphInput, OnnxGraph } from './graph.ts'

/** What a model takes: texts as token numbers, pictures, or anything else. */
export type Takes = 'text' | 'image' | 'tensor'

/** Numbers for what varies; the batch is one item, or what the file fixes. */
export interface GraphSizes {
  /** Tokens of a text, or steps of a sequence. */
  readonly sequenceLength: number
  /** Side of square pictures. */
  readonly imageSize: number
}

const isIndices = ({ shape, floating }: GraphInput) => !floating && shape.length === 2
const isPicture = ({ shape, floating }: GraphInput) =>
  floating && shape.length === 4 && channelAxis(shape) !== undefined
const isChannels = (size: GraphDimension | undefined) => size === 1 || size === 3 || size === 4
const channelAxis = (shape: readonly GraphDimension[]): 1 | 3 | undefined =>
  isChannels(shape[1])
    ? 1
    : isChannels(shape[3])
      ? 3
      : typeof shape[1] === 'string' && typeof shape[2] === 'string'
        ? 1
        : undefined
const spatialAxes = (shape: readonly GraphDimension[]): readonly [number, number] =>
  channelAxis(shape) === 3 ? [1, 2] : [2, 3]

export function takesOfGraph({ inputs }: Pick<OnnxGraph, 'inputs'>): Takes {
  if (inputs.some(isIndices)) return 'text'
  return inputs.some(isPicture) ? 'image' : 'tensor'
}

const recurrentLayers: ReadonlySet<string> = new Set(['LSTM', 'GRU', 'RNN'])
/**
 * Where the items of the batch stand: second, after the steps, in what a recurrent layer of the
 * usual layout reads as it comes.
 */
const batchAxisOf = ({ nodes }: Pick<OnnxGraph, 'nodes'>, { name }: GraphInput): number =>
  nodes.some(
    ({ op, inputs, attributes }) =>
      recurrentLayers.has(op) && inputs[0] === name && attributes.layout !== 1,
  )
    ? 1
    : 0

const countsItems = (graph: OnnxGraph, input: GraphInput, axis: number, size: string): boolean =>
  axis === batchAxisOf(graph, input) || /^batch/i.test(size)

/** Items that the file fixes as its batch; undefined: any. */
export function fixedBatch(graph: Pick<OnnxGraph, 'inputs' | 'nodes'>): number | undefined {
  const first = graph.inputs.find(({ shape }) => shape.length > 0)
  const size = first?.shape[batchAxisOf(graph, first)]
  return typeof size === 'number' ? size : undefined
}

/** Tokens of a text, or the side of a picture, where the file fixes it. */
export function fixedSize({ inputs }: Pick<OnnxGraph, 'inputs'>, takes: Takes): number | undefined {
  const sizes = inputs.flatMap((input) =>
    takes === 'text' && isIndices(input)
      ? [input.shape[1]]
      : takes === 'image' && isPicture(input)
        ? [input.shape[spatialAxes(input.shape)[0]]]
        : [],
  )
  return sizes.find((size): size is number => typeof size === 'number')
}

/**
 * Shapes of the inputs with a number for every dimension, and what each name of a dimension stands
 * for.
 */
export function boundInputs(
  graph: OnnxGraph,
  sizes: GraphSizes,
): { shapes: Map<string, number[]>; names: Map<string, number> } {
  const names = new Map<string, number>()
  const shapes = new Map<string, number[]>()
  for (const input of graph.inputs) {
    const bound = input.shape.map((size, axis) => {
      if (typeof size === 'number') return size
      const number =
        names.get(size) ?? (countsItems(graph, input, axis, size) ? 1 : sizeAt(input, axis, sizes))
      if (!size.startsWith('?')) names.set(size, number)
      return number
    })
    shapes.set(input.name, bound)
  }
  return { shapes, names }
}

/**
 * What is open beside the batch, by its names in the file: such axes are taken to be as long as a
 * text.
 */
export const openAxes = (graph: OnnxGraph): string[] => {
  const open = graph.inputs.flatMap((input) =>
    input.shape.flatMap((size, axis) =>
      typeof size === 'number' || countsItems(graph, input, axis, size)
        ? []
        : [size.replace(/^\?/, 'axis ')],
    ),
  )
  return [...new Set(open)]
}

function sizeAt(
  input: GraphInput,
  axis: number,
  { sequenceLength, imageSize }: GraphSizes,
): number {
  if (isPicture(input)) return spatialAxes(input.shape).includes(axis) ? imageSize : 3
  return sequenceLength
}
