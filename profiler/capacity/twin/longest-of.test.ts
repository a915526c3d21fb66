import fc from 'fast-check'
import { quantileSorted } from 'simple-statistics'
import { expect, test } from 'vitest'
import { gamma, normal, seeded, type Uniform } from '../../seeded-random.ts'
import { QueueServer, type QueueServerOptions } from '../../testing/queue-server.ts'
import type { Load } from '../../types.ts'
import { VirtualLoadGenerator } from '../../virtual/virtual-generator.ts'
import { asLongFor, longestOf, longestSeen, ranksIn } from './longest-of.ts'
import { type Steps, stepsOf } from './steps.ts'

const { signal } = new AbortController()
const batchesOf = (batches: readonly (readonly [size: number, ms: number])[]): Steps => {
  const sizes = batches.map(([size]) => size)
  const none = sizes.map(() => 0)
  return {
    present: sizes,
    departed: sizes,
    tookMs: batches.map(([, ms]) => ms),
    rank: none,
    endedMs: none,
    spreadMs: none,
  }
}
const aloneMs = (uniform: Uniform) => 20 * Math.exp(0.5 * normal(uniform))
const longest = (size: number, uniform: Uniform, each = 0) =>
  (1 + each * size) * Math.max(...Array.from({ length: size }, () => aloneMs(uniform)))
const padded =
  (each: number): QueueServerOptions['serviceMs'] =>
  (size, uniform) =>
    longest(size, uniform, each)

test('of requests that are served alone it is their own distribution', () => {
  const ranks = ranksIn(
    longestOf(batchesOf([4, 1, 3, 2].map((ms) => [1, ms])), 0),
    batchesOf([1, 2, 3, 4].map((ms) => [1, ms])),
  )
  expect(ranks).toEqual([0.125, 0.375, 0.625, 0.875].map((share) => expect.closeTo(share, 12)))
})

test('small batches foretell large ones, and large ones what a request takes alone', () => {
  const uniform = seeded(5)
  const drawn = (sizes: number[], each: number) =>
    batchesOf(
      sizes.flatMap((size) =>
        Array.from({ length: 500 }, () => [size, longest(size, uniform, each)] as const),
      ),
    )
  const median = (steps: Steps) =>
    quantileSorted(
      steps.tookMs.toSorted((a, b) => a - b),
      0.5,
    )
  for (const [sizes, other, each] of [
    [[1, 2, 4], 16, 0],
    [[8, 16], 2, 0],
    [[2, 4], 8, 0.2],
  ] as const) {
    const seen = drawn([...sizes], each)
    const model = longestOf(seen, each)
    const foretold = seen.tookMs.map((ms, i) => asLongFor(model, ms, seen.departed[i]!, other))
    expect(
      median(batchesOf(foretold.map((ms) => [other, ms]))) / median(drawn([other], each)),
    ).toBeCloseTo(1, 1)
  }
})

test('a batch takes as long as it was seen to, and the longer the larger', () => {
  const batch = fc.tuple(
    fc.integer({ min: 1, max: 32 }),
    fc.double({ min: 1, max: 1000, noNaN: true }),
  )
  fc.assert(
    fc.property(
      fc.array(batch, { minLength: 2, maxLength: 60 }),
      fc.constantFrom(0, 0.1, 1),
      (batches, each) => {
        const model = longestOf(batchesOf(batches), each)
        for (const [size, ms] of batches) {
          expect(asLongFor(model, ms, size, size)).toBe(ms)
          const sizes = [1, 2, 5, 40].map((other) => asLongFor(model, ms, size, other))
          for (let i = 1; i < sizes.length; i++)
            expect(sizes[i]!).toBeGreaterThanOrEqual(sizes[i - 1]! - 1e-9)
        }
      },
    ),
  )
})

const open = (rateRps: number, seed: number): Load => ({
  kind: 'open',
  rateRps,
  durationS: 6,
  arrivals: { kind: 'poisson' },
  seed,
})
async function seenOf(serviceMs: QueueServerOptions['serviceMs'], rateRps: number) {
  const target = {
    kind: 'virtual',
    server: new QueueServer({ seed: 1, servers: 1, maxBatch: 16, serviceMs }),
  } as const
  const play = async (load: Load) =>
    stepsOf(await new VirtualLoadGenerator().play(target, load, signal), 1)
  const loops = [
    await play({ kind: 'closed', connections: 4, durationS: 3 }),
    await play({ kind: 'closed', connections: 16, durationS: 3 }),
  ]
  return longestSeen(
    [await play(open(0.3 * rateRps, 3)), await play(open(0.7 * rateRps, 4))],
    loops,
    16,
  )
}

test('it shows in how batches of each size scatter', async () => {
  expect(await seenOf(padded(0), 200)).toMatchObject({
    longestEach: 0,
    workers: 1,
    most: 16,
    delayMs: 0,
  })
  const growing = (await seenOf(padded(0.2), 80))!
  expect(growing.longestEach).toBeGreaterThan(0.05)
  expect(growing.longestEach).toBeLessThan(0.6)
  expect(growing.loops).toHaveLength(2)
})

test.each<[string, QueueServerOptions['serviceMs'], number]>([
  ['by a line over its size', (size) => 10 + 2 * size, 300],
  ['by a line, with scatter', (size, uniform) => (10 + 2 * size) * gamma(uniform, 25), 300],
  [
    'padded to powers of two',
    (size, uniform) => (10 + 2 * 2 ** Math.ceil(Math.log2(size))) * gamma(uniform, 100),
    250,
  ],
  [
    'now and then for a while twice as long',
    (size, _, atMs) => (10 + 2 * size) * (atMs % 900 < 200 ? 2 : 1),
    250,
  ],
])('and is not said of a server whose batches take %s', async (_, serviceMs, rateRps) => {
  expect(await seenOf(serviceMs, rateRps)).toBeUndefined()
})
