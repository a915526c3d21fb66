/**
 * Servers of a few requests a second in virtual time, as of language models or large images: a
 * minute has too few of their requests to prove a percentile. The rule for confirmations of such
 * was made on the first three; the others were kept apart.
 */
import { sampleGamma, sampleNormal, type Uniform } from '../seeded-random.ts'
import { QueueServer } from './queue-server.ts'
import type { VirtualCase } from './virtual-servers.ts'

const slow = (
  name: string,
  limitMs: number,
  servers: number,
  serviceMs: (batch: number, uniform: Uniform) => number,
  maxBatch = 1,
): VirtualCase => ({
  name: `slow: ${name}, within ${limitMs / 1000} s`,
  slo: { percentile: 0.99, limitMs, maxErrorRate: 0.001 },
  batching: maxBatch > 1,
  server: (seed) => new QueueServer({ seed, servers, maxBatch, serviceMs }),
})

export const slowCases: readonly VirtualCase[] = [
  slow('FIFO 70 ms', 2000, 1, (_, uniform) => 70 * sampleGamma(uniform, 100)),
  slow('four workers 600 ms, cv 0.5', 2000, 4, (_, uniform) => 600 * sampleGamma(uniform, 4)),
  slow(
    'batches of 4 in 80 + 60 n ms',
    2000,
    1,
    (batch, uniform) => (80 + 60 * batch) * sampleGamma(uniform, 100),
    4,
  ),
  slow(
    'apart: three workers 500 ms, skewed',
    1500,
    3,
    (_, uniform) => 400 + 90 * Math.exp(0.5 * sampleNormal(uniform)),
  ),
  slow('apart: FIFO 200 ms, cv 0.3', 3000, 1, (_, uniform) => 200 * sampleGamma(uniform, 11)),
  slow(
    'apart: batches of 16 in 400 + 40 n ms',
    2000,
    1,
    (batch, uniform) => (400 + 40 * batch) * sampleGamma(uniform, 400),
    16,
  ),
  slow(
    'apart: eight workers 2 s, cv 0.3',
    6000,
    8,
    (_, uniform) => 2000 * sampleGamma(uniform, 11),
  ),
]
