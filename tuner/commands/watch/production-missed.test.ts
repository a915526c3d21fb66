import { expect, test } from 'vitest'
import type { ProductionWindow } from '../../../reports/watch/production-window.ts'
import type { Watched } from '../../../reports/watch/watching.ts'
import { missedSince } from './production-missed.ts'
import type { Source } from './production-source.ts'

const watched = {
  server: { capacityRps: 100, curve: [{ rateRps: 50, ms: 20, interval: [19, 21] }] },
  slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.01 },
  headroom: 0.2,
  replicas: 1,
  pricePerHour: { stored: 1, today: 1 },
  drift: { tolerance: 0.07, quietDays: 365 },
  detourMs: 0,
} as unknown as Watched

const window = (fromS: number, more: Partial<ProductionWindow> = {}): ProductionWindow => ({
  fromS,
  seconds: 60,
  rateRps: 20,
  sloMs: 20,
  ...more,
})
const sourceOf = (...windows: ProductionWindow[]): Source & { reads: number } => ({
  reads: 0,
  async read() {
    this.reads++
    return { windows, notes: [] }
  },
})
const signal = new AbortController().signal

function beside(whole: Source, own?: Source) {
  let nowS = 600
  const missed = missedSince({
    whole,
    ownOf: () => own,
    windowS: 60,
    watched,
    untilS: 540,
    place: undefined,
    nowS: () => nowS,
  })
  return (atS: number) => {
    nowS = atS
    return missed(610, 'bert-canary', signal)
  }
}

test('looks once a window has ended, and not before', async () => {
  const whole = sourceOf(window(660))
  const at = beside(whole)
  expect([await at(610), await at(659)]).toEqual([undefined, undefined])
  expect(whole.reads).toBe(0)
  expect([await at(725), await at(730)]).toEqual([undefined, undefined])
  expect(whole.reads).toBe(1)
})

test('windows since then that miss the SLO by latency or errors; of too few requests, or of before, they say nothing', async () => {
  expect(await beside(sourceOf(window(660, { sloMs: 71.23 })))(725)).toBe(
    'production misses the SLO in a window of 60 s: 71.2 ms at its percentile',
  )
  expect(await beside(sourceOf(window(660, { errorShare: 0.025 })))(725)).toMatch(
    /20 ms at its percentile, 2.5 % of requests fail/,
  )
  expect(await beside(sourceOf(window(600, { sloMs: 71 })))(725)).toBeUndefined()
  expect(await beside(sourceOf(window(660, { sloMs: 71, rateRps: 2 })))(725)).toBeUndefined()
})

test('the judged pods alone miss it, where the source can tell them apart', async () => {
  const own = sourceOf(window(660, { sloMs: 90 }))
  expect(await beside(sourceOf(window(660)), own)(725)).toBe(
    'what production sends to bert-canary misses the SLO in a window of 60 s: 90 ms at its percentile',
  )
  expect(await beside(sourceOf(window(660)))(725)).toBeUndefined()
})
