import fc from 'fast-check'
import { expect, test } from 'vitest'
import { drawScatter, findFront } from './scatter.ts'

const style = { unicode: false, color: false }
const point = fc.record({
  pricePerHour: fc.double({ min: 0.01, max: 50, noNaN: true }),
  capacityRps: fc.double({ min: 1, max: 1e5, noNaN: true }),
})

test('marks the front and the best where they are', () => {
  const points = [
    { pricePerHour: 0.1, capacityRps: 10 },
    { pricePerHour: 1, capacityRps: 1000 },
    { pricePerHour: 1, capacityRps: 20 },
  ]
  const lines = drawScatter(points, { width: 40, height: 5 }, points[1], style)
  expect(lines).toHaveLength(7)
  expect(lines[0]?.endsWith('*')).toBe(true)
  expect(lines[4]).toMatch(/\|#/)
  expect(lines[4]).not.toContain('*')
})

test('fits the size and never throws', () => {
  fc.assert(
    fc.property(
      fc.array(point, { maxLength: 30 }),
      fc.integer({ min: 15, max: 120 }),
      (points, width) => {
        const lines = drawScatter(points, { width, height: 6 }, points[0], style)
        return (
          lines.every((line) => line.length <= Math.max(width, 30)) &&
          (points.length < 2 ? lines.length === 0 : lines.length === 8)
        )
      },
    ),
  )
})

test('no point of the front is beaten by another', () => {
  fc.assert(
    fc.property(fc.array(point, { minLength: 1, maxLength: 30 }), (points) => {
      const front = findFront(points)
      const beats = (a: (typeof points)[number], b: (typeof points)[number]) =>
        a.pricePerHour < b.pricePerHour && a.capacityRps > b.capacityRps
      return front.length > 0 && front.every((f) => !points.some((p) => beats(p, f)))
    }),
  )
})
