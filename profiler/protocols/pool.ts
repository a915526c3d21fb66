import type { RequestBody } from '../model/target.ts'
import type { ItemSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { type Content, contentOf } from './content.ts'
import { bySize, poolSizes } from './items.ts'

/** Limit on all bodies together, which are held here and in the load generator. */
const maxBytes = 2 ** 30

/**
 * Makes the bodies of a source, in the order in which requests take them. `make` makes a body of a
 * number of items.
 */
export async function poolOf<T extends { readonly byteLength: number }>(
  source: ItemSource,
  make: (content: Content, items: number) => Promise<T>,
): Promise<T[]> {
  const content = await contentOf(source)
  const sizes = poolSizes(source, content.available)
  const pool: T[] = []
  const held = new Set<T>()
  let bytes = 0
  for (const size of sizes) {
    const body = await make(content, size)
    pool.push(body)
    if (!held.has(body)) bytes += body.byteLength
    held.add(body)
    if (bytes > maxBytes)
      throw new PayloadError(
        `${pool.length} of ${sizes.length} request bodies take more than 1 GiB`,
        'ask for fewer: payload: {count: 16}',
      )
  }
  return source.order?.items === undefined ? pool : bySize(pool, sizes, source.order.items)
}

/** Bodies of JSON documents. */
export async function jsonPool(
  source: ItemSource,
  make: (content: Content, items: number) => Promise<unknown>,
): Promise<RequestBody[]> {
  const bodies = await poolOf(source, async (content, items) =>
    Buffer.from(JSON.stringify(await make(content, items))),
  )
  return requestBodies(bodies, 'application/json')
}

/** One request body for each; equal bytes share one body, so repetitions cost nothing. */
export function requestBodies(bodies: readonly Buffer[], contentType: string): RequestBody[] {
  const made = new Map<Buffer, RequestBody>()
  return bodies.map((body) => {
    const known = made.get(body) ?? { contentType, body }
    made.set(body, known)
    return known
  })
}
