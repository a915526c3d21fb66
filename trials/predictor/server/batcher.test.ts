import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Batcher } from './batcher.ts'

const at = (policy: { maxBatchSize?: number; maxDelayMs?: number; queueLimit?: number } = {}) => {
  const clock = { now: 0 }
  const batcher = new Batcher<string>(
    { maxBatchSize: 4, maxDelayMs: 5, queueLimit: 10, ...policy },
    () => clock.now,
  )
  const take = () => batcher.take()?.map((w) => w.unit)
  return { clock, batcher, take }
}

describe('Batcher', () => {
  test('waits for company, but no longer than the delay', () => {
    const { clock, batcher, take } = at()
    batcher.offer('a', 1)
    clock.now = 3
    batcher.offer('b', 1)
    expect(batcher.dueAt()).toBe(5)
    clock.now = 4.9
    expect(take()).toBeUndefined()
    clock.now = 5
    expect(take()).toEqual(['a', 'b'])
    expect(batcher.dueAt()).toBeUndefined()
  })

  test('sends a full batch at once', () => {
    const { batcher, take } = at()
    for (const unit of ['a', 'b', 'c', 'd', 'e']) batcher.offer(unit, 1)
    expect(take()).toEqual(['a', 'b', 'c', 'd'])
    expect(take()).toBeUndefined()
  })

  test('a unit that does not fit makes the batch before it due, and is not overtaken', () => {
    const { batcher, take } = at()
    batcher.offer('a', 3)
    batcher.offer('b', 2)
    batcher.offer('c', 1)
    expect(take()).toEqual(['a'])
    expect(take()).toBeUndefined()
  })

  test('refuses what the queue cannot hold', () => {
    const { batcher } = at({ queueLimit: 3 })
    expect(batcher.offer('a', 2)).toBe(true)
    expect(batcher.offer('b', 2)).toBe(false)
    expect(batcher.offer('c', 1)).toBe(true)
    expect(batcher.items).toBe(3)
  })

  test('a coarse timer may take a batch a little early', () => {
    const { clock, batcher } = at()
    batcher.offer('a', 1)
    clock.now = 4.4
    expect(batcher.take(0.5)).toBeUndefined()
    clock.now = 4.6
    expect(batcher.take(0.5)?.map((w) => w.unit)).toEqual(['a'])
  })

  test('without delay everything is due as it comes', () => {
    const { batcher, take } = at({ maxDelayMs: 0 })
    batcher.offer('a', 1)
    expect(take()).toEqual(['a'])
  })

  test('a flush makes everything due', () => {
    const { batcher, take } = at({ maxDelayMs: 1e9 })
    batcher.offer('a', 1)
    expect(take()).toBeUndefined()
    batcher.flush()
    expect(take()).toEqual(['a'])
  })

  test('rejects impossible policies and units', () => {
    expect(() => at({ maxBatchSize: 0 })).toThrow(RangeError)
    expect(() => at({ maxDelayMs: Number.NaN })).toThrow(RangeError)
    expect(() => at().batcher.offer('a', 5)).toThrow(RangeError)
    expect(() => at().batcher.offer('a', 0)).toThrow(RangeError)
  })

  test('property: in order, nothing lost, never over the size, never late when an engine is always free', () => {
    const steps = fc.array(
      fc.record({
        gapMs: fc.double({ min: 0, max: 4, noNaN: true }),
        items: fc.integer({ min: 1, max: 8 }),
      }),
      {
        maxLength: 200,
      },
    )
    fc.assert(
      fc.property(
        steps,
        fc.integer({ min: 8, max: 16 }),
        fc.integer({ min: 0, max: 6 }),
        fc.integer({ min: 1, max: 60 }),
        (arrivals, size, delay, limit) => {
          const clock = { now: 0 }
          const batcher = new Batcher<number>(
            { maxBatchSize: size, maxDelayMs: delay, queueLimit: limit },
            () => clock.now,
          )
          const sent: number[] = []
          const drainUntil = (end: number) => {
            for (
              let due = batcher.dueAt();
              due !== undefined && due <= end;
              due = batcher.dueAt()
            ) {
              clock.now = Math.max(clock.now, due)
              const batch = batcher.take()!
              expect(batch.reduce((n, w) => n + w.items, 0)).toBeLessThanOrEqual(size)
              expect(batch.length).toBeGreaterThan(0)
              expect(clock.now - batch[0]!.arrivedAt).toBeLessThanOrEqual(delay + 1e-9)
              sent.push(...batch.map((w) => w.unit))
            }
            clock.now = end
          }
          const accepted: number[] = []
          arrivals.forEach(({ gapMs, items }, i) => {
            drainUntil(clock.now + gapMs)
            const room = batcher.items + items <= limit
            expect(batcher.offer(i, items)).toBe(room)
            if (room) accepted.push(i)
            expect(batcher.items).toBeLessThanOrEqual(limit)
          })
          drainUntil(Number.MAX_VALUE)
          expect(sent).toEqual(accepted)
          expect(batcher.items).toBe(0)
        },
      ),
    )
  })

  test('stays ordered over many batches', () => {
    const { batcher } = at({ queueLimit: 1e6, maxDelayMs: 0 })
    for (let i = 0; i < 5000; i++) batcher.offer(String(i), 1)
    const out: string[] = []
    for (let batch = batcher.take(); batch; batch = batcher.take())
      out.push(...batch.map((w) => w.unit))
    expect(out).toEqual(Array.from({ length: 5000 }, (_, i) => String(i)))
  })
})
