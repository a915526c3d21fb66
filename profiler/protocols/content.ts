/**
 * Content of requests, item by item: generated, or taken in order from the user's texts and images.
 * Image files also fill numeric tensors that have the layout of an image.
 */
import { open, readdir } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { getHint, readBytes, readText } from '../bounded-reader.ts'
import { defaultCounts, type ItemSource, type PayloadSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { createUniform, shuffle } from '../seeded-random.ts'
import {
  drawImage,
  drawNumericValues,
  drawText,
  readBodies,
  type TensorInput,
} from './payload-pool.ts'
import { countElements } from './tensor-bytes.ts'

/** Endless supply of items; each call takes the next one. */
export interface Content {
  /** Number of items before they repeat; Infinity for generated ones. */
  readonly itemCount: number
  nextText(): string
  /** An image as the bytes of a file, JPEG or PNG. */
  nextImage(): Promise<Buffer>
  /** One item of a numeric input, row-major. */
  nextNumbers(input: TensorInput): Promise<(number | boolean)[]>
}

/**
 * Opens a source.
 * @throws PayloadError that names every unusable file
 */
export function openContent(source: ItemSource): Promise<Content> {
  if (source.kind === 'texts') return openTexts(source)
  return source.kind === 'images'
    ? openImages(source)
    : Promise.resolve(generateContent(source.seed))
}

/**
 * Checks a payload source.
 * @throws PayloadError that names every unusable file or line
 */
export async function checkPayload(source: PayloadSource): Promise<void> {
  if (source.kind === 'file') await readBodies(source)
  else await openContent(source)
}

function generateContent(seed: number): Content {
  const uniform = createUniform(seed)
  return {
    itemCount: Number.POSITIVE_INFINITY,
    nextText: () => drawText(uniform),
    nextImage: () => drawImage(uniform),
    nextNumbers: async (input) => drawNumericValues(input, uniform),
  }
}

async function openTexts({ path, seed }: Extract<ItemSource, { kind: 'texts' }>): Promise<Content> {
  const hint = 'one text a line, UTF-8'
  let lines: string[]
  try {
    lines = readText(path, 'data').split(/\r?\n/)
  } catch (error) {
    throw new PayloadError(
      `the file of texts cannot be read: ${(error as Error).message}`,
      getHint(error) ?? hint,
    )
  }
  const texts = lines.filter((line) => line.trim() !== '')
  if (texts.length === 0) throw new PayloadError(`${path}:1: no text`, hint)
  let next = 0
  return {
    ...generateContent(seed),
    itemCount: texts.length,
    nextText: () => texts[next++ % texts.length]!,
  }
}

/** First bytes of the image files that are accepted, by file name extension. */
const magicBytes: Readonly<Record<string, readonly number[]>> = {
  '.jpg': [0xff, 0xd8, 0xff],
  '.jpeg': [0xff, 0xd8, 0xff],
  '.png': [0x89, 0x50, 0x4e, 0x47],
}

async function openImages({
  path,
  seed,
  count,
}: Extract<ItemSource, { kind: 'images' }>): Promise<Content> {
  const hint = 'a folder with .jpg, .jpeg or .png files'
  let names: string[]
  try {
    names = (await readdir(path))
      .filter((name) => magicBytes[extname(name).toLowerCase()] !== undefined)
      .sort()
  } catch (error) {
    throw new PayloadError(`the image folder cannot be read: ${(error as Error).message}`, hint)
  }
  if (names.length === 0) throw new PayloadError(`${path} holds no images`, hint)
  // Shuffled, because the first names may not represent the folder.
  const files = shuffle(names, createUniform(seed)).map((name) => join(path, name))
  const unusable: string[] = []
  // Only as many files as the pool can use are checked.
  for (const file of files.slice(0, count ?? defaultCounts.bodies))
    if (!(await isImageFile(file))) unusable.push(file)
  if (unusable.length > 0)
    throw new PayloadError(
      `not an image, despite its name: ${unusable.sort().join(', ')}`,
      'remove or convert it',
    )
  const generated = generateContent(seed)
  let next = 0
  const nextFile = () => files[next++ % files.length]!
  return {
    ...generated,
    itemCount: files.length,
    nextImage: async () => readBytes(nextFile(), 'data'),
    nextNumbers: (input) =>
      detectLayout(input) === undefined
        ? generated.nextNumbers(input)
        : readPixels(nextFile(), input),
  }
}

async function isImageFile(file: string): Promise<boolean> {
  const magic = magicBytes[extname(file).toLowerCase()]!
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(magic.length), 0, magic.length, 0)
    return bytesRead === magic.length && buffer.equals(Buffer.from(magic))
  } finally {
    await handle.close()
  }
}

/**
 * Detects the layout of an image in a numeric tensor: its last three dimensions, channels first or
 * last. Undefined for other tensors.
 */
function detectLayout({
  shape,
  kind,
}: TensorInput):
  | { height: number; width: number; channels: 1 | 3; isChannelsFirst: boolean }
  | undefined {
  if (kind !== 'float' && kind !== 'integer') return undefined
  const [a, b, c] = shape.slice(-3)
  if (
    a === undefined ||
    b === undefined ||
    c === undefined ||
    shape.slice(0, -3).some((size) => size !== 1)
  )
    return undefined
  if (c === 3 || c === 1) return { height: a, width: b, channels: c, isChannelsFirst: false }
  return a === 3 || a === 1
    ? { height: b, width: c, channels: a, isChannelsFirst: true }
    : undefined
}

/**
 * Converts an image to the tensor of a model: scaled to cover its size, integers 0 to 255, floats 0
 * to 1.
 */
async function readPixels(file: string, input: TensorInput): Promise<number[]> {
  const { height, width, channels, isChannelsFirst } = detectLayout(input)!
  const { default: sharp } = await import('sharp')
  let bytes: Buffer
  try {
    const picture = sharp(file).resize(width, height, { fit: 'cover' }).flatten()
    bytes = await (channels === 1 ? picture.greyscale() : picture.toColourspace('srgb'))
      .raw()
      .toBuffer()
  } catch (error) {
    throw new PayloadError(
      `${file} cannot be decoded: ${(error as Error).message}`,
      'remove or convert it',
    )
  }
  // Signed bytes are quantised around zero.
  const offset = input.maxValue === 127 ? 128 : 0
  const toValue = (byte: number) =>
    input.kind === 'integer' ? byte - offset : Math.round((byte / 255) * 1e4) / 1e4
  const area = width * height
  return Array.from({ length: area * channels }, (_, i) =>
    toValue(isChannelsFirst ? bytes[(i % area) * channels + Math.floor(i / area)]! : bytes[i]!),
  )
}

/**
 * Limits on the values of one item over all inputs, and on its dimensions, beyond any real model.
 */
const maxValues = 2 ** 24
const maxDimensions = 32
/** Characters of a message that describe the inputs. */
const maxDescriptionChars = 400

/**
 * Matches a source to inputs. A folder of images fills image inputs and tensors laid out as images;
 * where there are none, all other inputs of bytes (kind 'text'). Throws a PayloadError where no
 * input fits the source, and for tensors that are too large.
 */
export function matchInputs<Input extends TensorInput>(
  source: ItemSource,
  inputs: readonly Input[],
): readonly Input[] {
  const description = `the model takes ${inputs.map(({ name, kind, shape }) => `${name} (${kind}, [${shape.join(', ')}])`).join(', ')}`
  const shortDescription =
    description.length > maxDescriptionChars
      ? `${description.slice(0, maxDescriptionChars)}…`
      : description
  const values = inputs.reduce((sum, { shape }) => sum + countElements(shape), 0)
  // Negated, so that a size that is no number (NaN) is refused.
  if (
    !(values <= maxValues) ||
    inputs.some(({ shape }) => shape.length > maxDimensions || !shape.every(Number.isSafeInteger))
  )
    throw new PayloadError(
      `${shortDescription}: a request may have at most ${maxValues.toLocaleString('en-US')} values, and ${maxDimensions} dimensions`,
      'give request bodies in a JSON Lines file (--payload)',
    )
  if (source.kind === 'texts' && !inputs.some(({ kind }) => kind === 'text'))
    throw new PayloadError(
      `${source.path} holds texts, but ${shortDescription}`,
      'give request bodies in a JSON Lines file',
    )
  if (
    source.kind !== 'images' ||
    inputs.some((input) => input.kind === 'image' || detectLayout(input) !== undefined)
  )
    return inputs
  if (!inputs.some(({ kind }) => kind === 'text'))
    throw new PayloadError(
      `${source.path} holds images, but ${shortDescription}`,
      'give request bodies in a JSON Lines file',
    )
  return inputs.map((input) => (input.kind === 'text' ? { ...input, kind: 'image' } : input))
}
