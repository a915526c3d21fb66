import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Effort, efforts } from './capacity/effort.ts'
import { noLatency } from './load/latency-summary.ts'
import { summariseRun } from './load/load-point.ts'
import type { Load } from './model/load.ts'
import type { LoadPoint } from './model/load-point.ts'
import type { Measurement } from './model/measurement.ts'
import { profileEndpoint, summariseMeasurement } from './profile.ts'
import { runOf } from './testing/scripted-generator.ts'
import { startTestServer, type TestServer } from './testing/servers.ts'
import type { TestService } from './testing/service.ts'

const folder = mkdtempSync(join(tmpdir(), 'profile-'))
const payload = { kind: 'file', path: join(folder, 'bodies.jsonl') } as const
let server: TestServer | undefined

beforeAll(() => writeFileSync(payload.path, '{"inputs":[]}\n'))
afterEach(() => server?.stop())
afterAll(() => rmSync(folder, { recursive: true }))

/** Enough to find a capacity, and not a good one. */
const brief: Effort = { ...efforts.quick, saturationS: 0.15, windowS: 0.3, windows: 2, budgetS: 1 }

const profile = async (
  service: Partial<TestService>,
  options: { rateRps?: number; limitMs?: number; durationS?: number } = {},
) => {
  server = await startTestServer(service)
  const { limitMs = 500, ...rest } = options
  const slo = { percentile: 0.95, limitMs, maxErrorRate: 0.001 }
  const { signal } = new AbortController()
  return profileEndpoint({
    url: server.url,
    model: 'm',
    slo,
    payload,
    timeoutMs: 2000,
    effort: brief,
    durationS: 0.8,
    signal,
    ...rest,
  })
}

test('a capacity, and a steady window in detail', async ({ skip }) => {
  const found = await profile({ time: { kind: 'fixed', ms: 8 }, servers: 2 }, { limitMs: 100 })
  if (found.measurement?.outcome === 'host-interference')
    skip('disturbed: the machine spoilt every window')
  expect(found).toMatchObject({ protocol: 'oip-v2', verdict: 'met' })
  expect(found.summary).toMatch(/requests per second at p95 <= 100 ms/)
  const open = [...found.measurement!.points, ...found.below!, found.steady!.point].filter(
    ({ load }) => load.kind === 'open',
  )
  const openS = open.reduce((sum, { seconds }) => sum + seconds, 0)
  expect(found.caveats).toContain(
    `the server was observed under open load for ${openS.toFixed(1)} s: outages rarer than one per ${openS.toFixed(1)} s would have gone unnoticed`,
  )
  expect(found.measurement?.capacityRps).toBeGreaterThan(0)
  const { steady, below } = found
  const shares = below!.map((point) => point.offeredRps / found.measurement!.capacityRps)
  for (const [i, share] of [0.25, 0.5, 0.75].entries())
    expect(Math.abs(shares[i]! / share - 1)).toBeLessThan(0.2)
  expect(steady!.histogram.reduce((sum, bin) => sum + bin.count, 0)).toBe(
    steady!.point.requests - steady!.point.errors,
  )
  expect(steady!.percentiles.map((row) => row.percentile)).toContain(0.9)
  expect(steady!.percentiles.every(({ ms, ci95Ms: [low, high] }) => low <= ms && ms <= high)).toBe(
    true,
  )
})

test('one rate that meets the SLO, without a search', async () => {
  const found = await profile({ time: { kind: 'fixed', ms: 5 } }, { rateRps: 40 })
  expect(found).toMatchObject({ verdict: 'met' })
  expect(found.measurement).toBeUndefined()
  expect(found.steady?.point.offeredRps).toBe(40)
  expect(found.caveats.at(-1)).toMatch(
    /outages rarer than one per 0\.8 s would have gone unnoticed/,
  )
})

test('an SLO that cannot be met is violated, with the evidence', async () => {
  expect(await profile({ time: { kind: 'fixed', ms: 20 } }, { limitMs: 5 })).toMatchObject({
    verdict: 'violated',
    summary: expect.stringMatching(/one request at a time already takes \d+/),
  })
})

test('a server that dies during the profile is reported', async () => {
  expect(await profile({ fault: { kind: 'die', afterRequests: 60 } })).toMatchObject({
    verdict: 'failed',
    summary: expect.stringMatching(/server-died/),
  })
})

test('a redirect is refused before any load', async () => {
  await expect(profile({ fault: { kind: 'redirect', to: 'http://elsewhere/' } })).rejects.toThrow(
    /redirects \(302\) to http:\/\/elsewhere/,
  )
})

test('answers of 200 with an error body are refused before any load', async () => {
  await expect(profile({ fault: { kind: 'error-body', share: 1 } })).rejects.toThrow(
    /model is on fire/,
  )
})

test.each<[Partial<Measurement>, RegExp]>([
  [{}, /^100\.0 requests per second at .* \(90 % interval 90\.0 to 110\.0\)$/],
  [
    { capacityCi90Rps: [100, Number.POSITIVE_INFINITY], outcome: 'budget' },
    /^at least 100\.0 requests .* \(no load violated the SLO\)$/,
  ],
  [
    { outcome: 'generator-limit', detail: 'the generator could not sustain the rate' },
    /^at least .*; the generator could not sustain the rate$/,
  ],
])('summary of a measurement: %o', (part, summary) => {
  const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
  const about = {
    slo,
    unloaded: noLatency,
    saturationRps: 0,
    points: [],
    requests: 0,
    seconds: 0,
    caveats: [],
  }
  const measurement: Measurement = {
    outcome: 'converged',
    capacityRps: 100,
    capacityCi90Rps: [90, 110],
    bounds: 'both',
    ...about,
    ...part,
  }
  expect(summariseMeasurement(measurement)).toEqual({
    verdict: 'met',
    summary: expect.stringMatching(summary),
  })
})

test('a measurement that violated the SLO in every window names the lowest rate', () => {
  const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
  const windowAt = (rateRps: number, ms: number) => {
    const load = { kind: 'open', rateRps, arrivals: { kind: 'poisson' }, durationS: 1, seed: 1 }
    return summariseRun(runOf(load as Load, new Array<number>(rateRps).fill(ms)), slo)
  }
  const measured = (points: LoadPoint[], bounds: Measurement['bounds']): Measurement => ({
    outcome: 'budget',
    capacityRps: 0,
    capacityCi90Rps: [0, 250],
    bounds,
    slo,
    unloaded: noLatency,
    saturationRps: 0,
    points,
    requests: 0,
    seconds: 0,
    caveats: [],
    detail: 'no open window met the SLO',
  })
  const violated = [windowAt(300, 163), windowAt(250, 90)]
  expect(summariseMeasurement(measured(violated, 'upper'))).toEqual({
    verdict: 'violated',
    summary: 'the SLO was violated at 250 req/s; lower rates were not tried',
  })
  // Nothing is known of a server whose windows say nothing.
  expect(summariseMeasurement(measured([], 'none'))).toEqual({
    verdict: 'failed',
    summary: 'budget: no open window met the SLO',
  })
})
