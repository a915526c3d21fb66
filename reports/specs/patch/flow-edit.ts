/** Edits of `{...}` and `[...]`, in YAML and in JSON, on one line or over several. */
import { isMap, isPair, type Node, type Pair, stringify, type YAMLMap, type YAMLSeq } from 'yaml'
import { detectLineEnd, isJson, splice } from './manifest-text.ts'
import type { YamlValue } from './yaml-values.ts'

type Item = Node | Pair<Node, Node | null>
const getStart = (item: Item): number => (isPair(item) ? item.key : item).range![0]
const getEnd = (item: Item): number =>
  isPair(item) ? (item.value?.range?.[1] ?? item.key.range![1]) : item.range![1]

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
    const content = renderEntry(node, entry, json, ' ', 0)
    const inserted = json ? content : ` ${content} `
    return splice(text, [open + 1, end - 1], inserted)
  }
  const lastEnd = getEnd(last)
  const blank = json && isMap(node) && !/^"\s*:\s/.test(text.slice(findKeyEnd(last) - 1)) ? '' : ' '
  const comma = findCommaAfter(text, lastEnd, end - 1)
  const indent = /(?:^|\n)([ \t]*)$/.exec(text.slice(0, getStart(last)))?.[1]
  const content = renderEntry(node, entry, json, blank, indent?.length ?? 0, text, end)
  if (indent === undefined) {
    if (comma !== undefined) return splice(text, [comma + 1, comma + 1], ` ${content}`)
    const between = json && !/,\s/.test(text.slice(open, end)) ? ',' : ', '
    return splice(text, [lastEnd, lastEnd], `${json && blank === '' ? ',' : between}${content}`)
  }
  const lineEnd = detectLineEnd(text, getStart(last))
  const rest = /^[^\r\n]*/.exec(text.slice(lastEnd, end - 1))![0]
  const at = lastEnd + rest.length
  const added = splice(
    text,
    [at, at],
    `${lineEnd}${indent}${content}${comma === undefined ? '' : ','}`,
  )
  return comma === undefined ? splice(added, [lastEnd, lastEnd], ',') : added
}

const findKeyEnd = (item: Item): number => (isPair(item) ? item.key : item).range![1]

/** Position of a comma behind the last entry, after any comments. */
function findCommaAfter(text: string, from: number, close: number): number | undefined {
  const between = text
    .slice(from, close)
    .replace(/#[^\r\n]*/g, (comment) => ' '.repeat(comment.length))
  const comma = between.indexOf(',')
  return comma < 0 ? undefined : from + comma
}

function renderEntry(
  node: YAMLMap | YAMLSeq,
  entry: YamlValue | readonly [string, YamlValue],
  json: boolean,
  blank: string,
  column: number,
  text = '',
  end = 0,
): string {
  const name = isMap(node) ? (entry as readonly [string, YamlValue])[0] : undefined
  const value = isMap(node) ? (entry as readonly [string, YamlValue])[1] : (entry as YamlValue)
  if (!json) {
    const content = isMap(node) ? { [name!]: value } : [value]
    // Without the brackets around it.
    return renderYamlFlow(content).slice(1, -1).trim()
  }
  const closing = /(?:^|\n)([ \t]*)[\]}]$/.exec(text.slice(0, end))?.[1]?.length
  const step = closing === undefined ? 0 : Math.max(0, column - closing)
  const lines = JSON.stringify(value, null, step).split('\n')
  const lineEnd = detectLineEnd(text, end)
  const written = lines.join(`${lineEnd}${' '.repeat(column)}`)
  return name === undefined ? written : `${JSON.stringify(name)}:${blank}${written}`
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
