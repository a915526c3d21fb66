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

/** What is wrong with a body template, told by filling in an example; undefined where nothing is. */
export function templateFault(template: string): { readonly what: string; readonly hint: string } | undefined {
  const names = [...template.matchAll(placeholder)].map(([, name]) => name!)
  const unknown = names.find((name) => !Object.hasOwn(examples, name))
  if (unknown !== undefined) return { what: `the body template asks for {{${unknown}}}`, hint: knownHint }
  const filled = template.replaceAll(placeholder, (_, name: string) => examples[name]!)
  try {
    JSON.parse(filled)
    return undefined
  } catch (error) {
    const bare = /(^|[^"\w])\{\{\s*(text|image)\s*\}\}/.test(template)
    const hint = bare ? 'write "{{text}}" and "{{image}}" with their quotes' : `for example ${defaultTemplate}`
    return { what: `the body template is not JSON once filled in: ${(error as Error).message}`, hint }
  }
}
