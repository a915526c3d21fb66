import { describe, expect, test } from 'vitest'
import type { Load } from '../model/load.ts'
import type { Slo } from '../model/slo.ts'
import type { VirtualServer } from '../model/virtual-server.ts'
import { QueueServer } from '../testing/queue-server.ts'
import { runOf } from '../testing/scripted-generator.ts'
import { measureCapacity } from './measure.ts'
import {
  areContradictory,
  describeSpeedChange,
  extractUnloadedLatencies,
} from './unloaded-latency.ts'

const load: Load = {
  kind: 'open',
  rateRps: 10,
  durationS: 1,
  arrivals: { kind: 'poisson' },
  seed: 1,
}
const run = (sentMs: number[], latencyMs: number[], more = {}) =>
  runOf(load, latencyMs, { sentMs: Float64Array.from(sentMs), ...more })

describe('requests that met nobody', () => {
  test('found the server empty and left before the next came', () => {
    expect(extractUnloadedLatencies(run([0, 10, 20, 24, 40], [5, 10, 6, 9, 7]))).toEqual([5, 10, 7])
    // One that stays long is met by all until it leaves.
    expect(extractUnloadedLatencies(run([0, 10, 20, 40], [30, 5, 5, 6]))).toEqual([6])
  })

  test('are timed from when they were sent, and end with the window or the first failure', () => {
    expect(
      extractUnloadedLatencies(run([0, 10, 20], [6, 7, 8], { lateMs: Float64Array.of(1, 2, 0) })),
    ).toEqual([5, 5, 8])
    expect(extractUnloadedLatencies(run([0, 10, 20], [5, 5, 5], { cutMs: 25 }))).toEqual([5, 5])
    expect(extractUnloadedLatencies(run([0, 10, 20], [5, Number.NaN, 5]))).toEqual([5])
  })
})

describe('two lots of them', () => {
  const lot = (ms: number, n = 12) =>
    Array.from({ length: n }, (_, i) => ms * (i % 3 === 0 ? 0.99 : i % 3 === 1 ? 1 : 1.01))

  test('contradict each other beyond two fifths, a fiftieth of the limit and half a millisecond', () => {
    expect([
      areContradictory(lot(8), lot(11.1), 60),
      areContradictory(lot(8), lot(11.3), 60),
    ]).toEqual([false, true])
    expect([
      areContradictory(lot(8), lot(11.9), 200),
      areContradictory(lot(8), lot(12.1), 200),
    ]).toEqual([false, true])
    expect([
      areContradictory(lot(0.3), lot(0.75), 10),
      areContradictory(lot(0.3), lot(0.85), 10),
    ]).toEqual([false, true])
  })

  test('do not within chance, or where there are few', () => {
    const wide = (ms: number) => Array.from({ length: 16 }, (_, i) => ms * (0.2 + 0.1 * i))
    expect(areContradictory(wide(10), wide(13), 60)).toBe(false)
    expect([
      areContradictory(lot(8, 7), lot(20, 7), 60),
      areContradictory(lot(8, 7), lot(20, 7), 60),
    ]).toEqual([false, false])
  })
})

describe('an idle latency that requests under open load contradict', () => {
  const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.001 }
  const fifo = (serviceMs: () => number) =>
    new QueueServer({ seed: 1, servers: 1, maxBatch: 1, serviceMs })
  const measured = (server: VirtualServer, onStep = (_phase: string) => {}) =>
    measureCapacity({
      target: { kind: 'virtual', server },
      slo,
      signal: new AbortController().signal,
      effort: 'quick',
      seed: 5,
      onStep: (_, phase) => onStep(phase),
    })

  test('is measured again, and the later one told: the server had changed', async () => {
    let ms = 12
    const found = await measured(
      fifo(() => ms),
      (phase) => {
        if (phase === 'unloaded') ms = 8
      },
    )
    expect(found.unloaded.p50Ms).toBeCloseTo(8, 6)
    expect(found.caveats.join()).toMatch(
      /one request at a time took 12\.0 ms before the load and 8\.00 ms after it, requests that met no other under load took 8\.00 ms: the server changed/,
    )
    expect(found.capacityRps).toBeGreaterThan(80)
    expect(found.capacityRps).toBeLessThan(96)
  })

  test('and that stays as it was is told with what contradicts it', async () => {
    // Sleeps between requests, and takes 4 ms to wake: a closed loop never lets it.
    const [awake, sleepy] = [fifo(() => 8), fifo(() => 12)]
    const found = await measured({
      play: (given) => (given.kind === 'closed' ? awake : sleepy).play(given),
    })
    expect(found.unloaded.p50Ms).toBeCloseTo(8, 6)
    expect(found.caveats.join()).toMatch(
      /requests that met no other under load took 12\.0 ms: the unloaded latency under open load differs/,
    )
  })

  test('is measured once where nothing does', async () => {
    const phases: string[] = []
    const found = await measured(
      fifo(() => 8),
      (phase) => phases.push(phase),
    )
    expect(phases.lastIndexOf('unloaded')).toBe(phases.indexOf('unloaded'))
    expect(found.caveats).toEqual([])
  })
})

test('an unloaded latency that changed by a quarter is reported', () => {
  const each = (ms: number, n = 12) => new Array<number>(n).fill(ms)
  expect(describeSpeedChange(each(20), each(24.9))).toEqual([])
  expect(describeSpeedChange(each(20), each(25.1))).toEqual([
    'the server became slower during the measurement: one request at a time took 20.0 ms before and 25.1 ms after; the capacity mixes both',
  ])
  expect(describeSpeedChange(each(20), each(15.9)).join()).toMatch(/became faster/)
  expect(describeSpeedChange(each(20, 5), each(40, 5))).toEqual([])
})
