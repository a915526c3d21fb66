import { expect, test } from 'vitest'
import type { Offer } from '../../trials/prices/offers.ts'
import { planCommitment } from './commitment.ts'
import { hoursPerMonth } from './plan-costs.ts'

const replica: Offer = { replicasEach: 1, onDemandPerHour: 1, committedPerHour: 0.6 }
const pair = { ...replica, replicasEach: 2 }
const always = (replicas: number) => [{ seconds: 0, replicas }]
const day = 86_400

test('what is needed all the time is committed to', () => {
  expect(planCommitment([replica], always(4), day)).toMatchObject({
    committed: 4,
    maxOnDemand: 0,
    perMonth: 4 * 0.6 * hoursPerMonth,
    allOnDemandPerMonth: 4 * hoursPerMonth,
    allCommittedPerMonth: 4 * 0.6 * hoursPerMonth,
  })
})

test('of a need that changes, the instances that are needed for longer than committed costs of on demand', () => {
  // In pairs: one three quarters of the time, three a quarter.
  const steps = [
    { seconds: 0, replicas: 1 },
    { seconds: 0.75 * day, replicas: 6 },
  ]
  const plan = planCommitment([pair], steps, day)!
  expect(plan).toMatchObject({ committed: 1, minOnDemand: 0, maxOnDemand: 2 })
  expect(plan.committedPerMonth).toBeCloseTo(0.6 * hoursPerMonth, 9)
  expect(plan.onDemandPerMonth).toBeCloseTo(0.25 * 2 * hoursPerMonth, 9)
  expect(plan.allOnDemandPerMonth).toBeCloseTo(1.5 * hoursPerMonth, 9)
  expect(plan.allCommittedPerMonth).toBeCloseTo(3 * 0.6 * hoursPerMonth, 9)
  expect(planCommitment([{ ...pair, committedPerHour: 0.2 }], steps, day)!.committed).toBe(3)
})

test('the instance that is cheapest with commitments is not always the cheapest on demand', () => {
  const box = { instance: 'box', replicasEach: 2, onDemandPerHour: 2.2, committedPerHour: 0.9 }
  expect(planCommitment([replica, box], always(4), day)).toMatchObject({
    offer: { instance: 'box' },
    committed: 2,
    perMonth: 1.8 * hoursPerMonth,
    allOnDemandPerMonth: 4 * hoursPerMonth,
  })
})

test('without a committed price there is nothing to commit to', () => {
  expect(planCommitment([{ replicasEach: 1, onDemandPerHour: 1 }], always(4), day)).toBeUndefined()
})
