/** Generated content (texts, images, tensor values), and request bodies from a file. */
import { getHint, readBytes, readText } from '../bounded-reader.ts'
import type { RequestBody } from '../model/target.ts'
import { PayloadError } from '../profiler-errors.ts'
import { sampleNormal, type Uniform } from '../seeded-random.ts'
import { countElements } from './tensor-bytes.ts'

const words =
  `the of and to in is that for it was on are as with they be at one have this from by had not but what all were when we there can an your which their if will each about how up out
  them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water
  long little very after called just where most know get through back much before go good new write our used me man too any day same right look think also around another came come work
  three word must because does part even place well such here take why things help put years different away again off went old number great tell men say small every found still between
  name should home big give air line set own under read last never us left end along while might next sound below saw something thought both few those always looked show large often
  together asked house world going want school important until form food keep children feet land side without boy once animals life enough took sometimes four head above kind began almost
  live page got earth need far hand high year mother light parts country father let night following picture being study second eyes soon times story boys since white days ever paper hard
  near sentence better best across during today others however sure means knew try told young miles sun ways thing whole hear example heard several change answer room sea against top
  turned learn point city play toward five using himself usually`.split(/\s+/)

/**
 * Draws a common word, with Zipf-like frequencies: the list is ordered, and u³ favours its head.
 */
export const drawWord = (uniform: Uniform): string =>
  words[Math.floor(words.length * uniform() ** 3)]!

/** Draws an English-like text of 20 to 60 words, in sentences. */
export function drawText(uniform: Uniform): string {
  const length = 20 + Math.floor(uniform() * 41)
  const text: string[] = []
  let wordsLeft = 0
  for (let i = 0; i < length; i++) {
    let word = drawWord(uniform)
    if (wordsLeft === 0) {
      wordsLeft = 6 + Math.floor(uniform() * 12)
      word = word[0]!.toUpperCase() + word.slice(1)
    }
    if (--wordsLeft === 0 || i === length - 1) word += '.'
    text.push(word)
  }
  return text.join(' ')
}

/** Draws a photograph-like JPEG (smooth colours, edges and grain), by default 640 × 480. */
export async function drawImage(uniform: Uniform, width = 640, height = 480): Promise<Buffer> {
  const { default: sharp } = await import('sharp')
  const [coarseWidth, coarseHeight] = [16, 12]
  const coarse = Buffer.from(
    Array.from({ length: coarseWidth * coarseHeight * 3 }, () => Math.floor(uniform() * 256)),
  )
  const smooth = await sharp(coarse, {
    raw: { width: coarseWidth, height: coarseHeight, channels: 3 },
  })
    .resize(width, height, { kernel: 'cubic' })
    .raw()
    .toBuffer()
  for (let i = 0; i < smooth.length; i++)
    smooth[i] = Math.min(255, Math.max(0, smooth[i]! + 8 * sampleNormal(uniform)))
  return sharp(smooth, { raw: { width, height, channels: 3 } })
    .jpeg({ quality: 85 })
    .toBuffer()
}

/** A tensor as declared by the metadata of a model. */
export interface TensorInput {
  readonly name: string
  readonly kind: 'text' | 'image' | 'integer' | 'float' | 'boolean'
  /** Shape for one request of one item; every dimension known. */
  readonly shape: readonly number[]
  /** Largest integer of the datatype. Absent: larger than all generated values. */
  readonly maxValue?: number
}

/** An input whose first dimension may be the batch. */
export interface BatchedInput extends TensorInput {
  /** The first declared dimension has any size, so it is the batch. */
  readonly hasBatchDimension: boolean
}

const imageName = /image|jpe?g|png|picture|photo/i

/**
 * Describes an input for the generation of its values. Inputs of bytes are texts or images, by their
 * name.
 * @param datatype of the Open Inference Protocol; BYTES and STRING are bytes
 * @param declared shape; sizes below 1 are free. A leading one is the batch, 1 here; the others get
 * a typical length for their name: 224 pixels, or 128 tokens
 */
export function describeInput(
  name: string,
  datatype: string,
  declared: readonly number[],
): BatchedInput {
  const isBytes = datatype === 'BYTES' || datatype === 'STRING'
  const isImage = imageName.test(name)
  const [, unsigned, bits] = /^(U?)INT(8|16)$/.exec(datatype) ?? []
  return {
    name,
    kind: isBytes
      ? isImage
        ? 'image'
        : 'text'
      : datatype === 'BOOL'
        ? 'boolean'
        : /^U?INT/.test(datatype)
          ? 'integer'
          : 'float',
    shape: declared.map((size, i) =>
      size > 0 ? size : isBytes || i === 0 ? 1 : isImage || declared.length === 4 ? 224 : 128,
    ),
    maxValue: bits === undefined ? undefined : 2 ** (Number(bits) - (unsigned ? 0 : 1)) - 1,
    hasBatchDimension: declared.length > 0 && !(declared[0]! > 0),
  }
}

/** Throws a PayloadError for several items where the input has no batch dimension. */
export function checkItems({ name, shape, hasBatchDimension }: BatchedInput, items: number): void {
  if (items > 1 && !hasBatchDimension)
    throw new PayloadError(
      `the model's input '${name}' has the fixed shape [${shape.join(', ')}], and requests have ${items} items`,
      'leave out items, or serve the model with a dynamic batch dimension',
    )
}

/**
 * Draws row-major values of a numeric tensor: token ids below 20,000 (non-negative values that fit,
 * for narrow types), masks of ones, segment ids of zeros, floats in [-1, 1).
 */
export function drawNumericValues(
  { name, kind, shape, maxValue }: TensorInput,
  uniform: Uniform,
): (number | boolean)[] {
  const length = countElements(shape)
  const drawValue = (): number | boolean => {
    if (kind === 'boolean') return uniform() < 0.5
    if (kind === 'float') return Math.round((2 * uniform() - 1) * 1e4) / 1e4
    if (/mask/i.test(name)) return 1
    if (/segment|token_type|type_id/i.test(name)) return 0
    if (maxValue !== undefined && maxValue < 20_000) return Math.floor(uniform() * (maxValue + 1))
    return 1000 + Math.floor(uniform() * 19_000)
  }
  return Array.from({ length }, drawValue)
}

/**
 * Reads bodies from a JSON Lines file, one whole request body per line; with a content type the
 * whole file is one. Throws a PayloadError that names every bad line.
 */
export async function readBodies({
  path,
  contentType,
}: {
  path: string
  contentType?: string
}): Promise<RequestBody[]> {
  if (contentType !== undefined) return [{ contentType, body: readWhole(path, readBytes) }]
  return (await parseLines(path)).map(({ line }) => ({
    contentType: 'application/json',
    body: Buffer.from(line),
  }))
}

/** Reads the values of a JSON Lines file. Throws a PayloadError that names every bad line. */
export const readJsonLines = async (path: string): Promise<unknown[]> =>
  (await parseLines(path)).map(({ value }) => value)

function readWhole<T>(path: string, read: (path: string, kind: 'data') => T): T {
  try {
    return read(path, 'data')
  } catch (error) {
    throw new PayloadError(
      `payload file ${path} cannot be read: ${(error as Error).message}`,
      getHint(error),
    )
  }
}

/** Whether the text is one request over several lines. */
function isDocument(text: string): boolean {
  const trimmed = text.trim()
  if (!/^\{\s*\n/.test(trimmed)) return false
  try {
    JSON.parse(trimmed)
    return true
  } catch {
    return false
  }
}

/** Bad lines that a message names. */
const maxNamedFaults = 5

/** Parses JSON Lines, or a file with a single document over several lines. */
async function parseLines(path: string): Promise<{ line: string; value: unknown }[]> {
  const text = readWhole(path, readText)
  if (isDocument(text)) return [{ line: text.trim(), value: JSON.parse(text) }]
  const lines: { line: string; value: unknown }[] = []
  const faults: string[] = []
  for (const [i, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    try {
      lines.push({ line, value: JSON.parse(line) })
    } catch (error) {
      faults.push(`${path}:${i + 1}: ${(error as Error).message}`)
    }
  }
  if (faults.length > 0) {
    const unnamedCount = faults.length - maxNamedFaults
    const more = unnamedCount > 0 ? ` and ${unnamedCount} more lines` : ''
    throw new PayloadError(
      `no JSON Lines: ${faults.slice(0, maxNamedFaults).join('; ')}${more}`,
      'one whole request body, as JSON, on each line',
    )
  }
  if (lines.length === 0)
    throw new PayloadError(
      `${path}:1: no request body`,
      'one whole request body, as JSON, on each line',
    )
  return lines
}
