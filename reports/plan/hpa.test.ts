import { expect, test } from 'vitest'
import { buildBehaviour, defaultBehaviour, Hpa, type HpaSettings } from './hpa.ts'

const settings = (change: Partial<HpaSettings> = {}): HpaSettings => ({
  targetRps: 100,
  minReplicas: 1,
  maxReplicas: 50,
  behaviour: defaultBehaviour,
  countedRequests: 'arrived',
  ...change,
})
/** Replicas look by look, from the rates seen at each. */
function looks(
  rates: readonly number[],
  from: number,
  change: Partial<HpaSettings> = {},
): number[] {
  const hpa = new Hpa(settings(change))
  let current = from
  return rates.map((seen, i) => {
    current = hpa.decideReplicas(15 * i, seen, current)
    return current
  })
}
const steady = (rate: number, count: number) => new Array<number>(count).fill(rate)

test('within a tenth of its target it leaves the number alone, beyond it asks for the rate over the target, rounded up', () => {
  expect(looks([430, 439, 441], 4)).toEqual([4, 4, 5])
  expect(looks([Number.NaN], 4)).toEqual([4])
  expect(looks([9000], 4, { maxReplicas: 6 })).toEqual([6])
})

test('it grows by as many again or by four each 15 s, whichever is more', () => {
  expect(looks(steady(3000, 4), 1)).toEqual([5, 10, 20, 30])
})

test('it goes down when the highest wish of five minutes is lower', () => {
  const seen = looks([1000, ...steady(200, 30)], 10)
  expect(seen.findIndex((n) => n < 10)).toBe(20)
  expect(seen.at(-1)).toBe(2)
})

test("by the replicas' start it doubles once in a start, and gives up one, or a tenth, in as long", () => {
  const behaviour = buildBehaviour(60)!
  expect(looks(steady(5000, 9), 4, { behaviour })).toEqual([8, 8, 8, 8, 16, 16, 16, 16, 32])
  const down = looks([2000, ...steady(100, 60)], 20, { behaviour })
  expect(down.slice(39, 46)).toEqual([20, 18, 18, 18, 18, 16, 16])
  expect(buildBehaviour(0)).toBeUndefined()
})

test('a policy counts from the replicas at the start of its period, what was taken away in it among them', () => {
  const policies = (value: number, periodSeconds: number) => [
    { type: 'Percent', value, periodSeconds } as const,
  ]
  const behaviour = {
    scaleUp: { stabilizationWindowSeconds: 0, policies: policies(100, 60) },
    scaleDown: { stabilizationWindowSeconds: 0, policies: policies(50, 15) },
  }
  // Ten become five; within the minute they may be twice ten, after it twice five.
  expect(looks([100, 9000], 10, { behaviour })).toEqual([5, 20])
  expect(looks([100, ...steady(500, 4), 9000], 10, { behaviour }).at(-1)).toBe(10)
})

test('the last one goes after five minutes without a request, and comes back at a poll', () => {
  const none = { minReplicas: 0 }
  const seen = looks([50, ...steady(0, 25), 0, 50, 50], 1, none)
  expect(seen.indexOf(0)).toBe(20)
  expect(seen.slice(-3)).toEqual([0, 0, 1])
})
