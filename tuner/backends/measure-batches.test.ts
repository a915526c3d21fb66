import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { protocolFor, type Target } from '../../profiler/index.ts'
import { measureBatches } from './measure-batches.ts'

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

/** A server of tensors: `msOf(n, items)` for its n-th request; 413 beyond `mostItems`. */
async function serving(
  msOf: (n: number, items: number) => number,
  mostItems = Number.POSITIVE_INFINITY,
): Promise<string> {
  let asked = 0
  server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      response.setHeader('content-type', 'application/json')
      if (request.method === 'GET')
        return response.end(
          JSON.stringify({
            name: 'm',
            inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }],
            outputs: [],
          }),
        )
      const items = (
        JSON.parse(Buffer.concat(chunks).toString()) as { inputs: [{ shape: number[] }] }
      ).inputs[0].shape[0]!
      if (items > mostItems) response.statusCode = 413
      const body = JSON.stringify({
        outputs: [{ name: 'y', datatype: 'FP32', shape: [items, 1], data: Array(items).fill(0) }],
      })
      setTimeout(() => response.end(body), msOf(asked++, items))
    })
  })
  await new Promise<void>((listening) => server!.listen(0, '127.0.0.1', listening))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const measure = (url: string, readings: number[] = []) =>
  measureBatches(
    {
      target: { kind: 'http', url, serverPids: () => [] } as unknown as Target,
      usage: async () => ({}) as never,
    },
    {
      protocol: protocolFor('oip-v2'),
      model: 'm',
      payload: { kind: 'generated', count: 4, seed: 1 },
      batches: [1, 4, 16],
      processes: 1,
      onPoint: ({ batch }) => readings.push(batch),
    },
    AbortSignal.timeout(60_000),
  )

test('a server that warms by its requests is measured warm: the first sizes are read no colder than the last', {
  timeout: 60_000,
}, async () => {
  const readings: number[] = []
  const { points, faster } = await measure(await serving((n) => (n < 25 ? 120 : 40)), readings)
  expect(points.map(({ batch }) => batch)).toEqual([1, 4, 16])
  for (const { latencyMs } of points) expect(latencyMs).toBeLessThan(80)
  // Of a busy machine it may be noise.
  expect(faster ?? 0).toBeLessThan(0.5)
  expect(readings.slice(0, 6)).toEqual([1, 4, 16, 1, 4, 16])
})

test('one that goes on getting faster is measured all the same, and said to', {
  timeout: 60_000,
}, async () => {
  const { points, faster } = await measure(await serving((n) => 20 + 100 * 0.99 ** n))
  expect(points).toHaveLength(3)
  expect(faster).toBeGreaterThan(0.05)
})

test('the first size that is refused ends the sizes', { timeout: 60_000 }, async () => {
  const { points, refused, saturation } = await measure(await serving(() => 20, 8))
  expect(refused).toBe(16)
  expect(saturation).toMatchObject({ connections: 16 })
  expect(saturation!.rps).toBeGreaterThan(200)
  expect(points.map(({ batch }) => batch)).toEqual([1, 4])
})
