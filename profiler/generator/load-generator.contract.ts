import { afterAll, expect, test } from 'vitest'
import { loadPointOf } from '../statistics/load-point.ts'
import type { TestService } from '../testing/service.ts'
import { skipIfDisturbed, unseenMs } from '../testing/undisturbed.ts'
import type { Load, LoadGenerator, Slo, Target } from '../types.ts'

/** A server whose latency distribution is known, and what that is. */
export interface KnownServer {
  readonly name: string
  readonly target: Target
  /** Offered rate of the open loads. */
  readonly rateRps: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Share of requests that fail. */
  readonly errorShare: number
}

interface ContractOptions {
  /** How far a percentile may be from the truth, ms beside the sampling error. */
  readonly toleranceMs: number
  readonly durationS: number
  /** Over real time, on a machine that may be disturbed without telling. */
  readonly real: boolean
  readonly create: () => LoadGenerator
  /** Asked once, with the first test. Who gives them ends them. */
  readonly servers: () => Promise<readonly KnownServer[]>
}

const slo: Slo = { percentile: 0.99, limitMs: 100, maxErrorRate: 0.001 }
const { signal } = new AbortController()
/** Sampling error of a queue's p99, whose slow requests come together. */
const queueing = 0.08

/** The servers of generators of HTTP, started by `serve`: one that takes 51 ms, one that fails one request in twenty and takes 5 ms. */
export const httpServers = async (serve: (service: Partial<TestService>) => Promise<Target>): Promise<readonly KnownServer[]> => [
  { name: 'fixed 51 ms', target: await serve({ time: { kind: 'fixed', ms: 51 } }), rateRps: 150, p50Ms: 51, p99Ms: 51, errorShare: 0 },
  {
    name: '5 % errors',
    target: await serve({ fault: { kind: 'status', status: 500, share: 0.05 } }),
    rateRps: 400,
    p50Ms: 5,
    p99Ms: 5,
    errorShare: 0.05,
  },
]

/** What every load generator must do, against servers whose latencies are known. */
export function loadGeneratorContract({ toleranceMs, durationS, real, create, servers }: ContractOptions): void {
  const open = (rateRps: number, seed = 1): Load => ({ kind: 'open', rateRps, arrivals: { kind: 'poisson' }, durationS, seed })

  // One process for all tests: starting it takes longer than most of them.
  let generator: LoadGenerator | undefined
  let known: readonly KnownServer[] | undefined
  afterAll(() => generator?.close())

  const withServers = async (check: (generator: LoadGenerator, known: readonly KnownServer[]) => Promise<void>) => {
    generator ??= create()
    known ??= await servers()
    await check(generator, known)
  }

  test('percentiles and errors are those of the server', async ({ skip }) => {
    await withServers(async (generator, known) => {
      for (const server of known) {
        const run = await generator.play(server.target, open(server.rateRps), signal)
        skipIfDisturbed(run, skip)
        const { p50Ms, p99Ms, errors, requests, sloMs } = loadPointOf(run, slo)
        const within = (truthMs: number) => (real ? 0.04 : queueing) * truthMs + toleranceMs
        const off = { p50: Math.abs(p50Ms - server.p50Ms), p99: Math.abs(p99Ms - server.p99Ms) }
        expect({ server: server.name, p50Ms, p99Ms, near: off.p50 <= within(server.p50Ms) }).toMatchObject({ near: true })
        expect({ server: server.name, p50Ms, p99Ms, near: off.p99 <= within(server.p99Ms) + (real ? unseenMs : 0) }).toMatchObject({
          near: true,
        })
        expect(Math.abs(errors / requests - server.errorShare)).toBeLessThan(0.02 + 0.5 * server.errorShare)
        if (server.errorShare > 0.02) expect(sloMs).toBe(Number.POSITIVE_INFINITY)
      }
    })
  })

  test('an open load offers its rate whatever the server does, and its run is in order of sends', async () => {
    await withServers(async (generator, [server]) => {
      const rateRps = server!.rateRps
      const run = await generator.play(server!.target, open(rateRps), signal)
      expect(run.planned).toBe(Math.round(rateRps * durationS))
      expect(run.sentMs).toHaveLength(run.planned)
      expect(run.latencyMs).toHaveLength(run.planned)
      expect([...run.sentMs].every((at, i) => i === 0 || at >= run.sentMs[i - 1]!)).toBe(true)
      expect(run.elapsedS).toBeGreaterThanOrEqual(run.seconds * 0.99)
    })
  })

  test('the same seed sends at the same times', async () => {
    await withServers(async (generator, [server]) => {
      const times = async (seed: number) => [
        ...(await generator.play(server!.target, { ...open(50, seed), durationS: 0.2 } as Load, signal)).sentMs,
      ]
      const [a, b, c] = [await times(3), await times(3), await times(4)]
      expect(a).toEqual(b)
      expect(a).not.toEqual(c)
    })
  })

  test('a closed load keeps one request under way on each connection', async () => {
    await withServers(async (generator, [server]) => {
      const run = await generator.play(server!.target, { kind: 'closed', connections: 3, durationS: 0.4 }, signal)
      for (let i = 0; i < run.sentMs.length; i += 7) {
        const at = run.sentMs[i]! + 1e-6
        const underWay = run.sentMs.filter((sent, j) => sent <= at && sent + run.latencyMs[j]! > at).length
        expect(underWay).toBeGreaterThanOrEqual(1)
        expect(underWay).toBeLessThanOrEqual(3)
      }
      expect(run.sentMs.every((at) => at < 400)).toBe(true)
    })
  })

  test('a window that is lost is cut short', async () => {
    await withServers(async (generator, [server]) => {
      const cut = { overMs: server!.p50Ms / 2, requests: 3 }
      const run = await generator.play(server!.target, { ...open(server!.rateRps), durationS: 20, cut } as Load, signal)
      expect(run.cutMs).toBeLessThan(5000)
      expect(run.planned).toBe(run.sentMs.length)
    })
  })

  test('an aborted signal ends it with the reason', async () => {
    await withServers(async (generator, [server]) => {
      await expect(generator.run(server!.target, open(10), slo, AbortSignal.abort(new Error('stop here')))).rejects.toThrow('stop here')
    })
  })

  test('an unusable load is refused with every reason', async () => {
    await withServers(async (generator, [server]) => {
      const load: Load = { kind: 'open', rateRps: Number.NaN, arrivals: { kind: 'gamma', cv: -1 }, durationS: 0, seed: 1 }
      await expect(generator.run(server!.target, load, slo, signal)).rejects.toThrow(/durationS.*rateRps.*cv/)
    })
  })
}
