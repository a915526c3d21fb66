import { describe, expect, test } from 'vitest'
import type { ServiceLog } from '../service-log/service-log.ts'
import { areLongStepsFading, findClosedLoopOutages } from './closed-loop-outages.ts'
import { separateOutages } from './outages.ts'

/** Steps of 10 ms of three requests each, others where told. */
function tens(n: number, other: Readonly<Record<number, number>> = {}, typicalMs = 10): ServiceLog {
  const tookMs = Array.from({ length: n }, (_, i) => other[i] ?? typicalMs)
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
const calm = separateOutages([tens(200, { 100: 60 })])
const lengths = (of: ReturnType<typeof findClosedLoopOutages>) =>
  of.outages.map((each) => each.map(({ excessesMs }) => excessesMs.length))

describe('closed loops beside open windows', () => {
  test('show outages, and how long there was none; the first, of a cold server, does not', () => {
    const beside = findClosedLoopOutages(calm, [
      tens(50, { 0: 500 }),
      tens(50, { 20: 60 }),
      tens(50),
    ])
    expect(lengths(beside)).toEqual([[1], []])
    expect(beside.typical.map(({ tookMs }) => tookMs.length)).toEqual([50, 50])
    expect(Math.max(...beside.typical.flatMap(({ tookMs }) => tookMs))).toBe(10)
  })

  test('are heard from where the server was as fast as later on', () => {
    const beside = findClosedLoopOutages(calm, [
      tens(50),
      tens(50, { 10: 60 }, 30),
      tens(50, {}, 30),
      tens(50),
      tens(50, { 30: 60 }),
    ])
    expect(lengths(beside)).toEqual([[], [1]])
  })

  test('say nothing where they have outages far more often than the windows', () => {
    expect(
      findClosedLoopOutages(calm, [tens(50), tens(100, { 10: 60, 50: 60, 90: 60 })]).outages,
    ).toHaveLength(1)
    expect(
      findClosedLoopOutages(separateOutages([tens(2000)]), [
        tens(50),
        tens(100, { 10: 60, 50: 60, 90: 60 }),
      ]).outages,
    ).toEqual([])
    expect(
      findClosedLoopOutages(separateOutages([tens(2000, { 500: 60 })]), [tens(50), tens(100)])
        .outages,
    ).toEqual([[]])
  })

  /** So many outages, evenly among n steps. */
  const outageProcess = (n: number, count: number, typicalMs = 10) =>
    tens(
      n,
      Object.fromEntries(
        Array.from({ length: count }, (_, i) => [
          Math.floor(((i + 0.5) * n) / count),
          6 * typicalMs,
        ]),
      ),
      typicalMs,
    )
  const heard = (open: ServiceLog, loop: ServiceLog) =>
    findClosedLoopOutages(separateOutages([open]), [tens(50), loop]).typical.length > 0

  test('have outages as often up to what chance allows: half a percent either way', () => {
    // One of seven in two thirds of the steps: 0.69 %; one of eight: 0.26 %.
    expect(heard(outageProcess(800, 1), outageProcess(400, 6))).toBe(true)
    expect(heard(outageProcess(800, 1), outageProcess(400, 7))).toBe(false)
    expect(heard(outageProcess(400, 6), outageProcess(800, 1))).toBe(true)
    expect(heard(outageProcess(400, 7), outageProcess(800, 1))).toBe(false)
  })

  test('are compared by the step and by the time: a loop may take shorter steps than the windows', () => {
    // One of five in two thirds of the time, 4.5 %, but in eight ninths of the steps, 0.07 %.
    expect(heard(outageProcess(400, 4), outageProcess(3200, 1, 2.5))).toBe(true)
    expect(heard(outageProcess(400, 4), outageProcess(3200, 1))).toBe(false)
  })

  test('are heard from the last time the speed changed, of halves of halves', () => {
    const loops = [90, 90, 90, 90, 30, 30, 10, 10].map((typicalMs) => tens(50, {}, typicalMs))
    expect(findClosedLoopOutages(calm, [tens(50), ...loops]).typical).toHaveLength(2)
    expect(findClosedLoopOutages(calm, [tens(50), ...loops.slice(5, 7)]).typical).toHaveLength(1)
  })

  test('where no window stalled may have paused for reasons of their own: as likely as not, but for the chance that windows met none', () => {
    const calmWindow = (n: number) => separateOutages([tens(n)])
    const loops = [tens(50), tens(50, { 20: 60 }), tens(50)]
    // One outage, of 300 steps a third in loops: a third to one. Two in half of them: a quarter to
    // one.
    expect(findClosedLoopOutages(calmWindow(200), loops).outages).toHaveLength(2)
    expect(findClosedLoopOutages(calmWindow(200), loops).probability).toBeCloseTo(
      (2 * (1 / 3)) / (1 + 2 * (1 / 3)),
      2,
    )
    expect(
      findClosedLoopOutages(calmWindow(100), [...loops.slice(0, 2), tens(50, { 10: 60 })])
        .probability,
    ).toBeCloseTo(0.5 / 1.5, 2)
    // Where a window stalled as well, or nothing did, there is no doubt.
    expect(findClosedLoopOutages(calm, loops).probability).toBe(1)
    expect(findClosedLoopOutages(calm, [tens(50), tens(50)]).probability).toBe(1)
    // Nor are windows' own outages in doubt where loops have outages otherwise, and are not heard.
    expect(
      findClosedLoopOutages(separateOutages([outageProcess(800, 1)]), [
        tens(50),
        outageProcess(400, 7),
      ]),
    ).toMatchObject({ outages: [], probability: 1 })
  })

  test('say nothing where long steps are no outages', () => {
    const slowEachTime = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [10 * i, 40]))
    expect(findClosedLoopOutages(calm, [tens(50), tens(100, slowEachTime)]).typical).toEqual([])
  })

  test('a slow time that lasts into the next loop is one', () => {
    const [end, begin] = [
      { 47: 20, 48: 20, 49: 20 },
      { 0: 20, 1: 20, 2: 20, 3: 20 },
    ]
    const [first, second] = findClosedLoopOutages(calm, [
      tens(50),
      tens(50, end),
      tens(150, begin),
    ]).outages
    expect(first).toEqual([
      { atMs: 470, excessesMs: Array(7).fill(10), typicalMs: Array(7).fill(10) },
    ])
    expect(second).toEqual([])
    expect(
      lengths(
        findClosedLoopOutages(calm, [tens(50), tens(50, { ...end, 49: 10 }), tens(150, begin)]),
      ),
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
  const typicalMs = [10, 10, 10, 10]

  test('fade where the later half has fewer than the quarter before it, beyond one case in twenty', () => {
    expect(areLongStepsFading(runs(40, 20, 1, 1), typicalMs)).toBe(true)
    // None of three in two thirds of the steps: 3.7 %. Of two: 11 %.
    expect([
      areLongStepsFading(runs(3, 3, 0, 0), typicalMs),
      areLongStepsFading(runs(2, 2, 0, 0), typicalMs),
    ]).toEqual([true, false])
    expect(areLongStepsFading(runs(5, 5, 5, 5), typicalMs)).toBe(false)
    expect(areLongStepsFading(runs(0, 0, 3, 3), typicalMs)).toBe(false)
    expect(areLongStepsFading([], typicalMs)).toBe(false)
  })

  test('that are as often as not by chance are those of no cache, nor is a slow time that did not come again: it is one, however many steps it has', () => {
    // 26 of 50 in two thirds of the steps: 2 %, and yet half as frequent as before.
    expect(areLongStepsFading(runs(24, 24, 13, 13), typicalMs)).toBe(false)
    expect(areLongStepsFading(runs(24, 24, 8, 8), typicalMs)).toBe(true)
    const slow = tens(100, Object.fromEntries(Array.from({ length: 30 }, (_, i) => [40 + i, 40])))
    expect(areLongStepsFading([tens(100), slow, tens(100), tens(100)], typicalMs)).toBe(false)
  })

  test('of a cold server, all of whose steps are long, do not fade: it gets warm', () => {
    const cold = [tens(400, {}, 13), ...runs(2, 2, 2, 2)]
    expect(areLongStepsFading(cold, typicalMs)).toBe(false)
    // 12 ms are near enough to 10 for it to be warm.
    expect(
      areLongStepsFading(
        [
          tens(300, Object.fromEntries(Array.from({ length: 100 }, (_, i) => [3 * i, 40])), 12),
          ...runs(2, 2, 2),
        ],
        typicalMs,
      ),
    ).toBe(true)
  })

  test('are counted beside what as many as they served usually take, as many as are known', () => {
    const times = (present: number, tookMs: number): ServiceLog => ({
      ...tens(100, {}, tookMs),
      present: Array(100).fill(present),
    })
    expect(
      areLongStepsFading(
        [times(1, 10), times(4, 40), times(1, 10), times(9, 40)],
        [10, 10, 20, 30, 40],
      ),
    ).toBe(false)
  })
})
