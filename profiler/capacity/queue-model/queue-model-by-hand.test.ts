/** Queue models of service logs written by hand; those of servers are in queue-model.test.ts. */
import { describe, expect, test } from 'vitest'
import { createUniform } from '../../seeded-random.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import {
  bootstrap,
  buildQueueModel,
  computeSaturation,
  type QueueModel,
  simulate,
} from './queue-model.ts'

interface Step {
  readonly present?: number
  readonly tookMs?: number
  readonly departed?: number
  readonly rank?: number
}
const stepsOf = (each: readonly Step[]): ServiceLog => ({
  present: each.map(({ present = 1 }) => present),
  tookMs: each.map(({ tookMs = 10 }) => tookMs),
  departed: each.map(({ departed = 1 }) => departed),
  rank: each.map(({ rank = 0 }) => rank),
  endedMs: each.map((_, i) => 100 * i),
  spreadMs: each.map((_, i) => i),
})
const times = (n: number, step: Step): Step[] => Array<Step>(n).fill(step)
/** A queue model whose only step is this one, whoever is there. */
const always = (step: Step, more: Partial<QueueModel> = {}): QueueModel => ({
  log: stepsOf([step]),
  binOf: Int32Array.of(0, 0),
  bins: [Int32Array.of(0)],
  ...more,
})
const latencies = (
  model: QueueModel,
  arrivalsMs: readonly number[],
  slowness = 1,
  outageProcess?: (began: number, took: number) => number,
) => {
  const latencyMs = new Float64Array(arrivalsMs.length)
  simulate(
    model,
    Float64Array.from(arrivalsMs),
    slowness,
    createUniform(1),
    latencyMs,
    outageProcess,
  )
  return [...latencyMs]
}

describe('groups of steps', () => {
  const groupsOf = (...each: Step[][]) => {
    const { binOf, bins } = buildQueueModel(stepsOf(each.flat()))
    return { binOf: [...binOf], sizes: bins.map((bin) => bin.length) }
  }
  const taking = (present: number, ...tookMs: number[]) =>
    tookMs.map((ms) => ({ present, tookMs: ms }))

  test('are by the number present where steps differ by more than 1 %', () => {
    expect(
      groupsOf(times(8, { present: 1, tookMs: 10 }), times(8, { present: 2, tookMs: 20 })),
    ).toEqual({
      binOf: [0, 0, 1],
      sizes: [8, 8],
    })
    expect(
      groupsOf(times(8, { present: 1, tookMs: 10 }), times(8, { present: 2, tookMs: 10.1 })),
    ).toEqual({
      binOf: [0, 0, 0],
      sizes: [16],
    })
    expect(
      groupsOf(times(8, { present: 1, tookMs: 10 }), times(8, { present: 2, tookMs: 10.11 })).sizes,
    ).toEqual([8, 8])
    expect(
      groupsOf(times(8, { present: 1, tookMs: 10.11 }), times(8, { present: 2, tookMs: 10 })).sizes,
    ).toEqual([8, 8])
  })

  test('and by more than two standard errors of both', () => {
    // Variances of 1 in groups of eight: two errors of both are 1.
    const spread = (present: number, around: number) => [
      ...times(4, { present, tookMs: around - 1 }),
      ...times(4, { present, tookMs: around + 1 }),
    ]
    expect(groupsOf(spread(1, 10), spread(2, 10.99)).sizes).toEqual([16])
    expect(groupsOf(spread(1, 10), spread(2, 11.01)).sizes).toEqual([8, 8])
    // In groups of eight and eighteen, the second without any spread: two errors are 0.707.
    const still = (around: number) => times(18, { present: 2, tookMs: around })
    expect([
      groupsOf(spread(1, 10), still(10.7)).sizes,
      groupsOf(spread(1, 10), still(10.72)).sizes,
    ]).toEqual([[26], [8, 18]])
    expect([
      groupsOf(still(10), spread(3, 10.7)).sizes,
      groupsOf(still(10), spread(3, 10.72)).sizes,
    ]).toEqual([[26], [18, 8]])
  })

  test('or by how many leave', () => {
    expect(groupsOf(times(8, { present: 1 }), times(8, { present: 2, departed: 2 })).sizes).toEqual(
      [8, 8],
    )
  })

  test('of full batches are no faster for more who wait behind them', () => {
    const full = (present: number, tookMs: number, n: number, departed = 8) =>
      times(n, { present, tookMs, departed })
    expect(groupsOf(full(8, 10, 20), full(30, 9, 8)).sizes).toEqual([28])
    expect(groupsOf(full(8, 10, 20), full(30, 11, 8)).sizes).toEqual([20, 8])
    // Fewer who wait are no batch as large; of one at a time, more may be served by more workers.
    expect(groupsOf(full(7, 10, 20, 7), full(30, 9, 8)).sizes).toEqual([20, 8])
    expect(groupsOf(full(8, 10, 20, 1), full(30, 9, 8, 1)).sizes).toEqual([20, 8])
    expect(groupsOf(full(8, 10, 20, 7), full(30, 9, 8)).sizes).toEqual([20, 8])
  })

  test('have eight steps at least: smaller ones go with the next larger number, the largest with the one before', () => {
    expect(
      groupsOf(
        taking(1, 10, 10, 10),
        times(8, { present: 2, tookMs: 50 }),
        times(8, { present: 3, tookMs: 90 }),
      ),
    ).toEqual({
      binOf: [0, 0, 0, 1],
      sizes: [11, 8],
    })
    expect(
      groupsOf(times(8, { present: 1, tookMs: 10 }), times(7, { present: 2, tookMs: 50 })),
    ).toEqual({ binOf: [0, 0, 0], sizes: [15] })
    expect(
      groupsOf(times(8, { present: 1, tookMs: 10 }), times(8, { present: 4, tookMs: 50 })).binOf,
    ).toEqual([0, 0, 1, 1, 1])
    expect(groupsOf(times(3, { present: 1, tookMs: 10 }))).toEqual({ binOf: [0, 0], sizes: [3] })
  })

  test('know the group of each step', () => {
    const model = buildQueueModel(
      stepsOf([...times(8, { present: 2, tookMs: 20 }), ...times(8, { present: 1, tookMs: 10 })]),
    )
    expect(model.log.present.map((k) => model.binOf[k])).toEqual([
      ...Array<number>(8).fill(1),
      ...Array<number>(8).fill(0),
    ])
    expect(model.bins.map((bin) => [...bin])).toEqual([
      [8, 9, 10, 11, 12, 13, 14, 15],
      [0, 1, 2, 3, 4, 5, 6, 7],
    ])
  })
})

describe('a server that takes all who are there', () => {
  /** Batches of up to four in 10 + 2 n ms, so many of each. */
  const batches = (n: number) =>
    [1, 2, 3, 4].flatMap((k) => times(n, { present: k, departed: k, tookMs: 10 + 2 * k }))
  const drainOf = (each: readonly Step[]) => buildQueueModel(stepsOf(each)).gated

  test('is known by what each request adds to its step', () => {
    expect(drainOf(batches(3))).toEqual({ maxBatch: 4, msEach: expect.closeTo(2, 9) })
    expect(
      drainOf([...batches(3), ...times(3, { present: 9, departed: 4, tookMs: 18 })])!.msEach,
    ).toBeCloseTo(2, 9)
  })

  test('by a dozen steps, four in five of all', () => {
    expect(drainOf(batches(3).slice(1))).toBeUndefined()
    const others = (n: number) => times(n, { present: 4, departed: 2, tookMs: 14 })
    expect([
      drainOf([...batches(3), ...others(3)]),
      drainOf([...batches(3), ...others(4)]),
    ]).toEqual([expect.anything(), undefined])
  })

  test('unless it takes one at a time; and no request makes a step shorter', () => {
    expect(drainOf(times(20, { present: 1, departed: 1 }))).toBeUndefined()
    expect(
      drainOf([
        ...times(12, { present: 1, departed: 1, tookMs: 20 }),
        ...times(12, { present: 2, departed: 2, tookMs: 18 }),
      ]),
    ).toEqual({
      maxBatch: 2,
      msEach: 0,
    })
    expect(drainOf(times(12, { present: 2, departed: 2 }))).toEqual({ maxBatch: 2, msEach: 0 })
  })

  test('takes as many as it was seen to take elsewhere, and only what takes several at all does', () => {
    const model = buildQueueModel(stepsOf(batches(8)), { largestLoopBatch: 8 })
    expect(model.gated).toEqual({ maxBatch: 8, msEach: expect.closeTo(2, 9) })
    expect(computeSaturation(model)).toBeCloseTo(8000 / 26, 9)
    expect(
      buildQueueModel(stepsOf(times(20, { present: 1, departed: 1 })), { largestLoopBatch: 8 })
        .gated,
    ).toBeUndefined()
    expect(buildQueueModel(stepsOf(batches(8)), { largestLoopBatch: 3 }).gated?.maxBatch).toBe(4)
  })

  test('saturates with full batches, whatever its last group saw', () => {
    expect(computeSaturation(buildQueueModel(stepsOf(batches(8))))).toBeCloseTo(4000 / 18, 9)
    // Eight of three and three of four in the last group: each as long as of four.
    const few = buildQueueModel(
      stepsOf([...batches(8).slice(0, 24), ...times(3, { present: 4, departed: 4, tookMs: 18 })]),
    )
    expect(few.bins.at(-1)).toHaveLength(11)
    expect(computeSaturation(few)).toBeCloseTo(4000 / 18, 9)
    expect(computeSaturation(buildQueueModel(stepsOf(times(8, { tookMs: 20 }))))).toBe(50)
    // Two who were there and were not taken leave as they did.
    const halting = buildQueueModel(
      stepsOf([...batches(8), ...times(2, { present: 4, departed: 2, tookMs: 14 })]),
    )
    expect(computeSaturation(halting)).toBeCloseTo((1000 * (8 * 4 + 2 * 2)) / (8 * 18 + 2 * 14), 9)
  })

  test('serves as many as are there, in the time that they take', () => {
    const model = always(
      { present: 4, departed: 4, tookMs: 18 },
      { gated: { maxBatch: 4, msEach: 2 } },
    )
    // One alone in 12 ms; the three who came meanwhile in 16; five in a batch of four and one.
    expect(latencies(model, [0, 1, 2, 3])).toEqual(
      [12, 27, 26, 25].map((ms) => expect.closeTo(ms, 9)),
    )
    expect(latencies(model, [0, 1, 1, 1, 1, 1])).toEqual(
      [12, 29, 29, 29, 29, 41].map((ms) => expect.closeTo(ms, 9)),
    )
    const sudden = always(
      { present: 4, departed: 4, tookMs: 18 },
      { gated: { maxBatch: 4, msEach: 10 } },
    )
    // No step ends before it begins.
    expect(latencies(sudden, [0])).toEqual([0])
  })
})

describe('a queue model under arrivals', () => {
  test('serves one after the other, each step so many times as long', () => {
    expect(latencies(always({}), [0, 5, 30])).toEqual([10, 15, 10])
    expect(latencies(always({}), [0, 5, 30], 2)).toEqual([20, 35, 30])
    // Who comes as a step ends is there for the next.
    expect(latencies(always({ departed: 2 }), [0, 10, 10])).toEqual([10, 10, 10])
  })

  test('has outages where requested, slowness and all', () => {
    const asked: [number, number][] = []
    const outageProcess = (began: number, took: number) => {
      asked.push([began, took])
      return asked.length === 2 ? 7 : 0
    }
    expect(latencies(always({}), [0, 5, 60], 2, outageProcess)).toEqual([20, 49, 20])
    expect(asked).toEqual([
      [0, 10],
      [20, 10],
      [60, 10],
    ])
  })

  test('lets those leave who left, as many as are there', () => {
    expect(latencies(always({ departed: 2 }), [0, 1, 2, 3])).toEqual([10, 19, 18, 27])
    // The youngest but one first, as far as there is one.
    expect(latencies(always({ rank: 1 }), [0, 1, 2, 3])).toEqual([10, 39, 18, 27])
    expect(latencies(always({ rank: 9, departed: 2 }), [0, 1, 2, 3])).toEqual([10, 29, 18, 17])
  })

  test('refuses who finds all places taken', () => {
    const infinite = Number.POSITIVE_INFINITY
    expect(latencies(always({}, { systemCapacity: 2 }), [0, 1, 2, 12, 13])).toEqual([
      10,
      19,
      infinite,
      18,
      infinite,
    ])
  })

  test('goes by the number present, those beyond the largest as that', () => {
    const model: QueueModel = {
      log: stepsOf([{ tookMs: 10 }, { tookMs: 100 }]),
      binOf: Int32Array.of(0, 0, 1),
      bins: [Int32Array.of(0), Int32Array.of(1)],
    }
    // Alone 10 ms; three are there: 100; two: 100; alone again: 10.
    expect(latencies(model, [0, 1, 2, 3])).toEqual([10, 109, 208, 217])
  })

  test('mostly goes on with the step that followed, four times in five', () => {
    const n = 4000
    const model = buildQueueModel(
      stepsOf(Array.from({ length: 500 }, (_, i) => ({ tookMs: 100 + i }))),
    )
    const single: QueueModel = {
      ...model,
      binOf: Int32Array.of(0, 0),
      bins: [Int32Array.from({ length: 500 }, (_, i) => i)],
    }
    const ended = latencies(single, Array<number>(n).fill(0))
    const taken = ended.map((ms, i) => Math.round(ms - (ended[i - 1] ?? 0)))
    const followed = taken.filter((ms, i) => i > 0 && ms === taken[i - 1]! + 1).length / n
    expect(followed).toBeGreaterThan(0.77)
    expect(followed).toBeLessThan(0.83)
    expect(new Set(taken).size).toBeGreaterThan(400)
  })
})

describe('a queue model drawn anew', () => {
  const n = 4000
  const model = buildQueueModel(
    stepsOf(Array.from({ length: n }, (_, i) => ({ tookMs: 100 + (i % 7), rank: i }))),
  )

  test('has half as many steps, four in five of them after the one before them', () => {
    const { log, bins } = bootstrap(model, createUniform(3))
    expect(log.present).toHaveLength(n / 2)
    expect(bins.flatMap((bin) => [...bin])).toHaveLength(n / 2)
    const followed =
      log.rank.filter((rank, i) => i > 0 && rank === (log.rank[i - 1]! + 1) % n).length / (n / 2)
    expect(followed).toBeGreaterThan(0.77)
    expect(followed).toBeLessThan(0.83)
    expect(Math.max(...log.rank) - Math.min(...log.rank)).toBeGreaterThan(0.9 * n)
    for (const [i, rank] of log.rank.entries())
      expect([log.tookMs[i], log.endedMs[i], log.spreadMs[i]]).toEqual([
        100 + (rank % 7),
        100 * rank,
        rank,
      ])
  })

  test('keeps the steps of a group that got none, and what takes all who are there', () => {
    const rare = stepsOf([
      ...times(400, { present: 1, tookMs: 10 }),
      { present: 2, tookMs: 50, rank: 7 },
    ])
    const given: QueueModel = {
      log: rare,
      binOf: Int32Array.of(0, 0, 1),
      bins: [Int32Array.from({ length: 400 }, (_, i) => i), Int32Array.of(400)],
      gated: { maxBatch: 2, msEach: 1 },
      systemCapacity: 9,
    }
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      const { log, bins, gated, systemCapacity, binOf } = bootstrap(given, createUniform(seed))
      expect(bins[1]!.length).toBeGreaterThan(0)
      for (const i of bins[1]!)
        expect([log.present[i], log.tookMs[i], log.rank[i], binOf[log.present[i]!]]).toEqual([
          2, 50, 7, 1,
        ])
      expect(bins[0]!.length + bins[1]!.length).toBe(log.present.length)
      expect([gated, systemCapacity, binOf]).toEqual([given.gated, 9, given.binOf])
    }
  })

  test('keeps the steps of a group of which it drew but those that left at the moment of others, which would serve without end', () => {
    const full = [
      { present: 2, departed: 2, tookMs: 0 },
      ...times(3, { present: 2, departed: 2, tookMs: 40 }),
    ]
    const log = stepsOf([...times(400, { present: 1, tookMs: 10 }), ...full])
    const bins = [Int32Array.from({ length: 400 }, (_, i) => i), Int32Array.of(400, 401, 402, 403)]
    const given: QueueModel = { log, binOf: Int32Array.of(0, 0, 1), bins }
    const drawn = Array.from({ length: 200 }, (_, seed) =>
      computeSaturation(bootstrap(given, createUniform(seed))),
    )
    expect(Math.max(...drawn)).toBeLessThan(10 * computeSaturation(given))
  })
})
