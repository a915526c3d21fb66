/** What is said of a confirmed rate, and what not. */
import { expect, test } from 'vitest'
import { toDocument } from '../report/recommendation-json.ts'
import { sampleInput } from '../samples.contract.ts'
import { A, again, tried } from './invented-trials.contract.ts'
import { recommend } from './recommend.ts'
import { formatProof } from './words.ts'

const first = tried(1, A, 500, {
  windows: [
    [450, 30],
    [520, 90],
    [560, 120],
  ],
})
const confirmedBy = (
  change: Parameters<typeof again>[4],
  windows: Parameters<typeof again>[2] = [[465, 34]],
) => {
  const recommendation = recommend({
    ...sampleInput,
    trials: [first, again(2, A, windows, true, change)],
  })
  const { confirmation, best } = recommendation
  return { text: formatProof(recommendation), confirmation, status: best?.status }
}

test('a rate with its certainty, what missed beyond it, and how long it was looked at', () => {
  const { text, confirmation, status } = confirmedBy({ confidence: 0.9931 })
  expect(status).toBe('confirmed')
  expect(confirmation).toMatchObject({ confidence: 0.9931, violatedRps: 520, rateRps: 465 })
  expect(text).toBe(
    `Meets the SLO at 465 req/s (99 % confidence), violates it at 520 req/s; outages rarer than one per ${Math.round(confirmation!.seconds!)} s would go unnoticed`,
  )
})

test('how the windows varied where measurements disagree, in the verdict and the document', () => {
  const variation = {
    found: ['the server ran at 0.71 to 1.00 times the speed of its first window'],
    windows: 7,
    spanS: 61.6,
    sloMs: [31, 47],
    speed: [0.71, 1],
  } as const
  const recommendation = recommend({
    ...sampleInput,
    trials: [first, again(2, A, [[465, 34]], true, { confidence: 0.99, variation })],
  })
  expect(recommendation.confirmation?.variation).toEqual(variation)
  expect(recommendation.verdict).toContain(
    '; measurements of it disagree: the server ran at 0.71 to 1.00 times the speed of its first window; p99 was 31 ms to 47 ms in 7 windows over 62 s',
  )
  expect(toDocument(recommendation).confirmation?.variation).toEqual(variation)
})

test('its certainty is never more than it was, and none is claimed where nothing is proven', () => {
  expect(confirmedBy({ confidence: 1 }).text).toContain('(99 % confidence)')
  expect(confirmedBy({ confidence: 0.9599 }).text).toContain('(95 % confidence)')
  const unproven = confirmedBy({
    confidence: 0.2,
    capacityCi90Rps: [0.95 * 465, Number.POSITIVE_INFINITY],
  })
  expect(unproven.text).toContain('Meets the SLO at 465 req/s (not proven)')
  // Requests enough for a rule that looks once, which a test that looks after each window is not
  // held to.
  expect(unproven.status).toBe('met')
})

test('a confirmation of an older store, and one that missed, say nothing of it', () => {
  expect(confirmedBy({}).text).toBeUndefined()
  expect(confirmedBy({}).confirmation).toMatchObject({ violatedRps: 520 })
  expect(confirmedBy({}, [[465, 80]]).text).toBeUndefined()
})
