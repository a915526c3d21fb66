import { describe, expect, test } from 'vitest'
import type { Target } from '../model/target.ts'
import { sampleNormal, type Uniform } from '../seeded-random.ts'
import { QueueServer, type QueueServerOptions } from '../testing/queue-server.ts'
import { SharingServer } from '../testing/sharing-server.ts'
import { type KnownServer, loadGeneratorContract } from './load-generator.contract.ts'
import { VirtualLoadGenerator } from './virtual-generator.ts'

const virtual = (
  options: Partial<QueueServerOptions> & Pick<QueueServerOptions, 'serviceMs'>,
): Target => ({
  kind: 'virtual',
  server: new QueueServer({ seed: 1, servers: 1, maxBatch: 1, ...options }),
})
const unqueued = 1000
const lognormal = (_: number, uniform: Uniform) => 20 * Math.exp(0.5 * sampleNormal(uniform))

const known = (): KnownServer[] => [
  {
    name: 'fixed 51 ms',
    target: virtual({ servers: unqueued, serviceMs: () => 51 }),
    rateRps: 40,
    p50Ms: 51,
    p99Ms: 51,
    errorShare: 0,
  },
  {
    name: 'fixed 5 ms',
    target: virtual({ servers: unqueued, serviceMs: () => 5 }),
    rateRps: 40,
    p50Ms: 5,
    p99Ms: 5,
    errorShare: 0,
  },
  {
    name: 'lognormal',
    target: virtual({ servers: unqueued, serviceMs: lognormal }),
    rateRps: 40,
    p50Ms: 20,
    p99Ms: 20 * Math.exp(0.5 * 2.326),
    errorShare: 0,
  },
  // M/D/1 at 40 %: median and p99 of the sojourn by Crommelin's series (1932). Of 16,000 requests
  // the p99 has a sampling error of 2 % (30 seeds).
  {
    name: 'M/D/1',
    target: virtual({ serviceMs: () => 10 }),
    rateRps: 40,
    p50Ms: mdOneQuantile(0.4, 0.5),
    p99Ms: mdOneQuantile(0.4, 0.99),
    errorShare: 0,
  },
  {
    name: '5 % errors',
    target: virtual({ servers: unqueued, serviceMs: () => 5, errorShare: 0.05 }),
    rateRps: 40,
    p50Ms: 5,
    p99Ms: 5,
    errorShare: 0.05,
  },
]

/**
 * Quantile of the sojourn time in M/D/1 with a service of 10 ms: Crommelin, P(W <= t) = (1 − ρ)
 * Σ_{k <= t} (−λ(t − k))^k / k! e^{λ(t − k)}.
 */
function mdOneQuantile(load: number, p: number): number {
  const waits = (t: number) => {
    let sum = 0
    let factorial = 1
    for (let k = 0; k <= Math.floor(t); k++) {
      if (k > 0) factorial *= k
      const x = load * (t - k)
      sum += ((-x) ** k / factorial) * Math.exp(x)
    }
    return (1 - load) * sum
  }
  let t = 0
  while (waits(t) < p) t += 0.005
  return 10 * (1 + t)
}

describe('VirtualLoadGenerator', () => {
  loadGeneratorContract({
    durationS: 400,
    create: () => new VirtualLoadGenerator(),
    servers: async () => known(),
  })
})

test('a batch server takes the waiting requests, up to its batch size', async () => {
  const sizes: number[] = []
  const target = virtual({ maxBatch: 4, serviceMs: (batch) => sizes.push(batch) && 10 })
  await new VirtualLoadGenerator().play(
    target,
    { kind: 'open', rateRps: 600, durationS: 0.05, arrivals: { kind: 'constant' }, seed: 1 },
    new AbortController().signal,
  )
  expect(sizes[0]).toBe(1)
  expect(Math.max(...sizes)).toBe(4)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(30)
})

test('processor sharing: two equal jobs at once take twice as long on one core', () => {
  const server = new SharingServer({ seed: 1, cores: 1, workMs: () => 10 })
  const run = server.play({
    kind: 'open',
    rateRps: 1,
    durationS: 1,
    arrivals: { kind: 'trace', atMs: [0, 0, 100] },
    seed: 1,
  })
  expect([...run.latencyMs].map(Math.round)).toEqual([20, 20, 10])
})

test('the clock and random numbers of a server continue from load to load', () => {
  const seen: number[] = []
  const server = new QueueServer({
    seed: 1,
    servers: 1,
    maxBatch: 1,
    serviceMs: (_, __, atMs) => seen.push(atMs) && 5,
  })
  for (let i = 0; i < 2; i++)
    server.play({
      kind: 'open',
      rateRps: 10,
      durationS: 0.3,
      arrivals: { kind: 'constant' },
      seed: 1,
    })
  expect(seen[3]).toBeGreaterThan(seen[2]!)
})
