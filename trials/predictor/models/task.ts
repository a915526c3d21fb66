/** Detects the inputs of a model: texts, images or tensors. */
import type { Task, TensorSpec } from '../engine.ts'

/**
 * Models with the inputs of texts or images get prepared ones; others get tensors from the request.
 */
export function detectTask(inputs: readonly TensorSpec[]): Task {
  const [first] = inputs
  const names = inputs.map(({ name }) => name)
  const forTexts =
    ['input_ids', 'attention_mask'].every((name) => names.includes(name)) &&
    names.length - Number(names.includes('token_type_ids')) === 2
  if (forTexts && inputs.every(({ datatype }) => datatype === 'INT32')) return 'text'
  if (
    inputs.length === 1 &&
    first!.datatype === 'FP32' &&
    first!.shape.length === 4 &&
    first!.shape[3] === 3 &&
    first!.shape[1]! > 0
  )
    return 'image'
  return 'tensor'
}

/** Fixes dynamic lengths of a text model's inputs to the padded length. */
export const fixLength = (inputs: readonly TensorSpec[], sequenceLength: number): TensorSpec[] =>
  inputs.map((spec) => ({
    ...spec,
    shape: spec.shape.map((d, axis) => (axis === 1 && d < 0 ? sequenceLength : d)),
  }))
