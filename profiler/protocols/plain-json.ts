import type { ItemSource } from '../payload-source.ts'
import { PayloadError } from '../profiler-errors.ts'
import { seeded, type Uniform } from '../seeded-random.ts'
import { defaultTemplate, knownHint, placeholder } from './body-template.ts'
import type { Content } from './content.ts'
import { statusOf, takesPost } from './http.ts'
import { type Dialect, httpProtocol } from './http-protocol.ts'
import { documentFault } from './meaning.ts'
import { jsonPool } from './pool.ts'
import type { ProtocolModule, ProtocolOptions } from './protocol-module.ts'

/** {{int}} is drawn beside the items, not between them. */
const numberStream = 0x1417

const callPath = () => '/predict'

/** A server of one's own: POST a JSON body, made from a template, get 200 and JSON. */
export const json: ProtocolModule = { create: (options) => httpProtocol(dialect(options), options), callPath }

function dialect(options: ProtocolOptions): Dialect {
  const { template = defaultTemplate, expect, healthPath } = options
  return {
    name: 'json',
    pathOfUrl: true,
    lines: true,
    expect: () => expect,
    readyPaths: () => [healthPath ?? '/healthz'],
    // It has the path, and takes no GET there: many have no other that says so.
    readyToo: async (call, signal) => {
      const status = await statusOf(call, options, signal)
      return status === 405 || (status === 404 && healthPath === undefined && (await answersPost(call, options, signal)))
    },
    inferPath: callPath,
    fault: (answer) => documentFault(answer),
    async generate(_at, _model, source) {
      checkTemplate(template, source)
      const uniform = seeded(source.seed ^ numberStream)
      return { bodies: await jsonPool(source, (content, items) => fill(template, content, items, uniform)) }
    },
  }
}

/** False too where it went away meanwhile. */
async function answersPost(call: string, options: ProtocolOptions, signal: AbortSignal): Promise<boolean> {
  try {
    return await takesPost(call, options, signal)
  } catch {
    signal.throwIfAborted()
    return false
  }
}

/** Throws a PayloadError for a template that has no place for the source's items. */
function checkTemplate(template: string, source: ItemSource): void {
  const names = new Set([...template.matchAll(placeholder)].map(([, name]) => name!))
  if (source.kind === 'generated') return
  const wanted = source.kind === 'texts' ? 'text' : 'image'
  if (!names.has(wanted) && !names.has(`${wanted}s`))
    throw new PayloadError(`the body template has no place for what ${source.path} holds`, `write {{${wanted}}} where it goes`)
}

/**
 * Replaces {{text}}, {{image}} and {{int}}, and {{texts}}, {{images}} and {{ints}} by lists. Throws a PayloadError for other names, for several
 * items where there is no list, and for a result that is not JSON.
 */
async function fill(template: string, content: Content, items: number, uniform: Uniform): Promise<unknown> {
  let filled = ''
  let end = 0
  let lists = 0
  for (const match of template.matchAll(placeholder)) {
    const [whole, name = ''] = match
    const one = name.replace(/s$/, '')
    filled += template.slice(end, match.index)
    if (one === name) filled += await filler(name, content, uniform)
    else {
      lists++
      const values: string[] = []
      for (let i = 0; i < items; i++) values.push(await filler(one, content, uniform))
      filled += `[${values.map((value) => (one === 'int' ? value : `"${value}"`)).join(', ')}]`
    }
    end = match.index + whole.length
  }
  filled += template.slice(end)
  if (items > 1 && lists === 0)
    throw new PayloadError(`the body template has one item, and requests have ${items}`, 'write a list: {"texts": {{texts}}}')
  try {
    return JSON.parse(filled)
  } catch (error) {
    throw new PayloadError(`the body template is not JSON once filled in: ${(error as Error).message}`, `for example ${defaultTemplate}`)
  }
}

/** A value as it stands within the quotes of a JSON text. */
async function filler(name: string, content: Content, uniform: Uniform): Promise<string> {
  if (name === 'text') return JSON.stringify(content.text()).slice(1, -1)
  if (name === 'image') return (await content.image()).toString('base64')
  if (name === 'int') return String(Math.floor(uniform() * 1_000_000))
  throw new PayloadError(`the body template asks for {{${name}}}`, knownHint)
}
