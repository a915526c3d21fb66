/**
 * Requests to a language model cut into buckets of input and output length, at the edges of Mélange
 * (Griggs et al. 2024): about twice as long from one to the next.
 */

import { grouped } from '../../trials/grouped.ts'
import type { LlmRequest } from '../../trials/launchers/simulated/llm-configuration.ts'
import type { Bucket } from './packing.ts'

const inputEdges = [25, 100, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000]
const outputEdges = [25, 100, 250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000]

export interface RequestBucket extends Bucket {
  readonly requests: readonly LlmRequest[]
}

/** Requests that have a class are cut by it alone: who sends them knows it. Shortest first. */
export function requestBuckets(requests: readonly LlmRequest[]): RequestBucket[] {
  const groups = [...grouped(requests, placeOf).values()].sort(
    (a, b) => orderOf(a[0]!) - orderOf(b[0]!),
  )
  return groups.map((own) => {
    const { requestClass, promptTokens, outputTokens } = own[0]!
    const input = `in ${rangeOf(promptTokens, inputEdges)}`
    return {
      ...(requestClass === undefined
        ? { name: `${input}, out ${rangeOf(outputTokens, outputEdges)}`, input }
        : { name: requestClass }),
      share: own.length / requests.length,
      requests: own,
    }
  })
}

const placeOf = ({ requestClass, promptTokens, outputTokens }: LlmRequest): string =>
  requestClass ?? `${edgeOf(promptTokens, inputEdges)} ${edgeOf(outputTokens, outputEdges)}`

const orderOf = ({ promptTokens, outputTokens }: LlmRequest): number =>
  edgeOf(promptTokens, inputEdges) * (outputEdges.length + 1) + edgeOf(outputTokens, outputEdges)

/** Index of the first edge that is no shorter. */
function edgeOf(tokens: number, edges: readonly number[]): number {
  const at = edges.findIndex((edge) => tokens <= edge)
  return at < 0 ? edges.length : at
}

function rangeOf(tokens: number, edges: readonly number[]): string {
  const at = edgeOf(tokens, edges)
  return at === edges.length ? `over ${edges.at(-1)}` : `${(edges[at - 1] ?? 0) + 1}-${edges[at]}`
}
