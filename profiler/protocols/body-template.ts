/** Bodies of a server's own JSON as they are written: a text with places for items. */

/** {{text}}, {{image}} or {{int}}, or a list of them. */
export const placeholder = /\{\{\s*(\w+)\s*\}\}/g

export const defaultTemplate = '{"text": "{{text}}"}'

export const knownHint = 'known are {{text}}, {{image}} and {{int}}, and lists of them: {{texts}}'

const examples: Readonly<Record<string, string>> = {
  text: 'a text',
  image: 'AAAA',
  int: '1',
  texts: '["a text"]',
  images: '["AAAA"]',
  ints: '[1]',
}

/** V8 shows so many characters before the one that it stumbled over. */
const shownBefore = 10

/** The line, from 1, at which JSON.parse stopped, as far as its words tell; undefined for a text of one line. */
function lineOfFault(message: string, text: string): number | undefined {
  const lineAt = (position: number) => text.slice(0, position).split('\n').length
  if (lineAt(text.length) === 1) return undefined
  if (/Unexpected end/.test(message)) return lineAt(text.length)
  const [, position] = /at position (\d+)/.exec(message) ?? []
  if (position !== undefined) return lineAt(Number(position))
  const [, cut, excerpt = ''] = /, (\.\.\.)?"([\s\S]*)"(?:\.\.\.)? is not valid JSON/.exec(message) ?? []
  const from = cut === undefined ? -1 : text.indexOf(excerpt)
  return from < 0 ? undefined : lineAt(from + shownBefore)
}

/** The first name that is filled in nowhere. */
function unknownName(template: string): { readonly what: string; readonly hint: string } | undefined {
  const names = [...template.matchAll(placeholder)].map(([, name]) => name!)
  const unknown = names.find((name) => !Object.hasOwn(examples, name))
  return unknown === undefined ? undefined : { what: `the body template asks for {{${unknown}}}`, hint: knownHint }
}

/** The same of templates that need not be JSON: a form's fields, a text. */
export const formFault = (templates: Readonly<Record<string, string>>): { readonly what: string; readonly hint: string } | undefined =>
  Object.values(templates)
    .map(unknownName)
    .find((fault) => fault !== undefined)

/** What is wrong with a body template, told by filling in an example; undefined where nothing is. */
export function templateFault(template: string): { readonly what: string; readonly hint: string } | undefined {
  const unknown = unknownName(template)
  if (unknown !== undefined) return unknown
  const filled = template.trimEnd().replaceAll(placeholder, (_, name: string) => examples[name]!)
  try {
    JSON.parse(filled)
    return undefined
  } catch (error) {
    const bare = /(^|[^"\w])\{\{\s*(text|image)\s*\}\}/.test(template)
    const quotedList = /"\s*\{\{\s*(texts|images|ints)\s*\}\}\s*"/.test(template)
    const hint = bare
      ? 'write "{{text}}" and "{{image}}" with their quotes'
      : quotedList
        ? 'write {{texts}}, {{images}} and {{ints}} without quotes: they are lists'
        : `for example ${defaultTemplate}`
    const { message } = error as Error
    const line = lineOfFault(message, filled)
    return {
      what: `the body template is not JSON once filled in${line === undefined ? '' : `, line ${line}`}: ${message.replace(/\s+/g, ' ')}`,
      hint,
    }
  }
}
