import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../../../bench/truth.bench.ts'
import { VirtualLoadGenerator } from '../../../load/virtual-generator.ts'
import type { VirtualServer } from '../../../model/virtual-server.ts'
import { gamma, type Uniform } from '../../../seeded-random.ts'
import { drawnCases } from '../../../testing/drawn-servers.ts'
import { QueueServer } from '../../../testing/queue-server.ts'
import { StagedServer, type StagedServerOptions } from '../../../testing/staged-server.ts'
import { virtualCases } from '../../../testing/virtual-servers.ts'
import { measureCapacity } from '../../measure.ts'
import { maxCoresRps } from '../two-stages.ts'
import { identifyTwoStages } from './identify-two-stages.ts'

const { signal } = new AbortController()

/** What a sweep and two steady windows about its capacity show of a server. */
async function seenOf(server: VirtualServer, rateRps: number, unloadedMs: number, largest = 0) {
  const windows = []
  for (const share of [0.6, 0.95, 1])
    windows.push({
      run: await new VirtualLoadGenerator().play(
        { kind: 'virtual', server },
        {
          kind: 'open',
          rateRps: share * rateRps,
          durationS: 1.5,
          arrivals: { kind: 'poisson' },
          seed: 10 * share,
        },
        signal,
      ),
      disturbed: [],
    })
  return identifyTwoStages(windows, largest, 0.15 * unloadedMs, unloadedMs)
}

const staged = (options: Partial<StagedServerOptions> & { ms: number }) =>
  new StagedServer({
    seed: 5,
    maxBatch: 16,
    maxDelayMs: 0,
    decodeMs: (uniform: Uniform) => options.ms * gamma(uniform, 11),
    batchMs: (n: number, uniform: Uniform) => (6 + 0.8 * n) * gamma(uniform, 1000),
    writeMs: () => 0.02,
    ...options,
  })

describe('cores beside batches show in how many are decoded when a batch begins', () => {
  test.each<
    [string, Partial<StagedServerOptions> & { readonly ms: number; readonly cores: number }, number]
  >([
    ['one that is nearly as slow as the batches', { ms: 1, cores: 1 }, 720],
    ['four that hardly wait, and a delay', { ms: 3, cores: 4, maxDelayMs: 4, maxBatch: 8 }, 560],
  ])('%s', async (_, options, rateRps) => {
    const unloadedMs = 6.8 + options.ms + 0.02 + (options.maxDelayMs ?? 0)
    const found = (await seenOf(staged(options), rateRps, unloadedMs))!
    expect(found.maxBatch).toBe(options.maxBatch ?? 16)
    const busiest =
      rateRps / maxCoresRps({ cores: options.cores, decodeMs: options.ms, writeMs: 0.02 })
    // Busy cores are known by what they serve, unloaded ones by the time that they take.
    if (busiest > 0.8)
      expect(Math.abs(maxCoresRps(found.cores) / (rateRps / busiest) - 1)).toBeLessThan(0.12)
    else expect(Math.abs(found.cores!.decodeMs / options.ms - 1)).toBeLessThan(0.4)
    expect(Math.abs(found.delayMs - (options.maxDelayMs ?? 0))).toBeLessThan(1.5)
  })

  test('also where nearly all batches are full, which tell nothing', async () => {
    const { server } = virtualCases.find(({ name }) => name === 'CPU, then GPU batch 32')!
    const found = (await seenOf(server(7), 2300, 6.5, 32))!
    expect(found.maxBatch).toBe(32)
    expect(Math.abs(found.cores!.writeMs / found.cores!.cores / 0.1 - 1)).toBeLessThan(0.1)
    expect(Math.abs(found.delayMs - 2)).toBeLessThan(0.5)
  })

  test('and are not looked for where batches alone tell as much, or none are served', async () => {
    const batches = (maxBatch: number, servers = 1) =>
      new QueueServer({ seed: 5, servers, maxBatch, serviceMs: (n) => 6 + 0.8 * n })
    expect(await seenOf(batches(16), 800, 6.8)).toBeUndefined()
    expect(await seenOf(batches(1, 4), 500, 6.8)).toBeUndefined()
  })
})

describe('the capacity of servers whose cores decode for long beside the batches', () => {
  const truths = trueCapacities()
  const measured = async (name: RegExp, seeds: readonly number[]) => {
    const {
      server,
      slo,
      name: full,
    } = [...drawnCases, ...virtualCases].find((of) => name.test(of.name))!
    const found = await Promise.all(
      seeds.map((seed) =>
        measureCapacity({
          target: { kind: 'virtual', server: server(7 * seed) },
          slo,
          signal,
          seed: 1000 * seed,
          effort: 'quick',
        }),
      ),
    )
    const truth = truths[full]!
    return found.map(({ capacityRps, capacityCi90Rps: [low, high], outcome }) => ({
      error: Math.abs(capacityRps / truth - 1),
      holds: low <= truth && truth <= high,
      half: (high - low) / 2 / truth,
      outcome,
    }))
  }
  const middle = (values: readonly number[]) =>
    values.toSorted((a, b) => a - b)[values.length >> 1]!

  test('is known to 3 %, and certain: neither stage is taken for the other', async () => {
    const found = await measured(/^drawn: 4 cores 1.2 ms, then/, [1001, 1002, 1004])
    expect(middle(found.map(({ error }) => error))).toBeLessThan(0.03)
    expect(found.every(({ holds }) => holds)).toBe(true)
    const both = await measured(/^drawn: 2 cores 1.6 ms, then/, [1001, 1002, 1003])
    expect(middle(both.map(({ error }) => error))).toBeLessThan(0.03)
    expect(middle(both.map(({ half }) => half))).toBeLessThan(0.08)
  })

  test('is theirs though the last windows had full batches alone, which tell nothing', async () => {
    const [found] = await measured(/^CPU, then GPU batch 32/, [1009])
    expect(found!.holds).toBe(true)
    expect(found!.error).toBeLessThan(0.03)
  })

  test('has their full batches in it, though cores leave one or two requests behind each', async () => {
    const [found] = await measured(/^drawn apart: 3 cores 0.43 ms, then/, [1002])
    expect(found!.error).toBeLessThan(0.03)
  })

  test('does not slow down for batches that closed loops answer as fast as eleven workers would', async () => {
    const found = await measured(/^drawn apart: 2 cores 1.1 ms, then/, [1001, 1002, 1003])
    expect(found.map(({ outcome }) => outcome)).toEqual(['converged', 'converged', 'converged'])
  })
})
