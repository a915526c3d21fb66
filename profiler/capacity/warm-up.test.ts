import { expect, test } from 'vitest'
import { runOf } from '../testing/scripted-generator.ts'
import type { LoadRun } from '../types.ts'
import { untilNoFaster } from './warm-up.ts'

/** How many windows of these latencies are played; `undefined` where none is. */
async function windowsOf(
  windows: readonly (readonly number[] | undefined)[],
  most = windows.length,
  more: Partial<LoadRun>[] = [],
): Promise<number> {
  let played = 0
  await untilNoFaster(most, async (window) => {
    expect(window).toBe(played)
    const latencies = windows[played++]
    return latencies && runOf({ kind: 'closed', connections: 2, durationS: 1 }, latencies, more[window])
  })
  return played
}

test('goes on while a window is faster than the one before by 2 % at least', async () => {
  expect(await windowsOf([[100], [90], [80], [79], [10]])).toBe(4)
  expect(await windowsOf([[100], [98], [96.5], [10]])).toBe(3)
  expect(await windowsOf([[100], [98.1], [10]])).toBe(2)
  expect(await windowsOf([[100], [110], [10]])).toBe(2)
})

test('and by more than chance: two standard errors of both', async () => {
  // Two answers 6 ms apart: a variance of 18, a standard error of 3; of both windows 4.24, and twice that.
  const about = (mean: number) => [mean - 3, mean + 3]
  expect(await windowsOf([about(100), about(91.6), [1]])).toBe(2)
  expect(await windowsOf([about(100), about(91.4), [1]])).toBe(3)
})

test('not beyond the most, nor beyond a window that was not played; one that was cut short does not end it', async () => {
  expect(await windowsOf([[100], [50], [25], [12], [6]], 3)).toBe(3)
  expect(await windowsOf([[100], undefined, [25]])).toBe(2)
  expect(await windowsOf([[100], [100], [100], [1]], 4, [{}, { cutMs: 500 }, {}])).toBe(3)
})
