import { describe, expect, test } from 'vitest'
import { plainlyHeldRps } from './plain-load.ts'

describe('the highest rate that the plain client finds kept', () => {
  const asked: number[] = []
  /** Keeps 50 ms up to so many a second, but in windows that are said to miss. */
  const server = (capacityRps: number, ...missing: readonly number[]) => {
    asked.length = 0
    return async (rateRps: number) => {
      asked.push(rateRps)
      return rateRps > capacityRps || missing.includes(asked.length) ? 80 : 20
    }
  }
  const held = (percentileMs: Parameters<typeof plainlyHeldRps>[0]) =>
    plainlyHeldRps(percentileMs, { limitMs: 50 }, 1000)

  test.each([1100, 1000, 941, 939, 700])(
    'is within two percent of %d, from above what is expected and from below',
    async (capacityRps) => {
      const rateRps = await held(server(capacityRps))
      expect(rateRps).toBeLessThanOrEqual(capacityRps)
      expect(1.02 * rateRps).toBeGreaterThan(capacityRps)
      expect(asked[0]).toBe(470)
    },
  )
  test('is not lowered by one window that missed, but by two', async () => {
    expect(await held(server(960, 2))).toBeCloseTo(958.8, 6)
    expect(await held(server(960, 2, 3))).toBeCloseTo(940 / 1.02, 6)
  })
  test('does not exist where none is kept down to half, and is not looked for beyond twice', async () => {
    await expect(held(server(400))).rejects.toThrow('no rate down to')
    expect(await held(server(5000))).toBeGreaterThanOrEqual(2000)
    expect(Math.max(...asked)).toBeLessThan(2050)
  })
})
