import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type ReplanInput, type ReplanOption, replan } from './replan.ts'

const option = (trial: number, capacityRps: number, pricePerHour: number): ReplanOption => ({
  trial,
  label: `trial ${trial}`,
  capacityRps,
  pricePerHour,
})
const plan = (about: Partial<ReplanInput>) =>
  replan({
    findings: [],
    options: [option(1, 100, 1), option(2, 300, 2.5)],
    deployed: { trial: 1, replicas: 3 },
    peakRps: 200,
    headroom: 0.2,
    minGain: 0.05,
    ...about,
  })
const drift = (slowness: number) =>
  ({ kind: 'drift', slowness, sinceS: 0, establishedS: 1 }) as const

test('the cheapest of what was measured, for what was seen at the peak', () => {
  // One replica of 240 usable at $2.50 in place of three of 80 at $1.
  expect(plan({})).toMatchObject({
    kind: 'change',
    to: { trial: 2, replicas: 1, perHour: 2.5 },
    from: { trial: 1, replicas: 3, perHour: 3 },
  })
  expect(plan({ minGain: 0.2 })).toMatchObject({ kind: 'nothing' })
})

test('more replicas of the same where they no longer carry it, fewer only where a week was idle', () => {
  const only = { options: [option(1, 85, 1)] }
  expect(plan({ ...only, peakRps: 210 })).toMatchObject({
    kind: 'change',
    to: { trial: 1, replicas: 4 },
  })
  expect(plan({ ...only, peakRps: 60 })).toMatchObject({ kind: 'nothing' })
  const idle = { kind: 'traffic-under', peakRps: 60, replicas: 3, needed: 1, perHour: 2 } as const
  expect(plan({ ...only, peakRps: 60, findings: [idle] })).toMatchObject({
    kind: 'change',
    to: { trial: 1, replicas: 1 },
  })
})

test('where too little is known it says that it must be measured', () => {
  expect(plan({ findings: [{ kind: 'version', measured: '3', seen: ['4'] }] })).toMatchObject({
    kind: 'tune again',
    newModel: true,
  })
  expect(plan({ findings: [drift(1.8)] })).toMatchObject({ kind: 'tune again', newModel: false })
  expect(plan({ options: [option(1, 0, 1)] })).toMatchObject({
    kind: 'tune again',
    newModel: false,
  })
  expect(plan({ options: [option(1, 0, 1), option(2, 300, 2.5)] })).toMatchObject({
    kind: 'change',
    to: { trial: 2 },
  })
})

test('what is proposed carries the peak with its headroom, and nothing measured that does costs less by the gain asked for', () => {
  const options = fc.array(
    fc.tuple(
      fc.double({ min: 1, max: 500, noNaN: true }),
      fc.double({ min: 0.1, max: 5, noNaN: true }),
    ),
    {
      minLength: 1,
      maxLength: 6,
    },
  )
  fc.assert(
    fc.property(options, fc.double({ min: 1, max: 5000, noNaN: true }), (list, peakRps) => {
      const all = list.map(([capacity, price], i) => option(i + 1, capacity, price))
      const made = plan({ options: all, peakRps, findings: [drift(1.1)] })
      if (made.kind !== 'change') return
      const chosen = all.find(({ trial }) => trial === made.to.trial)!
      expect(made.to.replicas * chosen.capacityRps * 0.8).toBeGreaterThanOrEqual(
        peakRps * (1 - 1e-9),
      )
      const least = Math.min(
        ...all.map(
          (one) => Math.ceil((peakRps / (one.capacityRps * 0.8)) * (1 - 1e-9)) * one.pricePerHour,
        ),
      )
      expect(made.to.perHour * (1 - 0.05)).toBeLessThanOrEqual(least * (1 + 1e-6))
    }),
  )
})
