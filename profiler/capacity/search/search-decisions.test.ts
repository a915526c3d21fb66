/**
 * What a search asks for next, and what it ends with, given what windows show and what the queue model
 * makes of them; whole searches are in virtual-capacity.test.ts.
 */
import { describe, expect, test } from 'vitest'
import type { Load } from '../../model/load.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { runOf } from '../../testing/scripted-generator.ts'
import {
  about,
  gone,
  loop,
  missing,
  type Open,
  oneByOne,
  posterior,
  rates,
  refusing,
  searched,
  ten,
  windowOf,
} from '../../testing/scripted-search.ts'
import type { Slowdown } from '../changes/speed-change.ts'
import { type Effort, efforts } from '../effort.ts'
import type { CapacityPosterior, SimulationBudget } from '../queue-model/posterior.ts'

describe('a search', () => {
  test('sweeps from 40 % to 115 % of the saturation, then plays the estimated capacity', async () => {
    const { asked, loops, found } = await searched({
      estimate: (_, windows) => posterior(500 + 50 * windows),
    })
    expect(asked[0]).toEqual({
      kind: 'open',
      rateRps: 775,
      durationS: 1,
      arrivals: { kind: 'sweep', fromRps: 400, toRps: 1150 },
      seed: 7,
      cut: { overMs: 50, requests: 232.5 },
    })
    expect(asked[1]).toEqual({
      kind: 'open',
      rateRps: 550,
      durationS: 1,
      arrivals: { kind: 'poisson' },
      seed: 8,
      cut: { overMs: 50, requests: 165 },
    })
    expect(asked[2]).toMatchObject({ rateRps: 600, seed: 9 })
    expect(asked).toHaveLength(3)
    // 1.2 times 1,000 a second times 50 ms, and as many for the open load to come.
    expect(loops.at(-1)).toEqual({
      kind: 'closed',
      connections: 60,
      durationS: 0.25,
      forOpen: true,
    })
    expect(found).toMatchObject({
      outcome: 'converged',
      capacityRps: 650,
      saturationRps: 1000,
      bounds: 'both',
      detail: undefined,
      caveats: [],
    })
    expect(found.capacityCi90Rps).toEqual([600, expect.closeTo(656.5, 9)])
  })

  test('leaves its sweep out of the load curve', async () => {
    const { session } = await searched({})
    expect(session.points.filter(({ load }) => load.kind === 'open')).toHaveLength(2)
  })

  test('cuts no window before twenty violations', async () => {
    const { asked } = await searched({
      effort: ten,
      estimate: () => posterior(60),
      window: (load) => missing(load),
    })
    expect(asked[3]!.cut).toEqual({ overMs: 50, requests: 20 })
  })

  test.each<[Partial<Effort>, number[]]>([
    [{}, [1, 1, 1]],
    // Half of the time at most is swept.
    [{ windows: 1 }, [1.5, 1.5]],
    // The shortest budget has room for the sweep and one window.
    [{ budgetS: 0.5 }, [0.5, 0.25]],
    [{ budgetS: 2.6, windows: 2 }, [1.3, 1.3]],
    // What is left, and half a window at least.
    [{ budgetS: 2.8, windowS: 1, windows: 3 }, [1, 1, 0.8]],
    [{ budgetS: 2.55, windowS: 1, windows: 3 }, [1, 1, 0.55]],
    [{ budgetS: 2.45, windowS: 1, windows: 3 }, [1, 1]],
  ])('with %o has windows of %j seconds', async (effort, seconds) => {
    const { asked } = await searched({ effort, estimate: () => posterior(600, 0.5) })
    expect(asked.map(({ durationS }) => durationS)).toEqual(
      seconds.map((s) => expect.closeTo(s, 9)),
    )
  })

  test('ends once the interval is narrow and 70 % of the budget is spent', async () => {
    const windows = async (half: number) =>
      (await searched({ effort: ten, estimate: () => posterior(600, half) })).asked.length
    expect([await windows(0.0599), await windows(0.0601)]).toEqual([7, 10])
  })

  test('plays at least two windows that count', async () => {
    // Six that the generator could not sustain, and one that it did.
    const { asked } = await searched({
      effort: ten,
      window: (load, i) => windowOf(load, 5, i < 6 ? { generatorCores: 0.96 } : {}),
    })
    expect(asked).toHaveLength(8)
  })

  test('without a window that counts tries 70 % of the saturation and of the sustained rate', async () => {
    const { asked, found } = await searched({
      window: (load) => windowOf(load, 5, { generatorCores: 0.96 }),
    })
    expect(rates(asked)).toEqual([
      775,
      ...Array.from(asked.slice(1), (_, i) => about(775 * 0.7 ** (i + 1))),
    ])
    expect(asked).toHaveLength(9)
    expect(found).toMatchObject({ outcome: 'generator-limit', capacityRps: 0, bounds: 'none' })
    expect(found.detail).toMatch(/^the load generator could not sustain the rate/)
    const unheld = await searched({
      window: (load, i) => windowOf(load, 5, i === 0 ? { planned: 1e6 } : {}),
      loop: (load) => loop(load),
    })
    expect(rates(unheld.asked)[1]).toBe(542.5)
  })

  test('uses the whole budget where open windows are slower than closed loops', async () => {
    const windows = async (saturationRps: number) =>
      (await searched({ effort: ten, estimate: () => posterior(600, 0.01, { saturationRps }) }))
        .asked.length
    expect([await windows(900), await windows(890)]).toEqual([7, 10])
  })

  test('plans with short simulations and concludes with those of its effort', async () => {
    const plays: SimulationBudget[] = []
    await searched({
      estimate: (play) => {
        plays.push(play)
        return posterior(600)
      },
    })
    expect(plays).toEqual([
      ...Array(3).fill({ requests: 6000, maxRequests: 30_000, replicates: 4 }),
      efforts.quick.simulation,
    ])
  })
})

describe('the saturation', () => {
  test('is the answered rate of a server that refuses closed loops', async () => {
    const refusesMost = (load: Open) =>
      windowOf(load, (i) => (i % 2 === 0 ? Number.NaN : 5), { errorKinds: { 'status 429': 1320 } })
    const { asked, loops, found } = await searched({
      options: { refusesBeyondRps: 400 },
      estimate: () => posterior(300),
      window: (load) => (load.rateRps > 500 ? refusesMost(load) : windowOf(load)),
    })
    expect(loops).toEqual([])
    expect(asked[0]).toMatchObject({
      rateRps: 310,
      arrivals: { kind: 'sweep', fromRps: 160, toRps: expect.closeTo(460, 9) },
    })
    expect(found).toMatchObject({ outcome: 'converged', saturationRps: 400 })
  })

  test('ends the search if the server dies', async () => {
    const { found, asked } = await searched({ loop: gone })
    expect(found).toMatchObject({ outcome: 'server-died', bounds: 'none', capacityRps: 0 })
    expect(found.detail).toBe('nothing listens any more: 2 of 2 requests failed (refused × 2)')
    expect(asked).toEqual([])
  })

  test('below 75 % of the rate to beat prunes the trial, unless the generator was the limit', async () => {
    const racing = (capacityToBeatRps: number, more: Partial<LoadRun> = {}) =>
      searched({ options: { capacityToBeatRps }, loop: (load) => loop(load, more) })
    const beaten = await racing(1334)
    expect(beaten.found).toMatchObject({
      outcome: 'pruned',
      bounds: 'upper',
      saturationRps: 1000,
    })
    expect(beaten.found.capacityRps).toBeCloseTo(1000 / 0.75, 9)
    expect(beaten.found.detail).toBe(
      'stopped early: saturated at 1,000 req/s, far below the 1,334 req/s needed to win',
    )
    expect(beaten.asked).toEqual([])
    expect((await racing(1333)).asked).not.toEqual([])
    expect((await racing(1334, { generatorCores: 0.95 })).asked).not.toEqual([])
  })
})

describe('the next rate', () => {
  test('after violations alone lies 10 % below them, or at the lower end of the interval', async () => {
    const low = async (half: number) =>
      rates(
        (
          await searched({
            effort: ten,
            window: (load) => missing(load),
            estimate: () => posterior(600, half),
          })
        ).asked,
      ).slice(1, 5)
    expect(await low(0.01)).toEqual([600, 540, 486, 437.4])
    expect(await low(0.2)).toEqual([600, 480, 432, 388.8])
    const held = await searched({
      effort: ten,
      window: (load, i) => (i === 2 ? missing(load) : windowOf(load)),
    })
    expect(rates(held.asked).slice(1, 5)).toEqual([600, 600, 600, 600])
  })

  test('stays 15 % below a failing rate, unless the queue model refuses too', async () => {
    const failing = async (refusesWhenFull: boolean) =>
      rates(
        (
          await searched({
            effort: ten,
            window: (load) =>
              load.rateRps > 550 && load.arrivals.kind !== 'sweep'
                ? refusing(load)
                : windowOf(load),
            estimate: () => posterior(600, 0.01, { refusesWhenFull }),
          })
        ).asked,
      ).slice(1, 4)
    expect(await failing(false)).toEqual([600, 510, 510])
    expect((await failing(true))[1]).toBe(540)
  })

  test('is at most 70 % of a rate that the generator could not sustain', async () => {
    const { asked, found } = await searched({
      effort: ten,
      window: (load, i) => windowOf(load, 5, i === 1 ? { generatorCores: 0.96 } : {}),
    })
    expect(rates(asked).slice(1, 4)).toEqual([600, 420, 420])
    expect(found).toMatchObject({
      outcome: 'generator-limit',
      capacityRps: 420,
      bounds: 'lower',
    })
  })
})

describe('a search ends', () => {
  test('after six lower windows without a met SLO', async () => {
    const { asked, found } = await searched({ window: (load) => missing(load) })
    // Two of the budget, at half a second each those that look for a rate that holds.
    expect(rates(asked).slice(1)).toEqual(
      Array.from({ length: 8 }, (_, i) => about(600 * 0.9 ** i)),
    )
    expect(asked.slice(3).map(({ durationS }) => durationS)).toEqual(Array(6).fill(0.5))
    expect(found).toMatchObject({
      outcome: 'budget',
      bounds: 'upper',
      capacityRps: 0,
      detail: 'no open window met the SLO',
    })
    expect(found.capacityCi90Rps).toEqual([0, about(600 * 0.9 ** 7)])
    const wide = await searched({
      window: (load) => missing(load),
      estimate: () => posterior(100, 0.01),
    })
    expect(wide.found.capacityCi90Rps[1]).toBeLessThan(101.01)
  })

  test('with a lower rate that met the SLO', async () => {
    const { asked, found } = await searched({
      window: (load) => (load.rateRps > 400 ? missing(load) : windowOf(load)),
      estimate: () => posterior(600, 0.3),
    })
    expect(rates(asked).slice(1)).toEqual([600, 420, 378])
    expect(found).toMatchObject({ outcome: 'budget', bounds: 'both', capacityRps: 600 })
    expect(found.capacityCi90Rps).toEqual([378, expect.closeTo(780, 9)])
  })

  test('as converged within twice the requested precision', async () => {
    const outcome = async (half: number) =>
      (await searched({ estimate: () => posterior(600, half) })).found.outcome
    expect([await outcome(0.1199), await outcome(0.1201)]).toEqual(['converged', 'budget'])
  })

  test('below the rate at which requests fail', async () => {
    const refusesFrom = (rps: number, more: Partial<CapacityPosterior> = {}) =>
      searched({
        effort: ten,
        window: (load) => (load.rateRps >= rps ? refusing(load) : windowOf(load)),
        estimate: (_, windows) => posterior(windows === 1 ? 600 : 650, 0.01, more),
      })
    const { found } = await refusesFrom(590)
    expect(found).toMatchObject({
      outcome: 'converged',
      bounds: 'both',
      capacityRps: 510,
      capacityCi90Rps: [510, 600],
    })
    expect(found.detail).toBe('requests fail from 600 req/s on, before they become slow')
    const always = (await refusesFrom(1)).found
    expect(always).toMatchObject({ outcome: 'errors', bounds: 'upper', capacityRps: 0 })
    expect(always.capacityCi90Rps[0]).toBe(0)
    const full = (await refusesFrom(590, { refusesWhenFull: true })).found
    expect(full).toMatchObject({ outcome: 'converged', capacityRps: 650, bounds: 'both' })
    expect(full.detail).toBe('requests fail from 600 req/s on, before they become slow')
    expect(
      (await searched({ estimate: () => posterior(600, 0.01, { refusesWhenFull: true }) })).found
        .detail,
    ).toBe('requests are refused once the queue is full')
  })

  test('below the failing rate, at a met rate, and not below a clearly met one', async () => {
    const late = await searched({
      effort: ten,
      window: (load) =>
        load.rateRps >= 590
          ? refusing(load)
          : load.rateRps > 450 && load.rateRps < 590
            ? missing(load)
            : windowOf(load),
      estimate: () => posterior(700, 0.01),
    })
    expect(late.found).toMatchObject({
      outcome: 'budget',
      bounds: 'both',
      capacityRps: about(410),
      capacityCi90Rps: [about(410), about(595)],
    })
    const once = await searched({
      effort: ten,
      // Four of 500: too few to tell of a limit.
      window: (load, i) =>
        i === 2
          ? windowOf(load, (k) => (k % 120 === 60 ? Number.NaN : 5), {
              errorKinds: { 'status 429': 4 },
            })
          : load.rateRps > 800
            ? missing(load)
            : windowOf(load),
      estimate: (_, windows) => posterior(windows === 1 ? 600 : windows === 2 ? 500 : 650, 0.01),
    })
    expect(once.found).toMatchObject({
      outcome: 'budget',
      bounds: 'both',
      capacityRps: 425,
      capacityCi90Rps: [425, 600],
    })
  })

  /** Declared, because windows at even distances tell nothing of a queue. */
  const discipline = { workers: 1, maxBatch: 1, maxDelayMs: 0 }

  test('as non-stationary after a slowdown: earlier windows are dropped and the budget restarts', async () => {
    let told = 0
    const { found, asked } = await searched({
      window: (load) => windowOf(load, 5, { elapsedS: load.durationS }),
      loop: oneByOne,
      options: { discipline },
      slowdown: (windows) => (windows === 3 && told++ === 0 ? { speed: 0.5, from: 2 } : undefined),
    })
    // Three windows of a second, of which one is kept, and three more.
    expect(asked).toHaveLength(6)
    expect(found).toMatchObject({ outcome: 'non-stationary', bounds: 'both', speedRatio: 0.5 })
    expect(found.detail).toBe(
      'slowed down during the measurement: service took 2.00 times as long at the end as at the beginning',
    )
    expect(found.caveats).toEqual([
      'the server slowed down during the measurement: earlier windows are left out',
    ])
  })

  test('after two more windows that check a possible slowdown', async () => {
    const ends = async (slowdown: (windows: number) => Slowdown | undefined) => {
      const { found, asked } = await searched({ slowdown, loop: oneByOne, options: { discipline } })
      return [asked.length, found.outcome, found.detail, found.speedRatio]
    }
    expect(await ends((windows) => ({ speed: 0.5, from: windows }))).toEqual([
      5,
      'non-stationary',
      'slowing down at the end',
      1,
    ])
    expect(await ends((windows) => (windows === 3 ? { speed: 0.5, from: 3 } : undefined))).toEqual([
      4,
      'converged',
      undefined,
      undefined,
    ])
  })

  test('as non-stationary while the server speeds up', async () => {
    const { found, asked } = await searched({ window: (load, i) => windowOf(load, 0.8 ** i) })
    expect(found).toMatchObject({
      outcome: 'non-stationary',
      bounds: 'lower',
      capacityRps: 600,
      speedRatio: expect.closeTo(1.25, 2),
    })
    expect(found.capacityCi90Rps).toEqual([600, Number.POSITIVE_INFINITY])
    expect(found.detail).toMatch(/^still speeding up: its last window was served 25 % faster/)
    // The budget began anew with each of the first three windows, and was enough for three more;
    // twice it was warmed further, and searched anew.
    expect(asked).toHaveLength(7 + 2 * (1 + 7))
  })

  test('where the server died', async () => {
    for (const when of [0, 1, 2]) {
      const { found, asked } = await searched({
        window: (load, i) => (i === when ? gone(load) : windowOf(load)),
      })
      expect(found).toMatchObject({ outcome: 'server-died', saturationRps: 1000 })
      expect(found.detail).toBe('nothing listens any more: 2 of 2 requests failed (refused × 2)')
      expect(asked).toHaveLength(when + 1)
      // The load that it died of may be less than the queue model says: it is known to do what it held.
      expect(found).toMatchObject(
        when === 2 ? { bounds: 'lower', capacityRps: 600 } : { bounds: 'none', capacityRps: 0 },
      )
    }
    // And where rates fall until one holds.
    expect(
      (await searched({ window: (load, i) => (i === 4 ? gone(load) : missing(load)) })).found
        .outcome,
    ).toBe('server-died')
  })

  test('where the server hangs instead of settling, with its met rate', async () => {
    const timedOut = (load: Load) =>
      runOf(load, [Number.NaN], { errorKinds: { timeout: 1 }, elapsedS: 5 })
    const { found, asked } = await searched({
      window: (load, i) => windowOf(load, 5, i === 2 ? { cutMs: 900 } : {}),
      loop: (load) =>
        load.kind === 'closed' && load.connections === 1 ? timedOut(load) : loop(load),
    })
    expect(found).toMatchObject({ outcome: 'server-died', bounds: 'lower', capacityRps: 600 })
    expect(found.detail).toBe('nothing is answered any more: 1 of 1 requests failed (timeout × 1)')
    expect(asked).toHaveLength(3)
  })
})

describe('a window', () => {
  test('that was cut short is followed by time to settle', async () => {
    const settling = async (cutMs: number | undefined) =>
      (
        await searched({ window: (load, i) => windowOf(load, 5, i === 1 ? { cutMs } : {}) })
      ).loops.filter((load) => load.kind === 'closed' && load.connections === 1).length
    expect(await settling(900)).toBe((await settling(undefined)) + 1)
  })

  test('that disagrees with another at the same rate is reported', async () => {
    const { found } = await searched({
      effort: ten,
      window: (load, i) => (i === 3 ? missing(load) : windowOf(load)),
    })
    expect(found.caveats).toEqual([
      expect.stringMatching(/^two windows at about 600 req\/s disagree/),
    ])
  })
})
