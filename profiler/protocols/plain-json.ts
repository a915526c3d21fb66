import type { ItemSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { createUniform } from '../seeded-random.ts'
import { findDocumentFault } from './answer-faults.ts'
import { placeholderPattern } from './body-template.ts'
import { acceptsPost, fetchStatus } from './http.ts'
import { createHttpProtocol, type Dialect } from './http-protocol.ts'
import { buildPool, createRequestBodies } from './pool.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { fillRequest, isConstant, listTemplates, resolveContentType } from './request-format.ts'

/** Seed of a separate stream for {{int}}, independent of the items. */
const numberSeed = 0x1417

const callPath = () => '/predict'

/**
 * Statuses of a GET of the call's path from a server that has it: an answer, another method, or a
 * missing body.
 */
const knownPathStatuses = [200, 400, 405, 411, 415, 422]

/** A custom server: POST a body made from a template, get 200 and an answer. */
export const plainJson: ProtocolModule = {
  create: (options) => createHttpProtocol(createDialect(options), options),
  callPath,
}

function createDialect(options: ProtocolOptions): Dialect {
  const { expect } = options
  return {
    name: 'json',
    usesUrlPath: true,
    acceptsJsonLines: true,
    acceptsAnyType: true,
    findExpectedText: () => expect,
    listReadyPaths: () => ['/healthz'],
    listOptionalReadyPaths: () => ['/readyz'],
    // A server that rejects a GET of the call's path still has the path, so it is up. Many custom
    // servers have no other sign of readiness.
    isReadyWithoutPaths: async (callUrl, signal) => {
      const status = await fetchStatus(callUrl, options, signal)
      return (
        knownPathStatuses.includes(status ?? 0) ||
        (status === 404 && (await answersPost(callUrl, options, signal)))
      )
    },
    buildInferPath: callPath,
    describeFault: (answer) => findDocumentFault(answer),
    async generateBodies(_buildUrl, _model, source) {
      checkPlaceholders(options, source)
      const uniform = createUniform(source.seed ^ numberSeed)
      const nextInt = () => Math.floor(uniform() * 1_000_000)
      const constant = isConstant(options)
      let constantBody: Promise<Buffer> | undefined
      const bodies = await buildPool(source, (content, items) => {
        const body = constantBody ?? fillRequest(options, { content, listLength: items, nextInt })
        if (constant) constantBody = body
        return body
      })
      return { bodies: createRequestBodies(bodies, resolveContentType(options)) }
    },
  }
}

/** Whether the call takes a POST; false also where the server went away meanwhile. */
async function answersPost(
  call: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return await acceptsPost(call, options, signal)
  } catch {
    signal.throwIfAborted()
    return false
  }
}

/** Throws a PayloadError for a request without placeholders for the source's items. */
function checkPlaceholders(options: ProtocolOptions, source: ItemSource): void {
  const names = new Set(
    listTemplates(options).flatMap((template) =>
      [...template.matchAll(placeholderPattern)].map(([, name]) => name!),
    ),
  )
  if (source.kind === 'generated') return
  const placeholder = source.kind === 'texts' ? 'text' : 'image'
  if (!names.has(placeholder) && !names.has(`${placeholder}s`))
    throw new PayloadError(
      `the body template has no placeholder for the items of ${source.path}`,
      `write {{${placeholder}}} where the item belongs`,
    )
}
