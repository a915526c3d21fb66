/**
 * How true the load generator is on this machine: `node --import tsx profiler/bench/loopback.bench.ts`.
 * Servers on loopback with known latencies; percentiles by the open loop, the closed loop and, where it is installed, wrk;
 * then the capacity of a batch server against the same server in virtual time. Windows in which sends were late are shown as they are.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { measureCapacity } from '../capacity/measure.ts'
import { HttpLoadGenerator } from '../generator/http-generator.ts'
import { startTestServer } from '../testing/servers.ts'
import type { TestService } from '../testing/service.ts'
import type { Load, Slo } from '../types.ts'
import { QueueServer } from '../virtual/queue-server.ts'

const slo: Slo = { percentile: 0.99, limitMs: 100, maxErrorRate: 0.001 }
const { signal } = new AbortController()
const generator = new HttpLoadGenerator()
const ms = (value: number) => value.toFixed(2).padStart(9)

const cases: { name: string; service: Partial<TestService>; p50Ms: number; p99Ms: number }[] = [
  { name: 'fixed 5 ms', service: { time: { kind: 'fixed', ms: 5 } }, p50Ms: 5, p99Ms: 5 },
  { name: 'fixed 51 ms', service: { time: { kind: 'fixed', ms: 51 } }, p50Ms: 51, p99Ms: 51 },
  {
    name: 'lognormal, median 20 ms',
    service: { time: { kind: 'lognormal', medianMs: 20, sigma: 0.5 } },
    p50Ms: 20,
    p99Ms: 20 * Math.exp(0.5 * 2.3263),
  },
]

/** p50 and p99 of wrk with as many connections; undefined when it is not installed. */
async function wrk(url: string, connections: number): Promise<[number, number] | undefined> {
  try {
    const args = ['-t1', `-c${connections}`, '-d3s', '--latency', url]
    const { stdout } = await promisify(execFile)('wrk', args)
    const read = (name: string) => {
      const found = new RegExp(`${name}%\\s+([\\d.]+)(us|ms|s)`).exec(stdout)
      return found === null ? Number.NaN : Number(found[1]) * { us: 0.001, ms: 1, s: 1000 }[found[2] as 'us' | 'ms' | 's']
    }
    return [read('50'), read('99')]
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined
    throw error
  }
}

console.log(`${'server'.padEnd(26)}${'by'.padEnd(22)}      p50       p99    error p50  error p99  sends late p99`)
for (const { name, service, p50Ms, p99Ms } of cases) {
  const server = await startTestServer(service)
  const row = (by: string, p50: number, p99: number, late = '') =>
    console.log(`${name.padEnd(26)}${by.padEnd(22)}${ms(p50)} ${ms(p99)}   ${ms(p50 - p50Ms)}  ${ms(p99 - p99Ms)}   ${late}`)
  const loads: [string, Load][] = [
    ['open, 200/s Poisson', { kind: 'open', rateRps: 200, arrivals: { kind: 'poisson' }, durationS: 5, seed: 1 }],
    ['closed, 8 connections', { kind: 'closed', connections: 8, durationS: 3 }],
  ]
  for (const [by, load] of loads) {
    const point = await generator.run(server.target, load, slo, signal)
    row(by, point.p50Ms, point.p99Ms, load.kind === 'open' ? `${point.latenessP99Ms.toFixed(2)} ms` : '')
  }
  await server.stop()
}

const trivial = await startTestServer({ time: { kind: 'fixed', ms: 0 } })
const closed = await generator.run(trivial.target, { kind: 'closed', connections: 32, durationS: 3 }, slo, signal)
const other = await wrk(trivial.url, 32)
console.log(
  `\n32 connections, closed, a trivial server: p50 ${closed.p50Ms.toFixed(2)} ms, p99 ${closed.p99Ms.toFixed(2)} ms, ${closed.achievedRps.toFixed(0)} req/s`,
)
if (other !== undefined) console.log(`wrk (GET on the same server): p50 ${other[0].toFixed(2)} ms, p99 ${other[1].toFixed(2)} ms`)
await trivial.stop()

const batch = { baseMs: 10, perItemMs: 2 }
const virtual = new QueueServer({ seed: 1, servers: 1, maxBatch: 8, serviceMs: (n) => batch.baseMs + batch.perItemMs * n })
const truth = await measureCapacity({ target: { kind: 'virtual', server: virtual }, slo, signal, effort: 'thorough' })
console.log(`\nbatch of 8, 10 + 2 n ms, p99 <= 100 ms: in virtual time ${truth.capacityRps.toFixed(1)} req/s`)
const real = await startTestServer({ time: { kind: 'batch', ...batch }, servers: 1, maxBatch: 8 })
for (const effort of ['quick', 'standard'] as const) {
  for (let seed = 1; seed <= 3; seed++) {
    const found = await measureCapacity({ target: real.target, slo, signal, effort, seed, generator })
    const [low, high] = found.capacityCi90Rps
    const error = (100 * (found.capacityRps / truth.capacityRps - 1)).toFixed(1)
    console.log(
      `on loopback, ${effort}: ${found.capacityRps.toFixed(1)} req/s [${low.toFixed(1)}, ${high.toFixed(1)}], ${error} %, ${found.seconds.toFixed(1)} s, ${found.requests} requests`,
    )
  }
}
await real.stop()
await generator.close()
