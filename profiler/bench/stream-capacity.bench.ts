/**
 * Capacities of streamed answers in virtual time beside their truth (30,000 arrivals a rate,
 * bisected): `node --import tsx profiler/bench/stream-capacity.bench.ts [SEEDS]`. Constants of the search were chosen on the
 * servers above the line; those below it were kept apart.
 */
import { efforts } from '../capacity/effort.ts'
import { measureCapacity } from '../capacity/measure.ts'
import type { Load } from '../model/load.ts'
import { meetsSlo, type Slo } from '../model/slo.ts'
import type { VirtualServer } from '../model/virtual-server.ts'
import { sampleGamma, sampleNormal, type Uniform } from '../seeded-random.ts'
import { QueueServer } from '../testing/queue-server.ts'
import { targetAt } from '../testing/servers.ts'
import { StreamingGenerator } from '../testing/streaming-generator.ts'

const seeds = Number(process.argv[2] ?? 10)
const { signal } = new AbortController()
const truthRequests = 30_000
const bisections = 10

interface Case {
  readonly name: string
  /** Of an answer, beside the wait for its first token. */
  readonly streamsMs: number
  readonly mostRps: number
  readonly server: (seed: number) => VirtualServer
}
const queue =
  (servers: number, serviceMs: (n: number, uniform: Uniform) => number, maxBatch = 1) =>
  (seed: number) =>
    new QueueServer({ seed, servers, maxBatch, serviceMs })
const chosenOn: readonly Case[] = [
  { name: 'one place, 50 ms', streamsMs: 50, mostRps: 20, server: queue(1, () => 50) },
  { name: '4 places, 200 ms', streamsMs: 200, mostRps: 20, server: queue(4, () => 200) },
  { name: '16 places, 800 ms', streamsMs: 800, mostRps: 20, server: queue(16, () => 800) },
  {
    name: 'batches of 8, 200 + 25 n ms',
    streamsMs: 225,
    mostRps: 20,
    server: queue(1, (n) => 200 + 25 * n, 8),
  },
]
const keptApart: readonly Case[] = [
  {
    name: '2 places, exponential 100 ms',
    streamsMs: 20,
    mostRps: 20,
    server: queue(2, (_, u) => 20 - 80 * Math.log(1 - u())),
  },
  {
    name: '3 places, 500 ms, lognormal',
    streamsMs: 450,
    mostRps: 6,
    server: queue(3, (_, u) => 400 + 90 * Math.exp(0.5 * sampleNormal(u))),
  },
  {
    name: 'batches of 16, varied',
    streamsMs: 110,
    mostRps: 38,
    server: queue(1, (n, u) => (100 + 20 * n) * sampleGamma(u, 100), 16),
  },
]
const slos: readonly Slo[] = [
  { percentile: 0.9, limitMs: 500, maxErrorRate: 0.01, metric: 'ttft' },
  { percentile: 0.99, limitMs: 1000, maxErrorRate: 0.01, metric: 'ttft' },
  { percentile: 0.9, limitMs: 2000, maxErrorRate: 0.01, metric: 'ttft' },
]

const createStreamGenerator = (server: VirtualServer, streamsMs: number) =>
  new StreamingGenerator(server, streamsMs, signal)

async function truthOf({ server, streamsMs, mostRps }: Case, slo: Slo): Promise<number> {
  let [low, high] = [0, mostRps]
  for (let i = 0; i < bisections; i++) {
    const rateRps = (low + high) / 2
    const load: Load = {
      kind: 'open',
      rateRps,
      durationS: truthRequests / rateRps,
      seed: 99,
      arrivals: { kind: 'poisson' },
    }
    const kept = meetsSlo(
      await createStreamGenerator(server(1), streamsMs).run(
        targetAt('http://127.0.0.1:1'),
        load,
        slo,
      ),
      slo,
    )
    if (kept) low = rateRps
    else high = rateRps
  }
  return low
}

const formatPercent = (share: number) => `${(100 * share).toFixed(1)} %`
const computeMedian = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[values.length >> 1]!
async function measureRow(streamCase: Case, slo: Slo): Promise<string> {
  const truth = await truthOf(streamCase, slo)
  const errors: number[] = []
  let [holds, seconds] = [0, 0]
  for (let seed = 1; seed <= seeds; seed++) {
    const { capacityRps, capacityCi90Rps, points } = await measureCapacity({
      target: { ...targetAt('http://127.0.0.1:1'), transport: 'sse' },
      slo,
      signal,
      generator: createStreamGenerator(streamCase.server(seed), streamCase.streamsMs),
      seed: 1000 * seed,
      effort: efforts.quick,
    })
    errors.push(capacityRps / truth - 1)
    if (capacityCi90Rps[0] <= truth && truth <= capacityCi90Rps[1]) holds++
    seconds += points.reduce((sum, point) => sum + point.seconds, 0) / seeds
  }
  const bias = errors.reduce((sum, error) => sum + error, 0) / seeds
  const limit = `p${100 * slo.percentile} < ${slo.limitMs} ms`
  return `| ${streamCase.name} | ${limit} | ${truth.toFixed(1)} | ${formatPercent(bias)} | ${formatPercent(computeMedian(errors.map(Math.abs)))} | ${holds} of ${seeds} | ${seconds.toFixed(0)} s |`
}

console.log(
  '| server | TTFT | truth, req/s | bias | median error | interval holds | load |\n|---|---|---|---|---|---|---|',
)
for (const cases of [chosenOn, keptApart]) {
  for (const one of cases) for (const slo of slos) console.log(await measureRow(one, slo))
  if (cases === chosenOn) console.log('| *kept apart* | | | | | | |')
}
