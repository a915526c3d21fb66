import fc from 'fast-check'
import { expect, test } from 'vitest'
import { mapMetrics } from '../../model/latency-metrics.ts'
import type { LoadRun, StreamRun } from '../../model/load-run.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import { concatenateRuns } from './concatenate-runs.ts'

const load = (durationS: number) =>
  ({ kind: 'open', rateRps: 10, durationS, arrivals: { kind: 'poisson' }, seed: 1 }) as const

/** What was sent in a part of a window, as a window of its own. */
function part(run: LoadRun, fromS: number, untilS: number): LoadRun {
  const within = (values: Float64Array) =>
    values.filter((_, i) => run.sentMs[i]! >= 1000 * fromS && run.sentMs[i]! < 1000 * untilS)
  const sentMs = within(run.sentMs).map((at) => at - 1000 * fromS)
  const { stream } = run
  return {
    ...run,
    load: load(untilS - fromS),
    sentMs,
    latencyMs: within(run.latencyMs),
    planned: sentMs.length,
    seconds: untilS - fromS,
    elapsedS: untilS - fromS,
    ...(run.cutMs !== undefined && { cutMs: run.cutMs - 1000 * fromS }),
    ...(stream && {
      stream: {
        latenciesMs: mapMetrics((metric) => within(stream.latenciesMs[metric])),
        tokens: within(stream.tokens),
        gapsMs: within(stream.gapsMs),
      },
    }),
  }
}

const streamOf = (latencyMs: Float64Array): StreamRun => ({
  latenciesMs: {
    ttft: latencyMs.map((ms) => ms / 4),
    tpot: latencyMs.map((ms) => ms / 100),
    e2e: latencyMs,
  },
  tokens: latencyMs.map((ms) => Math.ceil(ms)),
  gapsMs: latencyMs.map((ms) => ms / 50),
})

test('the parts of a window, joined, are the window', () => {
  const request = fc.record({
    atMs: fc.integer({ min: 0, max: 3999 }),
    ms: fc.oneof(fc.integer({ min: 1, max: 900 }), fc.constant(Number.NaN)),
  })
  const windows = fc.record({
    requests: fc.array(request),
    atS: fc.constantFrom(1, 1.5, 3),
    cut: fc.boolean(),
    streams: fc.boolean(),
  })
  fc.assert(
    fc.property(windows, ({ requests, atS, cut, streams }) => {
      const sorted = [...requests].sort((a, b) => a.atMs - b.atMs)
      const latencyMs = Float64Array.from(sorted, ({ ms }) => ms)
      const whole = runOf(load(4), [...latencyMs], {
        sentMs: Float64Array.from(sorted, ({ atMs }) => atMs),
        cutMs: cut ? 3900 : undefined,
        stream: streams ? streamOf(latencyMs) : undefined,
      })
      expect(
        concatenateRuns({ ...part(whole, 0, atS), cutMs: undefined }, part(whole, atS, 4)),
      ).toEqual(whole)
    }),
  )
})

test('failures add up by kind, and the generator is as late and as busy as it was at its worst', () => {
  const a = runOf(load(1), [5], {
    errorKinds: { timeout: 2, reset: 1 },
    latenessP99Ms: 1,
    generatorCores: 0.5,
    planned: 3,
    elapsedS: 1.5,
  })
  const b = runOf(load(2), [6], {
    errorKinds: { timeout: 3, refused: 4 },
    latenessP99Ms: 2,
    generatorCores: 0.25,
    planned: 4,
    elapsedS: 2.5,
  })
  const wanted = {
    errorKinds: { timeout: 5, reset: 1, refused: 4 },
    latenessP99Ms: 2,
    generatorCores: 0.5,
    planned: 7,
    seconds: 3,
    elapsedS: 4,
    load: load(3),
  }
  expect(concatenateRuns(a, b)).toMatchObject(wanted)
  expect(concatenateRuns(b, a)).toMatchObject(wanted)
  expect(a.errorKinds).toEqual({ timeout: 2, reset: 1 })
})

test('a stream beside a window that has none is none', () => {
  const stream = streamOf(Float64Array.of(5))
  expect(
    concatenateRuns(runOf(load(1), [5], { stream }), runOf(load(1), [5])).stream,
  ).toBeUndefined()
  expect(
    concatenateRuns(runOf(load(1), [5]), runOf(load(1), [5], { stream })).stream,
  ).toBeUndefined()
})

test('is cut where either run was: a cut of the first one counts at the end', () => {
  const cutAtMs = (a?: number, b?: number) =>
    concatenateRuns(runOf(load(1), [5], { cutMs: a }), runOf(load(2), [5], { cutMs: b })).cutMs
  expect(cutAtMs()).toBeUndefined()
  expect(cutAtMs(undefined, 700)).toBe(1700)
  expect(cutAtMs(400, 700)).toBe(1700)
  expect(cutAtMs(400)).toBe(3000)
})
