import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type PackedGpu, whole } from './packing.ts'
import { inMemoryOver } from './rules.ts'
import { type Coming, withStays } from './slot-stays.ts'

const segment = { gpu: 'T4', slice: whole, gpus: 1, rateRps: 1, label: '' }
const gpus = (count: number): PackedGpu[] =>
  Array.from({ length: count }, () => ({ kind: 'T4', slots: [{ slice: whole }] }))
/** From an hour until another, over midnight where that is before it. */
const coming = (model: string, from: number, to: number): Coming => ({
  model,
  segment,
  present: Array.from({ length: 96 }, (_, step) =>
    from < to ? step >= 4 * from && step < 4 * to : step >= 4 * from || step < 4 * to,
  ),
})

test('models follow one another on one slice, and over midnight one stays where it is', () => {
  const day = [coming('night', 22, 8), coming('day', 8, 20), coming('evening', 20, 22)]
  expect(withStays(gpus(2), day)).toEqual([
    {
      kind: 'T4',
      slots: [
        {
          slice: whole,
          stays: [
            { model: 'day', segment, from: 32, to: 80 },
            { model: 'evening', segment, from: 80, to: 88 },
            { model: 'night', segment, from: 88, to: 128 },
          ],
        },
      ],
    },
    { kind: 'T4', slots: [{ slice: whole }] },
  ])
  expect(withStays(gpus(1), [...day, coming('more', 7, 9)])).toBeUndefined()
})

test('as many slices are enough as are there at once: none has two, and every model is as often in memory as it was to be', () => {
  const hour = fc.integer({ min: 0, max: 23 })
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(hour, hour).filter(([from, to]) => from !== to),
        { minLength: 1, maxLength: 9 },
      ),
      (spans) => {
        const comings = spans.map(([from, to], i) => coming(`m${i}`, from, to))
        const most = Math.max(
          ...Array.from(
            { length: 96 },
            (_, step) => comings.filter(({ present }) => present[step]).length,
          ),
        )
        const packed = withStays(gpus(most), comings)!
        for (const { slots } of packed) {
          const there = (slots[0]!.stays ?? []).flatMap(({ from, to }) =>
            Array.from({ length: to - from }, (_, i) => (from + i) % 96),
          )
          expect(new Set(there).size).toBe(there.length)
        }
        for (const { model, present } of comings)
          expect(inMemoryOver(packed, model, () => 1)).toEqual(present.map(Number))
        if (most > 1) expect(withStays(gpus(most - 1), comings)).toBeUndefined()
      },
    ),
    { numRuns: 200 },
  )
})
