/**
 * Edits single values of a YAML or JSON text. All other characters stay as the user wrote them,
 * line endings and comments included.
 */
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  Scalar,
  stringify,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import { SpecError } from '../spec-error.ts'
import { insertIntoFlow, removeFromFlow } from './flow-edit.ts'
import { detectLineEnd, getRange, parseDocuments, splice } from './manifest-text.ts'
import { getValueAt, isYamlMap, type Path, setValueAt, type YamlValue } from './yaml-values.ts'

/** Identifies a document of a file with several. */
interface DocumentRef {
  /** From 0. */
  readonly index: number
  /** Name of the file, for messages. */
  readonly file: string
}

/**
 * Replacement of characters of a text value. The offsets are those in the parsed value, not in the
 * source.
 */
export interface Span {
  readonly start: number
  readonly end: number
  readonly insert: string
}

/**
 * Sets the value at a path of one document. Replaces a scalar in place and keeps its quotes. Adds
 * missing keys at the end of the innermost existing block, in the style of that block. Replaces an
 * alias or a merged value by a copy with the change.
 * @throws SharedValueError if an alias elsewhere refers to the value; SpecError if the path ends at
 * a map or list, or leads through a scalar or past the end of a list
 */
export function setAt(
  text: string,
  documentRef: DocumentRef,
  path: Path,
  value: YamlValue,
): string {
  const { document, node, remainingPath, inherited } = findNode(text, documentRef, path)
  if (isAlias(node)) return inlineAlias(text, document, node, remainingPath, value)
  if (remainingPath.length === 0) {
    if (isScalar(node) && node.value === null && typeof value === 'object' && value !== null)
      return fillEmpty(text, documentRef, path, value)
    if (isScalar(node)) return replaceScalar(text, node, value)
    throw new SpecError(
      `${describePath(documentRef, path)} is not a single value`,
      'edit it by hand',
    )
  }
  const [key, ...deeper] = remainingPath
  const content = setValueAt(inherited, deeper, value)
  if (isMap(node)) return insertIntoMap(text, node, String(key), content)
  if (isSeq(node) && key === node.items.length) return insertIntoSeq(text, node, content)
  const existingPath = path.slice(0, path.length - remainingPath.length)
  if (isScalar(node) && node.value === null)
    return fillEmpty(text, documentRef, existingPath, setValueAt(undefined, remainingPath, value))
  throw new SpecError(
    `${describePath(documentRef, existingPath)} is not a mapping`,
    'edit it by hand',
  )
}

/**
 * Replaces parts of a text value in place, and keeps its quotes or block style.
 * @throws SpecError if its block scalar cannot represent the new text
 */
export function replaceWithin(
  text: string,
  documentRef: DocumentRef,
  path: Path,
  spans: readonly Span[],
): string {
  return [...spans]
    .sort((a, b) => b.start - a.start)
    .reduce((edited, span) => replaceSpan(edited, documentRef, path, span), text)
}

/**
 * Replaces one span. Quotes, escapes and folded lines shift offsets between value and source: try
 * each occurrence of the old characters until the text parses to the new value. Without one, write
 * the whole scalar anew.
 */
function replaceSpan(text: string, documentRef: DocumentRef, path: Path, span: Span): string {
  const { node, remainingPath } = findNode(text, documentRef, path)
  const content = String(getValueAt(readDocumentValue(text, documentRef), path))
  const newContent = content.slice(0, span.start) + span.insert + content.slice(span.end)
  if (remainingPath.length > 0 || !isScalar(node)) return setAt(text, documentRef, path, newContent)
  const [from, to] = getRange(node)
  const oldSource = escapeForScalar(node, content.slice(span.start, span.end))
  const precedingMatches = countMatches(
    escapeForScalar(node, content.slice(0, span.start)),
    oldSource,
  )
  const starts = findStarts(text.slice(from, to), oldSource)
  // Try the occurrence with the same number as in the value first. Parsing the result decides.
  const candidateStarts = [...starts.slice(precedingMatches, precedingMatches + 1), ...starts]
  for (const start of candidateStarts) {
    const position = from + start
    const edited = splice(
      text,
      [position, position + oldSource.length],
      escapeForScalar(node, span.insert),
    )
    if (parsesTo(edited, documentRef, path, newContent)) return edited
  }
  if (isBlock(node))
    throw new SpecError(
      `${describePath(documentRef, path)} cannot be edited in its block`,
      'edit it by hand',
    )
  return replaceScalar(text, node, newContent)
}

/**
 * Removes a map entry with its lines.
 * @throws SpecError if an alias or a merge key provides it
 */
export function removeAt(text: string, documentRef: DocumentRef, path: Path): string {
  const { document, node: map, remainingPath } = findNode(text, documentRef, path.slice(0, -1))
  const key = path.at(-1)
  const pair = isMap(map) && remainingPath.length === 0 ? findPair(map, key!) : undefined
  if (!isMap(map) || pair === undefined)
    throw new SpecError(
      `${describePath(documentRef, path)} comes from an alias or a merge key`,
      'write the value out where it is used, or remove it by hand',
    )
  if (pair.value) assertNotShared(document, documentRef, pair.value, path)
  if (map.flow) return removeFromFlow(text, map, pair)
  const start = pair.key.range![0]
  const lineStart = text.lastIndexOf('\n', start - 1) + 1
  const line: [number, number] = [lineStart, findNextLine(text, getPairEnd(pair))]
  if (text.slice(lineStart, start).trim() !== '')
    throw new SpecError(`${describePath(documentRef, path)} cannot be removed`, 'edit it by hand')
  // If the text does not end with a line end, remove the line end before its last line instead.
  if (!/\n$/.test(text.slice(...line)))
    line[0] = /\r?\n$/.exec(text.slice(0, lineStart))?.index ?? lineStart
  if (map.items.length > 1) return splice(text, line, '')
  // The block would be empty: write '{}' after its name.
  const { node: outer } = findNode(text, documentRef, path.slice(0, -2))
  const outerPair = isMap(outer) ? findPair(outer, path.at(-2)!) : undefined
  if (outerPair === undefined)
    throw new SpecError(`${describePath(documentRef, path)} cannot be removed`, 'edit it by hand')
  const colon = text.indexOf(':', outerPair.key.range![1]) + 1
  return splice(splice(text, line, ''), [colon, colon], ' {}')
}

const describePath = ({ file }: DocumentRef, path: Path): string => `${file}: ${path.join('.')}`

/** The node that a path leads to, or the part of the path that does not exist. */
interface PathMatch {
  readonly document: Document
  /** The deepest existing node on the path. */
  readonly node: Node | null
  /** The rest of the path, which does not exist yet. */
  readonly remainingPath: Path
  /** Value that a merge key provides at the first key of `remainingPath`. */
  readonly inherited: YamlValue | undefined
}

function findNode(text: string, documentRef: DocumentRef, path: Path): PathMatch {
  const document = parseDocuments(text)[documentRef.index]!
  let node = document.contents as Node | null
  for (const [depth, key] of path.entries()) {
    if (node) assertNotShared(document, documentRef, node, path.slice(0, depth))
    const inner = isMap(node)
      ? findPair(node, key)?.value
      : isSeq(node)
        ? (node.items[Number(key)] as Node | undefined)
        : undefined
    if (inner === undefined) {
      const inherited = isMap(node)
        ? getValueAt(node.toJS(document) as YamlValue, [key])
        : undefined
      return { document, node, remainingPath: path.slice(depth), inherited }
    }
    node = inner
  }
  if (node) assertNotShared(document, documentRef, node, path)
  return { document, node, remainingPath: [], inherited: undefined }
}

const findPair = (map: YAMLMap, key: string | number): Pair<Node, Node | null> | undefined =>
  map.items.find(({ key: own }) => isScalar(own) && String(own.value) === String(key)) as
    | Pair<Node, Node | null>
    | undefined

/** The value has an anchor that an alias refers to elsewhere. */
export class SharedValueError extends SpecError {}

/** @throws SharedValueError if an alias refers to the node elsewhere */
function assertNotShared(
  document: Document,
  documentRef: DocumentRef,
  node: Node,
  path: Path,
): void {
  const { anchor } = node as { anchor?: string }
  if (anchor === undefined) return
  let isReferenced = false
  visit(document, {
    Alias(_, { source }) {
      isReferenced ||= source === anchor
    },
  })
  if (isReferenced)
    throw new SharedValueError(
      `${describePath(documentRef, path)} is shared: *${anchor} refers to it elsewhere and would change too`,
      `write the value out there in place of *${anchor}`,
    )
}

/** Replaces an alias by a copy of its value with the change. */
function inlineAlias(
  text: string,
  document: Document,
  alias: Alias,
  rest: Path,
  value: YamlValue,
): string {
  const resolved = alias.toJS(document) as YamlValue
  return splice(text, getRange(alias), formatFlow(setValueAt(resolved, rest, value)))
}

const readDocumentValue = (text: string, { index }: DocumentRef): YamlValue =>
  parseDocuments(text)[index]!.toJS() as YamlValue

function parsesTo(text: string, documentRef: DocumentRef, path: Path, expected: string): boolean {
  try {
    return getValueAt(readDocumentValue(text, documentRef), path) === expected
  } catch {
    return false // The edit made the text unparsable.
  }
}

const isBlock = ({ type }: Scalar): boolean =>
  type === Scalar.BLOCK_LITERAL || type === Scalar.BLOCK_FOLDED

/** Escapes characters for the quotes of a scalar. */
function escapeForScalar({ type }: Scalar, characters: string): string {
  if (type === Scalar.QUOTE_DOUBLE) return JSON.stringify(characters).slice(1, -1)
  return type === Scalar.QUOTE_SINGLE ? characters.replaceAll("'", "''") : characters
}

function findStarts(text: string, part: string): number[] {
  const starts: number[] = []
  if (part === '') return starts
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + 1)) starts.push(at)
  return starts
}
const countMatches = (text: string, part: string): number => findStarts(text, part).length

function replaceScalar(text: string, oldValue: Scalar, value: YamlValue): string {
  const range = getRange(oldValue as Node)
  const lineEnd = isBlock(oldValue) ? (/\r?\n$/.exec(text.slice(...range))?.[0] ?? '') : ''
  return splice(text, range, renderScalar(value, oldValue) + lineEnd)
}

/** Renders a new value in the quotes of the old one, if it has any. */
function renderScalar(value: YamlValue, oldValue?: Scalar): string {
  if (oldValue?.type === Scalar.QUOTE_DOUBLE && typeof value === 'string')
    return JSON.stringify(value)
  const scalar = new Scalar(value)
  if (oldValue?.type === Scalar.QUOTE_SINGLE && typeof value === 'string')
    scalar.type = Scalar.QUOTE_SINGLE
  return stringify(scalar, { lineWidth: 0, version: '1.1' }).trimEnd()
}

const getColumn = (text: string, at: number): number => at - (text.lastIndexOf('\n', at - 1) + 1)

/** Offset of the line after the one on which a node ends. */
function findNextLine(text: string, end: number): number {
  if (text[end - 1] === '\n') return end
  const line = text.indexOf('\n', end)
  return line === -1 ? text.length : line + 1
}

const getPairEnd = ({ key, value }: Pair<Node, Node | null>): number =>
  value?.range?.[1] ?? key.range![1]

const indentLines = (lines: string, column: number): string =>
  lines
    .trimEnd()
    .split('\n')
    .map((line) => `${' '.repeat(column)}${line}\n`)
    .join('')

/** Inserts whole lines. Adds no final line end to a text that has none. */
function insertLines(text: string, at: number, lines: string): string {
  const lineEnd = detectLineEnd(text, at)
  const inserted = lines.replaceAll('\n', lineEnd)
  const before = text.slice(0, at)
  return before === '' || before.endsWith('\n')
    ? before + inserted + text.slice(at)
    : before + lineEnd + inserted.slice(0, -lineEnd.length) + text.slice(at)
}

const formatBlock = (value: YamlValue): string => stringify(value, { lineWidth: 0, version: '1.1' })
const formatFlow = (value: YamlValue): string =>
  stringify(value, { lineWidth: 0, version: '1.1', collectionStyle: 'flow' }).trimEnd()

function insertIntoMap(text: string, map: YAMLMap, key: string, content: YamlValue): string {
  if (map.flow) return insertIntoFlow(text, map, [key, content])
  const [first, last] = [map.items[0], map.items.at(-1)] as Pair<Node, Node | null>[]
  return insertLines(
    text,
    findNextLine(text, getPairEnd(last!)),
    indentLines(formatBlock({ [key]: content }), getColumn(text, first!.key.range![0])),
  )
}

function insertIntoSeq(text: string, seq: YAMLSeq, content: YamlValue): string {
  if (seq.flow) return insertIntoFlow(text, seq, content)
  const end = (seq.items.at(-1) as Node).range![1]
  return insertLines(
    text,
    findNextLine(text, end),
    indentLines(formatBlock([content]), getColumn(text, seq.range![0])),
  )
}

/** Fills a value that is empty ('resources:') or null ('resources: null'). */
function fillEmpty(text: string, documentRef: DocumentRef, path: Path, content: YamlValue): string {
  const { node: parent } = findNode(text, documentRef, path.slice(0, -1))
  const pair = isMap(parent) ? findPair(parent, path.at(-1)!) : undefined
  const isExplicitNull = isNode(pair?.value) && pair.value.range![1] > pair.value.range![0]
  if (pair && isExplicitNull) {
    const source = text[pair.key.range![0]] === '"' ? JSON.stringify(content) : formatFlow(content)
    return splice(text, getRange(pair.value!), source)
  }
  if (pair && isMap(parent) && parent.flow) {
    const colon = text.indexOf(':', pair.key.range![1]) + 1
    return splice(text, [colon, colon], ` ${formatFlow(content)}`)
  }
  if (!pair || !isMap(parent))
    throw new SpecError(`${describePath(documentRef, path)} is empty`, 'edit it by hand')
  const at = pair.key.range![0]
  const isList = !isYamlMap(content)
  return insertLines(
    text,
    findNextLine(text, at),
    indentLines(formatBlock(content), getColumn(text, at) + (isList ? 0 : 2)),
  )
}
