import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HttpLoadGenerator } from '../../profiler/index.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { targetAt } from '../../profiler/testing/servers.ts'
import { okBody } from '../../profiler/testing/service.ts'
import { addMetrics, enforceBounds, type MetricsRequest } from './server-metrics.ts'

const generator = new HttpLoadGenerator()
let requests = 0
const server = createServer((request, response) => {
  if (request.url === '/metrics' && request.headers['x-key'] === 'k')
    return response.end(
      `# TYPE requests_total counter\nrequests_total ${requests}\n# TYPE depth gauge\ndepth{m="a"} 3\n`,
    )
  if (request.method === 'GET') return response.writeHead(404).end()
  requests++
  request.resume().on('end', () => response.end(okBody))
})
let url = ''
beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(async () => {
  await generator.close()
  server.closeAllConnections()
  server.close()
})

/** For what no length of the load changes. */
const brief: HttpLoadGenerator['play'] = (target, load, signal) =>
  generator.play(target, { ...load, durationS: 0.8 }, signal)

const measured = { capacityRps: 100, caveats: [] } as unknown as Measurement
const readFrom = async (
  target: ReturnType<typeof targetAt>,
  asked: MetricsRequest['asked'],
  directUrl?: string,
  play = brief,
) => {
  const how = { asked, arrivals: { kind: 'constant' }, seed: 1, directUrl } as const
  const load = { name: 'http', play, run: generator.run, close: async () => {} }
  return (await addMetrics(measured, how, target, load, new AbortController().signal)).metrics!
}
const wholeWindow: HttpLoadGenerator['play'] = (...load) => generator.play(...load)
const readWith = (play: HttpLoadGenerator['play'], ...asked: MetricsRequest['asked']) =>
  readFrom({ ...targetAt(url), headers: { 'x-key': 'k' } }, asked, undefined, play)
const read = (...asked: MetricsRequest['asked']) => readWith(brief, ...asked)

test('they are read while the load runs, as it is asked itself', async () => {
  const [rate, depth] = await readWith(
    wholeWindow,
    { name: 'requests_total', max: 50, from: '/metrics' },
    { name: 'depth', from: `${url}/metrics` },
  )
  // Of a busy machine only that it was under load, and how heavy about.
  expect(rate!.value).toBeGreaterThan(30)
  expect(rate!.value).toBeLessThan(300)
  expect(depth).toEqual({ name: 'depth', value: 3 })
})

test('of the time under load alone, however long the load takes to begin', async () => {
  const play: HttpLoadGenerator['play'] = async (...load) => {
    await sleep(1500)
    return generator.play(...load)
  }
  const how = {
    asked: [{ name: 'requests_total', from: '/metrics' }],
    arrivals: { kind: 'constant' },
    seed: 1,
  } as const
  const target = { ...targetAt(url), headers: { 'x-key': 'k' } }
  const late = { name: 'late', play, run: generator.run, close: async () => {} }
  const { metrics } = await addMetrics(measured, how, target, late, new AbortController().signal)
  expect(metrics![0]!.value).toBeGreaterThan(75)
  expect(metrics![0]!.value).toBeLessThan(300)
})

test.each([
  [{ name: 'dept', from: '/metrics' }, /no dept at .*\/metrics$/, /did you mean depth/],
  [
    { name: 'depth', labels: { m: 'b' }, from: '/metrics' },
    /no depth\{m="b"\}/,
    /none with these labels/,
  ],
  [{ name: 'depth', from: '/metric' }, /\/metric answers 404/, /from: \/metrics/],
])('what is not there is named, with what there is: %o', async (asked, message, hint) => {
  await expect(read(asked)).rejects.toMatchObject({
    name: 'LaunchError',
    message: expect.stringMatching(message),
    hint: expect.stringMatching(hint),
    final: 'experiment',
  })
})

test('another port, or host, is asked without the keys of the server', async () => {
  const seen: (string | undefined)[] = []
  const asked: (string | undefined)[] = []
  const other = createServer((request, response) => {
    seen.push(request.headers['x-key'] as string | undefined)
    asked.push(request.url)
    response.end('# TYPE depth gauge\ndepth 4\n')
  })
  other.listen(0, '127.0.0.1')
  await once(other, 'listening')
  try {
    const { port } = other.address() as AddressInfo
    const places = [`http://127.0.0.1:${port}/metrics`, `:${port}/metrics`, `:${port}`]
    const depths = await read(...places.map((from) => ({ name: 'depth', from })))
    expect(depths.map(({ value }) => value)).toEqual([4, 4, 4])
    // Of a server that the load reaches another way: its own port, at its own address.
    const [depth] = await readFrom(
      targetAt(url),
      [{ name: 'depth', from: '/' }],
      `http://127.0.0.1:${port}`,
    )
    expect(depth!.value).toBe(4)
    expect(new Set(seen)).toEqual(new Set([undefined]))
    // Two servers of one host: its port is one place, asked once before, and every half second of
    // three and what it takes to begin, as often as one that is named whole.
    asked.length = 0
    const { path, headers } = targetAt(url)
    const twice = {
      ...targetAt(url),
      replicas: [1, 2].map((weight) => ({ url, path, headers, weight })),
    }
    await readFrom(
      twice,
      [`:${port}`, `http://127.0.0.1:${port}/whole`].map((from) => ({ name: 'depth', from })),
      undefined,
      wholeWindow,
    )
    const ofPort = asked.filter((path) => path === '/metrics').length
    expect(ofPort).toBeGreaterThan(4)
    expect(ofPort).toBe(asked.filter((path) => path === '/whole').length)
  } finally {
    other.closeAllConnections()
    other.close()
  }
})

test('servers that share a load are all read, each with its own keys, and the one that lacks a metric is named', async () => {
  const pages = ['depth 9\nasked_total 0\n', 'asked_total 0\n']
  const keys: (string | undefined)[] = []
  const others = pages.map((page) =>
    createServer((request, response) => {
      if (request.method === 'GET') keys.push(request.headers['x-key'] as string | undefined)
      if (request.method === 'GET') return response.end(page)
      request.resume().on('end', () => response.end(okBody))
    }).listen(0, '127.0.0.1'),
  )
  await Promise.all(others.map((other) => once(other, 'listening')))
  try {
    const urls = others.map((other) => `http://127.0.0.1:${(other.address() as AddressInfo).port}`)
    const own = { ...targetAt(url), headers: { 'x-key': 'k' } }
    const { path } = own
    const spreadTo = (i: number) => ({
      ...own,
      replicas: [
        { url, path, headers: own.headers, weight: 1 },
        { url: urls[i]!, path, headers: { 'x-key': 'other' }, weight: 1 },
      ],
    })
    const of = (i: number) => readFrom(spreadTo(i), [{ name: 'depth', from: '/metrics' }])
    expect(await of(0)).toEqual([{ name: 'depth', value: 9 }])
    expect(new Set(keys)).toEqual(new Set(['other']))
    await expect(of(1)).rejects.toMatchObject({
      message: `metrics: no depth at ${urls[1]}/metrics`,
    })
  } finally {
    for (const other of others) {
      other.closeAllConnections()
      other.close()
    }
  }
})

test('what is over its bound is said with its figures: a trial is infeasible, a confirmation has a caveat', () => {
  const found = (
    capacityRps: number,
    ...metrics: NonNullable<Measurement['metrics']>
  ): Measurement => ({
    ...measured,
    capacityRps,
    metrics,
  })
  const over = found(
    212.34,
    { name: 'a', value: 5 },
    { name: 'b', labels: { m: 'x' }, max: 0.9, value: 0.97123 },
  )
  const words = 'b{m="x"} is 0.9712 at 212 requests per second, over its bound of 0.9'
  expect(() => enforceBounds(over, 'trial', undefined)).toThrow(
    expect.objectContaining({ reason: 'over-bound', message: words }),
  )
  expect(enforceBounds(over, 'confirmation', undefined)).toEqual({ ...over, caveats: [words] })
  const kept = found(1, { name: 'b', max: 0.9, value: 0.9 })
  expect(enforceBounds(kept, 'trial', undefined)).toBe(kept)
})

test('what the server did not report is over no bound, and a caveat says that it was not checked', () => {
  const unknown: Measurement = {
    ...measured,
    capacityRps: 1,
    metrics: [{ name: 'b', max: 0.9, value: Number.NaN }],
  }
  expect(enforceBounds(unknown, 'trial', undefined).caveats).toEqual([
    'b is unknown: the server did not report it under load, so its bound of 0.9 was not checked',
  ])
})
