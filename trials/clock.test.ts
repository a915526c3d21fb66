import { afterEach, expect, test, vi } from 'vitest'
import { getSteadyNowMs } from './clock.ts'

afterEach(() => {
  vi.useRealTimers()
})

test.each([
  ['back', -3600_000],
  ['on', 3600_000],
])('an hour that the date is set %s is no hour that has passed', (_, stepMs) => {
  const before = getSteadyNowMs()
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + stepMs })
  const passed = getSteadyNowMs() - before
  expect(passed).toBeGreaterThanOrEqual(0)
  expect(passed).toBeLessThan(60_000)
})

test('it starts from the date', () => {
  expect(Math.abs(getSteadyNowMs() - Date.now())).toBeLessThan(60_000)
})
