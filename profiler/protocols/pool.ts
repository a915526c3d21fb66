/**
 * Builds payload pools. A source describes the content of requests (payload-source.ts); an item is
 * one text, image or row of it. A pool is the list of bodies that a load sends, round robin. Each
 * body carries one or more items.
 */
import type { RequestBody } from '../model/target.ts'
import type { ItemSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { type Content, openContent } from './content.ts'
import { orderBySize, sampleBodySizes } from './items.ts'

/**
 * Limit on the distinct bodies of a pool, which this process and the load generator keep in memory.
 */
const maxPoolBytes = 2 ** 30

/**
 * Builds the bodies of a source, in the order in which requests take them: as sampled, or in the
 * order of a trace that records the number of items of each request.
 * @param buildBody builds one body with this number of items
 * @throws PayloadError for an unusable source, and for more than 1 GiB
 */
export async function buildPool<T extends { readonly byteLength: number }>(
  source: ItemSource,
  buildBody: (content: Content, items: number) => Promise<T>,
): Promise<T[]> {
  const content = await openContent(source)
  const sizes = sampleBodySizes(source, content.itemCount)
  const pool: T[] = []
  const distinct = new Set<T>()
  let bytes = 0
  for (const size of sizes) {
    const body = await buildBody(content, size)
    pool.push(body)
    if (!distinct.has(body)) bytes += body.byteLength
    distinct.add(body)
    if (bytes > maxPoolBytes)
      throw new PayloadError(
        `${pool.length} of ${sizes.length} request bodies exceed 1 GiB`,
        'reduce their number: payload: {count: 16}',
      )
  }
  return source.order?.items === undefined ? pool : orderBySize(pool, sizes, source.order.items)
}

/** Builds a pool of JSON documents. */
export async function buildJsonPool(
  source: ItemSource,
  buildDocument: (content: Content, items: number) => Promise<unknown>,
): Promise<RequestBody[]> {
  const bodies = await buildPool(source, async (content, items) =>
    Buffer.from(JSON.stringify(await buildDocument(content, items))),
  )
  return createRequestBodies(bodies, 'application/json')
}

/**
 * One request body for each buffer; a buffer that occurs several times has one body, so repetitions
 * cost no memory.
 */
export function createRequestBodies(bodies: readonly Buffer[], contentType: string): RequestBody[] {
  const byBuffer = new Map<Buffer, RequestBody>()
  return bodies.map((body) => {
    const requestBody = byBuffer.get(body) ?? { contentType, body }
    byBuffer.set(body, requestBody)
    return requestBody
  })
}
