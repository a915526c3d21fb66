import { expect, test } from 'vitest'
import type { LoadPoint, Profile } from '../../../../profiler/index.ts'
import { FlagError, type ProfileFlags, readFlags } from './profile-flags.ts'
import { renderCsv, renderHtml, renderJson } from './profile-json.ts'
import { drawCurve, drawHistogram, formatProfile } from './profile-text.ts'

const plain = { unicode: true, color: false }
const flags: ProfileFlags = {
  url: 'http://127.0.0.1:8000',
  slo: 'p95<80ms',
  model: 'bert',
  errorRate: '0.1%',
  arrivals: 'poisson',
  duration: '10s',
  effort: 'standard',
  seed: '1',
}

const point = (offeredRps: number, sloMs: number): LoadPoint => ({
  load: { kind: 'open', rateRps: offeredRps, arrivals: { kind: 'poisson' }, durationS: 1, seed: 1 },
  requests: 100,
  meanMs: 10,
  p50Ms: 9,
  p90Ms: 20,
  p95Ms: 30,
  p99Ms: 40,
  maxMs: 50,
  offeredRps,
  achievedRps: offeredRps,
  goodputRps: offeredRps,
  errors: 0,
  errorKinds: {},
  sloMs,
  sloCi95Ms: [sloMs * 0.9, Number.POSITIVE_INFINITY],
  generatorSaturated: false,
  latenessP99Ms: 0.5,
  seconds: 1,
})
const slo = { percentile: 0.95, limitMs: 80, maxErrorRate: 0.001 }
const profile: Profile = {
  url: flags.url,
  model: 'bert',
  protocol: 'oip-v2',
  slo,
  verdict: 'met',
  summary: '100.0 requests per second at p95 <= 80 ms',
  measurement: {
    outcome: 'converged',
    capacityRps: 100,
    capacityCi90Rps: [95, 105],
    bounds: 'both',
    slo,
    unloaded: { requests: 10, meanMs: 9, p50Ms: 9, p90Ms: 10, p95Ms: 10, p99Ms: 11, maxMs: 11 },
    saturationRps: 140,
    points: [point(50, 20), point(100, 75), point(120, 300)],
    requests: 300,
    seconds: 3,
    caveats: [],
  },
  steady: {
    point: point(95, 60),
    percentiles: [{ percentile: 0.95, ms: 60, ci95Ms: [50, Number.POSITIVE_INFINITY] }],
    histogram: [
      { fromMs: 5, toMs: 20, count: 90 },
      { fromMs: 20, toMs: 100, count: 0 },
      { fromMs: 100, toMs: 200, count: 10 },
    ],
    hdrHistogram: 'HISTFAAAA',
    nEff: 40,
    proven: false,
  },
  caveats: ['shared cores'],
}

test('flags become options', () => {
  expect(
    readFlags({
      ...flags,
      rate: '200rps',
      header: ['X-Key: a:b'],
      arrivals: 'on-off:1s/500ms',
      timeout: '250ms',
    }),
  ).toMatchObject({
    slo: { percentile: 0.95, limitMs: 80, maxErrorRate: 0.001 },
    rateRps: 200,
    headers: { 'x-key': 'a:b' },
    arrivals: { kind: 'on-off', onS: 1, offS: 0.5 },
    timeoutMs: 250,
    payload: { kind: 'generated' },
  })
  // The protocol's own deadline: two minutes of a streamed answer.
  expect(readFlags(flags).timeoutMs).toBeUndefined()
  expect(readFlags({ ...flags, items: '1:70, 8:30' }).payload).toMatchObject({
    kind: 'generated',
    items: { kind: 'weighted', items: [1, 8] },
  })
})

test('every wrong flag is named at once', () => {
  const wrong = {
    ...flags,
    slo: '50',
    rate: '-1',
    arrivals: 'gamma:0',
    header: ['nonsense'],
    effort: 'huge',
    protocol: 'grpc',
    payload: 'none.jsonl',
    insecureSkipVerify: true,
  }
  try {
    readFlags(wrong)
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(FlagError)
    expect((error as FlagError).problems.map((p) => p.where).sort()).toEqual([
      '--arrivals',
      '--effort',
      '--header',
      '--insecure-skip-verify',
      '--payload',
      '--protocol',
      '--rate',
      '--slo',
    ])
  }
})

test('the histogram has a bar for every bin that holds a latency', () => {
  const lines = drawHistogram(profile.steady!.histogram, slo.limitMs, plain, 100)
  expect(lines).toHaveLength(3)
  expect(lines[0]!.match(/█/g)!.length).toBe(60)
  expect(lines[1]).not.toMatch(/█/)
  expect(lines[2]!.match(/█/g)!.length).toBe(7)
  expect(drawHistogram([], 80, plain, 100)).toEqual([])
})

test('the curve marks every point and the limit, in ASCII where need be', () => {
  const lines = drawCurve(profile.measurement!.points, profile, plain, 100)
  expect(lines.join('\n').match(/•/g)).toHaveLength(3)
  expect(lines.some((line) => line.startsWith('   80 ms │──'))).toBe(true)
  const ascii = drawCurve(
    profile.measurement!.points,
    profile,
    { unicode: false, color: false },
    100,
  )
  expect(/^[\x20-\x7e]*$/.test(ascii.join(''))).toBe(true)
  expect(drawCurve([point(1, 1)], profile, plain, 100)).toEqual([])
})

test('the terminal shows verdict, percentiles and notes', () => {
  const text = formatProfile(profile, plain, 100).join('\n')
  expect(text).toMatch(/✓ 100\.0 requests per second/)
  expect(text).toMatch(/p95 {2}60 ms {2}\[50 ms, no bound\]/)
  expect(text).toMatch(/note: shared cores/)
})

test('JSON has a version and no number that JSON cannot say', () => {
  const document = JSON.parse(renderJson(profile))
  expect(document).toMatchObject({
    schemaVersion: 1,
    verdict: 'met',
    steady: { percentiles: [{ ci95Ms: [50, null] }] },
  })
})

test('CSV has a row for every load point', () => {
  const rows = renderCsv(profile).trim().split('\r\n')
  expect(rows).toHaveLength(5)
  expect(rows[0]!.split(',')).toHaveLength(rows[1]!.split(',').length)
})

test('the report is one page with both charts and no script', async () => {
  const page = await renderHtml(profile, new Date(0))
  expect(page.match(/<svg/g)!.length).toBeGreaterThanOrEqual(2)
  expect(page).not.toMatch(/<script/)
  expect(page).toMatch(/shared cores/)
})

test('several rates, or sizes of closed loops, are a sweep; one rate is looked at in detail', () => {
  const loads = (more: Partial<ProfileFlags>) => {
    const { rateRps, sweep } = readFlags({ ...flags, ...more })
    return { rateRps, sweep }
  }
  expect(loads({ rate: '200rps' })).toEqual({ rateRps: 200, sweep: undefined })
  expect(loads({ rate: '1rps, 2rps' })).toEqual({
    rateRps: undefined,
    sweep: [{ rateRps: 1 }, { rateRps: 2 }],
  })
  expect(loads({ concurrency: '1,2, 8' }).sweep).toEqual([
    { connections: 1 },
    { connections: 2 },
    { connections: 8 },
  ])
  expect(() => loads({ concurrency: '0' })).toThrow(/--concurrency/)
  expect(() => loads({ concurrency: '4', rate: '9rps' })).toThrow(/use only one of them/)
})

test('prompts and answers have the lengths that are asked for', () => {
  expect(
    readFlags({ ...flags, inputTokens: '512', outputTokens: '100..200' }).payload,
  ).toMatchObject({
    kind: 'generated',
    prompts: {
      inputTokens: { kind: 'fixed', tokens: 512 },
      outputTokens: { kind: 'uniform', from: 100, to: 200 },
    },
  })
  expect(() => readFlags({ ...flags, inputTokens: 'long' })).toThrow(/not a length in tokens/)
  expect(() => readFlags({ ...flags, inputTokens: '9', payload: 'x.jsonl' })).toThrow(
    /a file of prompts has its own lengths/,
  )
})

test('a sweep is a table of its loads, with every latency of a stream, in text, report and CSV', async () => {
  const of = (ms: number) => ({
    requests: 9,
    meanMs: ms,
    p50Ms: ms,
    p90Ms: 2 * ms,
    p95Ms: 2 * ms,
    p99Ms: 3 * ms,
    maxMs: 3 * ms,
  })
  const streamed = (connections: number, ms: number): LoadPoint => ({
    ...point(connections, ms),
    load: { kind: 'closed', connections, durationS: 1 },
    stream: {
      ttft: of(ms),
      tpot: of(ms / 10),
      e2e: of(9 * ms),
      interToken: of(ms / 9),
      outputTokensPerSecond: 640,
      outputTokens: 64,
    },
  })
  const swept: Profile = {
    ...profile,
    measurement: undefined,
    steady: undefined,
    sweep: [streamed(1, 40), streamed(16, 90)],
  }
  const text = formatProfile(swept, plain, 200).join('\n')
  expect(text).toMatch(
    /load +req\/s +output tokens\/s +TTFT p50, p90, p99 +ITL p50, p90, p99 +TPOT p50, p90, p99 +E2E p50, p90, p99/,
  )
  expect(text).toMatch(/1 at a time +1 +640 +40, 80, 120 ms .* 100 % +meets it/)
  expect(text).toMatch(/16 at a time .*90 ms +100 %$/m)
  expect(await renderHtml(swept, new Date(0))).toContain('16 at a time')
  const [head, first] = renderCsv(swept)
    .split('\n')
    .map((line) => line.split(','))
  expect(first![head!.indexOf('ttft_p90_ms')]).toBe('80')
  expect(first![head!.indexOf('output_tokens_per_second')]).toBe('640')
  // Others have no such columns.
  expect(renderCsv(profile)).not.toContain('ttft')
})
