import { describe, expect, test } from 'vitest'
import { VirtualLoadGenerator } from '../../load/virtual-generator.ts'
import type { Load, Phase } from '../../model/load.ts'
import type { LoadGenerator } from '../../model/load-generator.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { VirtualServer } from '../../model/virtual-server.ts'
import { QueueServer } from '../../testing/queue-server.ts'
import { targetAt } from '../../testing/servers.ts'
import { caseNamed } from '../../testing/simple-servers.ts'
import { confirmCapacity } from './confirm.ts'

const { signal } = new AbortController()
const slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
const confirm = (server: VirtualServer, rateRps: number) =>
  confirmCapacity({ target: { kind: 'virtual', server }, slo, rateRps, signal })

describe('a confirmation', () => {
  test.each([1.4, 3, 8])(
    'of %d times what the server does goes on until a rate holds',
    async (times) => {
      const truth = 87.6
      const found = await confirm(caseNamed('FIFO 8 ms').server(1), times * truth)
      expect(found).toMatchObject({ met: false, outcome: 'converged', bounds: 'both' })
      // A rate that holds for its time without proof may lie a little beyond.
      expect(found.capacityRps).toBeLessThan(1.1 * truth)
      expect(found.capacityRps).toBeGreaterThan(0.7 * truth)
      expect(found.capacityCi90Rps[1]).toBeGreaterThan(found.capacityRps)
      expect(found.capacityCi90Rps[1]).toBeLessThan(1.6 * truth)
      expect(found.point.sloMs).toBeLessThanOrEqual(slo.limitMs)
    },
  )

  test('far above the capacity ends at a lower rate that is proven', async () => {
    const truth = 87.6
    const rateRps = 1.6 * truth
    for (const seed of [1, 2, 3]) {
      const target = { kind: 'virtual', server: caseNamed('FIFO 8 ms').server(seed) } as const
      const found = await confirmCapacity({
        target,
        slo,
        rateRps,
        minProvenRps: 0.8 * rateRps,
        seed: 1000 * seed,
        signal,
      })
      expect(found).toMatchObject({ met: false, proven: true })
      expect(found.capacityRps).toBeLessThan(truth)
      expect(found.capacityRps).toBeGreaterThan(0.7 * truth)
    }
  })

  describe('with too few requests for a proof', () => {
    const within2s = { ...slo, limitMs: 2000 }
    // One after the other, in 70 ms: 14.3 a second, and 13.3 within the limit (bisected with
    // 180,000 arrivals a rate).
    const truth = 13.3
    const found = async (share: number, seed: number) => {
      const server = new QueueServer({
        seed,
        servers: 1,
        maxBatch: 1,
        serviceMs: (_, uniform) => 66 + 8 * uniform(),
      })
      const rateRps = share * truth
      const found = await confirmCapacity({
        ...{
          target: { kind: 'virtual', server },
          slo: within2s,
          rateRps,
          minRps: rateRps,
          minProvenRps: 0.8 * rateRps,
          signal,
        },
        seed: 1000 * seed,
      })
      return { ...found, share: found.capacityRps / truth }
    }

    test.each([1, 2, 3, 4])(
      'ends at the rate that was asked for, not at a lower one without proof either (seed %d)',
      async (seed) => {
        const held = await found(0.93, seed)
        expect(held).toMatchObject({ met: true, proven: false, share: 0.93 })
        expect(held.seconds).toBeLessThan(110)
      },
    )

    test.each([1, 2, 3, 4])(
      'is long enough for a queue to grow at a rate beyond what it serves (seed %d)',
      async (seed) => {
        expect(await found(1.15, seed)).toMatchObject({
          met: false,
          capacityRps: 0,
          outcome: 'budget',
        })
      },
    )
  })

  test('far above the capacity skips rates beyond the observed throughput', async () => {
    const truth = 87.6
    const { points, capacityRps } = await confirm(caseNamed('FIFO 8 ms').server(1), 8 * truth)
    const asked = points.flatMap(({ load }) => (load.kind === 'open' ? [load.rateRps / truth] : []))
    // It serves 125 a second: nothing between the first two rates and what that leaves is worth a
    // window.
    expect(asked.filter((rate) => rate > 1.6).map((rate) => rate.toFixed(3))).toEqual([
      '8.000',
      '7.200',
    ])
    expect(capacityRps).toBeGreaterThan(0.7 * truth)
  })

  test('without a rate that meets the SLO ends with capacity 0', async () => {
    // Alone it is fast; whoever finds another there waits for long.
    let lastMs = Number.NEGATIVE_INFINITY
    const server = new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 1,
      serviceMs: (_, uniform, atMs) => {
        const ms = atMs - lastMs > 1 && uniform() < 0.9 ? 4 : 90
        lastMs = atMs + ms
        return ms
      },
    })
    const found = await confirm(server, 100)
    expect(found).toMatchObject({
      met: false,
      outcome: 'budget',
      capacityRps: 0,
      bounds: 'upper',
    })
    expect(found.capacityCi90Rps).toEqual([0, 10])
  })

  test.each([
    [100, 1],
    [3_000, 2 / 3],
    [9_000, 1 / 3],
  ])('at %d a second warms up for windows of %f s', async (rateRps, windowS) => {
    const server = new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 0.05 })
    const windows: number[] = []
    const onStep = ({ load }: LoadPoint, phase: Phase) => {
      if (phase === 'warm-up' && load.kind === 'open') windows.push(load.durationS)
    }
    await confirmCapacity({ target: { kind: 'virtual', server }, slo, rateRps, signal, onStep })
    expect(windows.length).toBeGreaterThanOrEqual(2)
    for (const each of windows) expect(each).toBeCloseTo(windowS, 9)
  })

  test.each([
    [100, 1],
    [1000, 2],
    [undefined, 2],
  ])(
    'of a kind that was steady after %s requests, warms up at the rate for %i windows',
    async (warmUpRequests, windows) => {
      const server = new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 4 })
      let played = 0
      const onStep = ({ load }: LoadPoint, phase: Phase) => {
        if (phase === 'warm-up' && load.kind === 'open' && load.rateRps === 60) played++
      }
      await confirmCapacity({
        target: { kind: 'virtual', server },
        slo,
        rateRps: 60,
        signal,
        onStep,
        warmUpRequests,
      })
      if (windows === 1) expect(played).toBe(1)
      else expect(played).toBeGreaterThanOrEqual(windows)
    },
  )

  test('survives a single outage and reports it', async () => {
    let paused = false
    const server = new QueueServer({
      seed: 1,
      servers: 1,
      maxBatch: 1,
      serviceMs: (_, __, atMs) => {
        if (paused || atMs < 12_000) return 8
        paused = true
        return 900
      },
    })
    const found = await confirm(server, 70)
    expect(found).toMatchObject({ met: true, capacityRps: 70 })
    expect(found.caveats.join()).toMatch(
      /the server answered nothing for \d{3} ms of one window at 70 req/,
    )
  })

  test('continues below the useful rate while windows are invalid', async () => {
    const virtual = new VirtualLoadGenerator()
    const server = {
      kind: 'virtual',
      server: new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 4 }),
    } as const
    const play = async (_: unknown, load: Load): Promise<LoadRun> => {
      const run = await virtual.play(server, load, signal)
      const busy = load.kind === 'open' && load.rateRps > 90
      return busy
        ? { ...run, latencyMs: run.latencyMs.map((ms) => ms * 50), machineWait: { server: 0.4 } }
        : run
    }
    const generator: LoadGenerator = {
      name: 'busy',
      play,
      run: virtual.run.bind(virtual),
      rest: async () => {},
      close: async () => {},
    }
    const found = await confirmCapacity({
      target: targetAt('http://127.0.0.1:1'),
      slo,
      rateRps: 100,
      minRps: 98,
      signal,
      generator,
    })
    expect(found).toMatchObject({ outcome: 'converged', met: false })
    expect(found.capacityRps).toBeCloseTo(82, 9)
  })

  test('is disturbed where the server waited for cores throughout, unless the SLO was met', async () => {
    const virtual = new VirtualLoadGenerator()
    const server = {
      kind: 'virtual',
      server: new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs: () => 4 }),
    } as const
    const on = (slower: number) => {
      const play = async (_: unknown, load: Load): Promise<LoadRun> => {
        const run = await virtual.play(server, load, signal)
        return load.kind === 'closed'
          ? run
          : {
              ...run,
              latencyMs: run.latencyMs.map((ms) => ms * slower),
              machineWait: { server: 0.4 },
            }
      }
      const generator: LoadGenerator = {
        name: 'busy',
        play,
        run: virtual.run.bind(virtual),
        rest: async () => {},
        close: async () => {},
      }
      return confirmCapacity({
        target: targetAt('http://127.0.0.1:1'),
        slo,
        rateRps: 100,
        signal,
        generator,
      })
    }
    expect(await on(50)).toMatchObject({
      outcome: 'host-interference',
      capacityRps: 0,
      met: false,
      bounds: 'none',
    })
    expect(await on(1)).toMatchObject({ outcome: 'converged', capacityRps: 100, met: true })
  })
})
