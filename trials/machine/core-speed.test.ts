import { expect, test } from 'vitest'
import { measureCoreSpeed } from './core-speed.ts'

/** A clock on which each piece of work takes what it is given. */
function clock(tookMs: (piece: number) => number): () => number {
  let looks = 0
  let at = 0
  return () => {
    if (looks++ % 2 === 1) at += tookMs((looks - 2) / 2)
    return at
  }
}

test('a core that takes twice as long is half as fast, and pauses in less than half of the time change nothing', () => {
  const steady = measureCoreSpeed(clock(() => 1))
  expect(measureCoreSpeed(clock(() => 2))).toBeCloseTo(steady / 2, 10)
  expect(measureCoreSpeed(clock((piece) => (piece % 5 === 0 ? 30 : 1)))).toBeCloseTo(steady, 10)
})

test('this machine has a speed that a computer may have', () => {
  const speed = measureCoreSpeed()
  expect(speed).toBeGreaterThan(0.02)
  expect(speed).toBeLessThan(20)
})
