/**
 * Checks that an answer fits its request. The status 200 only shows that something answered, not
 * that it was this model. The functions describe a fault, to follow 'answered 200, but', or return
 * undefined.
 */
import { isRecord } from '../plain-record.ts'
import { countElements } from './tensor-bytes.ts'

/** A tensor of an answer. */
export interface OutputTensor {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
  /** Row-major. Undefined: in an encoding that is not decoded here. */
  readonly data?: ArrayLike<unknown>
}

/** A tensor as declared by the model's metadata. A size below 1 means any size. */
export interface DeclaredTensor {
  readonly name: string
  readonly datatype: string
  readonly shape: readonly number[]
}

/** Groups the outputs of a tensor protocol by name, for comparison. */
export const groupByName = (tensors: readonly OutputTensor[]): unknown => ({
  outputs: Object.fromEntries(
    tensors.map(({ name, shape, data = [] }) => [
      name,
      { shape: [...shape], data: Array.from(data) },
    ]),
  ),
})

const formatShape = (shape: readonly number[]): string => `[${shape.join(', ')}]`

/**
 * Finds a fault of the outputs: their shapes, values, or a difference from the declared outputs.
 * @param items items of the request; an output with a free first dimension has as many rows
 */
export function findTensorsFault(
  tensors: readonly OutputTensor[],
  declared: readonly DeclaredTensor[] = [],
  items?: number,
): string | undefined {
  if (tensors.length === 0) return 'without outputs'
  for (const tensor of tensors) {
    const fault =
      findShapeFault(tensor) ??
      findValuesFault(tensor) ??
      findDeclarationFault(tensor, declared, items)
    if (fault !== undefined) return `its output '${tensor.name}' ${fault}`
  }
  return undefined
}

function findShapeFault({ shape, data }: OutputTensor): string | undefined {
  if (!shape.every((size) => Number.isInteger(size) && size >= 0))
    return `has the shape ${formatShape(shape)}`
  if (data !== undefined && data.length !== countElements(shape))
    return `has the shape ${formatShape(shape)} and ${data.length} values`
  return undefined
}

function findValuesFault({ datatype, data = [] }: OutputTensor): string | undefined {
  const hasType = selectTypeCheck(datatype)
  for (let i = 0; i < data.length; i++) {
    const value = data[i]
    if (typeof value === 'number' && !Number.isFinite(value)) return `holds ${value} at ${i}`
    if (hasType !== undefined && !hasType(value))
      return `is ${datatype} and holds ${JSON.stringify(value)} at ${i}`
  }
  return undefined
}

/** Returns a check of the JSON values of a datatype; undefined where any value is allowed. */
function selectTypeCheck(datatype: string): ((value: unknown) => boolean) | undefined {
  if (datatype === 'BOOL')
    return (value) => typeof value === 'boolean' || value === 0 || value === 1
  if (/^U?INT\d+$/.test(datatype)) return (value) => Number.isInteger(value)
  if (/^(FP|BF)\d+$/.test(datatype)) return (value) => typeof value === 'number'
  if (datatype === 'STRING')
    return (value) => typeof value === 'string' || value instanceof Uint8Array || isRecord(value)
  return undefined
}

/** Whether a shape is a declared one, in which sizes below 1 are free. */
const matchesShape = (declared: readonly number[], shape: readonly number[]): boolean =>
  declared.length === shape.length && declared.every((size, i) => size < 1 || size === shape[i])
/** Drops dimensions of size 1 after the first. */
const squeeze = (shape: readonly number[]): number[] =>
  shape.filter((size, i) => i === 0 || size !== 1)

function findDeclarationFault(
  { name, datatype, shape }: OutputTensor,
  declared: readonly DeclaredTensor[],
  items = 1,
): string | undefined {
  if (declared.length === 0) return undefined
  const output = declared.find((tensor) => tensor.name === name)
  if (!output)
    return `is none of the model's, which are ${declared.map((tensor) => tensor.name).join(', ')}`
  if (output.datatype !== datatype) return `is ${datatype}, and the model's is ${output.datatype}`
  // No dimensions where the server does not know them; MLServer answers [n, 1] where [-1] is
  // declared.
  if (output.shape.length === 0) return undefined
  // A single item may be answered without the batch dimension.
  const lacksBatch =
    items === 1 && output.shape[0]! < 1 && matchesShape(output.shape.slice(1), shape)
  if (lacksBatch) return undefined
  if (!matchesShape(output.shape, shape) && !matchesShape(squeeze(output.shape), squeeze(shape)))
    return `has the shape ${formatShape(shape)}, and the model's is ${formatShape(output.shape)}`
  // Detectors answer with as many rows as they find; one row for several items belongs to the first
  // item.
  if (output.shape[0]! < 1 && shape[0] === 1 && items > 1)
    return `has ${shape[0]} items, and the request ${items}`
  return undefined
}

/**
 * Checks the model named by an answer.
 * @param modelName model named by the answer; not a text where the server names none
 */
export const findModelFault = (modelName: unknown, requested: string): string | undefined =>
  typeof modelName === 'string' && modelName !== '' && modelName !== requested
    ? `from the model '${modelName}', not '${requested}'`
    : undefined

const uuidPattern = /^[\da-f]{8}-?([\da-f]{4}-?){3}[\da-f]{12}$/i

/** Checks the id of an answer. Servers may omit it, or assign their own (TorchServe). */
export const findIdFault = (id: unknown, requestId: unknown): string | undefined =>
  typeof id === 'string' &&
  id !== '' &&
  typeof requestId === 'string' &&
  requestId !== '' &&
  id !== requestId &&
  !uuidPattern.test(id)
    ? `to the request '${id}', not '${requestId}'`
    : undefined

/** Nesting depth to which an answer is checked. */
const maxDepth = 3

/** Fields in which servers and gateways report errors. */
const errorFields = ['error', 'Error', 'exception', 'fault']

/**
 * Describes a missing answer, an error within the whole answer or one of its items, or numbers that
 * are not finite.
 */
export function findDocumentFault(value: unknown, location = 'it', depth = 0): string | undefined {
  if (value === null && location === 'it') return 'with null, which is no answer'
  if (value === 'NaN' || value === 'Infinity' || value === '-Infinity')
    return `${location} holds ${value}`
  if (Array.isArray(value)) return findListFault(value, location, depth)
  if (!isRecord(value)) return undefined
  const { errors, status, success, ok, code, message, detail } = value
  const ofLocation = location === 'it' ? '' : ` of ${location}`
  const error = errorFields
    .map((name) => value[name])
    .find((field) => field !== undefined && field !== null && field !== false && field !== '')
  if (error !== undefined) return `with the error${ofLocation} ${JSON.stringify(error)}`
  if (Array.isArray(errors) && errors.length > 0)
    return `with the error${ofLocation} ${JSON.stringify(errors[0])}`
  if (typeof status === 'string' && /^(error|fail(ed|ure)?)$/i.test(status))
    return `with the status${ofLocation} '${status}'`
  if (isErrorCode(status)) return `with the status${ofLocation} ${status}`
  if (isErrorCode(code) && typeof message === 'string')
    return `with the code${ofLocation} ${code}: ${JSON.stringify(message)}`
  // Complete error messages of FastAPI and Django for refused requests.
  if (detail !== undefined && location === 'it' && Object.keys(value).length === 1)
    return `with the error ${JSON.stringify(detail)}`
  if (success === false) return `with success: false${ofLocation}`
  if (ok === false) return `with ok: false${ofLocation}`
  if (depth === maxDepth) return undefined
  for (const [key, inner] of Object.entries(value)) {
    const fault = findDocumentFault(
      inner,
      location === 'it' ? `'${key}'` : `${location}.${key}`,
      depth + 1,
    )
    if (fault !== undefined) return fault
  }
  return undefined
}

const isErrorCode = (code: unknown): boolean =>
  typeof code === 'number' && code >= 400 && code < 600

function findListFault(
  list: readonly unknown[],
  location: string,
  depth: number,
): string | undefined {
  const isNumeric =
    list.length > 0 && list.every((value) => typeof value === 'number' || value === null)
  if (isNumeric && list.includes(null)) return `${location} holds null in place of a number`
  if (typeof list[0] === 'number') return undefined
  for (const [i, one] of list.entries()) {
    const fault = findDocumentFault(
      one,
      `${location}[${i}]`,
      Array.isArray(one) ? depth : depth + 1,
    )
    if (fault !== undefined) return fault
  }
  return undefined
}
