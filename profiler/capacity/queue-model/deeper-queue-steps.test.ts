import { describe, expect, test } from 'vitest'
import { trueCapacities } from '../../bench/truth.bench.ts'
import { furtherCases } from '../../testing/further-servers.ts'
import { measureCapacity } from '../measure.ts'
import type { ServiceLog } from '../service-log/service-log.ts'
import { collectDeeperQueueSteps } from './deeper-queue-steps.ts'

/** One request after another: how many were there, and how long it took. */
const stepsOf = (all: readonly (readonly [present: number, ms: number])[]): ServiceLog => {
  const each = (value: number) => all.map(() => value)
  return {
    present: all.map(([present]) => present),
    tookMs: all.map(([, ms]) => ms),
    departed: each(1),
    rank: each(0),
    endedMs: each(0),
    spreadMs: each(0),
  }
}
const times = (n: number, present: number, ms: number) =>
  Array.from({ length: n }, () => [present, ms] as const)
const windows = [stepsOf([...times(40, 1, 5), ...times(40, 2, 5), ...times(3, 9, 5)])]

describe('steps of closed loops at more requests than windows saw', () => {
  test('are those of the last loops that took as long at as many', () => {
    const loops = [
      stepsOf([...times(40, 2, 8), ...times(5, 20, 9)]),
      stepsOf([...times(40, 2, 5), ...times(6, 20, 7)]),
      stepsOf(times(7, 30, 8)),
    ]
    expect(
      collectDeeperQueueSteps(windows, loops).map(({ present, tookMs }) => [present, tookMs]),
    ).toEqual([
      [Array(6).fill(20), Array(6).fill(7)],
      [Array(7).fill(30), Array(7).fill(8)],
    ])
  })

  test('are none where no loop can be compared, or the last that can was another server', () => {
    expect(collectDeeperQueueSteps(windows, [stepsOf(times(40, 20, 7))])).toEqual([])
    expect(
      collectDeeperQueueSteps(windows, [stepsOf(times(40, 2, 8)), stepsOf(times(40, 20, 7))]),
    ).toEqual([])
  })

  test('are none of a server that takes several at once, or out of turn', () => {
    const loops = [stepsOf([...times(40, 2, 5), ...times(6, 20, 7)])]
    const [seen] = windows
    expect(
      collectDeeperQueueSteps(
        [{ ...seen!, departed: seen!.departed.map((_, i) => (i === 50 ? 2 : 1)) }],
        loops,
      ),
    ).toEqual([])
    expect(
      collectDeeperQueueSteps(
        [{ ...seen!, rank: seen!.rank.map((_, i) => (i === 50 ? 1 : 0)) }],
        loops,
      ),
    ).toEqual([])
  })
})

test('a server that is the slower the more wait is not measured by the few that wait in short windows', async () => {
  const { name, slo, server } = furtherCases.find((of) => of.name.includes('the more wait'))!
  const signal = new AbortController().signal
  const found = await Promise.all(
    [1, 2, 3, 4, 5].map((seed) =>
      measureCapacity({
        target: { kind: 'virtual', server: server(7 * seed) },
        slo,
        signal,
        seed: 1000 * seed,
        effort: 'quick',
      }),
    ),
  )
  const truth = trueCapacities()[name]!
  expect(
    found.map(({ capacityRps }) => Math.abs(capacityRps / truth - 1)).sort((a, b) => a - b)[2],
  ).toBeLessThan(0.04)
  expect(
    found.filter(({ capacityCi90Rps: [low, high] }) => low <= truth && truth <= high).length,
  ).toBeGreaterThanOrEqual(4)
})
