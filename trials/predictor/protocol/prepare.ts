/** Converts the inputs of a request to the tensors that the engine declares. */
import type { Tensor, TensorSpec, Tensors } from '../engine.ts'
import type { DecodeImage, Tokenizer } from '../preprocess.ts'
import { RequestError, type ServedModelInfo, type WireTensor } from './tensors.ts'

/** Tokenizer of text models, image decoder of image models. */
export interface Codecs {
  readonly tokenizer?: Tokenizer
  readonly decodeImage?: DecodeImage
}

/**
 * Tokenises, decodes or checks the inputs; resolves with tensors of `items` rows.
 * @throws RequestError 400
 */
export async function prepareInputs(
  inputs: readonly WireTensor[],
  model: ServedModelInfo,
  codecs: Codecs,
): Promise<{ items: number; tensors: Tensors }> {
  const repeated = inputs.find(
    (input, i) => inputs.findIndex((other) => other.name === input.name) < i,
  )
  if (repeated) throw new RequestError(400, `input '${repeated.name}' appears twice`)
  const items = inputs[0]?.shape[0]
  if (items === undefined || items < 1)
    throw new RequestError(400, 'a request must contain at least one item in its first dimension')
  if (items > model.maxItems)
    throw new RequestError(
      400,
      `a request may contain at most ${model.maxItems} items, not ${items}`,
    )
  const mismatched = inputs.find((input) => input.shape[0] !== items)
  if (mismatched)
    throw new RequestError(
      400,
      `input '${mismatched.name}' has ${mismatched.shape[0] ?? 'no'} items, '${inputs[0]!.name}' has ${items}`,
    )
  const tensors = await preparersByTask[model.task](inputs, items, model, codecs)
  return { items, tensors }
}

type Preparer = (
  inputs: readonly WireTensor[],
  items: number,
  model: ServedModelInfo,
  codecs: Codecs,
) => Promise<Tensors>

const prepareText: Preparer = async (inputs, items, model, { tokenizer }) => {
  const length = model.sequenceLength
  const ids = new Int32Array(items * length)
  const mask = new Int32Array(items * length)
  const text = inputs.find((input) => input.name === 'text')
  if (text?.datatype === 'BYTES' && inputs.length === 1) {
    if (!tokenizer) throw new Error('no tokenizer was loaded for a text model')
    requireOneValuePerItem(text, items)
    text.values.forEach((value, item) => {
      const encoded = tokenizer.encode(
        typeof value === 'string' ? value : new TextDecoder().decode(value),
        length,
      )
      ids.set(encoded.inputIds, item * length)
      mask.set(encoded.attentionMask, item * length)
    })
  } else prepareTokens(inputs, model, ids, mask)
  const shape = [items, length]
  return {
    input_ids: { datatype: 'INT32', shape, data: ids },
    attention_mask: { datatype: 'INT32', shape, data: mask },
  }
}

function prepareTokens(
  inputs: readonly WireTensor[],
  model: ServedModelInfo,
  ids: Int32Array,
  mask: Int32Array,
): void {
  const accepted = ['input_ids', 'attention_mask', 'token_type_ids']
  const unsupportedInput = inputs.find(
    (input) => !accepted.includes(input.name) || !/^U?INT/.test(input.datatype),
  )
  const tokens = inputs.find((input) => input.name === 'input_ids')
  if (unsupportedInput || !tokens)
    throw new RequestError(
      400,
      `model '${model.name}' takes 'text' (BYTES [-1]), or 'input_ids' and optionally 'attention_mask' (INT64 [-1,-1]); got ${inputs.map((i) => `'${i.name}' (${i.datatype})`).join(', ')}`,
    )
  const [items = 0, width = 0] = tokens.shape
  if (tokens.shape.length !== 2 || width < 1 || width > model.sequenceLength)
    throw new RequestError(
      400,
      `'input_ids' must be [items, 1 to ${model.sequenceLength}], not [${tokens.shape}]`,
    )
  for (const other of inputs)
    if (other.shape.join() !== tokens.shape.join())
      throw new RequestError(
        400,
        `'${other.name}' is [${other.shape}], 'input_ids' is [${tokens.shape}]`,
      )
  const attentionMask = inputs.find((input) => input.name === 'attention_mask')
  const types = inputs.find((input) => input.name === 'token_type_ids')
  if (types && Array.from(types.values as ArrayLike<number>).some((type) => type !== 0))
    throw new RequestError(400, "'token_type_ids' other than 0 (sentence pairs) are not supported")
  for (let item = 0; item < items; item++)
    for (let i = 0; i < width; i++) {
      const id = tokens.values[item * width + i] as number
      if (id < 0 || id > 0x7fffffff)
        throw new RequestError(400, `'input_ids' contains ${id}, which is not a token`)
      ids[item * model.sequenceLength + i] = id
      // Without an attention mask, id 0 ([PAD]) is padding.
      mask[item * model.sequenceLength + i] = attentionMask
        ? Number(attentionMask.values[item * width + i] !== 0)
        : Number(id !== 0)
    }
}

const prepareImage: Preparer = async (inputs, items, model, { decodeImage }) => {
  const spec = model.inputs[0]!
  const input = inputs[0]!
  if (inputs.length !== 1 || (input.name !== 'image' && input.name !== spec.name))
    throw new RequestError(
      400,
      `model '${model.name}' takes one input 'image', got ${inputs.map((i) => `'${i.name}'`).join(', ')}`,
    )
  if (input.datatype !== 'BYTES')
    return { [spec.name]: checkTensor({ ...input, name: spec.name }, spec) }
  if (!decodeImage) throw new Error('no image decoder was loaded for an image model')
  requireOneValuePerItem(input, items)
  const [, height = 0, width = 0] = spec.shape
  const data = new Float32Array(items * height * width * 3)
  for (const [item, value] of input.values.entries()) {
    const bytes = typeof value === 'string' ? Buffer.from(value, 'base64') : value
    try {
      data.set(await decodeImage(bytes, height, width), item * height * width * 3)
    } catch (error) {
      throw new RequestError(
        400,
        `image ${item} cannot be decoded: ${error instanceof Error ? error.message : error}`,
      )
    }
  }
  return { [spec.name]: { datatype: 'FP32', shape: [items, height, width, 3], data } }
}

const prepareTensors: Preparer = async (inputs, _items, model) => {
  const tensors: Record<string, Tensor> = {}
  for (const spec of model.inputs) {
    const input = inputs.find(({ name }) => name === spec.name)
    if (!input)
      throw new RequestError(
        400,
        `input '${spec.name}' is missing; model '${model.name}' takes ${model.inputs.map((i) => i.name).join(', ')}`,
      )
    tensors[spec.name] = checkTensor(input, spec)
  }
  const unknownInput = inputs.find(({ name }) => tensors[name] === undefined)
  if (unknownInput)
    throw new RequestError(
      400,
      `unknown input '${unknownInput.name}'; model '${model.name}' takes ${model.inputs.map((i) => i.name).join(', ')}`,
    )
  return tensors
}

const preparersByTask: Readonly<Record<ServedModelInfo['task'], Preparer>> = {
  text: prepareText,
  image: prepareImage,
  tensor: prepareTensors,
}

function requireOneValuePerItem(input: WireTensor, items: number): void {
  if (input.values.length !== items)
    throw new RequestError(
      400,
      `input '${input.name}' must be [items] or [items,1], not [${input.shape}]`,
    )
}

function checkTensor(input: WireTensor, spec: TensorSpec): Tensor {
  const fits =
    input.shape.length === spec.shape.length &&
    spec.shape.every((size, i) => size === -1 || size === input.shape[i])
  if (!fits)
    throw new RequestError(
      400,
      `input '${input.name}' must be [${spec.shape}], not [${input.shape}]`,
    )
  if (input.datatype === 'BYTES' || (spec.datatype === 'INT32' && /^FP/.test(input.datatype)))
    throw new RequestError(
      400,
      `input '${input.name}' must be ${spec.datatype}, not ${input.datatype}`,
    )
  if (spec.datatype === 'FP32')
    return { datatype: 'FP32', shape: input.shape, data: Float32Array.from(input.values) }
  const data = Int32Array.from(input.values)
  const outOfRangeIndex = data.findIndex((value, i) => value !== input.values[i])
  if (outOfRangeIndex >= 0)
    throw new RequestError(
      400,
      `input '${input.name}' contains ${input.values[outOfRangeIndex]}, which exceeds the model's INT32`,
    )
  return { datatype: 'INT32', shape: input.shape, data }
}
