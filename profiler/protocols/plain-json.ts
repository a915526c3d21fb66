import type { ItemSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { seeded } from '../seeded-random.ts'
import { placeholder } from './body-template.ts'
import { statusOf, takesPost } from './http.ts'
import { type Dialect, httpProtocol } from './http-protocol.ts'
import { documentFault } from './meaning.ts'
import { poolOf, requestBodies } from './pool.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'
import { filledRequest, isConstant, templatesOf, typeOf } from './request-forms.ts'

/** {{int}} is drawn beside the items, not between them. */
const numberStream = 0x1417

const callPath = () => '/predict'

/**
 * To a GET of the call's path, by whoever has it: an answer, another method, or what a GET does not
 * bring.
 */
const handled = [200, 400, 405, 411, 415, 422]

/** A server of one's own: POST a body made from a template, get 200 and an answer. */
export const json: ProtocolModule = {
  create: (options) => httpProtocol(dialect(options), options),
  callPath,
}

function dialect(options: ProtocolOptions): Dialect {
  const { expect } = options
  return {
    name: 'json',
    pathOfUrl: true,
    lines: true,
    anyType: true,
    expect: () => expect,
    readyPaths: () => ['/healthz'],
    readyPathsOfSome: () => ['/readyz'],
    // It has the path, and takes no GET there, or misses a body: many have no other that says so.
    readyToo: async (call, signal) => {
      const status = await statusOf(call, options, signal)
      return (
        handled.includes(status ?? 0) ||
        (status === 404 && (await answersPost(call, options, signal)))
      )
    },
    inferPath: callPath,
    fault: (answer) => documentFault(answer),
    async generate(_at, _model, source) {
      checkPlaces(options, source)
      const uniform = seeded(source.seed ^ numberStream)
      const whole = () => Math.floor(uniform() * 1_000_000)
      const constant = isConstant(options)
      let only: Promise<Buffer> | undefined
      const bodies = await poolOf(source, (content, items) => {
        const made = only ?? filledRequest(options, { content, items, whole })
        if (constant) only = made
        return made
      })
      return { bodies: requestBodies(bodies, typeOf(options)) }
    },
  }
}

/** False too where it went away meanwhile. */
async function answersPost(
  call: string,
  options: ProtocolOptions,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return await takesPost(call, options, signal)
  } catch {
    signal.throwIfAborted()
    return false
  }
}

/** Throws a PayloadError for a request that has no place for the source's items. */
function checkPlaces(options: ProtocolOptions, source: ItemSource): void {
  const names = new Set(
    templatesOf(options).flatMap((template) =>
      [...template.matchAll(placeholder)].map(([, name]) => name!),
    ),
  )
  if (source.kind === 'generated') return
  const wanted = source.kind === 'texts' ? 'text' : 'image'
  if (!names.has(wanted) && !names.has(`${wanted}s`))
    throw new PayloadError(
      `the body template has no place for what ${source.path} holds`,
      `write {{${wanted}}} where it goes`,
    )
}
