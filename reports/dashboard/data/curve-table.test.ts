import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { CurveKnot } from '../../../profiler/capacity/capacity-bounds.ts'
import { findRateWithin } from '../../../profiler/capacity/rederive/load-curve.ts'
import { CurveTable } from './curve-table.ts'

/** Rising rates and latencies, as a load curve has them; the last may be of a rate that failed. */
const curve = fc
  .tuple(
    fc.array(
      fc.tuple(
        fc.double({ min: 0.1, max: 500, noNaN: true }),
        fc.double({ min: 0, max: 50, noNaN: true }),
      ),
      { maxLength: 8 },
    ),
    fc.boolean(),
  )
  .map(([steps, fails]): CurveKnot[] => {
    let [rateRps, latencyMs] = [0, 1]
    return steps.map(([faster, slower], i) => {
      rateRps += i === 0 ? 0 : faster
      latencyMs =
        fails && i === steps.length - 1 && i > 0 ? Number.POSITIVE_INFINITY : latencyMs + slower
      return { rateRps, latencyMs, lowMs: latencyMs, highMs: latencyMs, requests: 100 }
    })
  })

test('what each serves within a limit is what its curves say one by one, and its idle latency their first knot', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(curve, { maxLength: 3 }), { minLength: 1, maxLength: 12 }),
      fc.double({ min: 0.5, max: 400, noNaN: true }),
      (owned, limitMs) => {
        const table = new CurveTable()
        for (const [owner, curves] of owned.entries())
          for (const each of curves) table.add(owner, each)
        const within = owned.map((curves) =>
          Math.max(0, ...curves.map((each) => findRateWithin(each, limitMs))),
        )
        const idle = owned.map((curves) =>
          Math.min(...curves.map(([first]) => first?.latencyMs ?? Number.POSITIVE_INFINITY)),
        )
        expect([...table.listRatesWithin(limitMs, owned.length)]).toEqual(within)
        expect([...table.getUnloadedMs(owned.length)]).toEqual(idle)
        table.clear()
        expect([...table.listRatesWithin(limitMs, 1)]).toEqual([0])
      },
    ),
  )
})
