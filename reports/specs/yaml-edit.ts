/**
 * Edits of a YAML text at the places of its values, leaving every other character as the user wrote
 * it.
 */
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  Scalar,
  stringify,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import { mostAliases, plainYaml, withoutTraces, yamlExcess } from '../../trials/yaml.ts'
import { SpecError } from './spec-error.ts'

export type Plain =
  | string
  | number
  | boolean
  | null
  | readonly Plain[]
  | { readonly [key: string]: Plain }
export type Path = readonly (string | number)[]

/** One change, for people. */
export interface Change {
  /** 'Deployment bert: spec.replicas' */
  readonly where: string
  readonly from: Plain | undefined
  readonly to: Plain
}

/** The data of a document. Throws SpecError for aliases that multiply what they stand for. */
export function plainOf(document: Document, file: string): Plain {
  try {
    return document.toJS({ maxAliasCount: mostAliases }) as Plain
  } catch (error) {
    throw new SpecError(
      `${file} cannot be read: ${(error as Error).message}`,
      'write the values out instead of aliases (*name)',
    )
  }
}

const parse = (text: string, lineCounter?: LineCounter) =>
  withoutTraces(() => parseAllDocuments(text, { ...plainYaml, lineCounter }))

/** The documents of a YAML file. Throws SpecError for text that is not YAML. */
export function documentsOf(text: string, file: string): Document.Parsed[] {
  const excess = yamlExcess(text)
  if (excess !== undefined)
    throw new SpecError(
      `${file} is too much for a manifest: ${excess}`,
      'give a file with the workload alone',
    )
  const lines = new LineCounter()
  const documents = parse(text, lines)
  const [error] = documents.flatMap((d) => [...d.errors, ...d.warnings])
  if (error)
    throw new SpecError(
      `${file}:${lines.linePos(error.pos[0]).line}: not valid YAML: ${error.message.slice(0, 300)}`,
      'correct it first',
    )
  return documents as Document.Parsed[]
}

/** A document of a file, as an edit finds it. */
export interface Edited {
  readonly index: number
  /** For messages. */
  readonly file: string
}

/**
 * Sets the value at a path of one document: a scalar is replaced where it stands, in its own
 * quotes; what is missing is put at the end of the innermost block that is there, in that block's
 * indentation. Objects are merged, key by key; a list is replaced only where there was none. Throws
 * SpecError for values behind aliases and for shapes that do not fit.
 */
export function setAt(text: string, document: Edited, path: Path, value: Plain): string {
  const { index, file } = document
  if (isPlainObject(value)) {
    const present = find(text, index, path)
    if (present.rest.length === 0 && isMap(present.node)) {
      return Object.entries(value).reduce(
        (edited, [key, inner]) => setAt(edited, document, [...path, key], inner),
        text,
      )
    }
  }
  const { node, rest, depth } = find(text, index, path)
  const where = `${file}: ${path.slice(0, depth).join('.')}`
  if (isAlias(node))
    throw new SpecError(
      `${where} is an alias (*${node.source})`,
      'write the value out there, or edit the anchor by hand',
    )
  if (rest.length === 0) {
    if (isScalar(node)) return splice(text, rangeOf(node), scalarText(value, node))
    throw new SpecError(`${where} is no single value`, 'edit it by hand')
  }
  const [key, ...deeper] = rest
  const content = deeper.reduceRight<Plain>((inner, name) => ({ [name]: inner }), value)
  if (isMap(node)) return insertIntoMap(text, node, String(key), content)
  if (isSeq(node) && key === node.items.length) return insertIntoSeq(text, node, content)
  if (isScalar(node) && node.value === null)
    return fillEmpty(text, document, path.slice(0, depth), { [String(key)]: content })
  throw new SpecError(`${where} is no block of named values`, 'edit it by hand')
}

const isPlainObject = (value: Plain): value is { readonly [key: string]: Plain } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The deepest node on a path that is there, and what of the path is left. */
function find(
  text: string,
  index: number,
  path: Path,
): { node: Node | null; rest: Path; depth: number } {
  let node = (parse(text)[index]?.contents ?? null) as Node | null
  for (const [depth, key] of path.entries()) {
    const inner = isMap(node) || isSeq(node) ? (node.get(key, true) as Node | undefined) : undefined
    if (inner === undefined) return { node, rest: path.slice(depth), depth }
    node = inner
  }
  return { node, rest: [], depth: path.length }
}

const rangeOf = (node: Node): readonly [number, number] => [node.range![0], node.range![1]]
const splice = (text: string, [from, to]: readonly [number, number], insert: string) =>
  text.slice(0, from) + insert + text.slice(to)

/** A new value in the quotes of the old one, where it had any. */
function scalarText(value: Plain, old?: Scalar): string {
  const quotes = [Scalar.QUOTE_DOUBLE, Scalar.QUOTE_SINGLE] as const
  const kept = quotes.find((type) => type === old?.type)
  const scalar = new Scalar(value)
  if (kept && typeof value === 'string') scalar.type = kept
  return stringify(scalar, { lineWidth: 0, version: '1.1' }).trimEnd()
}

const columnOf = (text: string, at: number): number => at - (text.lastIndexOf('\n', at - 1) + 1)

/** The place after the line on which a node ends, its comment included. */
function afterLineOf(text: string, end: number): number {
  if (text[end - 1] === '\n') return end
  const line = text.indexOf('\n', end)
  return line === -1 ? text.length : line + 1
}

const indented = (lines: string, column: number): string =>
  lines
    .trimEnd()
    .split('\n')
    .map((line) => `${' '.repeat(column)}${line}\n`)
    .join('')

/** Inserts whole lines, giving the text the line end it may lack before them. */
function insertLines(text: string, at: number, lines: string): string {
  const before = text.slice(0, at)
  return `${before}${before === '' || before.endsWith('\n') ? '' : '\n'}${lines}${text.slice(at)}`
}

const block = (value: Plain): string => stringify(value, { lineWidth: 0, version: '1.1' })
const flow = (value: Plain): string =>
  stringify(value, { lineWidth: 0, version: '1.1', collectionStyle: 'flow' }).trimEnd()

function insertIntoMap(text: string, map: YAMLMap, key: string, content: Plain): string {
  if (map.flow) return insertIntoFlow(text, map, `${scalarText(key)}: ${flow(content)}`)
  const first = map.items[0] as Pair<Node, Node>
  const last = map.items.at(-1) as Pair<Node, Node | null>
  const end = last.value?.range?.[1] ?? last.key.range![1]
  return insertLines(
    text,
    afterLineOf(text, end),
    indented(block({ [key]: content }), columnOf(text, first.key.range![0])),
  )
}

function insertIntoSeq(text: string, seq: YAMLSeq, content: Plain): string {
  if (seq.flow) return insertIntoFlow(text, seq, flow(content))
  const end = (seq.items.at(-1) as Node).range![1]
  return insertLines(
    text,
    afterLineOf(text, end),
    indented(block([content]), columnOf(text, seq.range![0])),
  )
}

function insertIntoFlow(text: string, node: YAMLMap | YAMLSeq, entry: string): string {
  const close = node.range![1] - 1
  const padded = /\s$/.test(text.slice(0, close)) && node.items.length > 0
  const end = padded ? text.slice(0, close).trimEnd().length : close
  return splice(text, [end, end], node.items.length > 0 ? `, ${entry}` : ` ${entry} `)
}

/** 'resources:' with nothing behind it. */
function fillEmpty(text: string, { index, file }: Edited, path: Path, content: Plain): string {
  const parent = find(text, index, path.slice(0, -1)).node
  const pair = isMap(parent)
    ? (parent.items.find((p) => isScalar(p.key) && p.key.value === path.at(-1)) as
        | Pair<Node, Node>
        | undefined)
    : undefined
  if (!pair || !isMap(parent) || parent.flow)
    throw new SpecError(`${file}: ${path.join('.')} is empty`, 'edit it by hand')
  const at = pair.key.range![0]
  return insertLines(text, afterLineOf(text, at), indented(block(content), columnOf(text, at) + 2))
}
