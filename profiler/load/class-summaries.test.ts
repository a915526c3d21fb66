import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import { selectQuantile } from '../statistics/percentile.ts'
import { summariseRun } from './load-point.ts'

const slo: Slo = {
  percentile: 0.9,
  limitMs: 500,
  maxErrorRate: 0.01,
  limits: [
    { metric: 'ttft', limitMs: 500 },
    { metric: 'tpot', limitMs: 40 },
  ],
}

interface Answer {
  readonly ttft: number
  readonly tpot: number
  readonly of: string
  readonly fails: boolean
}

function runOf(answers: readonly Answer[]): LoadRun {
  const each = (value: (answer: Answer) => number) =>
    Float64Array.from(answers, (a) => (a.fails ? Number.NaN : value(a)))
  const e2e = each(({ ttft, tpot }) => ttft + 100 * tpot)
  return {
    load: {
      kind: 'open',
      rateRps: 10,
      arrivals: { kind: 'poisson' },
      durationS: answers.length / 10,
      seed: 1,
    },
    sentMs: Float64Array.from(answers, (_, i) => 100 * i),
    latencyMs: e2e,
    errorKinds: {},
    planned: answers.length,
    latenessP99Ms: 0,
    seconds: answers.length / 10,
    elapsedS: answers.length / 10,
    generatorCores: 0,
    stream: {
      latenciesMs: { ttft: each((a) => a.ttft), tpot: each((a) => a.tpot), e2e },
      tokens: each(() => 101),
      classes: answers.map(({ of }) => of),
      gapsMs: new Float64Array(0),
    },
  }
}

const answer = fc.record({
  ttft: fc.double({ min: 1, max: 1000, noNaN: true }),
  tpot: fc.double({ min: 1, max: 80, noNaN: true }),
  of: fc.constantFrom('chat', 'summary', 'other'),
  fails: fc.boolean(),
})

test('each class has the latencies of its own answers, and the share of its requests within the limits', () => {
  fc.assert(
    fc.property(fc.array(answer, { minLength: 1, maxLength: 200 }), (answers) => {
      const { classes = {} } = summariseRun(runOf(answers), slo).stream!
      const names = ['chat', 'other', 'summary'].filter((name) =>
        answers.some(({ of }) => of === name),
      )
      expect(Object.keys(classes)).toEqual(names)
      for (const name of names) {
        const all = answers.filter(({ of }) => of === name)
        const own = all.filter(({ fails }) => !fails)
        const sorted = (value: (a: Answer) => number) => own.map(value).sort((a, b) => a - b)
        const { ttft, tpot, e2e, good, errors } = classes[name]!
        expect([ttft.requests, errors]).toEqual([own.length, all.length - own.length])
        expect(good).toBeCloseTo(
          own.filter((a) => a.ttft <= 500 && a.tpot <= 40).length / all.length,
          12,
        )
        if (own.length === 0) continue
        expect(ttft.p99Ms).toBe(
          selectQuantile(
            sorted((a) => a.ttft),
            0.99,
          ),
        )
        expect(tpot.p50Ms).toBe(
          selectQuantile(
            sorted((a) => a.tpot),
            0.5,
          ),
        )
        expect(e2e.maxMs).toBe(sorted((a) => a.ttft + 100 * a.tpot).at(-1))
      }
    }),
  )
})

test('requests without classes have no class summaries', () => {
  const run = runOf([{ ttft: 1, tpot: 1, of: 'chat', fails: false }])
  const { classes, ...stream } = run.stream!
  expect(classes).toEqual(['chat'])
  expect(summariseRun({ ...run, stream }, slo).stream).not.toHaveProperty('classes')
})
