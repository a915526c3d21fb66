/**
 * How long a twin goes on with what followed, and whether that makes it as slow as a server on an
 * unsteady machine.
 */
import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../../bench/truth.bench.ts'
import { normal, seeded } from '../../seeded-random.ts'
import { slowTimesCases } from '../../testing/small-model-servers.ts'
import { measureCapacity } from '../measure.ts'
import { following, rowsOf, steady } from './rows.ts'
import { type Steps, stepsOfOne } from './steps.ts'

const n = 3000
const services = (ms: (i: number) => number, endedMs = (i: number) => 10 * i): Steps =>
  stepsOfOne(
    Array.from({ length: n }, (_, i) => ms(i)),
    Array.from({ length: n }, (_, i) => endedMs(i)),
  )
const scattered = (seed: number, factor: (i: number) => number = () => 1) => {
  const uniform = seeded(seed)
  return services((i) => 10 * (1 + 0.15 * normal(uniform)) * factor(i))
}

describe('rows of steps', () => {
  test('are short where steps scatter by chance, and where two workers take turns', () => {
    const found = Array.from({ length: 60 }, (_, seed) => rowsOf(scattered(seed)).within)
    expect(found.filter((within) => within > 1).length).toBeLessThanOrEqual(2)
    expect(rowsOf(services((i) => (i % 2 === 0 ? 4 : 6)))).toEqual(steady)
    expect(rowsOf(services((i) => 10 + 1e-9 * (i % 50)))).toEqual(steady)
  })

  test('are long where the machine is slow for a while, now and then', () => {
    for (let seed = 0; seed < 20; seed++)
      expect(rowsOf(scattered(seed, (i) => (i % 100 < 15 ? 1.6 : 1)))).toMatchObject({
        within: 30,
        keepGoing: 0.98,
      })
  })

  test('compare steps with their like: batches that follow the queue are no slow times', () => {
    const sizes = Array.from({ length: n }, (_, i) => 1 + Math.round(3 * (1 + Math.sin(i / 8))))
    const uniform = seeded(5)
    const tookMs = sizes.map((size) => (2 + 6 * size) * (1 + 0.05 * normal(uniform)))
    expect(rowsOf({ ...services((i) => tookMs[i]!), present: sizes, departed: sizes })).toEqual(
      steady,
    )
  })

  test('compare none with those of another run', () => {
    // Four of each run, one run as slow as the next is fast: alike within each run alone.
    const uniform = seeded(6)
    const apart = services(
      (i) => (Math.floor(i / 4) % 5 === 0 ? 16 : 10) * (1 + 0.05 * normal(uniform)),
      (i) => 10 * (i % 4),
    )
    expect(rowsOf(apart)).toEqual(steady)
  })
})

describe('the step that follows', () => {
  const fitting = Int32Array.of(3, 4, 20, 90)
  const always = (within: number) => ({ keepGoing: 1, within })

  test('is the one right after the last, where rows are short, else any that fits', () => {
    expect(following(always(1), fitting, 3, () => 0.99)).toBe(4)
    expect(following(always(1), fitting, 4, () => 0.99)).toBe(90)
    expect(following(always(1), fitting, -1, () => 0)).toBe(3)
  })

  test('is the nearest after it, or before it, of its time', () => {
    expect(following(always(30), fitting, 4, () => 0.99)).toBe(20)
    expect(following(always(30), fitting, 20, () => 0.99)).toBe(4)
    expect(following(always(30), fitting, 40, () => 0)).toBe(20)
    expect(following(always(30), fitting, 55, () => 0.99)).toBe(90)
    expect(following({ keepGoing: 0, within: 30 }, fitting, 4, () => 0.99)).toBe(90)
  })
})

test('a server whose machine is slow now and then is read within a fifth, for twice as many too many before', async () => {
  const of = slowTimesCases.find(({ name }) =>
    name.startsWith('slow times: 2 x batches of 1, 2.2 times'),
  )!
  const truth = trueCapacities()[of.name]!
  const errors: number[] = []
  for (const seed of [1001, 1002]) {
    const target = { kind: 'virtual', server: of.server(seed * 7) } as const
    const { signal } = new AbortController()
    const { capacityRps } = await measureCapacity({
      target,
      slo: of.slo,
      signal,
      seed: seed * 1000,
      effort: 'thorough',
    })
    errors.push(capacityRps / truth - 1)
  }
  expect(Math.max(...errors.map(Math.abs))).toBeLessThan(0.2)
})
