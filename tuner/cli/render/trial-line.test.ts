import { expect, test } from 'vitest'
import type { LoadPoint } from '../../../profiler/model/load-point.ts'
import type { Measurement } from '../../../profiler/model/measurement.ts'
import { measurement } from '../../testing/fakes.ts'
import { formatStep, formatTrial } from './trial-line.ts'

const line = (given: Partial<Measurement>, attempt = 1) => {
  const trial = {
    why: 'likely better',
    id: 1,
    number: 3,
    purpose: 'search',
    configuration: {},
    startedAt: '',
    seconds: 4,
    state: 'complete',
  } as const
  const row = {
    trial: { ...trial, measurement: { ...measurement(120), ...given } },
    label: '2 cores',
    pricePerHour: 1,
    attempt,
  }
  return formatTrial(row as unknown as Parameters<typeof formatTrial>[0], {
    unicode: false,
    color: false,
  }).text
}

test('a safe capacity stands beside its estimate, or as the bound that it is', () => {
  expect(line({})).toMatch(/^#3 2 cores: 108 req\/s \(estimate 120 \[114 to 126\]\), /)
  expect(line({ outcome: 'pruned', bounds: 'upper' })).toMatch(/: at most 126 req\/s/)
  expect(line({ capacityCi90Rps: [114, Number.POSITIVE_INFINITY], bounds: 'lower' })).toMatch(
    /: 108 req\/s \(estimate at least 120\), \$/,
  )
})

test('a step under several limits says each of them, and the tokens of its streams', () => {
  const of = (p99Ms: number) => ({
    requests: 9,
    meanMs: 1,
    p50Ms: 1,
    p90Ms: 2,
    p95Ms: 3,
    p99Ms,
    maxMs: p99Ms,
  })
  const slo = {
    percentile: 0.99,
    limitMs: 300,
    maxErrorRate: 0,
    limits: [
      { metric: 'ttft', limitMs: 300 },
      { metric: 'tpot', limitMs: 30 },
    ],
  } as const
  const stream = {
    ttft: of(66),
    tpot: of(14.2),
    e2e: of(900),
    interToken: of(20),
    outputTokensPerSecond: 8040,
  }
  const point = { ...measurement(50).points[0]!, sloMs: 142, stream }
  expect(formatStep(point, slo, 'search')).toContain(
    '47 % of the limits, TTFT 66 of 300 ms, TPOT 14.2 of 30 ms, 8,040 tokens/s',
  )
  // Of several classes that which is nearest to its limits.
  const classes = {
    chat: { ...stream, good: 1, errors: 0 },
    summary: { ...stream, ttft: of(900), good: 1, errors: 0 },
  }
  const own = {
    ...slo,
    limits: [...slo.limits, { metric: 'ttft', limitMs: 1000, requestClass: 'summary' } as const],
  }
  const ofClasses = { ...point, sloMs: 270, stream: { ...stream, classes } }
  expect(formatStep(ofClasses, { ...own, classes: ['chat', 'summary'] }, 'search')).toContain(
    'p99 of each class 90 % of the limits, summary TTFT 900 of 1,000 ms, 8,040 tokens/s',
  )
})

test.each([
  [{ achievedRps: 4 }, /^measuring unloaded latency: 2 at a time, 4 req\/s: /],
  // Every answer ended behind the loop: none a second is no rate of the server's.
  [{ achievedRps: 0 }, /^measuring unloaded latency: 2 at a time: /],
  [{ achievedRps: 0, errors: 3 }, /^measuring unloaded latency: 2 at a time, 0 req\/s: /],
])('a loop with %j', (of, words) => {
  const point = {
    load: { kind: 'closed', connections: 2, durationS: 1 },
    requests: 3,
    errors: 0,
    sloMs: 10,
    ...of,
  }
  expect(formatStep(point as unknown as LoadPoint, undefined, 'unloaded')).toMatch(words)
})

test('a trial that the machine disturbed is one line with its attempt', () => {
  const busy = { outcome: 'host-interference', bounds: 'none', capacityRps: 0 } as const
  expect(line(busy)).toMatch(/2 cores: machine busy, attempt 1$/)
  expect(line(busy, 3)).toMatch(/2 cores: machine busy, attempt 3$/)
})
