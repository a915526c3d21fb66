/** Templates of JSON bodies: a text with placeholders for items. */

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

/**
 * Line of a text at which it stops being the beginning of JSON, from 1; undefined for a text of one
 * line. The parser of Node 20 reports the position in some messages only. So the text is shortened
 * until `message` changes.
 */
function lineOfFault(message: string, text: string): number | undefined {
  if (!text.includes('\n')) return undefined
  const told = /at position (\d+)/.exec(message)?.[1]
  const at = told === undefined ? lastNeeded(message, text) : Number(told)
  return text.slice(0, at).split('\n').length
}

/** Length of text that makes the parser stop at the same token. */
function lastNeeded(message: string, text: string): number {
  const token = /^[^,]*/.exec(message)![0]
  let [fine, faulty] = [0, text.length]
  while (faulty - fine > 1) {
    const middle = Math.floor((fine + faulty) / 2)
    if (findJsonFault(text.slice(0, middle))?.startsWith(token)) faulty = middle
    else fine = middle
  }
  return fine
}

function findJsonFault(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** First placeholder with an unknown name. */
function unknownName(
  template: string,
): { readonly what: string; readonly hint: string } | undefined {
  const names = [...template.matchAll(placeholder)].map(([, name]) => name!)
  const unknown = names.find((name) => !Object.hasOwn(examples, name))
  return unknown === undefined
    ? undefined
    : { what: `the body template asks for {{${unknown}}}`, hint: knownHint }
}

/** The same for templates that need not be JSON: form fields, texts. */
export const formFault = (
  templates: readonly string[],
): { readonly what: string; readonly hint: string } | undefined =>
  templates.map(unknownName).find((fault) => fault !== undefined)

/**
 * Describes what is wrong with a body template, by filling in an example; undefined where nothing
 * is.
 */
export function templateFault(
  template: string,
): { readonly what: string; readonly hint: string } | undefined {
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
