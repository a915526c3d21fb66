/** A model's graph: operators, shapes, and of the weights their sizes alone. */
import type { Precision } from '../catalogue.ts'

/** A constant; its values where they are few, as those that shapes are made of. */
export interface GraphTensor {
  readonly shape: readonly number[]
  readonly values?: readonly number[]
  /** A number of a model's own, and no index or shape. */
  readonly floating: boolean
  /** Its type, where that is one of those that GPUs compute in. */
  readonly precision?: Precision
}

export type GraphAttribute = number | string | readonly number[] | readonly string[] | GraphTensor

export interface GraphNode {
  /** 'Conv'; of another domain than ONNX's own 'com.microsoft:Attention'. */
  readonly op: string
  readonly inputs: readonly string[]
  readonly outputs: readonly string[]
  readonly attributes: Readonly<Record<string, GraphAttribute>>
}

/** A text is a dimension that varies. */
export type GraphDimension = number | string

export interface GraphInput {
  readonly name: string
  readonly shape: readonly GraphDimension[]
  readonly floating: boolean
}

/** Plain data: it crosses process boundaries. */
export interface OnnxGraph {
  readonly nodes: readonly GraphNode[]
  readonly weights: Readonly<Record<string, GraphTensor>>
  readonly inputs: readonly GraphInput[]
  readonly outputs: readonly string[]
  /** What the file itself says of tensors between the nodes. */
  readonly shapes: Readonly<Record<string, readonly GraphDimension[]>>
}
