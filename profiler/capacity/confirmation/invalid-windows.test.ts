/**
 * Windows of a confirmation that something other than the rate may have spoilt: the generator, the
 * machine, one pause.
 */
import { describe, expect, test } from 'vitest'
import type { LoadRun } from '../../model/load-run.ts'
import {
  close,
  confirmed,
  type Open,
  open,
  pausing,
  slow,
} from '../../testing/scripted-confirmation.ts'

const infinite = Number.POSITIVE_INFINITY

describe('an invalid window', () => {
  test.each<[string, Partial<LoadRun>, windows: number]>([
    ['the generator', { latenessP99Ms: 4 }, 2],
    // A machine that disturbs one may disturb others: there is no early end.
    ['the machine', { machineWait: { server: 0.5 } }, 4],
  ])('by %s is played once more', async (_, spoilt, windows) => {
    const { found, each } = await confirmed((load, window) =>
      window === 0 ? open(load, slow, spoilt) : open(load),
    )
    expect(each).toEqual(new Array(1 + windows).fill(100))
    expect(found).toMatchObject({
      met: true,
      capacityRps: 100,
      nEff: 250 * windows,
      caveats: expect.not.arrayContaining([expect.stringMatching(/nothing was/)]),
    })
    expect((await confirmed((load) => open(load, undefined, spoilt))).each).toEqual([100, 100])
  })

  test.each<[string, (i: number) => number, Partial<LoadRun>]>([
    ['late by less than what it is over the limit', (i) => (i % 20 === 10 ? 500 : 5), {}],
    ['cut', (i) => (i % 2 ? 500 : 5), { cutMs: 1000 }],
    ['timed out', (i) => (i % 2 ? Number.NaN : 5), { errorKinds: { timeout: 125 } }],
  ])('by a saturated generator never refutes the rate: %s', async (_, ms, more) => {
    const saturated = (load: Open) =>
      load.rateRps > 96 ? open(load, ms, { latenessP99Ms: 4, ...more }) : open(load)
    const { each, found } = await confirmed(saturated)
    close(each.slice(0, 4), [100, 100, 100, 82])
    expect(found).toMatchObject({
      outcome: 'converged',
      capacityCi90Rps: [expect.any(Number), infinite],
    })
  })

  test('does not include refusals: no generator causes a status 503', async () => {
    const refusing = (load: Open) =>
      open(load, (i) => (load.rateRps > 96 && i % 2 ? Number.NaN : 5), {
        latenessP99Ms: 4,
        errorKinds: load.rateRps > 96 ? { 'status 503': 125 } : {},
      })
    expect((await confirmed(refusing, { minRps: 100 })).found).toMatchObject({
      outcome: 'budget',
      capacityCi90Rps: [0, 100],
    })
  })

  test('three times in a row gives no verdict on the rate', async () => {
    const late = await confirmed((load) => open(load, slow, { latenessP99Ms: 4 }))
    close(
      late.each,
      [100, 82, 65].flatMap((rate) => [rate, rate, rate]),
    )
    expect(late.found).toMatchObject({
      outcome: 'generator-limit',
      bounds: 'none',
      capacityCi90Rps: [0, infinite],
    })
    expect(late.found.detail).toMatch(/^the load generator could not sustain the rate/)
    const busy = await confirmed((load) => open(load, slow, { machineWait: { server: 0.5 } }))
    expect(busy.found).toMatchObject({
      outcome: 'host-interference',
      bounds: 'none',
      capacityCi90Rps: [0, infinite],
    })
    expect(busy.found.detail).toMatch(/^other work on this machine disturbed/)
  })

  test('is followed by a lower rate, and by higher ones if that meets the SLO', async () => {
    const { found, rates } = await confirmed((load, window) =>
      window < 3 ? open(load, slow, { machineWait: { server: 0.5 } }) : open(load),
    )
    const between = Math.sqrt(100 * 82)
    close(rates, [100, 82, between])
    expect(found).toMatchObject({
      outcome: 'converged',
      met: false,
      capacityRps: expect.closeTo(between, 9),
    })
  })

  test('above a violated rate does not count towards giving up', async () => {
    const spoilt = (load: Open) => open(load, slow, { machineWait: { server: 0.5 } })
    const { rates, found } = await confirmed((load) =>
      load.rateRps > 60 && load.rateRps < 70 ? open(load, slow) : spoilt(load),
    )
    close(rates, [100, 82, 65, 45, 25, 10])
    expect(found).toMatchObject({ outcome: 'host-interference', met: false })
  })

  test('with a single outage is set aside and reported, and no early end follows', async () => {
    const { found, each } = await confirmed((load, window) =>
      window === 0 ? open(load, pausing) : open(load),
    )
    expect(each).toEqual([100, 100, 100, 100, 100])
    expect(found.caveats).toEqual([
      'the server answered nothing for 205 ms of one window at 100 req/s; this outage did not recur in 10 s and is left out',
    ])
    expect(found).toMatchObject({ met: true, nEff: 1000 })
  })

  test('with a recurrent outage counts, as does the first one', async () => {
    // 15 of each 250 are over: twice that of 1500 is too much.
    const { found, each } = await confirmed(
      (load, window) => (window < 2 ? open(load, pausing) : open(load)),
      { minRps: 100 },
    )
    expect(each.length).toBeGreaterThan(2)
    expect(found).toMatchObject({ met: false, caveats: [] })
    const twiceInOne = await confirmed(
      (load, window) => open(load, (i) => (window === 0 ? pausing(i >= 150 ? i - 80 : i) : 5)),
      {
        minRps: 100,
      },
    )
    expect(twiceInOne.found.met).toBe(false)
    const never = await confirmed((load) => (load.rateRps > 96 ? open(load, pausing) : open(load)))
    // So far over the limit that 95 is passed over.
    close(never.rates, [100, 90])
    expect(never.found.caveats).toEqual([])
  })

  test('with missing sends does not meet the SLO', async () => {
    const { each } = await confirmed((load, window) =>
      open(load, undefined, window === 0 ? { planned: 253 } : {}),
    )
    expect(each).toHaveLength(3)
    expect(
      (
        await confirmed((load, window) =>
          open(load, undefined, window === 0 ? { planned: 252 } : {}),
        )
      ).each,
    ).toHaveLength(2)
  })
})
