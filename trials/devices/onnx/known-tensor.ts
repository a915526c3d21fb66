/**
 * What is known of a tensor while a graph is walked with numbers in place of the dimensions that
 * vary.
 */
import type { GraphAttribute, GraphNode, GraphTensor } from './graph.ts'

export interface KnownTensor {
  readonly shape: readonly number[]
  /** Where they follow from shapes and constants: what Reshape, Slice and Resize are told. */
  readonly values?: readonly number[]
  /** It follows from the weights alone: a runtime has it before the first request. */
  readonly constant: boolean
}

/** Absent: an optional input that is not given, or a tensor of which nothing is known. */
export type Known = KnownTensor | undefined

/** @returns the outputs in order; undefined where they cannot be told */
export type Rule = (node: GraphNode, inputs: readonly Known[]) => readonly Known[] | undefined

export type Made = Pick<KnownTensor, 'shape' | 'values'> | undefined
/** One output, made of a first input whose shape is known. */
export const one =
  (rule: (node: GraphNode, first: KnownTensor, inputs: readonly Known[]) => Made): Rule =>
  (node, inputs) => {
    const made = inputs[0] && rule(node, inputs[0], inputs)
    return (
      made && [
        { ...made, constant: inputs.every((input) => input === undefined || input.constant) },
      ]
    )
  }

export const sizeOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * b, 1)

export const numberOf = ({ attributes }: GraphNode, name: string, otherwise: number): number => {
  const value = attributes[name]
  return typeof value === 'number' ? value : otherwise
}
export const numbersOf = (
  { attributes }: GraphNode,
  name: string,
): readonly number[] | undefined => {
  const value: GraphAttribute | undefined = attributes[name]
  return Array.isArray(value) && value.every((v) => typeof v === 'number')
    ? (value as readonly number[])
    : undefined
}
export const textOf = ({ attributes }: GraphNode, name: string): string | undefined => {
  const value = attributes[name]
  return typeof value === 'string' ? value : undefined
}
export const tensorOf = ({ attributes }: GraphNode, name: string): GraphTensor | undefined => {
  const value = attributes[name]
  return typeof value === 'object' && 'floating' in value ? value : undefined
}

/** What an older operator set gives as an attribute and a newer one as an input. */
export const given = (node: GraphNode, name: string, input: Known): readonly number[] | undefined =>
  numbersOf(node, name) ?? input?.values

export const axisOf = (axis: number, rank: number): number => (axis < 0 ? axis + rank : axis)

/** @returns undefined where the shapes do not go together */
export function broadcast(...shapes: readonly (readonly number[])[]): number[] | undefined {
  const rank = Math.max(...shapes.map(({ length }) => length))
  const result: number[] = []
  for (let i = 0; i < rank; i++) {
    const sizes = shapes.map((shape) => shape[i - rank + shape.length] ?? 1)
    const wide = sizes.find((size) => size !== 1) ?? 1
    if (sizes.some((size) => size !== 1 && size !== wide)) return undefined
    result.push(wide)
  }
  return result
}

/** A matrix as an attribute like `transA` says, its last two dimensions the other way round. */
export function turnedAsAsked(node: GraphNode, name: string, tensor: KnownTensor): KnownTensor {
  const { shape } = tensor
  if (numberOf(node, name, 0) !== 1 || shape.length < 2) return tensor
  return { ...tensor, shape: [...shape.slice(0, -2), shape.at(-1)!, shape.at(-2)!] }
}

/** What a recurrent layer reads: steps before items, or by `layout` after them. */
export const stepsAndItems = (node: GraphNode, { shape }: KnownTensor): [number, number] => {
  const [first = 1, second = 1] = shape
  return numberOf(node, 'layout', 0) === 1 ? [second, first] : [first, second]
}
