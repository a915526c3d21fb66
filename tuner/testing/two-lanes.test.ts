import { expect, test } from 'vitest'
import { inTwoLanes } from './two-lanes.ts'

const path = (name: string) => `/repo/${name}.test.ts`
const ordered = (
  names: readonly string[],
  loading: Record<string, number>,
  rest: Record<string, number>,
) =>
  inTwoLanes(names.map(path), (file) => file, loading, rest).map((file) =>
    file.slice('/repo/'.length, -'.test.ts'.length),
  )

/** What two workers run, each taking the next file when it is free: pairs that overlap. */
function overlaps(order: readonly string[], seconds: Readonly<Record<string, number>>): string[] {
  const free = [0, 0]
  const spans = order.map((name) => {
    const worker = free[0]! <= free[1]! ? 0 : 1
    const from = free[worker]!
    free[worker] = from + seconds[name]!
    return { name, from, to: free[worker]! }
  })
  return spans.flatMap((a, i) =>
    spans
      .slice(i + 1)
      .flatMap((b) => (a.from < b.to && b.from < a.to ? [`${a.name}+${b.name}`] : [])),
  )
}

test('files that load run beside files that do not, whatever the order they are given in', () => {
  const loading = { 'a/load': 30, 'b/load': 20, 'c/load': 10 }
  const rest = { 'a/other': 25, 'b/other': 15, 'c/other': 12, 'd/other': 12 }
  const names = ['c/other', 'c/load', 'a/load', 'd/other', 'b/other', 'b/load', 'a/other']
  const order = ordered(names, loading, rest)
  expect([...order].sort()).toEqual([...names].sort())
  expect(order.slice(0, 2)).toEqual(['a/load', 'a/other'])
  const pairs = overlaps(order, { ...loading, ...rest })
  expect(pairs.filter((pair) => pair.match(/load/g)?.length === 2)).toEqual([])
  expect(pairs.length).toBeGreaterThan(4)
})

test('a file that is not listed is a short one that does not load; a name ends at a folder', () => {
  expect(ordered(['x/unknown', 'x/slow', 'x/load'], { load: 9 }, { slow: 5 })).toEqual([
    'x/load',
    'x/slow',
    'x/unknown',
  ])
  expect(ordered(['x/unload', 'x/slow'], { load: 9 }, { slow: 5 })).toEqual(['x/slow', 'x/unload'])
})

test('what is left of the longer list is shared', () => {
  expect(ordered(['l1', 'l2', 'l3'], { l1: 3, l2: 2, l3: 1 }, {})).toEqual(['l1', 'l2', 'l3'])
})
