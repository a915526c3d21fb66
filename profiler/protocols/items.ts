/** Sizes of request bodies in items, and the order in which requests take the bodies of a pool. */
import {
  defaultCounts,
  type ItemCounts,
  type ItemSource,
  type PayloadOrder,
} from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { createUniform, sampleNormal, type Uniform } from '../seeded-random.ts'

/** Limit on items per request, for distributions with a long tail: more is a batch job. */
const maxItems = 4096
/** Default limit on bodies made from a file of texts. */
const maxBodies = 10_000
/**
 * Seed of a separate stream for sizes, so that the content of items does not depend on their
 * number.
 */
const sizeSeed = 0x5123e5

/** Samples a number of items, at least 1. */
export function sampleItemCount(counts: ItemCounts, uniform: Uniform): number {
  const clamp = (value: number) => Math.min(maxItems, Math.max(1, Math.round(value)))
  switch (counts.kind) {
    case 'fixed':
      return counts.items
    case 'uniform':
      return counts.from + Math.floor(uniform() * (counts.to - counts.from + 1))
    case 'lognormal':
      return clamp(counts.median * Math.exp(counts.sigma * sampleNormal(uniform)))
    case 'weighted': {
      let remaining = uniform() * counts.weights.reduce((sum, weight) => sum + weight, 0)
      const chosen = counts.weights.findIndex((weight) => {
        remaining -= weight
        return remaining < 0
      })
      return counts.items[chosen] ?? counts.items.at(-1)!
    }
  }
}

/**
 * Samples the number of items of each body of a pool.
 * @param itemCount items of the source; all are used where no number of bodies is requested
 */
export function sampleBodySizes(
  { kind, count, items, seed, order }: ItemSource,
  itemCount: number,
): number[] {
  if (count !== undefined && (!Number.isInteger(count) || count < 1))
    throw new PayloadError(`a payload pool needs at least one body, not ${count}`)
  if (order?.items !== undefined) {
    const sizes = [...new Set(order.items)].sort((a, b) => a - b)
    const bodiesPerSize = Math.max(1, Math.round((count ?? defaultCounts.bodies) / sizes.length))
    return sizes.flatMap((size) => Array<number>(bodiesPerSize).fill(size))
  }
  const uniform = createUniform(seed ^ sizeSeed)
  const sampleCount = () => (items === undefined ? 1 : sampleItemCount(items, uniform))
  if (count !== undefined || kind !== 'texts')
    return Array.from({ length: count ?? Math.min(defaultCounts.bodies, itemCount) }, sampleCount)
  const sizes: number[] = []
  let usedItems = 0
  while (usedItems < itemCount && sizes.length < maxBodies) {
    const size = sampleCount()
    sizes.push(size)
    usedItems += size
  }
  return sizes
}

/**
 * Orders a pool by the item counts of a trace: each request takes the next body of its size, round
 * robin. Bodies are repeated by reference.
 * @param sizes items of each body of the pool
 * @param requestedSizes items of each request of the trace; every one occurs in `sizes`
 */
export function orderBySize<T>(
  pool: readonly T[],
  sizes: readonly number[],
  requestedSizes: readonly number[],
): T[] {
  const bodies = new Map<number, { readonly sameSize: T[]; next: number }>()
  for (const [i, size] of sizes.entries()) {
    const group = bodies.get(size) ?? { sameSize: [], next: 0 }
    group.sameSize.push(pool[i]!)
    bodies.set(size, group)
  }
  return requestedSizes.map((size) => {
    const group = bodies.get(size)!
    return group.sameSize[group.next++ % group.sameSize.length]!
  })
}

/**
 * Orders a pool by the body numbers of a trace. Throws a PayloadError that names the line of a
 * number beyond the pool.
 */
export function orderByNumber<T>(
  pool: readonly T[],
  { file, bodies, lines }: PayloadOrder,
): readonly T[] {
  if (bodies === undefined) return pool
  const firstBeyondPool = bodies.findIndex((body) => body >= pool.length)
  if (firstBeyondPool >= 0)
    throw new PayloadError(
      `${file}:${lines[firstBeyondPool]}: body ${bodies[firstBeyondPool]}, but the payload has only ${pool.length}`,
      'bodies are numbered from 0: add bodies to the payload, or correct the number',
    )
  return bodies.map((body) => pool[body]!)
}
