/** Confirmations whose windows are made up: what is played, and what a confirmation makes of it. */
import { expect } from 'vitest'
import { confirmCapacity } from '../capacity/confirmation/confirm.ts'
import type { ConfirmOptions } from '../capacity/confirmation/confirm-options.ts'
import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import { runOf, scriptedGenerator } from './scripted-generator.ts'
import { targetAt } from './servers.ts'

export const slo: Slo = { percentile: 0.99, limitMs: 60, maxErrorRate: 0.01 }
export type Open = Extract<Load, { kind: 'open' }>
/** A window of open load whose requests take so long each, 5 ms unless said. */
export const open = (
  load: Open,
  ms: (i: number) => number = () => 5,
  more: Partial<LoadRun> = {},
): LoadRun =>
  runOf(
    load,
    Array.from({ length: Math.round(load.rateRps * load.durationS) }, (_, i) => ms(i)),
    more,
  )
/** One in twenty takes a little longer than the limit. */
export const slow = (i: number) => (i % 20 === 10 ? 62 : 5)
/** Who is sent from the 70th on waits for 200 ms at 100 a second. */
export const pausing = (i: number) => (i >= 70 && i < 90 ? 205 - 10 * (i - 70) : 5)

/**
 * Confirms 100 a second, with 10 s for a rate: in windows of 2.5 s. `answer` is asked for those,
 * counted from 0.
 */
export async function confirmed(
  answer: (load: Open, window: number) => LoadRun,
  options: Partial<ConfirmOptions> = {},
) {
  let windows = 0
  const { rateRps = 100, seconds = 10 } = options
  const isWindow = (load: Load): load is Open =>
    load.kind === 'open' && load.durationS > seconds / 15
  const generator = scriptedGenerator((load) => {
    if (load.kind === 'closed')
      return runOf(
        load,
        new Array<number>(Math.max(3, Math.round(200 * load.connections * load.durationS))).fill(5),
      )
    return isWindow(load) ? answer(load, windows++) : open(load)
  })
  const target = targetAt('http://127.0.0.1:1')
  const found = await confirmCapacity({
    target,
    slo,
    rateRps,
    seconds,
    signal: new AbortController().signal,
    generator,
    ...options,
  })
  const asked = generator.asked.filter(isWindow)
  const each = asked.map((load) => load.rateRps)
  return {
    found,
    all: generator.asked,
    asked,
    rests: generator.rests,
    each,
    rates: each.filter((rate, i) => rate !== each[i - 1]),
  }
}
export const upTo = (capacityRps: number) => (load: Open) =>
  open(load, load.rateRps <= capacityRps ? undefined : slow)
/** Rates, to nine digits. */
export const close = (found: readonly number[], wanted: readonly number[]) => {
  expect(found).toHaveLength(wanted.length)
  for (const [i, rate] of wanted.entries()) expect(found[i]! / rate).toBeCloseTo(1, 9)
}
