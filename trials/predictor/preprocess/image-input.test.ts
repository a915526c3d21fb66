import sharp from 'sharp'
import { describe, expect, test } from 'vitest'
import { decodeImage, ImageError } from './image-input.ts'

const plain = (width: number, height: number, background: string, channels: 3 | 4 = 3) =>
  sharp({ create: { width, height, channels, background } })

/** ImageNet's statistics, written down again. */
const normal = (value: number, channel: number) =>
  (value / 255 - [0.485, 0.456, 0.406][channel]!) / [0.229, 0.224, 0.225][channel]!

const expectPlain = (pixels: Float32Array, rgb: number[], within = 0.03) => {
  expect(pixels).toHaveLength(224 * 224 * 3)
  for (const pixel of [0, 17, 224 * 112 + 112, 224 * 224 - 1])
    for (let c = 0; c < 3; c++)
      expect(Math.abs(pixels[3 * pixel + c]! - normal(rgb[c]!, c))).toBeLessThan(within)
}

describe('images become normalised values', () => {
  test('PNG', async () =>
    expectPlain(
      await decodeImage(await plain(300, 400, '#ff8000').png().toBuffer(), 224, 224),
      [255, 128, 0],
    ))
  test('JPEG', async () =>
    expectPlain(
      await decodeImage(await plain(640, 480, '#205080').jpeg().toBuffer(), 224, 224),
      [32, 80, 128],
    ))
  test('smaller than the input', async () =>
    expectPlain(
      await decodeImage(await plain(3, 2, '#ffffff').png().toBuffer(), 224, 224),
      [255, 255, 255],
    ))
  test('grey', async () => {
    const grey = await plain(50, 50, '#808080').toColourspace('b-w').png().toBuffer()
    expect((await sharp(grey).metadata()).channels).toBe(1)
    expectPlain(await decodeImage(grey, 224, 224), [128, 128, 128])
  })
  test('transparent: on black', async () =>
    expectPlain(
      await decodeImage(await plain(50, 50, '#ffffff00', 4).png().toBuffer(), 224, 224),
      [0, 0, 0],
    ))
  test('CMYK', async () => {
    const cmyk = await plain(64, 64, '#ffffff').toColourspace('cmyk').jpeg().toBuffer()
    expect((await sharp(cmyk).metadata()).channels).toBe(4)
    expectPlain(await decodeImage(cmyk, 224, 224), [255, 255, 255], 0.1)
  })
})

test('the crop keeps the centre: of a wide image red, green, blue only green', async () => {
  const stripe = (left: number, colour: string) =>
    plain(200, 200, colour)
      .png()
      .toBuffer()
      .then((input) => ({ input, left, top: 0 }))
  const image = await plain(600, 200, '#000000')
    .composite(
      await Promise.all([stripe(0, '#ff0000'), stripe(200, '#00ff00'), stripe(400, '#0000ff')]),
    )
    .png()
    .toBuffer()
  expectPlain(await decodeImage(image, 224, 224), [0, 255, 0])
})

test('rows and columns are where they were', async () => {
  const left = await plain(100, 200, '#ff0000').png().toBuffer()
  const image = await plain(200, 200, '#0000ff')
    .composite([{ input: left, left: 0, top: 0 }])
    .png()
    .toBuffer()
  const pixels = await decodeImage(image, 10, 20)
  const red = (row: number, column: number) => pixels[(row * 20 + column) * 3]!
  expect(pixels).toHaveLength(600)
  expect(red(5, 2)).toBeCloseTo(normal(255, 0), 1)
  expect(red(5, 17)).toBeCloseTo(normal(0, 0), 1)
})

describe('bytes that are no image are refused', () => {
  test.each([
    ['nothing', Buffer.alloc(0), /not a JPEG or PNG image: 0 bytes/],
    [
      'text',
      Buffer.from('GIF89a, or so'),
      /not a JPEG or PNG image: 13 bytes that begin with 4749463839612c20/,
    ],
    [
      'a PNG head with rubbish',
      Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.alloc(100, 7)]),
      /does not decode/,
    ],
  ])('%s', async (_, bytes, message) => {
    const failure = decodeImage(bytes, 224, 224)
    await expect(failure).rejects.toThrow(ImageError)
    await expect(failure).rejects.toThrow(message)
  })

  test('a file cut short', async () => {
    const noise = sharp({
      create: {
        width: 300,
        height: 300,
        channels: 3,
        background: '#000',
        noise: { type: 'gaussian', mean: 128, sigma: 60 },
      },
    })
    const whole = await noise.jpeg().toBuffer()
    await expect(decodeImage(whole.subarray(0, whole.length / 2), 224, 224)).rejects.toThrow(
      /does not decode/,
    )
  })

  test('more pixels than can be meant', async () => {
    const huge = await plain(6000, 6000, '#000').png({ compressionLevel: 1 }).toBuffer()
    await expect(decodeImage(huge, 224, 224)).rejects.toThrow(
      /does not decode: Input image exceeds pixel limit/,
    )
  })
})
