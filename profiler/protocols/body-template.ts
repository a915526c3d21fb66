/** Templates of JSON bodies: a text with placeholders for items. */
import type { Problem } from '../profiler-errors.ts'

/** Matches {{text}}, {{image}}, {{int}}, and the lists {{texts}}, {{images}}, {{ints}}. */
export const placeholderPattern = /\{\{\s*(\w+)\s*\}\}/g

export const defaultTemplate = '{"text": "{{text}}"}'

export const placeholderHint = 'use {{text}}, {{image}} or {{int}}, or a list of them: {{texts}}'

const examples: Readonly<Record<string, string>> = {
  text: 'a text',
  image: 'AAAA',
  int: '1',
  texts: '["a text"]',
  images: '["AAAA"]',
  ints: '[1]',
}

/**
 * Finds the line of the first syntax error, from 1; undefined for a text of one line. Node 20
 * reports the position in some messages only. Otherwise the position is found by shortening the
 * text until the message changes.
 */
function findFaultLine(message: string, text: string): number | undefined {
  if (!text.includes('\n')) return undefined
  const position = /at position (\d+)/.exec(message)?.[1]
  const at = position === undefined ? bisectFaultPosition(message, text) : Number(position)
  return text.slice(0, at).split('\n').length
}

/** Bisects the position of the syntax error: the shortest text with the same message, less one. */
function bisectFaultPosition(message: string, text: string): number {
  const token = /^[^,]*/.exec(message)![0]
  let valid = 0
  let faulty = text.length
  while (faulty - valid > 1) {
    const middle = Math.floor((valid + faulty) / 2)
    if (findJsonFault(text.slice(0, middle))?.startsWith(token)) faulty = middle
    else valid = middle
  }
  return valid
}

function findJsonFault(text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** Finds the first placeholder with an unknown name. */
function findUnknownPlaceholder(template: string): Problem | undefined {
  const names = [...template.matchAll(placeholderPattern)].map(([, name]) => name!)
  const unknown = names.find((name) => !Object.hasOwn(examples, name))
  return unknown === undefined
    ? undefined
    : {
        what: `the body template has the unknown placeholder {{${unknown}}}`,
        hint: placeholderHint,
      }
}

/** Finds an unknown placeholder in templates that need not be JSON: form fields, texts. */
export const findFormFault = (templates: readonly string[]): Problem | undefined =>
  templates.map(findUnknownPlaceholder).find((fault) => fault !== undefined)

/**
 * Describes what is wrong with a body template, by filling in an example; undefined where nothing
 * is.
 */
export function findTemplateFault(template: string): Problem | undefined {
  const unknown = findUnknownPlaceholder(template)
  if (unknown !== undefined) return unknown
  const exampleBody = template
    .trimEnd()
    .replaceAll(placeholderPattern, (_, name: string) => examples[name]!)
  try {
    JSON.parse(exampleBody)
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
    const line = findFaultLine(message, exampleBody)
    return {
      what: `the body template is not JSON once filled in${line === undefined ? '' : `, line ${line}`}: ${message.replace(/\s+/g, ' ')}`,
      hint,
    }
  }
}
