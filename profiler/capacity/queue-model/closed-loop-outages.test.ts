import { describe, expect, test } from 'vitest'
import { longOnesFade, stallsBeside } from './closed-loop-outages.ts'
import { separateStalls } from './outages.ts'
import type { Steps } from '../service-log/service-log.ts'

/** Steps of 10 ms of three requests each, others where told. */
function tens(n: number, other: Readonly<Record<number, number>> = {}, usualMs = 10): Steps {
  const tookMs = Array.from({ length: n }, (_, i) => other[i] ?? usualMs)
  let now = 0
  const each = (value: number) => tookMs.map(() => value)
  return {
    present: each(3),
    departed: each(3),
    rank: each(0),
    spreadMs: each(0),
    tookMs,
    endedMs: tookMs.map((ms) => (now += ms)),
  }
}
const calm = separateStalls([tens(200, { 100: 60 })])
const lengths = (of: ReturnType<typeof stallsBeside>) =>
  of.stalls.map((each) => each.map(({ excessesMs }) => excessesMs.length))

describe('closed loops beside open windows', () => {
  test('show stalls, and how long there was none; the first, of a cold server, does not', () => {
    const beside = stallsBeside(calm, [tens(50, { 0: 500 }), tens(50, { 20: 60 }), tens(50)])
    expect(lengths(beside)).toEqual([[1], []])
    expect(beside.usual.map(({ tookMs }) => tookMs.length)).toEqual([50, 50])
    expect(Math.max(...beside.usual.flatMap(({ tookMs }) => tookMs))).toBe(10)
  })

  test('are heard from where the server was as fast as later on', () => {
    const beside = stallsBeside(calm, [
      tens(50),
      tens(50, { 10: 60 }, 30),
      tens(50, {}, 30),
      tens(50),
      tens(50, { 30: 60 }),
    ])
    expect(lengths(beside)).toEqual([[], [1]])
  })

  test('say nothing where they stall far more often than the windows', () => {
    expect(
      stallsBeside(calm, [tens(50), tens(100, { 10: 60, 50: 60, 90: 60 })]).stalls,
    ).toHaveLength(1)
    expect(
      stallsBeside(separateStalls([tens(2000)]), [tens(50), tens(100, { 10: 60, 50: 60, 90: 60 })])
        .stalls,
    ).toEqual([])
    expect(
      stallsBeside(separateStalls([tens(2000, { 500: 60 })]), [tens(50), tens(100)]).stalls,
    ).toEqual([[]])
  })

  /** So many stalls, evenly among n steps. */
  const stalling = (n: number, count: number, usualMs = 10) =>
    tens(
      n,
      Object.fromEntries(
        Array.from({ length: count }, (_, i) => [Math.floor(((i + 0.5) * n) / count), 6 * usualMs]),
      ),
      usualMs,
    )
  const heard = (open: Steps, loop: Steps) =>
    stallsBeside(separateStalls([open]), [tens(50), loop]).usual.length > 0

  test('stall as often up to what chance allows: half a percent either way', () => {
    // One of seven in two thirds of the steps: 0.69 %; one of eight: 0.26 %.
    expect(heard(stalling(800, 1), stalling(400, 6))).toBe(true)
    expect(heard(stalling(800, 1), stalling(400, 7))).toBe(false)
    expect(heard(stalling(400, 6), stalling(800, 1))).toBe(true)
    expect(heard(stalling(400, 7), stalling(800, 1))).toBe(false)
  })

  test('are compared by the step and by the time: a loop may take shorter steps than the windows', () => {
    // One of five in two thirds of the time, 4.5 %, but in eight ninths of the steps, 0.07 %.
    expect(heard(stalling(400, 4), stalling(3200, 1, 2.5))).toBe(true)
    expect(heard(stalling(400, 4), stalling(3200, 1))).toBe(false)
  })

  test('are heard from the last time the speed changed, of halves of halves', () => {
    const loops = [90, 90, 90, 90, 30, 30, 10, 10].map((usualMs) => tens(50, {}, usualMs))
    expect(stallsBeside(calm, [tens(50), ...loops]).usual).toHaveLength(2)
    expect(stallsBeside(calm, [tens(50), ...loops.slice(5, 7)]).usual).toHaveLength(1)
  })

  test('where no window stalled may have paused for reasons of their own: as likely as not, but for the chance that windows met none', () => {
    const calmWindow = (n: number) => separateStalls([tens(n)])
    const loops = [tens(50), tens(50, { 20: 60 }), tens(50)]
    // One stall, of 300 steps a third in loops: a third to one. Two in half of them: a quarter to
    // one.
    expect(stallsBeside(calmWindow(200), loops).stalls).toHaveLength(2)
    expect(stallsBeside(calmWindow(200), loops).likely).toBeCloseTo(
      (2 * (1 / 3)) / (1 + 2 * (1 / 3)),
      2,
    )
    expect(
      stallsBeside(calmWindow(100), [...loops.slice(0, 2), tens(50, { 10: 60 })]).likely,
    ).toBeCloseTo(0.5 / 1.5, 2)
    // Where a window stalled as well, or nothing did, there is no doubt.
    expect(stallsBeside(calm, loops).likely).toBe(1)
    expect(stallsBeside(calm, [tens(50), tens(50)]).likely).toBe(1)
    // Nor are windows' own stalls in doubt where loops stall otherwise, and are not heard.
    expect(
      stallsBeside(separateStalls([stalling(800, 1)]), [tens(50), stalling(400, 7)]),
    ).toMatchObject({ stalls: [], likely: 1 })
  })

  test('say nothing where long steps are no stalls', () => {
    const slowEachTime = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [10 * i, 40]))
    expect(stallsBeside(calm, [tens(50), tens(100, slowEachTime)]).usual).toEqual([])
  })

  test('a slow time that lasts into the next loop is one', () => {
    const [end, begin] = [
      { 47: 20, 48: 20, 49: 20 },
      { 0: 20, 1: 20, 2: 20, 3: 20 },
    ]
    const [first, second] = stallsBeside(calm, [tens(50), tens(50, end), tens(150, begin)]).stalls
    expect(first).toEqual([
      { atMs: 470, excessesMs: Array(7).fill(10), usualMs: Array(7).fill(10) },
    ])
    expect(second).toEqual([])
    expect(
      lengths(stallsBeside(calm, [tens(50), tens(50, { ...end, 49: 10 }), tens(150, begin)])),
    ).toEqual([[1, 1], [4]])
  })
})

describe('long steps', () => {
  /** Runs of a hundred steps each, so many of them long, evenly. */
  const runs = (...longOnes: readonly number[]) =>
    longOnes.map((count) =>
      tens(
        100,
        Object.fromEntries(
          Array.from({ length: count }, (_, i) => [Math.floor(((i + 0.5) * 100) / count), 40]),
        ),
      ),
    )
  const usualMs = [10, 10, 10, 10]

  test('fade where the later half has fewer than the quarter before it, beyond one case in twenty', () => {
    expect(longOnesFade(runs(40, 20, 1, 1), usualMs)).toBe(true)
    // None of three in two thirds of the steps: 3.7 %. Of two: 11 %.
    expect([
      longOnesFade(runs(3, 3, 0, 0), usualMs),
      longOnesFade(runs(2, 2, 0, 0), usualMs),
    ]).toEqual([true, false])
    expect(longOnesFade(runs(5, 5, 5, 5), usualMs)).toBe(false)
    expect(longOnesFade(runs(0, 0, 3, 3), usualMs)).toBe(false)
    expect(longOnesFade([], usualMs)).toBe(false)
  })

  test('that are as often as not by chance are those of no cache, nor is a slow time that did not come again: it is one, however many steps it has', () => {
    // 26 of 50 in two thirds of the steps: 2 %, and yet half as frequent as before.
    expect(longOnesFade(runs(24, 24, 13, 13), usualMs)).toBe(false)
    expect(longOnesFade(runs(24, 24, 8, 8), usualMs)).toBe(true)
    const slow = tens(100, Object.fromEntries(Array.from({ length: 30 }, (_, i) => [40 + i, 40])))
    expect(longOnesFade([tens(100), slow, tens(100), tens(100)], usualMs)).toBe(false)
  })

  test('of a cold server, all of whose steps are long, do not fade: it gets warm', () => {
    const cold = [tens(400, {}, 13), ...runs(2, 2, 2, 2)]
    expect(longOnesFade(cold, usualMs)).toBe(false)
    // 12 ms are near enough to 10 for it to be warm.
    expect(
      longOnesFade(
        [
          tens(300, Object.fromEntries(Array.from({ length: 100 }, (_, i) => [3 * i, 40])), 12),
          ...runs(2, 2, 2),
        ],
        usualMs,
      ),
    ).toBe(true)
  })

  test('are counted beside what as many as they served usually take, as many as are known', () => {
    const times = (present: number, tookMs: number): Steps => ({
      ...tens(100, {}, tookMs),
      present: Array(100).fill(present),
    })
    expect(
      longOnesFade([times(1, 10), times(4, 40), times(1, 10), times(9, 40)], [10, 10, 20, 30, 40]),
    ).toBe(false)
  })
})
