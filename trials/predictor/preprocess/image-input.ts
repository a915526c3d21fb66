/**
 * Images as the networks were trained on them: short side resized, centre cropped, normalised by
 * ImageNet's statistics.
 */
import sharp from 'sharp'
import type { DecodeImage } from '../preprocess.ts'

// One of several CPU workers: it shall not spread over the cores of the others.
sharp.concurrency(1)
sharp.cache(false)

/**
 * Share of the resized image's sides that the crop keeps: 224 of 256 (Krizhevsky et al. 2012,
 * section 5).
 */
const cropShare = 0.875
/**
 * Mean and standard deviation of red, green and blue over ImageNet's training images, of values in
 * 0-1 (torchvision).
 */
const mean = [0.485, 0.456, 0.406] as const
const deviation = [0.229, 0.224, 0.225] as const
/** 25 megapixels decode in about a second; more is taken for an attack. */
const maxPixels = 25_000_000

/** Bytes that cannot be made an image of. */
export class ImageError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ImageError'
  }
}

/**
 * Decodes a JPEG or PNG, resizes its short side, crops the centre and normalises.
 * Resolves with height×width×3 values, row-major. Rejects with ImageError when the bytes are no
 * whole JPEG or PNG of at most 25 megapixels.
 */
export const decodeImage: DecodeImage = async (bytes, height, width) => {
  if (!isJpeg(bytes) && !isPng(bytes))
    throw new ImageError(
      `not a JPEG or PNG image: ${bytes.length} bytes that begin with ${Buffer.from(bytes.subarray(0, 8)).toString('hex') || 'nothing'}`,
    )
  const [tall, wide] = [Math.round(height / cropShare), Math.round(width / cropShare)]
  const pixels = await sharp(bytes, { limitInputPixels: maxPixels })
    .resize(wide, tall, { fit: 'cover', kernel: 'linear' })
    .extract({ left: (wide - width) >> 1, top: (tall - height) >> 1, width, height })
    .flatten()
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
    .catch((error: Error) => {
      throw new ImageError(`the image does not decode: ${error.message.replace(/\s+/g, ' ')}`)
    })
  return normalise(pixels.data, pixels.info.channels, height * width)
}

const isJpeg = (bytes: Uint8Array) => bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff
const isPng = (bytes: Uint8Array) =>
  bytes[0] === 0x89 && bytes[1] === 0x50 && bytes[2] === 0x4e && bytes[3] === 0x47

/** (value/255 - mean) / deviation for each of three channels, by table. */
function normalise(values: Uint8Array, channels: number, pixels: number): Float32Array {
  const normalised = new Float32Array(3 * pixels)
  for (let pixel = 0; pixel < pixels; pixel++)
    for (let c = 0; c < 3; c++)
      normalised[3 * pixel + c] = tables[c]![values[channels * pixel + (channels < 3 ? 0 : c)]!]!
  return normalised
}
const tables = [0, 1, 2].map((c) =>
  Float32Array.from({ length: 256 }, (_, value) => (value / 255 - mean[c]!) / deviation[c]!),
)
