import {
  type ItemCounts,
  type ItemSource,
  type PayloadOrder,
  usualCount,
} from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { normal, seeded, type Uniform } from '../seeded-random.ts'

/** Distributions with a tail end here: a request of more items is a job, not a request. */
const mostItems = 4096
/** Bodies made of a file of texts where no number of them is asked for. */
const mostBodies = 10_000
/**
 * Sizes are drawn from a stream of their own: what is in the items stays the same whatever their
 * number.
 */
const sizeStream = 0x5123e5

/** A whole number of items, at least 1. */
export function drawItems(counts: ItemCounts, uniform: Uniform): number {
  const within = (value: number) => Math.min(mostItems, Math.max(1, Math.round(value)))
  switch (counts.kind) {
    case 'fixed':
      return counts.items
    case 'uniform':
      return counts.from + Math.floor(uniform() * (counts.to - counts.from + 1))
    case 'lognormal':
      return within(counts.median * Math.exp(counts.sigma * normal(uniform)))
    case 'weighted': {
      let left = uniform() * counts.weights.reduce((sum, weight) => sum + weight, 0)
      const chosen = counts.weights.findIndex((weight) => {
        left -= weight
        return left < 0
      })
      return counts.items[chosen] ?? counts.items.at(-1)!
    }
  }
}

/**
 * How many items each body of a pool has.
 * @param available items that the source has; every one is used where no number of bodies is asked
 * for
 */
export function poolSizes(
  { kind, count, items, seed, order }: ItemSource,
  available: number,
): number[] {
  if (count !== undefined && (!Number.isInteger(count) || count < 1))
    throw new PayloadError(`a payload pool needs at least one body, not ${count}`)
  if (order?.items !== undefined) {
    const sizes = [...new Set(order.items)].sort((a, b) => a - b)
    const each = Math.max(1, Math.round((count ?? usualCount.bodies) / sizes.length))
    return sizes.flatMap((size) => Array<number>(each).fill(size))
  }
  const uniform = seeded(seed ^ sizeStream)
  const draw = () => (items === undefined ? 1 : drawItems(items, uniform))
  if (count !== undefined || kind !== 'texts')
    return Array.from({ length: count ?? Math.min(usualCount.bodies, available) }, draw)
  const sizes: number[] = []
  for (let used = 0; used < available && sizes.length < mostBodies; used += sizes.at(-1)!)
    sizes.push(draw())
  return sizes
}

/**
 * A pool in the order of a trace's sizes: each request takes the next body of its size. Bodies are
 * repeated by reference.
 */
export function bySize<T>(
  pool: readonly T[],
  sizes: readonly number[],
  wanted: readonly number[],
): T[] {
  const bodies = new Map<number, { readonly of: T[]; next: number }>()
  for (const [i, size] of sizes.entries()) {
    const same = bodies.get(size) ?? { of: [], next: 0 }
    same.of.push(pool[i]!)
    bodies.set(size, same)
  }
  return wanted.map((size) => {
    const same = bodies.get(size)!
    return same.of[same.next++ % same.of.length]!
  })
}

/**
 * A pool in the order of a trace's body numbers. Throws a PayloadError that names the line of a
 * number beyond the pool.
 */
export function byNumber<T>(
  pool: readonly T[],
  { file, bodies, lines }: PayloadOrder,
): readonly T[] {
  if (bodies === undefined) return pool
  const beyond = bodies.findIndex((body) => body >= pool.length)
  if (beyond >= 0)
    throw new PayloadError(
      `${file}:${lines[beyond]}: body ${bodies[beyond]}, and the payload has ${pool.length}`,
      'bodies are counted from 0; give as many, or a smaller number',
    )
  return bodies.map((body) => pool[body]!)
}
