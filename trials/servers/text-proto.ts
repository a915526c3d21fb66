/** Protocol buffer text format, as far as servers' configuration files go. */

/**
 * Numbers, booleans and enum names are unquoted; text is quoted. Lists of messages or values repeat
 * the field. Undefined fields are left out.
 */
export type ProtoValue = ProtoItem | readonly ProtoItem[] | undefined
type ProtoItem = number | boolean | Text | Enum | ProtoMessage
export type ProtoMessage = { readonly [field: string]: ProtoValue }

/** Text of a string field. */
export class Text {
  constructor(
    readonly value: string,
    /** Position in the text that it was read from. */
    readonly at?: number,
  ) {}
}
/** An enum's name, such as KIND_GPU. */
export class Enum {
  constructor(readonly name: string) {}
}

/** One field a line, two blanks deeper in each message. */
export function formatTextProto(message: ProtoMessage, indent = ''): string {
  return Object.entries(message)
    .flatMap(([field, value]) => listItems(value).map((item) => formatEntry(field, item, indent)))
    .join('')
}

/** The values of a field, which is repeated or not. */
export const listItems = (value: ProtoValue): readonly ProtoItem[] =>
  value === undefined ? [] : isList(value) ? value : [value]

const isList = (value: ProtoValue): value is readonly ProtoItem[] => Array.isArray(value)

/** The nested messages of a field, which is repeated or not. */
export const listMessages = (value: ProtoValue): readonly ProtoMessage[] =>
  listItems(value).filter(
    (item) => typeof item === 'object' && !(item instanceof Text) && !(item instanceof Enum),
  ) as readonly ProtoMessage[]

function formatEntry(field: string, value: ProtoItem, indent: string): string {
  if (value instanceof Text) return `${indent}${field}: ${quoteText(value.value)}\n`
  if (value instanceof Enum) return `${indent}${field}: ${value.name}\n`
  if (typeof value !== 'object') return `${indent}${field}: ${value}\n`
  return `${indent}${field} {\n${formatTextProto(value, `${indent}  `)}${indent}}\n`
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
  readonly valueStart: number
  readonly end: number
}

/** Invalid text format; the message names the line. */
export class TextProtoError extends Error {
  /** @param line of the fault, from 1 */
  constructor(
    message: string,
    readonly line?: number,
  ) {
    super(message)
  }
}

/**
 * Sets fields in the text without changing any other byte: existing fields are replaced in place,
 * others appended. Undefined fields are ignored; an empty list removes its field.
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

/** Fields between two positions, by default of the outermost message. */
function parseFields(text: string, from = 0, to = text.length): Field[] {
  const fields: Field[] = []
  for (let at = skip(text, blank, from); at < to; at = skip(text, blank, at)) {
    const start = at
    at = skip(text, fieldName, at)
    if (at === start) fail(text, start)
    const name = text.slice(start, at)
    const valueStart = skip(text, colon, at)
    at = findValueEnd(text, valueStart)
    if (/["']/.test(text[valueStart]!)) at = skip(text, moreText, at)
    fields.push({ name, value: text.slice(valueStart, at), start, valueStart, end: at })
  }
  return fields
}

/** Position after a match at `from`; `from` itself without one. */
function skip(text: string, pattern: RegExp, from: number): number {
  pattern.lastIndex = from
  return from + (pattern.exec(text)?.[0].length ?? 0)
}

function fail(text: string, at: number): never {
  const line = countLine(text, at)
  throw new TextProtoError(`line ${line} is not in protocol buffer text format`, line)
}

/** Line of a position, from 1. */
export const countLine = (text: string, at: number): number => text.slice(0, at).split('\n').length

/** @throws TextProtoError if no value begins there */
function findValueEnd(text: string, from: number): number {
  const first = text[from] ?? ''
  const end =
    first in closing
      ? findGroupEnd(text, from)
      : skip(text, /["']/.test(first) ? quotedText : scalar, from)
  return end === from ? fail(text, from) : end
}

/** The limit of the protocol buffer libraries. */
const maxDepth = 100

function findGroupEnd(text: string, from: number): number {
  const open: string[] = []
  for (let at = from; at < text.length; ) {
    const character = text[at]!
    if (character in closing) open.push(closing[character]!)
    if (open.length > maxDepth) fail(text, at)
    else if (/[}>\]]/.test(character)) {
      if (open.pop() !== character) fail(text, at)
      if (open.length === 0) return at + 1
    }
    const next = /["']/.test(character)
      ? skip(text, quotedText, at)
      : /[{}<>[\]]/.test(character)
        ? at + 1
        : skip(text, inside, at)
    if (next === at) fail(text, at)
    at = next
  }
  return fail(text, from)
}

/**
 * Reads a whole message. Repeated fields become lists.
 * @throws TextProtoError
 */
export const parseTextProto = (text: string): ProtoMessage => parseMessage(text, 0, text.length)

function parseMessage(text: string, from: number, to: number): ProtoMessage {
  const message: Record<string, ProtoValue> = {}
  for (const { name, valueStart, end } of parseFields(text, from, to)) {
    const value = parseValue(text, valueStart, end)
    message[name] = name in message ? [...listItems(message[name]), ...listItems(value)] : value
  }
  return message
}

function parseValue(text: string, from: number, to: number): ProtoValue {
  const first = text[from]!
  if (first === '{' || first === '<') return parseMessage(text, from + 1, to - 1)
  if (first === '[') return parseList(text, from + 1, to - 1)
  const value = text.slice(from, to)
  if (/["']/.test(first)) return new Text(joinTexts(value), from)
  if (value === 'true' || value === 'false') return value === 'true'
  const number = Number(value)
  return Number.isNaN(number) ? new Enum(value) : number
}

function parseList(text: string, from: number, to: number): readonly ProtoItem[] {
  const items: ProtoItem[] = []
  for (let at = skip(text, blank, from); at < to; at = skip(text, blank, at)) {
    const start = at
    at = findValueEnd(text, start)
    items.push(...listItems(parseValue(text, start, at)))
  }
  return items
}

/** Adjacent quoted texts are one value. Of escapes, those that names and paths need are resolved. */
const joinTexts = (value: string): string =>
  [...value.matchAll(/"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'/g)]
    .map(([, double, single]) => (double ?? single)!.replace(/\\(["'\\])/g, '$1'))
    .join('')

/** Line of the first such field of the outermost message; undefined without one. */
export const findFieldLine = (text: string, name: string): number | undefined => {
  const field = parseFields(text).find((one) => one.name === name)
  return field && countLine(text, field.start)
}
