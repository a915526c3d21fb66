import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../../model/load-run.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import { estimateSystemCapacity, extractServiceLog, joinServiceLogs } from './service-log.ts'

/** Requests by when they were sent and answered, ms; NaN: never. */
const runOfRequests = (
  requests: readonly (readonly [sentMs: number, answeredMs: number])[],
  more: Partial<LoadRun> = {},
): LoadRun =>
  runOf(
    { kind: 'open', rateRps: 1, arrivals: { kind: 'poisson' }, durationS: 1, seed: 1 },
    requests.map(([sent, answered]) => answered - sent),
    { sentMs: Float64Array.from(requests, ([sent]) => sent), ...more },
  )
const seen = (
  requests: Parameters<typeof runOfRequests>[0],
  coalescingMs = 1,
  more: Partial<LoadRun> = {},
) => extractServiceLog(runOfRequests(requests, more), coalescingMs)

describe('steps', () => {
  test('last from a departure, or the arrival at an idle server, to the next; who comes with an answer is late for it', () => {
    expect(
      seen([
        [0, 10],
        [2, 20],
        [20, 30],
        [50, 60],
      ]),
    ).toEqual({
      present: [1, 1, 1, 1],
      tookMs: [10, 10, 10, 10],
      departed: [1, 1, 1, 1],
      rank: [0, 0, 0, 0],
      endedMs: [10, 20, 30, 60],
      spreadMs: [0, 0, 0, 0],
    })
  })

  test('count who is there when they begin', () => {
    expect(
      seen([
        [0, 10],
        [1, 20],
        [2, 30],
        [3, 40],
        [25, 50],
      ]).present,
    ).toEqual([1, 3, 2, 2, 1])
  })

  test('of a batch are one, its answers within so many ms of the first', () => {
    const batch = [
      [0, 10],
      [1, 25],
      [2, 25.4],
      [3, 26],
      [4, 26.5],
    ] as const
    expect(seen(batch)).toMatchObject({
      present: [1, 4, 1],
      departed: [1, 3, 1],
      tookMs: [10, 15, 1.5],
      spreadMs: [0, 0, 0],
    })
    expect(seen(batch, 0.5)).toMatchObject({ departed: [1, 2, 2], present: [1, 4, 2] })
  })

  test('know the place of the first to leave', () => {
    expect(
      seen([
        [0, 10],
        [1, 30],
        [2, 20],
      ]).rank,
    ).toEqual([0, 1, 0])
    // Of a batch that of its oldest.
    expect(
      seen([
        [0, 10],
        [1, 40],
        [2, 20],
        [3, 20],
      ]).rank,
    ).toEqual([0, 1, 0])
  })

  test('leave out failed requests, and those that a cut window ended with', () => {
    expect(
      seen([
        [0, 10],
        [1, Number.NaN],
        [2, 20],
      ]),
    ).toMatchObject({ departed: [1, 1], present: [1, 1] })
    expect(
      seen(
        [
          [0, 10],
          [1, 20],
          [2, 30],
          [3, 30],
        ],
        1,
        { cutMs: 30 },
      ),
    ).toMatchObject({ departed: [1, 1], present: [1, 3] })
    expect(seen([])).toMatchObject({ departed: [] })
  })

  test('of a server that answers in bursts go on while one answer follows the other', () => {
    // Six batches of twenty, written half a millisecond apart.
    const burst = Array.from(
      { length: 120 },
      (_, i) => [i % 20, 0, Math.floor(i / 20)] as const,
    ).map(
      ([place, , batch]) =>
        [100 * batch + place * 0.1 - (batch > 0 ? 5 : 0), 100 * batch + 90 + place * 0.5] as const,
    )
    // Of the first, three answers are close, and those of who came after it had begun follow as a
    // step of their own.
    expect(seen(burst)).toMatchObject({
      departed: [3, 17, 20, 20, 20, 20, 20],
      spreadMs: [1, 8, 9.5, 9.5, 9.5, 9.5, 9.5],
      present: [1, 17, 20, 20, 20, 20, 20],
    })
    // A tenth of the distance: nothing of it is one batch.
    expect(seen(burst, 0.1).departed[1]).toBe(1)
  })

  test('forget who came and left while a batch was answered', () => {
    expect(
      seen([
        [0, 10],
        [1, 25],
        [25.1, 25.4],
        [40, 50],
      ]),
    ).toMatchObject({
      present: [1, 1, 1],
      departed: [1, 1, 1],
      tookMs: [10, 15, 10],
    })
  })

  test('of several runs stand one after the other', () => {
    const [a, b] = [
      seen([
        [0, 10],
        [1, 20],
      ]),
      seen([[0, 30]]),
    ]
    expect(joinServiceLogs([a, b])).toEqual({
      present: [1, 1, 1],
      tookMs: [10, 10, 30],
      departed: [1, 1, 1],
      rank: [0, 0, 0],
      endedMs: [10, 20, 30],
      spreadMs: [0, 0, 0],
    })
  })
})

describe('the places of a queue', () => {
  /** Sends every ms, each answered after 20 ms, and refused where so many are there. */
  const refusing = (limit: (i: number) => number, n = 200) => {
    const leaves: number[] = []
    return runOfRequests(
      Array.from({ length: n }, (_, i) => {
        const there = leaves.filter((at) => at > i).length
        if (there >= limit(i)) return [i, Number.NaN] as const
        leaves.push(i + 20)
        return [i, i + 20] as const
      }),
    )
  }

  test('are as many as are there when it refuses', () => {
    expect(estimateSystemCapacity([refusing(() => 12)])).toBe(12)
    expect(estimateSystemCapacity([refusing(() => 7), refusing(() => 7)])).toBe(7)
    // A queue whose places differ a little: the middle one.
    expect(estimateSystemCapacity([refusing((i) => (i % 3 === 0 ? 11 : 12))])).toBe(12)
  })

  /**
   * Twelve places that are held for a second, and so many refused while `few` of them were taken,
   * and once all were.
   */
  const heldThrough = (few: number, early: number, late: number) => {
    const sends = [
      ...Array<number>(few).fill(1000),
      ...Array<number>(early).fill(Number.NaN),
      ...Array<number>(12 - few).fill(1000),
      ...Array<number>(late).fill(Number.NaN),
    ]
    return estimateSystemCapacity([runOfRequests(sends.map((ms, i) => [i, i + ms] as const))])
  }

  test('are those of the middle refusal, where nine in ten came with three fifths of them taken', () => {
    expect([heldThrough(3, 2, 18), heldThrough(3, 3, 17), heldThrough(3, 3, 22)]).toEqual([
      12,
      undefined,
      undefined,
    ])
    expect([heldThrough(11, 3, 2), heldThrough(11, 2, 3)]).toEqual([11, 12])
    expect([heldThrough(8, 5, 5), heldThrough(7, 5, 5)]).toEqual([12, undefined])
  })

  test('are freed as requests leave, in whatever order', () => {
    const leaves: number[] = []
    const requests = Array.from({ length: 300 }, (_, i) => {
      const there = leaves.filter((at) => at > i).length
      if (there >= 2) return [i, Number.NaN] as const
      leaves.push(i + [30, 10, 20][leaves.length % 3]!)
      return [i, leaves.at(-1)!] as const
    })
    expect(estimateSystemCapacity([runOfRequests(requests)])).toBe(2)
  })

  test('are not known where nothing, too little or any number of requests is refused', () => {
    expect(estimateSystemCapacity([refusing(() => 50)])).toBeUndefined()
    expect([
      estimateSystemCapacity([refusing(() => 12, 17)]),
      estimateSystemCapacity([refusing(() => 12, 16)]),
    ]).toEqual([12, undefined])
    // Ten in a burst, and of each the third, the sixth and the tenth refused: with 2, 4 and 7
    // there.
    const limited = Array.from(
      { length: 100 },
      (_, i) => [100 * Math.floor(i / 10) + (i % 10), i % 10] as const,
    )
    expect(
      estimateSystemCapacity([
        runOfRequests(
          limited.map(([at, i]) => [at, [2, 5, 9].includes(i) ? Number.NaN : at + 20] as const),
        ),
      ]),
    ).toBeUndefined()
    expect(estimateSystemCapacity([refusing(() => 1)])).toBeUndefined()
    expect(estimateSystemCapacity([])).toBeUndefined()
  })
})
