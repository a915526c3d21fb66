import { afterAll, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import type { TestService } from '../testing/service.ts'
import { skipIfDisturbed } from '../testing/undisturbed.ts'
import { summariseRun } from './load-point.ts'

/** A server with a known latency distribution. */
export interface KnownServer {
  readonly name: string
  readonly target: Target
  /** Offered rate of the open loads. */
  readonly rateRps: number
  readonly p50Ms: number
  /** Undefined where interference that the test cannot detect could change it much. */
  readonly p99Ms?: number
  /** Share of requests that fail. */
  readonly errorShare: number
}

interface ContractOptions {
  readonly durationS: number
  readonly create: () => LoadGenerator
  /** Called once, by the first test. The caller of the contract closes the servers. */
  readonly servers: () => Promise<readonly KnownServer[]>
}

const slo: Slo = { percentile: 0.99, limitMs: 100, maxErrorRate: 0.001 }
const { signal } = new AbortController()
/**
 * Tolerance of a percentile, relative to the true one; a generator that is wrong by an eighth
 * fails. In virtual time the tolerance covers the sampling error of a queue's p99. In real time it
 * covers timers and the network (2 ms of 51), and undetected interference at p99 (20 ms of 400).
 */
const maxRelativeError = 0.06

/**
 * Starts the servers for HTTP generators: one that takes 51 ms, and one that takes 400 ms and fails
 * one request in ten.
 */
export const startHttpServers = async (
  serve: (service: Partial<TestService>) => Promise<Target>,
): Promise<readonly KnownServer[]> => [
  {
    name: 'fixed 51 ms',
    target: await serve({ time: { kind: 'fixed', ms: 51 } }),
    rateRps: 150,
    p50Ms: 51,
    errorShare: 0,
  },
  {
    name: 'fixed 400 ms, 10 % errors',
    target: await serve({
      time: { kind: 'fixed', ms: 400 },
      fault: { kind: 'status', status: 500, share: 0.1 },
    }),
    rateRps: 200,
    p50Ms: 400,
    p99Ms: 400,
    errorShare: 0.1,
  },
]

/** Describes the percentiles of a run that differ from those of its server. */
function findWrongPercentiles(run: LoadRun, server: KnownServer): string[] {
  const point = summariseRun(run, slo)
  return (['p50Ms', 'p99Ms'] as const).flatMap((name) => {
    const truth = server[name]
    return truth === undefined || Math.abs(point[name] / truth - 1) <= maxRelativeError
      ? []
      : [`${name}: ${point[name]} instead of ${truth}`]
  })
}

/** Tests that every load generator must pass, on servers with known latencies. */
export function loadGeneratorContract({ durationS, create, servers }: ContractOptions): void {
  const open = (rateRps: number, seed = 1): Load => ({
    kind: 'open',
    rateRps,
    arrivals: { kind: 'poisson' },
    durationS,
    seed,
  })

  // All tests share one process, because starting it takes longer than most of them.
  let generator: LoadGenerator | undefined
  let known: readonly KnownServer[] | undefined
  afterAll(() => generator?.close())

  const withServers = async (
    check: (generator: LoadGenerator, known: readonly KnownServer[]) => Promise<void>,
  ) => {
    generator ??= create()
    known ??= await servers()
    await check(generator, known)
  }

  test('reports the percentiles and errors of the server', async ({ skip }) => {
    await withServers(async (generator, known) => {
      for (const server of known) {
        const run = await generator.play(server.target, open(server.rateRps), signal)
        skipIfDisturbed(run, skip)
        const { errors, requests, sloMs } = summariseRun(run, slo)
        expect({ server: server.name, off: findWrongPercentiles(run, server) }).toEqual({
          server: server.name,
          off: [],
        })
        // A run that is wrong by twice the tolerance must fail.
        for (const factor of [
          (0.99 * (1 - maxRelativeError)) / (1 + maxRelativeError),
          (1.01 * (1 + maxRelativeError)) / (1 - maxRelativeError),
        ]) {
          const wrong = { ...run, latencyMs: run.latencyMs.map((ms) => factor * ms) }
          expect(findWrongPercentiles(wrong, server)).toHaveLength(
            server.p99Ms === undefined ? 1 : 2,
          )
        }
        expect(Math.abs(errors / requests - server.errorShare)).toBeLessThan(
          0.02 + 0.5 * server.errorShare,
        )
        if (server.errorShare > 0.02) expect(sloMs).toBe(Number.POSITIVE_INFINITY)
      }
    })
  })

  test('an open load keeps its rate on any server, and its run is in send order', async () => {
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

  test('equal seeds give equal send times', async () => {
    await withServers(async (generator, [server]) => {
      const times = async (seed: number) => [
        ...(
          await generator.play(
            server!.target,
            { ...open(50, seed), durationS: 0.2 } as Load,
            signal,
          )
        ).sentMs,
      ]
      const [a, b, c] = [await times(3), await times(3), await times(4)]
      expect(a).toEqual(b)
      expect(a).not.toEqual(c)
    })
  })

  test('a closed loop keeps one request in flight on each connection', async () => {
    await withServers(async (generator, [server]) => {
      const run = await generator.play(
        server!.target,
        { kind: 'closed', connections: 3, durationS: 0.4 },
        signal,
      )
      for (let i = 0; i < run.sentMs.length; i += 7) {
        const at = run.sentMs[i]! + 1e-6
        const inFlight = run.sentMs.filter(
          (sent, j) => sent <= at && sent + run.latencyMs[j]! > at,
        ).length
        expect(inFlight).toBeGreaterThanOrEqual(1)
        expect(inFlight).toBeLessThanOrEqual(3)
      }
      expect(run.sentMs.every((at) => at < 400)).toBe(true)
    })
  })

  test('a window that already violates the SLO is cut', async () => {
    await withServers(async (generator, [server]) => {
      const cut = { overMs: server!.p50Ms / 2, requests: 3 }
      const run = await generator.play(
        server!.target,
        { ...open(server!.rateRps), durationS: 20, cut } as Load,
        signal,
      )
      expect(run.cutMs).toBeLessThan(5000)
      expect(run.planned).toBe(run.sentMs.length)
    })
  })

  test('rejects with the reason of an aborted signal', async () => {
    await withServers(async (generator, [server]) => {
      await expect(
        generator.run(server!.target, open(10), slo, AbortSignal.abort(new Error('stop here'))),
      ).rejects.toThrow('stop here')
    })
  })

  test('rejects an unusable load with all reasons', async () => {
    await withServers(async (generator, [server]) => {
      const load: Load = {
        kind: 'open',
        rateRps: Number.NaN,
        arrivals: { kind: 'gamma', cv: -1 },
        durationS: 0,
        seed: 1,
      }
      await expect(generator.run(server!.target, load, slo, signal)).rejects.toThrow(
        /durationS.*rateRps.*cv/,
      )
    })
  })
}
