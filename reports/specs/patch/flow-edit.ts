/** Edits of `{...}` and `[...]`, in YAML and in JSON, on one line or over several. */
import { isMap, isPair, type Node, type Pair, stringify, type YAMLMap, type YAMLSeq } from 'yaml'
import { detectLineEnd, isJson, splice } from './manifest-text.ts'
import type { YamlValue } from './yaml-values.ts'

type Item = Node | Pair<Node, Node | null>
const getStart = (item: Item): number => (isPair(item) ? item.key : item).range![0]
const getEnd = (item: Item): number =>
  isPair(item) ? (item.value?.range?.[1] ?? item.key.range![1]) : item.range![1]

/** Style of an entry, taken from the entries around it. */
interface EntryStyle {
  readonly json: boolean
  /** Between a name's colon and its value, in JSON. */
  readonly afterColon: '' | ' '
  /** Indent of the entry, if it has its own line. */
  readonly column: number
  /** Indent of each nested level; 0 writes the value on one line. */
  readonly indentStep: number
  readonly lineEnd: string
}

/**
 * Appends an entry in the style of the last one: own line, trailing comma.
 * @param entry a name and its value, or a value of a list
 */
export function insertIntoFlow(
  text: string,
  node: YAMLMap | YAMLSeq,
  entry: YamlValue | readonly [string, YamlValue],
): string {
  const [open, end] = [node.range![0], node.range![1]]
  const last = (node.items as Item[]).at(-1)
  const json = isJson(text)
  if (last === undefined) {
    const style = { json, afterColon: ' ', column: 0, indentStep: 0, lineEnd: '\n' } as const
    const content = renderEntry(node, entry, style)
    const inserted = json ? content : ` ${content} `
    return splice(text, [open + 1, end - 1], inserted)
  }
  const lastEnd = getEnd(last)
  // JSON without a blank after the colon of the last entry gets none here either.
  const hasColonBlank = /^"\s*:\s/.test(text.slice(findKeyEnd(last) - 1))
  const afterColon = json && isMap(node) && !hasColonBlank ? '' : ' '
  const comma = findCommaAfter(text, lastEnd, end - 1)
  // Blanks before the last entry; undefined if other text precedes it on its line.
  const indent = /(?:^|\n)([ \t]*)$/.exec(text.slice(0, getStart(last)))?.[1]
  const column = indent?.length ?? 0
  const content = renderEntry(node, entry, {
    json,
    afterColon,
    column,
    indentStep: findIndentStep(text, end, column),
    lineEnd: detectLineEnd(text, end),
  })
  if (indent === undefined) {
    if (comma !== undefined) return splice(text, [comma + 1, comma + 1], ` ${content}`)
    // Compact JSON has no blank after its colons, or none after its commas.
    const isCompact = json && (afterColon === '' || !/,\s/.test(text.slice(open, end)))
    return splice(text, [lastEnd, lastEnd], `${isCompact ? ',' : ', '}${content}`)
  }
  const lineEnd = detectLineEnd(text, getStart(last))
  // The rest of the last entry's line may hold its comma and a comment.
  const restOfLine = /^[^\r\n]*/.exec(text.slice(lastEnd, end - 1))![0]
  const at = lastEnd + restOfLine.length
  const added = splice(
    text,
    [at, at],
    `${lineEnd}${indent}${content}${comma === undefined ? '' : ','}`,
  )
  return comma === undefined ? splice(added, [lastEnd, lastEnd], ',') : added
}

/**
 * Nested lines are indented by as much as the entries are within their bracket; 0 (one line) if the
 * closing bracket does not have its own line.
 */
function findIndentStep(text: string, end: number, column: number): number {
  const closingIndent = /(?:^|\n)([ \t]*)[\]}]$/.exec(text.slice(0, end))?.[1]?.length
  return closingIndent === undefined ? 0 : Math.max(0, column - closingIndent)
}

const findKeyEnd = (item: Item): number => (isPair(item) ? item.key : item).range![1]

/** Position of a comma behind the last entry, after any comments. */
function findCommaAfter(text: string, from: number, close: number): number | undefined {
  const textWithoutComments = text
    .slice(from, close)
    .replace(/#[^\r\n]*/g, (comment) => ' '.repeat(comment.length))
  const comma = textWithoutComments.indexOf(',')
  return comma < 0 ? undefined : from + comma
}

function renderEntry(
  node: YAMLMap | YAMLSeq,
  entry: YamlValue | readonly [string, YamlValue],
  { json, afterColon, column, indentStep, lineEnd }: EntryStyle,
): string {
  const name = isMap(node) ? (entry as readonly [string, YamlValue])[0] : undefined
  const value = isMap(node) ? (entry as readonly [string, YamlValue])[1] : (entry as YamlValue)
  if (!json) {
    const content = isMap(node) ? { [name!]: value } : [value]
    // Without the brackets around it.
    return renderYamlFlow(content).slice(1, -1).trim()
  }
  const lines = JSON.stringify(value, null, indentStep).split('\n')
  const text = lines.join(`${lineEnd}${' '.repeat(column)}`)
  return name === undefined ? text : `${JSON.stringify(name)}:${afterColon}${text}`
}

const renderYamlFlow = (value: YamlValue): string =>
  stringify(value, { lineWidth: 0, version: '1.1', collectionStyle: 'flow' }).trimEnd()

/** Removes an entry with its comma, and its line if it has its own. */
export function removeFromFlow(text: string, map: YAMLMap, pair: Pair<Node, Node | null>): string {
  const items = map.items as Pair<Node, Node | null>[]
  const at = items.indexOf(pair)
  const next = items[at + 1]
  if (next) return splice(text, [getStart(pair), getStart(next)], '')
  const previous = items[at - 1]
  if (!previous) return splice(text, [map.range![0] + 1, map.range![1] - 1], '')
  const before = text.slice(getEnd(previous), getStart(pair))
  // A comment between them stays, and so does the comma, which YAML allows there.
  const from = before.includes('#') ? getStart(pair) : getEnd(previous)
  return splice(text, [from, getEnd(pair)], '')
}
