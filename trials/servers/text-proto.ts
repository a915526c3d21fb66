/** Protocol buffer text format, as far as servers' configuration files go. */

/**
 * Numbers, booleans and enum names are unquoted; text is quoted. Lists of messages or values repeat
 * the field. Undefined fields are left out.
 */
export type ProtoValue =
  | number
  | boolean
  | Text
  | Enum
  | ProtoMessage
  | readonly (number | Text | ProtoMessage)[]
  | undefined
export type ProtoMessage = { readonly [field: string]: ProtoValue }

/** Text of a string field. */
export class Text {
  constructor(readonly value: string) {}
}
/** An enum's name, such as KIND_GPU. */
export class Enum {
  constructor(readonly name: string) {}
}

/** One field a line, two blanks deeper in each message. */
export function formatTextProto(message: ProtoMessage, indent = ''): string {
  return Object.entries(message)
    .flatMap(([field, value]) =>
      (Array.isArray(value) ? value : [value]).map((one) =>
        formatEntry(field, one as Exclude<ProtoValue, readonly unknown[]>, indent),
      ),
    )
    .join('')
}

function formatEntry(
  field: string,
  value: Exclude<ProtoValue, readonly unknown[]>,
  indent: string,
): string {
  if (value === undefined) return ''
  if (value instanceof Text) return `${indent}${field}: ${quoteText(value.value)}\n`
  if (value instanceof Enum) return `${indent}${field}: ${value.name}\n`
  if (typeof value !== 'object') return `${indent}${field}: ${value}\n`
  return `${indent}${field} {\n${formatTextProto(value as ProtoMessage, `${indent}  `)}${indent}}\n`
}

/** Quotes by the text format: octal escapes for control characters, UTF-8 unchanged. */
const quoteText = (text: string): string =>
  `"${text
    .replace(/[\\"]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replace(/[\p{Cc}]/gu, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, '0')}`)}"`

/** A field of the outermost message, with its position in the text. */
interface Field {
  readonly name: string
  /** After the name and its colon. */
  readonly value: string
  readonly start: number
  readonly end: number
}

/** Invalid text format; the message names the line. */
export class TextProtoError extends Error {}

/**
 * Sets fields in the text without changing any other byte: existing fields are replaced in place,
 * others appended. Undefined fields are ignored.
 * @throws TextProtoError
 */
export function mergeTextProto(text: string, fields: ProtoMessage): string {
  const lineEnd = text.includes('\r\n') ? '\r\n' : '\n'
  const own = parseFields(text)
  const set = Object.entries(fields).filter(([, value]) => value !== undefined)
  const written = (name: string, value: ProtoValue) =>
    formatTextProto({ [name]: value }).replaceAll('\n', lineEnd)
  let merged = text
  const edits = set
    .flatMap(([name, value]) =>
      own
        .filter((field) => field.name === name)
        .map((field, i) => ({ ...field, put: i === 0 ? written(name, value).trimEnd() : '' })),
    )
    .sort((a, b) => b.start - a.start)
  for (const { start, end, put } of edits)
    merged =
      merged.slice(0, start) + put + merged.slice(put === '' ? skipBlankLine(merged, end) : end)
  const added = set.filter(([name]) => own.every((field) => field.name !== name))
  if (added.length === 0) return merged
  const gap = merged === '' || merged.endsWith('\n') ? '' : lineEnd
  return merged + gap + added.map(([name, value]) => written(name, value)).join('')
}

/** Values of a field of the outermost message that are whole numbers, in lists or repeated. */
export const readFieldNumbers = (text: string, name: string): number[] =>
  parseFields(text)
    .filter((field) => field.name === name)
    .flatMap(({ value }) => (value.match(/\d+/g) ?? []).map(Number))

/**
 * Texts of nested messages by their field names.
 * @throws TextProtoError
 */
export const readFieldMessages = (
  text: string,
  name: string,
  ...within: readonly string[]
): string[] =>
  parseFields(text)
    .filter((field) => field.name === name && field.value.startsWith('{'))
    .map(({ value }) => value.slice(1, -1))
    .flatMap((message) => {
      const [next, ...rest] = within
      return next === undefined ? [message] : readFieldMessages(message, next, ...rest)
    })

/**
 * Reads the last text of a field of the outermost message.
 * @throws TextProtoError
 */
export function readFieldText(text: string, name: string): string | undefined {
  const value = parseFields(text).findLast((field) => field.name === name)?.value
  return value?.replace(/^(["'])(.*)\1$/s, '$2')
}

/** End of the rest of a line, if it is blank, so that removing a field removes its line. */
const skipBlankLine = (text: string, at: number): number =>
  at + (/^[ \t]*[,;]?[ \t]*\r?\n/.exec(text.slice(at))?.[0].length ?? 0)

const blank = /(?:\s|#[^\n]*|[,;])*/y
const fieldName = /(?:[A-Za-z_][\w.]*|\[[^\]\n]*\])/y
const colon = /(?:\s|#[^\n]*)*:?(?:\s|#[^\n]*)*/y
const quotedText = /(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')/y
const moreText = /(?:(?:\s|#[^\n]*)*(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))*/y
const scalar = /[-+.\w]+/y
const inside = /(?:[^"'{}<>[\]#]|#[^\n]*)+/y
const closing: Readonly<Record<string, string>> = { '{': '}', '<': '>', '[': ']' }

function parseFields(text: string): Field[] {
  const fields: Field[] = []
  const skip = (pattern: RegExp, from: number): number => {
    pattern.lastIndex = from
    return from + (pattern.exec(text)?.[0].length ?? 0)
  }
  const fail = (at: number): never => {
    const line = text.slice(0, at).split('\n').length
    throw new TextProtoError(`line ${line} is not in protocol buffer text format`)
  }
  const endOfGroup = (from: number): number => {
    const open: string[] = []
    for (let at = from; at < text.length; ) {
      const character = text[at]!
      if (character in closing) open.push(closing[character]!)
      else if (/[}>\]]/.test(character)) {
        if (open.pop() !== character) fail(at)
        if (open.length === 0) return at + 1
      }
      const next = /["']/.test(character)
        ? skip(quotedText, at)
        : /[{}<>[\]]/.test(character)
          ? at + 1
          : skip(inside, at)
      if (next === at) fail(at)
      at = next
    }
    return fail(from)
  }
  for (let at = skip(blank, 0); at < text.length; at = skip(blank, at)) {
    const start = at
    at = skip(fieldName, at)
    if (at === start) fail(start)
    const name = text.slice(start, at)
    const from = skip(colon, at)
    const first = text[from] ?? ''
    at = first in closing ? endOfGroup(from) : skip(/["']/.test(first) ? quotedText : scalar, from)
    if (at === from) fail(from)
    if (/["']/.test(first)) at = skip(moreText, at)
    fields.push({ name, value: text.slice(from, at), start, end: at })
  }
  return fields
}
