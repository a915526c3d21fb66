/** Facts about tensors that are derived while a graph is walked with bound dimensions. */
import type { GraphAttribute, GraphNode, GraphTensor } from './graph.ts'

export interface TensorInfo {
  readonly shape: readonly number[]
  /** Values computed from shapes and constants, which Reshape, Slice and Resize use. */
  readonly values?: readonly number[]
  /** Depends on weights alone: a runtime computes it before the first request. */
  readonly constant: boolean
}

/** Undefined: an omitted optional input, or an unknown tensor. */
export type MaybeTensor = TensorInfo | undefined

/** @returns the outputs in order; undefined if they cannot be inferred */
export type ShapeRule = (
  node: GraphNode,
  inputs: readonly MaybeTensor[],
) => readonly MaybeTensor[] | undefined

export type OutputShape = Pick<TensorInfo, 'shape' | 'values'> | undefined
/** A rule for one output that needs the shape of the first input. */
export const inferOne =
  (
    rule: (node: GraphNode, first: TensorInfo, inputs: readonly MaybeTensor[]) => OutputShape,
  ): ShapeRule =>
  (node, inputs) => {
    const output = inputs[0] && rule(node, inputs[0], inputs)
    return (
      output && [
        { ...output, constant: inputs.every((input) => input === undefined || input.constant) },
      ]
    )
  }

export const countElements = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1)

export const readNumber = ({ attributes }: GraphNode, name: string, otherwise: number): number => {
  const value = attributes[name]
  return typeof value === 'number' ? value : otherwise
}
export const readNumbers = (
  { attributes }: GraphNode,
  name: string,
): readonly number[] | undefined => {
  const value: GraphAttribute | undefined = attributes[name]
  return Array.isArray(value) && value.every((v) => typeof v === 'number')
    ? (value as readonly number[])
    : undefined
}
export const readString = ({ attributes }: GraphNode, name: string): string | undefined => {
  const value = attributes[name]
  return typeof value === 'string' ? value : undefined
}
export const readTensor = ({ attributes }: GraphNode, name: string): GraphTensor | undefined => {
  const value = attributes[name]
  return typeof value === 'object' && 'isFloatingPoint' in value ? value : undefined
}

/** Reads what older operator sets pass as an attribute and newer ones as an input. */
export const readNumbersOrInput = (
  node: GraphNode,
  name: string,
  input: MaybeTensor,
): readonly number[] | undefined => readNumbers(node, name) ?? input?.values

export const normaliseAxis = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis)

/** @returns undefined for incompatible shapes */
export function broadcast(...shapes: readonly (readonly number[])[]): number[] | undefined {
  const rank = Math.max(...shapes.map(({ length }) => length))
  const result: number[] = []
  for (let i = 0; i < rank; i++) {
    const sizes = shapes.map((shape) => shape[i - rank + shape.length] ?? 1)
    const broadcastSize = sizes.find((size) => size !== 1) ?? 1
    if (sizes.some((size) => size !== 1 && size !== broadcastSize)) return undefined
    result.push(broadcastSize)
  }
  return result
}

/** Swaps the last two dimensions if an attribute such as `transA` is 1. */
export function applyTransposeAttribute(
  node: GraphNode,
  name: string,
  tensor: TensorInfo,
): TensorInfo {
  const { shape } = tensor
  if (readNumber(node, name, 0) !== 1 || shape.length < 2) return tensor
  return { ...tensor, shape: [...shape.slice(0, -2), shape.at(-1)!, shape.at(-2)!] }
}

/** [steps, batch] of a recurrent layer's input; `layout` 1 has the batch first. */
export const readStepsAndBatch = (node: GraphNode, { shape }: TensorInfo): [number, number] => {
  const [first = 1, second = 1] = shape
  return readNumber(node, 'layout', 0) === 1 ? [second, first] : [first, second]
}
