import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createRng } from '../../search/rng.ts'
import { lostMinutesShare, type SpotRisk, spotToBuy } from './interruptions.ts'
import { cheapestMix, type Need } from './mix.ts'

const needs = fc
  .uniqueArray(
    fc.record({
      instances: fc.integer({ min: 0, max: 9 }),
      hours: fc.integer({ min: 1, max: 24 }),
    }),
    {
      minLength: 1,
      maxLength: 6,
      selector: ({ instances }) => instances,
    },
  )
  .filter((levels) => levels.some(({ instances }) => instances > 0))
  .map((levels): Need[] => {
    const all = levels.reduce((sum, { hours }) => sum + hours, 0)
    return levels.map(({ instances, hours }) => ({ instances, share: hours / all }))
  })
const price = fc.double({ min: 0.05, max: 2, noNaN: true })
/** Of the on-demand price: where the ways to buy come close. */
const part = fc.double({ min: 0.3, max: 1.1, noNaN: true })
const risk: SpotRisk = {
  interruptionsPerHour: 0.05,
  outSeconds: 330,
  lostShare: 0.001,
  mostShare: 1,
  zones: 3,
}

describe('committed against on demand', () => {
  test('commit to the k-th instance just where it is used for more of the time than committed costs of on-demand', () => {
    fc.assert(
      fc.property(needs, price, part, (levels, onDemand, committedPart) => {
        const committed = committedPart * onDemand
        const used = (k: number) =>
          levels.reduce((sum, { instances, share }) => sum + (instances >= k ? share : 0), 0)
        const ks = [1, 2, 3, 4, 5, 6, 7, 8, 9]
        fc.pre(ks.every((k) => Math.abs(used(k) - committed / onDemand) > 1e-6))
        const expected = ks.filter((k) => used(k) > committed / onDemand).length
        const mix = cheapestMix(levels, { onDemand, committed })
        expect(mix.committed).toBe(expected)
        const bill = ks.reduce((sum, k) => sum + Math.min(committed, used(k) * onDemand), 0)
        expect(mix.perHour.all).toBeCloseTo(bill, 9)
      }),
    )
  })

  test('where it costs the same, nothing is committed to, and no spot is bought', () => {
    const all = [{ instances: 1, share: 1 }]
    expect(cheapestMix(all, { onDemand: 1, committed: 1 }).committed).toBe(0)
    const half = cheapestMix(all, { onDemand: 1, spot: 0.5 }, { ...risk, zones: 3 })
    expect(half.levels[0]).toMatchObject({ onDemand: 1, spot: 0 })
    expect(
      cheapestMix(all, { onDemand: 1, spot: 0.49 }, { ...risk, zones: 3 }).levels[0],
    ).toMatchObject({ onDemand: 0, spot: 2 })
  })

  test('nothing to commit to, no spot: all on demand', () => {
    const { committed, perHour, levels } = cheapestMix(
      [
        { instances: 2, share: 0.25 },
        { instances: 1, share: 0.75 },
      ],
      { onDemand: 4 },
    )
    expect({ committed, perHour }).toEqual({
      committed: 0,
      perHour: { committed: 0, onDemand: 5, spot: 0, all: 5 },
    })
    expect(levels.map(({ instances, onDemand }) => [instances, onDemand])).toEqual([
      [1, 1],
      [2, 2],
    ])
  })
})

describe('with spot', () => {
  test('no other numbers of each cost less, at any level of the need', () => {
    fc.assert(
      fc.property(
        needs,
        price,
        fc.option(part, { nil: undefined }),
        part,
        fc.constantFrom(0, 0.4, 0.8, 1),
        fc.constantFrom(1, 2, 3),
        (levels, onDemand, committedPart, spotPart, mostShare, zones) => {
          const terms = { ...risk, mostShare, zones }
          const committed = committedPart === undefined ? undefined : committedPart * onDemand
          const spot = spotPart * onDemand
          const mix = cheapestMix(
            levels,
            { onDemand, spot, ...(committed !== undefined && { committed }) },
            terms,
          )
          const bought = spotToBuy(9, terms, Number.POSITIVE_INFINITY)
          let least = Number.POSITIVE_INFINITY
          for (let c = 0; c <= (committed === undefined ? 0 : 9); c++) {
            const bill = levels.reduce(
              (sum, { instances, share }) => {
                let cheapest = Number.POSITIVE_INFINITY
                for (let j = 0; j <= instances; j++)
                  if (j <= mostShare * instances + 1e-9)
                    cheapest = Math.min(
                      cheapest,
                      bought[j]! * spot + Math.max(0, instances - c - j) * onDemand,
                    )
                return sum + share * cheapest
              },
              c * (committed ?? 0),
            )
            least = Math.min(least, bill)
          }
          expect(mix.perHour.all).toBeCloseTo(least, 9)
          for (const {
            instances,
            committed: used,
            onDemand: od,
            spotNeeded,
            spot: all,
          } of mix.levels) {
            expect(used + od + spotNeeded).toBe(instances)
            expect(spotNeeded).toBeLessThanOrEqual(mostShare * instances + 1e-9)
            if (zones > 1) expect(all - Math.ceil(all / zones)).toBeGreaterThanOrEqual(spotNeeded)
            expect(lostMinutesShare(all, all - spotNeeded, terms)).toBeLessThanOrEqual(
              terms.lostShare,
            )
          }
        },
      ),
    )
  })

  test('the share of minutes lost is what instances taken one by one lose, and never less', () => {
    // Restarts of half an hour, twice a day: enough to count.
    const often = { ...risk, interruptionsPerHour: 1 / 12, outSeconds: 1800 }
    const rng = createRng(5)
    for (const [bought, spare] of [
      [1, 0],
      [4, 1],
      [12, 2],
    ] as const) {
      const minutes = 60 * 24 * 400
      const out = new Uint8Array(minutes)
      const counts = new Int32Array(minutes * 6 + 1)
      for (let i = 0; i < bought; i++)
        for (let at = 0; ; ) {
          at += (-Math.log(rng.next()) / often.interruptionsPerHour) * 60
          const [from, to] = [at, Math.min(minutes, at + often.outSeconds / 60)]
          if (from >= minutes) break
          counts[Math.ceil(from * 6)]!++
          counts[Math.ceil(to * 6)]!--
          at = to
        }
      let now = 0
      for (let tick = 0; tick < minutes * 6; tick++) {
        now += counts[tick]!
        if (now > spare) out[Math.floor(tick / 6)] = 1
      }
      const lost = out.reduce((sum, o) => sum + o, 0) / minutes
      const model = lostMinutesShare(bought, spare, often)
      expect(model).toBeGreaterThan(0.95 * lost)
      expect(model).toBeLessThan(1.08 * lost)
    }
  })

  test('more to spare loses less, and large fleets are reckoned too', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4000 }),
        fc.integer({ min: 0, max: 40 }),
        (bought, spare) => {
          const share = lostMinutesShare(bought, spare, risk)
          expect(share).toBeGreaterThanOrEqual(lostMinutesShare(bought, spare + 1, risk) - 1e-12)
          expect(share).toBeLessThanOrEqual(1)
        },
      ),
    )
    const bought = spotToBuy(3000, { ...risk, zones: 1 }, 3).at(-1)!
    expect(lostMinutesShare(bought, bought - 3000, risk)).toBeLessThanOrEqual(0.001)
    expect(lostMinutesShare(bought - 1, bought - 3001, risk)).toBeGreaterThan(0.001)
  })
})
