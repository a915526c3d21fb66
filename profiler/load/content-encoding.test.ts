import { brotliCompressSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { decodeBody } from './content-encoding.ts'

async function* parts(...chunks: readonly (Uint8Array | Error)[]) {
  for (const chunk of chunks) {
    if (chunk instanceof Error) throw chunk
    yield chunk
  }
}

async function whole(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks)
}

test('a body in pieces of one byte is read whole', async () => {
  const bytes = [...gzipSync('three little words')].map((byte) => Buffer.from([byte]))
  expect((await whole(decodeBody(parts(...bytes), 'GZIP'))).toString()).toBe('three little words')
})

test('an interrupted body keeps its own error; an invalid body names its encoding', async () => {
  await expect(
    whole(
      decodeBody(parts(gzipSync('x').subarray(0, 5), new Error('the connection was lost')), 'gzip'),
    ),
  ).rejects.toThrow('the connection was lost')
  await expect(whole(decodeBody(parts(Buffer.from('{"outputs": 1}')), 'gzip'))).rejects.toThrow(
    'the body is not valid gzip',
  )
  await expect(whole(decodeBody(parts(Buffer.from('{}')), 'zstd'))).rejects.toThrow(
    'the body is not valid zstd',
  )
})

test('a decompression bomb is decoded only as far as it is read, and its source is closed', async () => {
  let asked = 0
  let letGo = false
  async function* bomb() {
    try {
      const mebibyte = brotliCompressSync(Buffer.alloc(2 ** 20))
      for (;;) {
        asked++
        yield asked === 1 ? mebibyte : Buffer.alloc(2 ** 16)
      }
    } finally {
      letGo = true
    }
  }
  for await (const chunk of decodeBody(bomb(), 'br')) {
    expect(chunk.length).toBeLessThanOrEqual(2 ** 16)
    // Time enough to decode it whole, were it not held back.
    for (let i = 0; i < 1000; i++) await new Promise((resolve) => setImmediate(resolve))
    break
  }
  expect(asked).toBeLessThan(20)
  expect(letGo).toBe(true)
})
