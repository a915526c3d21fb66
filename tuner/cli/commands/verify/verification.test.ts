import { expect, test } from 'vitest'
import type { Measurement } from '../../../../profiler/model/measurement.ts'
import type { FinishedTrial } from '../../../../trials/types.ts'
import { loadPoint, measurement, slo } from '../../../testing/fakes.ts'
import { judgeVerification } from './verification.ts'

const question = { experimentId: 'e', trial: 3, label: '2 cores, batch 8', slo, askedRps: 200 }
const base = {
  number: 9,
  configuration: {},
  why: '',
  startedAt: '2026-01-01T00:00:00Z',
  seconds: 30,
}
const complete = (change: Partial<Measurement>): FinishedTrial => ({
  ...base,
  state: 'complete',
  measurement: { ...measurement(200), ...change },
})
const points = [loadPoint(200, 70), loadPoint(190, 44)]

test('it holds: the figure is of the window at that rate', () => {
  const found = judgeVerification(question, complete({ points: [loadPoint(200, 41)] }))
  expect(found).toMatchObject({
    finding: 'holds',
    provenRps: 200,
    sloMs: 41,
    experimentId: 'e',
    trial: 3,
    verification: 9,
  })
  expect(found.verdict).toBe('SLO met: 2 cores, batch 8 serves 200 req/s: p99 41 ms (SLO 50 ms)')
})

test('rounding is not a miss, a lower rate is', () => {
  expect(judgeVerification(question, complete({ capacityRps: 200 * (1 - 1e-9) })).finding).toBe(
    'holds',
  )
  const lower = judgeVerification(question, complete({ capacityRps: 190, points }))
  expect(lower).toMatchObject({ finding: 'does not hold', provenRps: 190, sloMs: 70 })
  expect(lower.verdict).toBe(
    'SLO violated: 2 cores, batch 8 at 200 req/s: p99 70 ms (SLO 50 ms); it is met at 190 req/s',
  )
})

test('measurements that disagree are noted', () => {
  const variation = {
    found: ['the server ran at 0.71 to 1.00 times the speed of its first window'],
    windows: 7,
    spanS: 61.6,
    sloMs: [31, 47],
    speed: [0.71, 1],
  } as const
  expect(judgeVerification(question, complete({ variation })).caveats).toEqual([
    ...measurement(200).caveats,
    'measurements of it disagree: the server ran at 0.71 to 1.00 times the speed of its first window; p99 was 31 ms to 47 ms in 7 windows over 62 s',
  ])
})

test('no rate held', () => {
  const found = judgeVerification(
    question,
    complete({
      outcome: 'budget',
      capacityRps: 0,
      points,
      detail: 'the SLO was violated at 164 requests per second; lower rates were not tried',
    }),
  )
  expect(found).toMatchObject({ finding: 'does not hold', provenRps: 0 })
  expect(found.verdict).toContain('violated at 164 requests per second; lower rates were not')
})

test.each(['generator-limit', 'host-interference'] as const)(
  'a load that ended as %s tells nothing',
  (outcome) => {
    const found = judgeVerification(
      question,
      complete({ outcome, capacityRps: 0, detail: 'eight others ran' }),
    )
    expect(found).toMatchObject({
      finding: 'unknown',
      verdict: expect.stringMatching(/^Inconclusive: .*eight others ran$/),
    })
  },
)

test('what a clean window missed at the rate itself counts, whatever became of those at lower rates', () => {
  const saturated = (offeredRps: number, sloMs: number, latenessP99Ms = 30) => ({
    ...loadPoint(offeredRps, sloMs),
    generatorSaturated: true,
    latenessP99Ms,
  })
  const limited = { outcome: 'generator-limit', capacityRps: 0 } as const
  const missed = judgeVerification(
    question,
    complete({ ...limited, points: [loadPoint(200, 70), saturated(190, 90)] }),
  )
  expect(missed).toMatchObject({ finding: 'does not hold', sloMs: 70 })
  expect(
    judgeVerification(
      question,
      complete({ ...limited, points: [saturated(200, 70), loadPoint(190, 90)] }),
    ).finding,
  ).toBe('unknown')
  // Also where its sends were late by less than what it is over the limit.
  expect(
    judgeVerification(question, complete({ ...limited, points: [saturated(200, 70, 4)] })).finding,
  ).toBe('unknown')
  const again = judgeVerification(
    question,
    complete({ ...limited, points: [saturated(200, 20), loadPoint(200, 70), saturated(200, 30)] }),
  )
  expect(again).toMatchObject({ finding: 'does not hold', sloMs: 70 })
})

test('a predictor that no longer serves does not hold; one that could not be measured is not known', () => {
  expect(
    judgeVerification(question, {
      ...base,
      state: 'infeasible',
      reason: 'crashed',
      detail: 'exit code 3',
    }),
  ).toMatchObject({
    finding: 'does not hold',
    verdict: expect.stringContaining('no longer serves: exit code 3'),
  })
  expect(judgeVerification(question, { ...base, state: 'failed', error: 'no port' })).toMatchObject(
    {
      finding: 'unknown',
    },
  )
})

test('a service has no experiment to join', () => {
  const { label, askedRps } = question
  expect(judgeVerification({ label, slo, askedRps }, complete({}))).not.toHaveProperty(
    'verification',
  )
})
