import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createUniform } from '../../profiler/seeded-random.ts'
import { initialEvidence, maxQuietSlowShare, sumCapital, updateEvidence } from './e-detector.ts'

test('whatever was seen, evidence grows by one hour at most on average while an hour is slow no more often than it may be', () => {
  fc.assert(
    fc.property(
      fc.array(fc.boolean(), { maxLength: 60 }),
      fc.double({ min: 0, max: maxQuietSlowShare, noNaN: true }),
      (seen, share) => {
        const before = seen.reduce(updateEvidence, initialEvidence)
        const expected =
          share * sumCapital(updateEvidence(before, true)) +
          (1 - share) * sumCapital(updateEvidence(before, false))
        expect(expected).toBeLessThanOrEqual((sumCapital(before) + 1) * (1 + 1e-9))
      },
    ),
  )
})

test('a bound of N hours is reached after N hours or more on average, even where hours are slow as often as they may be', () => {
  const uniform = createUniform(11)
  const bound = 200
  const waits = Array.from({ length: 400 }, () => {
    let evidence = initialEvidence
    for (let hour = 1; ; hour++) {
      evidence = updateEvidence(evidence, uniform() < maxQuietSlowShare)
      if (sumCapital(evidence) >= bound) return hour
    }
  })
  expect(waits.reduce((sum, hours) => sum + hours, 0) / waits.length).toBeGreaterThan(bound)
})

test('nine slow hours in a row are evidence of a year, and a year of fast ones is none', () => {
  const of = (hours: readonly boolean[]) =>
    sumCapital(hours.reduce(updateEvidence, initialEvidence))
  expect(of(Array(9).fill(true))).toBeGreaterThan(365 * 24)
  expect(of(Array(8).fill(true))).toBeLessThan(365 * 24)
  expect(of(Array(8760).fill(false))).toBeLessThan(2)
})
