import { brotliCompressSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { decoded } from './content-encoding.ts'

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
  expect((await whole(decoded(parts(...bytes), 'GZIP'))).toString()).toBe('three little words')
})

test('what ends a body early stays what it was; what is not of the encoding is told as that', async () => {
  await expect(
    whole(
      decoded(parts(gzipSync('x').subarray(0, 5), new Error('the connection was lost')), 'gzip'),
    ),
  ).rejects.toThrow('the connection was lost')
  await expect(whole(decoded(parts(Buffer.from('{"outputs": 1}')), 'gzip'))).rejects.toThrow(
    'a body that is no gzip',
  )
  await expect(whole(decoded(parts(Buffer.from('{}')), 'zstd'))).rejects.toThrow(
    'a body that is no zstd',
  )
})

test('a bomb is decoded only as far as it is read, and its source let go', async () => {
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
  for await (const chunk of decoded(bomb(), 'br')) {
    expect(chunk.length).toBeLessThanOrEqual(2 ** 16)
    // Time enough to decode it whole, were it not held back.
    for (let i = 0; i < 1000; i++) await new Promise((resolve) => setImmediate(resolve))
    break
  }
  expect(asked).toBeLessThan(20)
  expect(letGo).toBe(true)
})
