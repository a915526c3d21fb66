/**
 * True capacities of the servers with a long SLO, `node --import tsx
 * profiler/bench/long-slo-truth.bench.ts`: such queues forget so slowly that the runs of
 * truth.bench.ts are too short for them. 6 million arrivals at each rate through a recursion of its
 * own (workers: Kiefer and Wolfowitz 1955), which shares no code with the servers that are
 * measured. Constant services of one worker have a closed form, M/D/1's asymptote (Cramér and
 * Lundberg), which is what counts for them. Rewrites truth.json.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createUniform, type Uniform } from '../seeded-random.ts'
import { constantServicesRps } from '../testing/constant-services.ts'

const arrivals = 6e6
const warmUp = 0.1

interface LongCase {
  readonly limitMs: number
  readonly saturationRps: number
  readonly workers?: number
  readonly maxBatch?: number
  readonly ms: (batch: number, uniform: Uniform) => number
  /** Of constant services. */
  readonly constantMs?: number
}

const constant = (ms: number, limitMs: number, workers = 1): LongCase => ({
  limitMs,
  saturationRps: (1000 * workers) / ms,
  workers,
  ms: () => ms,
  ...(workers === 1 && { constantMs: ms }),
})
const twoKinds = (
  often: number,
  rare: number,
  share: number,
  limitMs: number,
  workers: number,
): LongCase => ({
  limitMs,
  workers,
  saturationRps: (1000 * workers) / (often + share * (rare - often)),
  ms: (_, uniform) => (uniform() < share ? rare : often),
})
const batches = (base: number, each: number, maxBatch: number, limitMs: number): LongCase => ({
  limitMs,
  maxBatch,
  saturationRps: (1000 * maxBatch) / (base + each * maxBatch),
  ms: (batch) => base + each * batch,
})
const cases: Record<string, LongCase> = {
  'FIFO 3 ms, within 500 ms': constant(3, 500),
  'FIFO 20 ms, within 500 ms': constant(20, 500),
  'FIFO 1 ms, within 1 s': constant(1, 1000),
  'batches of 16 in 5 + 0.5 n ms, within 500 ms': batches(5, 0.5, 16, 500),
  'two workers, 10 ms, within 1 s': constant(10, 1000, 2),
  'four workers, 50 ms, within 2 s': constant(50, 2000, 4),
  'two workers, 90 % 8 ms, 10 % 30 ms, within 1 s': twoKinds(8, 30, 0.1, 1000, 2),
  'dev: FIFO 7 ms, within 800 ms': constant(7, 800),
  'dev: batches of 8 in 20 + 4 n ms, within 2 s': batches(20, 4, 8, 2000),
  'dev: three workers, 80 % 10 ms, 20 % 60 ms, within 3 s': twoKinds(10, 60, 0.2, 3000, 3),
}

/** Share of requests that stay longer than the limit. */
function overAt(of: LongCase, rateRps: number): number {
  const { limitMs, ms, maxBatch = 1, workers = 1 } = of
  const uniform = createUniform(7)
  const services = createUniform(8)
  const gap = () => (-1000 * Math.log(uniform())) / rateRps
  const freeMs = new Float64Array(workers)
  let over = 0
  let nextMs = gap()
  const queue: number[] = []
  for (let i = 0; i < arrivals; ) {
    let first = 0
    for (let w = 1; w < workers; w++) if (freeMs[w]! < freeMs[first]!) first = w
    const beganMs = Math.max(freeMs[first]!, nextMs)
    for (; queue.length < maxBatch && nextMs <= beganMs; nextMs += gap()) queue.push(nextMs)
    const endMs = beganMs + ms(queue.length, services)
    freeMs[first] = endMs
    for (const atMs of queue) if (++i > warmUp * arrivals && endMs - atMs > limitMs) over++
    queue.length = 0
  }
  return over / (arrivals * (1 - warmUp))
}

function longTruth(of: LongCase): number {
  let [low, high] = [0.8 * of.saturationRps, of.saturationRps]
  while (high / low > 1.0005) {
    const middle = (low + high) / 2
    if (overAt(of, middle) <= 0.01) low = middle
    else high = middle
  }
  return (low + high) / 2
}

const file = new URL('./truth.json', import.meta.url)
const truths: Record<string, number> = JSON.parse(readFileSync(file, 'utf8'))
for (const [name, of] of Object.entries(cases)) {
  const played = longTruth(of)
  truths[name] = Number(
    (of.constantMs === undefined
      ? played
      : constantServicesRps(of.constantMs, of.limitMs)
    ).toPrecision(5),
  )
  console.log(`${name}: ${truths[name]}, by arrivals ${played.toPrecision(5)}`)
}
writeFileSync(file, `${JSON.stringify(truths, null, 2)}\n`)
