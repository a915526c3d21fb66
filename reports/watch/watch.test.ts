import { expect, test } from 'vitest'
import type { ProductionWindow } from './production-window.ts'
import {
  createWatchState,
  evaluateWatch,
  recordWindow,
  type WatchState,
  type WatchTarget,
} from './watch.ts'
import { formatFinding, formatStatus } from './watch-text.ts'

const knot = (rateRps: number, latencyMs: number) => ({
  rateRps,
  latencyMs,
  lowMs: latencyMs,
  highMs: latencyMs,
  requests: 1000,
})
const watched: WatchTarget = {
  server: { capacityRps: 100, curve: [knot(0, 10), knot(80, 20), knot(100, 50)] },
  slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.01 },
  headroom: 0.2,
  replicas: 3,
  pricePerHour: { stored: 1, today: 1 },
  drift: { tolerance: 0.07, falseAlarmDays: 365 },
  ingressMs: 0,
}
const window = (i: number, about: Partial<ProductionWindow> = {}): ProductionWindow => ({
  fromS: 1_790_000_000 - (1_790_000_000 % 3600) + i * 300,
  seconds: 300,
  rateRps: 150,
  sloMs: 16,
  errorShare: 0,
  ...about,
})
const after = (
  windows: readonly ProductionWindow[],
  of: WatchTarget = watched,
  before: WatchState = createWatchState(1),
) =>
  evaluateWatch(
    windows.reduce((state, one) => recordWindow(state, one, of), before),
    of,
  )
const kinds = (...args: Parameters<typeof after>) => after(...args).findings.map(({ kind }) => kind)

test('nothing is found where nothing is wrong', () => {
  expect(kinds([0, 1, 2, 3].map((i) => window(i)))).toEqual([])
  expect(kinds([])).toEqual([])
})

test('the SLO is broken now where three windows in a row miss it, by latency or by errors, and no longer', () => {
  const missed = (i: number) => window(i, i % 2 === 0 ? { sloMs: 51 } : { errorShare: 0.02 })
  expect(kinds([missed(0), missed(1)])).toEqual([])
  expect(kinds([missed(0), missed(1), missed(2)])).toEqual(['slo'])
  expect(kinds([missed(0), missed(1), missed(2), window(3)])).toEqual([])
  // One with too few requests to say is neither here nor there.
  expect(kinds([missed(0), missed(1), missed(2), window(3, { rateRps: 0.1 })])).toEqual(['slo'])
  // Three slow ones of twenty requests say nothing of a 99th percentile.
  expect(kinds([0, 1, 2].map((i) => window(i, { sloMs: 500, rateRps: 0.1 })))).toEqual([])
})

test('windows of which nobody says how long requests took neither keep the SLO nor break it, but for failures', () => {
  const missed = [0, 1, 2].map((i) => window(i, { sloMs: 60 }))
  expect(kinds([...missed, window(3, { sloMs: undefined })])).toEqual(['slo'])
  // All of them fail: there is no latency to tell.
  expect(kinds([0, 1, 2].map((i) => window(i, { sloMs: undefined, errorShare: 1 })))).toEqual([
    'slo',
  ])
  expect(kinds([0, 1, 2].map((i) => window(i, { sloMs: undefined })))).toEqual([])
})

test('windows of half an hour count as those of five minutes do', () => {
  const half = (i: number) => ({ ...window(6 * i, { sloMs: 60, rateRps: 310 }), seconds: 1800 })
  expect(kinds([half(0), half(1)])).toEqual([])
  expect(kinds([half(0), half(1), half(2)])).toEqual(['slo', 'traffic-over'])
})

test('traffic beyond what the replicas carry is told with its minutes, and what production says of replicas goes before the flag', () => {
  const busy = [0, 1, 2].map((i) => window(i, { rateRps: 310 }))
  expect(after(busy).findings[0]).toMatchObject({
    kind: 'traffic-over',
    minutes: 15,
    ofMinutes: 60,
    peakRps: 310,
    carriesRps: 300,
    replicas: 3,
  })
  expect(kinds(busy.map((one) => ({ ...one, replicas: 4 })))).toEqual([])
})

test('replicas that a whole week does not need are told with what they cost, and not before a week', () => {
  const days = (n: number, most: number) =>
    Array.from({ length: n * 24 }, (_, hour) =>
      window(hour * 12, { rateRps: hour % 24 === 20 ? most : 20 }),
    )
  expect(kinds(days(6, 70))).toEqual([])
  expect(kinds(days(7, 70).slice(0, -2))).toEqual([])
  expect(after(days(7, 70)).findings).toEqual([
    { kind: 'traffic-under', peakRps: 70, replicas: 3, needed: 1, perHour: 2 },
  ])
  expect(kinds(days(7, 200))).toEqual([])
  // Sold in pairs: three replicas are two instances, one is one; and on fours, nothing is saved.
  const sold = (replicas: number) => ({
    ...watched,
    bundles: [{ name: 'box', replicas, perHour: 1.5 }],
  })
  expect(after(days(7, 70), sold(2)).findings).toMatchObject([
    { kind: 'traffic-under', perHour: 1.5 },
  ])
  expect(kinds(days(7, 70), sold(4))).toEqual([])
})

test('a version that was not measured, and a price that has moved', () => {
  const of = { ...watched, version: '3', pricePerHour: { stored: 1, today: 1.2 } }
  expect(
    after([window(0, { versions: ['3'] }), window(1, { versions: ['3', '4'] })], of).findings,
  ).toEqual([
    { kind: 'version', measured: '3', seen: ['4'] },
    { kind: 'price-change', stored: 1, today: 1.2 },
  ])
  // Without one that was measured, the first that was seen.
  expect(kinds([window(0, { versions: ['7'] }), window(1, { versions: ['8'] })])).toEqual([
    'version',
  ])
  expect(kinds([window(0, { pricePerHour: 1.5 })])).toEqual(['price-change'])
})

test('a window that was seen before changes nothing', () => {
  const { state } = after([window(0), window(1)])
  expect(recordWindow(state, window(1, { sloMs: 400 }), watched)).toBe(state)
})

test('every finding says what was seen, what was expected and how sure it is', () => {
  const told = [
    formatFinding(
      { kind: 'drift', slowness: 1.15, sinceS: 1_790_000_000, establishedS: 1_790_032_400 },
      watched,
    ),
    formatFinding({ kind: 'slo', windows: 3, minutes: 15, sloMs: 61, errorShare: 0.02 }, watched),
  ]
  expect(told[0]).toMatch(
    /1\.15 times as long as measured, since 2026-09-21 .* at least 365 days apart/,
  )
  expect(told[1]).toMatch(/p99 61 ms, 2 % of requests fail.*3 consecutive windows, 15 minutes/)
})

test('prices that move by rounding alone have not moved', () => {
  const at = (today: number) =>
    kinds([window(0)], { ...watched, pricePerHour: { stored: 1, today } })
  expect([at(1.009), at(0.991), at(1.015), at(0.985)]).toEqual([
    [],
    [],
    ['price-change'],
    ['price-change'],
  ])
  expect(kinds([window(0)], { ...watched, pricePerHour: { stored: 0, today: 1 } })).toEqual([])
})

test('windows are counted, and the last of those that missed is told', () => {
  const { state, findings } = after([70, 65, 61].map((sloMs, i) => window(i, { sloMs })))
  expect(state.windows).toBe(3)
  expect(findings).toEqual([{ kind: 'slo', windows: 3, minutes: 15, sloMs: 61, errorShare: 0 }])
})

test('what the way to the server adds is taken off before it is compared with what was measured, and not from the SLO', () => {
  const list = Array.from({ length: 75 * 12 }, (_, i) => window(i, { sloMs: 45 + 14 * (i % 2) }))
  const seen = after(list, { ...watched, ingressMs: 45 })
  // 14 ms and next to nothing are the middle of both: of 50 req/s a replica, by the curve.
  expect(seen.drift.state).toBe('quiet')
  expect(seen.state.looks.filter(({ missed }) => missed).length).toBe(6)
})

test('the fewest replicas of an hour count when a fleet is judged too large', () => {
  const week = Array.from({ length: 7 * 24 }, (_, hour) =>
    [0, 1].map((k) => window(hour * 12 + k, { rateRps: 20, replicas: k === 0 ? 4 : 2 })),
  ).flat()
  expect(after(week).findings).toEqual([
    { kind: 'traffic-under', peakRps: 20, replicas: 2, needed: 1, perHour: 1 },
  ])
})

test('one line says what production does and what is known of drift', () => {
  const line = (n: number, about: Partial<ProductionWindow> = {}) =>
    formatStatus(after(Array.from({ length: n }, (_, i) => window(i, about))), watched)
  expect(line(0)).toBe('no production data yet')
  expect(line(13, { gpuShare: 0.4 })).toMatch(
    / UTC {2}150 req\/s on 3 replicas, p99 16 ms of 50 ms, errors 0 %, GPU 40 %; drift: calibrating the load curve, 1 of 72 hours/,
  )
  expect(line(72 * 12 + 1)).toContain('drift: no complete hour yet')
  expect(line(75 * 12)).toContain('drift: none (1 times as long as measured; no evidence)')
})
