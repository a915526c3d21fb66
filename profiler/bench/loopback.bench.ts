/**
 * How true the load generator is on this machine: `npm run bench:loopback`, about 100 s (then
 * streams.bench.ts). Best on a
 * machine that does nothing else. Servers on loopback with known latencies, seen by the open loop,
 * the closed loop, where they are to be had wrk, and a plain open-loop client in C (plain-client.c)
 * that shares no code with the generator. They take turns: what disturbs the machine disturbs all
 * of them. Medians over the rounds, and the whole range. Then how late sends are by their rate,
 * closed loops beside wrk, and the capacity of a batch server beside the same server in virtual
 * time.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { measureCapacity } from '../capacity/measure.ts'
import { schedule } from '../load/arrivals.ts'
import { HttpLoadGenerator } from '../load/http-generator.ts'
import { summarise, summariseRun } from '../load/load-point.ts'
import type { Load } from '../model/load.ts'
import type { Slo } from '../model/slo.ts'
import { QueueServer } from '../testing/queue-server.ts'
import { startTestServer, type TestServer } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import { compilePlainClient } from './plain-client.ts'

interface Seen {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly rps: number
  readonly lateMs?: number
  readonly lateP50Ms?: number
  /** Of a window that the machine disturbed, as the window tells. */
  readonly disturbed?: boolean
}

const rounds = 3
const seconds = 1
const slo: Slo = { percentile: 0.99, limitMs: 100, maxErrorRate: 0.001 }
const { signal } = new AbortController()
const generator = new HttpLoadGenerator()
const folder = mkdtempSync(join(tmpdir(), 'loopback-'))

const cases: { name: string; service: Partial<TestService>; p50Ms: number; p99Ms: number }[] = [
  { name: 'at once', service: { time: { kind: 'fixed', ms: 0 } }, p50Ms: 0, p99Ms: 0 },
  { name: 'fixed 5 ms', service: { time: { kind: 'fixed', ms: 5 } }, p50Ms: 5, p99Ms: 5 },
  { name: 'fixed 51 ms', service: { time: { kind: 'fixed', ms: 51 } }, p50Ms: 51, p99Ms: 51 },
  {
    name: 'lognormal, median 20 ms',
    service: { time: { kind: 'lognormal', medianMs: 20, sigma: 0.5 } },
    p50Ms: 20,
    p99Ms: 20 * Math.exp(0.5 * 2.3263),
  },
]

/** The same requests as ours, by wrk. Undefined when it is not installed. */
async function wrk({ url, target }: TestServer, connections: number): Promise<Seen | undefined> {
  const script = join(folder, 'post.lua')
  writeFileSync(
    script,
    `wrk.method = "POST"\nwrk.body = '${target.bodies[0]!.body}'\nwrk.headers["content-type"] = "application/json"\n`,
  )
  try {
    const args = [
      '-t1',
      `-c${connections}`,
      `-d${seconds}s`,
      '--latency',
      '-s',
      script,
      url + target.path,
    ]
    const { stdout } = await promisify(execFile)('wrk', args)
    const read = (name: string) => {
      const found = new RegExp(`${name}%\\s+([\\d.]+)(us|ms|s)`).exec(stdout)
      return found === null
        ? Number.NaN
        : Number(found[1]) * { us: 0.001, ms: 1, s: 1000 }[found[2] as 'us' | 'ms' | 's']
    }
    return {
      p50Ms: read('50'),
      p99Ms: read('99'),
      rps: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    }
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined
    throw error
  }
}

const ours = async ({ target }: TestServer, load: Load): Promise<Seen> => {
  const run = await generator.play(target, load, signal)
  const { p50Ms, p99Ms, achievedRps, latenessP99Ms, invalid } = summariseRun(run, slo)
  const late =
    load.kind === 'open' ? { lateMs: latenessP99Ms, lateP50Ms: median([...run.lateMs!]) } : {}
  return { p50Ms, p99Ms, rps: achievedRps, ...late, disturbed: invalid }
}

const plainClient = compilePlainClient(folder)

/** The same sends as the open loop's, by the plain client. */
async function plain({ url, target }: TestServer, load: Load): Promise<Seen | undefined> {
  if (plainClient === undefined || load.kind !== 'open') return undefined
  const latencies = await plainClient(
    url,
    target.path,
    String(target.bodies[0]!.body),
    schedule(load),
  )
  const { p50Ms, p99Ms } = summarise(latencies)
  return { p50Ms, p99Ms, rps: latencies.length / load.durationS }
}

const closed = (connections: number): Load => ({ kind: 'closed', connections, durationS: seconds })
const open = (seed: number, rateRps = 200): Load => ({
  kind: 'open',
  rateRps,
  arrivals: { kind: 'poisson' },
  durationS: seconds,
  seed,
})

/** Each of the ways in turn, round by round. */
async function inTurn(
  ways: Record<string, (round: number) => Promise<Seen | undefined>>,
): Promise<Map<string, Seen[]>> {
  const seen = new Map<string, Seen[]>()
  for (let round = 1; round <= rounds; round++) {
    for (const [name, way] of Object.entries(ways)) {
      const one = await way(round)
      if (one !== undefined) seen.set(name, [...(seen.get(name) ?? []), one])
    }
  }
  return seen
}

const median = (values: number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!
const range = (values: number[], digits = 2) =>
  `${median(values).toFixed(digits).padStart(9)} (${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)})`.padEnd(
    30,
  )

console.log(`${rounds} rounds of ${seconds} s each, in turn: median (range), ms from the truth\n`)
console.log(
  `${'server'.padEnd(26)}${'by'.padEnd(24)}${'     p50'.padEnd(30)}${'     p99'.padEnd(30)}sends late p99, ms`,
)
for (const { name, service, p50Ms, p99Ms } of cases) {
  const server = await startTestServer(service)
  const seen = await inTurn({
    'open, 200/s Poisson': (round) => ours(server, open(round)),
    'plain client, the same': (round) => plain(server, open(round)),
    'closed, 8 connections': () => ours(server, closed(8)),
    'wrk, 8 connections': () => wrk(server, 8),
  })
  for (const [by, all] of seen) {
    const errors = (of: (one: Seen) => number) => range(all.map(of))
    const late = all[0]!.lateMs === undefined ? '' : range(all.map((one) => one.lateMs!)).trim()
    console.log(
      `${name.padEnd(26)}${by.padEnd(24)}${errors((one) => one.p50Ms - p50Ms)}${errors((one) => one.p99Ms - p99Ms)}${late}`,
    )
  }
  await server.stop()
}

const trivial = await startTestServer({ time: { kind: 'fixed', ms: 0 } })
console.log('\nHow late sends are, ms, by their rate; a server that answers at once')
for (const rate of [200, 2000, 8000]) {
  const seen = (await inTurn({ ours: (round) => ours(trivial, open(round, rate)) })).get('ours')!
  const disturbed = seen.filter((one) => one.disturbed).length
  console.log(
    `${String(rate).padEnd(8)}p50${range(seen.map((one) => one.lateP50Ms!))}p99${range(seen.map((one) => one.lateMs!))}${disturbed > 0 ? `${disturbed} of ${rounds} windows disturbed` : ''}`,
  )
}

console.log('\nThe same server, closed: requests per second, and their share of wrk’s')
for (const connections of [1, 32, 128]) {
  const seen = await inTurn({
    ours: () => ours(trivial, closed(connections)),
    wrk: () => wrk(trivial, connections),
  })
  const [rps, theirs] = ['ours', 'wrk'].map((by) => (seen.get(by) ?? []).map((one) => one.rps))
  const share =
    theirs!.length > 0
      ? `wrk${range(theirs!, 0)}${median(rps!.map((one, i) => one / theirs![i]!)).toFixed(2)}`
      : ''
  console.log(`${String(connections).padEnd(8)}${range(rps!, 0)}${share}`)
}
await trivial.stop()

const batch = { baseMs: 10, perItemMs: 2 }
const virtual = new QueueServer({
  seed: 1,
  servers: 1,
  maxBatch: 8,
  serviceMs: (n) => batch.baseMs + batch.perItemMs * n,
})
const truth = await measureCapacity({
  target: { kind: 'virtual', server: virtual },
  slo,
  signal,
  effort: 'thorough',
})
console.log(
  `\nCapacity of a server with batches of 8, 10 + 2 n ms, p99 <= 100 ms: in virtual time ${truth.capacityRps.toFixed(1)} req/s`,
)
const real = await startTestServer({ time: { kind: 'batch', ...batch }, servers: 1, maxBatch: 8 })
for (const [seed, effort] of (['quick', 'standard', 'quick', 'standard'] as const).entries()) {
  const found = await measureCapacity({ target: real.target, slo, signal, effort, seed, generator })
  const [low, high] = found.capacityCi90Rps
  const error = (100 * (found.capacityRps / truth.capacityRps - 1)).toFixed(1)
  console.log(
    `on loopback, ${effort}: ${found.capacityRps.toFixed(1)} req/s [${low.toFixed(1)}, ${high.toFixed(1)}], ${error} %, ${found.seconds.toFixed(1)} s, ${found.requests} requests`,
  )
}
await real.stop()
await generator.close()
rmSync(folder, { recursive: true })
