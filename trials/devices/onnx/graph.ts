/** A model's graph: operators, shapes, and the shapes of its weights. */
import type { Precision } from '../catalogue.ts'

/** A constant; small ones, from which shapes are computed, have values. */
export interface GraphTensor {
  readonly shape: readonly number[]
  readonly values?: readonly number[]
  /** A weight, not an index or shape. */
  readonly isFloatingPoint: boolean
  /** Its type, if GPUs compute in it. */
  readonly precision?: Precision
}

export type GraphAttribute = number | string | readonly number[] | readonly string[] | GraphTensor

export interface GraphNode {
  /** 'Conv', or with a domain other than ONNX's own: 'com.microsoft:Attention'. */
  readonly op: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes: Readonly<Record<string, GraphAttribute>>
}

/** A string names a dynamic dimension; '?2' is the unnamed one of axis 2. */
export type GraphDimension = number | string

export interface GraphInput {
  readonly name: string
  readonly shape: readonly GraphDimension[]
  readonly isFloatingPoint: boolean
}

/** Plain data: it crosses process boundaries. */
export interface OnnxGraph {
  readonly nodes: readonly GraphNode[]
  readonly weights: Readonly<Record<string, GraphTensor>>
  readonly inputs: readonly GraphInput[]
  readonly outputs: readonly string[]
  /** Shapes of intermediate tensors, as far as the file declares them. */
  readonly shapes: Readonly<Record<string, readonly GraphDimension[]>>
}
