import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createUniform, sampleNormal, type Uniform } from '../seeded-random.ts'
import {
  computeCriticalStandardErrors,
  detectChange,
  falseAlarmLevel,
  findSteadyStart,
} from './change-detector.ts'

const repeat = (n: number, speed: number): number[] => new Array<number>(n).fill(speed)
/** Batches of independent speeds around the given levels. */
const sample = (
  levels: readonly number[],
  size: number,
  draw: (uniform: Uniform) => number,
  uniform: Uniform,
): number[][] => levels.map((level) => Array.from({ length: size }, () => level * draw(uniform)))

describe('a change', () => {
  test('is found between the batches where it happened, with its ratio', () => {
    expect(detectChange([repeat(20, 5), repeat(20, 5), repeat(20, 4), repeat(20, 4)])).toEqual({
      changed: true,
      at: 2,
      ratio: expect.closeTo(0.8, 9),
      direction: 'slower',
    })
    expect(detectChange([repeat(20, 5), [], repeat(20, 10)])).toMatchObject({
      at: 2,
      ratio: expect.closeTo(2, 9),
      direction: 'faster',
    })
  })

  test('is relevant beyond 5 %, or what the caller says', () => {
    const pair = (ratio: number) => [repeat(20, 10), repeat(20, 10 * ratio)]
    expect([detectChange(pair(1.05)).changed, detectChange(pair(1.051)).changed]).toEqual([
      false,
      true,
    ])
    expect([detectChange(pair(1.1), 0.1).changed, detectChange(pair(1.11), 0.1).changed]).toEqual([
      false,
      true,
    ])
  })

  test('is none without speeds, with too few, or with equal ones', () => {
    const none = { changed: false, ratio: 1, direction: undefined }
    expect(detectChange([])).toEqual({ ...none, at: 0 })
    expect(detectChange([[], []])).toEqual({ ...none, at: 2 })
    expect(detectChange([repeat(50, 3), repeat(50, 3)])).toMatchObject(none)
  })

  test('that does not last is none: the server is slow now and then', () => {
    const uniform = createUniform(3)
    const jitter = (u: Uniform) => 0.9 + 0.2 * u()
    expect(detectChange(sample([6, 3, 6, 6, 3, 3], 100, jitter, uniform)).changed).toBe(false)
    expect(detectChange(sample([6, 6, 3, 6], 100, jitter, uniform)).changed).toBe(false)
    // A gradual change lasts.
    const gradual = Array.from({ length: 12 }, (_, i) => 3 + 0.2 * i)
    expect(detectChange(sample(gradual, 30, jitter, uniform)).direction).toBe('faster')
  })

  test('is not feigned by an outage, however long', () => {
    const speeds = [...repeat(60, 5), 0.001, ...repeat(59, 5)]
    expect(detectChange([speeds.slice(0, 60), speeds.slice(60)]).changed).toBe(false)
  })
})

describe('a steady server', () => {
  const distributions: [string, (uniform: Uniform) => number][] = [
    ['exponential services', (u) => -1 / Math.log(1 - u())],
    ['lognormal services', (u) => Math.exp(sampleNormal(u))],
    ['services of two lengths', (u) => (u() < 0.1 ? 0.1 : 1)],
    ['few distinct counts', (u) => 1 + Math.floor(3 * u())],
  ]
  /** Share of sequences that count as changed, whatever the size of the change. */
  const alarmShare = (
    draw: (uniform: Uniform) => number,
    batches: number,
    size: number,
    level: number,
    runs: number,
  ) => {
    const uniform = createUniform(batches + size)
    let alarms = 0
    for (let i = 0; i < runs; i++)
      if (detectChange(sample(repeat(batches, 1), size, draw, uniform), -0.999999, level).changed)
        alarms++
    return alarms / runs
  }

  test.each(distributions)(
    'of %s has false alarms at most as often as the level says',
    (_, draw) => {
      for (const [batches, size] of [
        [2, 12],
        [2, 60],
        [8, 12],
        [24, 12],
      ] as const) {
        // Two standard errors of 1,000 sequences.
        expect(alarmShare(draw, batches, size, 0.05, 1000)).toBeLessThan(0.05 + 0.014)
      }
      expect(alarmShare(draw, 8, 12, falseAlarmLevel, 4000)).toBeLessThanOrEqual(0.0025)
    },
  )

  test('whose consecutive speeds depend on each other has few false alarms too', () => {
    const uniform = createUniform(8)
    let alarms = 0
    for (let run = 0; run < 1000; run++) {
      let state = sampleNormal(uniform)
      const batches = Array.from({ length: 8 }, () =>
        Array.from({ length: 50 }, () => {
          state = 0.7 * state + Math.sqrt(1 - 0.7 ** 2) * sampleNormal(uniform)
          return Math.exp(state)
        }),
      )
      if (detectChange(batches, -0.999999, 0.05).changed) alarms++
    }
    // 9 %, at a level of 5 %. Without the correction for dependence: 51 %.
    expect(alarms).toBeLessThan(120)
  })

  test('whose speed doubles is detected in three dozen steps of usual variation', () => {
    const uniform = createUniform(1)
    let found = 0
    for (let i = 0; i < 200; i++)
      if (detectChange(sample([1, 2], 36, (u) => Math.exp(0.5 * sampleNormal(u)), uniform)).changed)
        found++
    expect(found).toBeGreaterThan(185)
  })
})

const batchesOf = fc.array(
  fc.array(fc.double({ min: 0.01, max: 100, noNaN: true }), { minLength: 1, maxLength: 30 }),
  { minLength: 2, maxLength: 6 },
)

describe('detection', () => {
  test('does not depend on the unit of speed', () => {
    fc.assert(
      fc.property(batchesOf, fc.constantFrom(0.25, 2, 1024), (batches, factor) => {
        const [plain, scaled] = [
          detectChange(batches),
          detectChange(batches.map((batch) => batch.map((speed) => factor * speed))),
        ]
        expect(scaled).toEqual({ ...plain, ratio: expect.closeTo(plain.ratio, 9) })
      }),
    )
  })

  test('of the reversed sequence finds the reversed change', () => {
    fc.assert(
      fc.property(batchesOf, (batches) => {
        const [there, back] = [detectChange(batches), detectChange(batches.toReversed())]
        // Two splits may be equally good.
        fc.pre(!there.changed || there.at === batches.length - back.at)
        expect(back.changed).toBe(there.changed)
        expect(back.ratio).toBeCloseTo(1 / there.ratio, 6)
      }),
    )
  })

  test('does not depend on the order within two batches', () => {
    fc.assert(
      fc.property(batchesOf, (batches) => {
        const two = batches.slice(0, 2)
        expect(detectChange(two.map((batch) => batch.toReversed()))).toEqual(detectChange(two))
      }),
    )
  })

  test('is stricter the more splits are compared, and the lower the level', () => {
    // Normal quantiles of 0.9995 and 0.99995.
    expect(computeCriticalStandardErrors()).toBeCloseTo(3.29, 1)
    expect(computeCriticalStandardErrors(10)).toBeCloseTo(3.89, 1)
    expect(computeCriticalStandardErrors(1, 0.05)).toBeCloseTo(1.96, 2)
  })
})

test('a server is steady from its last change on', () => {
  expect(findSteadyStart([])).toBe(0)
  expect(findSteadyStart([repeat(20, 5), repeat(20, 5)])).toBe(0)
  expect(findSteadyStart([1, 2, 4, 8, 8, 8].map((speed) => repeat(20, speed)))).toBe(3)
})
