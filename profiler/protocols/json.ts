import { PayloadError } from '../errors.ts'
import type { Uniform } from '../random.ts'
import { type Dialect, isObject, type ProtocolOptions } from './http-protocol.ts'
import { englishText, generatedBodies, jpegImage } from './payload.ts'

const defaultTemplate = '{"text": "{{text}}"}'
const placeholder = /\{\{\s*(\w+)\s*\}\}/g

/** A server of one's own: POST a JSON body, made from a template, get 200 and JSON. */
export function plainJson({ template = defaultTemplate, expect, path, healthPath }: ProtocolOptions): Dialect {
  return {
    name: 'json',
    expect,
    readyPaths: () => [healthPath ?? '/healthz'],
    inferPath: () => path ?? '/predict',
    fault: (answer) => (isObject(answer) && 'error' in answer ? `with the error ${JSON.stringify(answer.error)}` : undefined),
    async generate(_url, _model, seed, count) {
      return generatedBodies(seed, count, (uniform) => fill(template, uniform))
    },
  }
}

/** Replaces {{text}}, {{image}} and {{int}}; throws a PayloadError for other names and for a result that is not JSON. */
async function fill(template: string, uniform: Uniform): Promise<unknown> {
  let filled = ''
  let end = 0
  for (const match of template.matchAll(placeholder)) {
    filled += template.slice(end, match.index) + (await filler(match[1]!, uniform))
    end = match.index + match[0].length
  }
  filled += template.slice(end)
  try {
    return JSON.parse(filled)
  } catch (error) {
    throw new PayloadError(`the body template is not JSON once filled in: ${(error as Error).message}`, `for example ${defaultTemplate}`)
  }
}

async function filler(name: string, uniform: Uniform): Promise<string> {
  if (name === 'text') return englishText(uniform)
  if (name === 'image') return (await jpegImage(uniform)).toString('base64')
  if (name === 'int') return String(Math.floor(uniform() * 1_000_000))
  throw new PayloadError(`the body template asks for {{${name}}}`, 'known are {{text}}, {{image}} and {{int}}')
}
