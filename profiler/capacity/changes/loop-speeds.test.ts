import { describe, expect, test } from 'vitest'
import { runOf } from '../../testing/scripted-generator.ts'
import { computeLoopSpeeds, hasGrown } from './loop-speeds.ts'

/** A loop of a second whose answers come at these times. */
const answeredAt = (...endedMs: readonly number[]) =>
  runOf({ kind: 'closed', connections: 8, durationS: 1 }, endedMs, {
    sentMs: new Float64Array(endedMs.length),
  })
const evenly = (n: number, everyMs: number) =>
  Array.from({ length: n }, (_, i) => everyMs * (i + 1))

describe('the speeds of a loop', () => {
  test('are those of eight parts with as many answers, or of fewer with four each', () => {
    expect(computeLoopSpeeds(answeredAt(...evenly(80, 10)))).toEqual(
      Array<unknown>(8).fill(expect.closeTo(100, 9)),
    )
    expect(computeLoopSpeeds(answeredAt(...evenly(9, 100)))).toEqual([10, 10])
    expect(computeLoopSpeeds(answeredAt(200, 400))).toEqual([5])
    expect(computeLoopSpeeds(answeredAt())).toEqual([])
  })

  test('do not cut a batch', () => {
    const batches = [100, 200, 300, 400].flatMap((ms) => Array<number>(6).fill(ms))
    expect(computeLoopSpeeds(answeredAt(...batches))).toEqual(Array<number>(4).fill(60))
  })

  test('leave out answers after the end of sending, unless there are no others', () => {
    expect(computeLoopSpeeds(answeredAt(...evenly(4, 250), 9000, 9001, 9002, 9003))).toEqual([4])
    expect(computeLoopSpeeds(answeredAt(2000, 4000, 6000, 8000))).toEqual([0.5])
    expect(computeLoopSpeeds(answeredAt(250, Number.NaN, 500))).toEqual([4])
  })
})

test('loops have grown where they get faster by 2 %', () => {
  const loops = (...rates: readonly number[]) => rates.map((rps) => Array<number>(8).fill(rps))
  expect([
    hasGrown(loops(100, 100, 101.9, 101.9)),
    hasGrown(loops(100, 100, 102.1, 102.1)),
    hasGrown(loops(102.1, 102.1, 100, 100)),
  ]).toEqual([false, true, false])
})
