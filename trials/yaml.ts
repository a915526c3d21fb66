/** Validates users' YAML files: all problems at once, each with file and line. */
import {
  type Document,
  isMap,
  isNode,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  Parser,
  parseDocument,
} from 'yaml'
import type { z } from 'zod'
import { suggestNames } from './near-names.ts'

/** Maximum number of reported problems. A file with more is probably of another type. */
const maxProblems = 20
/** Maximum length of one reported problem. */
const maxProblemCharacters = 300

export class YamlFileError extends Error {
  /** The first problems, truncated, and the number of others. */
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    const reported = limitProblems(problems).map((problem) =>
      problem.length > maxProblemCharacters
        ? `${problem.slice(0, maxProblemCharacters)}…`
        : problem,
    )
    super(reported.join('\n'))
    this.name = 'YamlFileError'
    this.problems =
      reported.length < problems.length
        ? [
            ...reported,
            `${reported[0]!.split(':')[0]}: and ${problems.length - reported.length} more problems`,
          ]
        : reported
  }
}

const limitProblems = <T>(all: readonly T[]): readonly T[] => all.slice(0, maxProblems)

/** Maximum number of lines and list entries of a file. */
const maxEntries = 20_000
/**
 * Maximum number of punctuation characters, for each of which the parser creates a token. Allows
 * three in each of `maxEntries` lines.
 */
const maxMarks = 60_000
/** Maximum number of nested levels of a file. */
const maxNesting = 200
/** Limit of alias resolutions, because aliases can nest exponentially. */
export const maxAliases = 100

const entryCodes = createCharacterTable('\n,')
const openBracketCodes = createCharacterTable('[{')
const punctuationCodes = createCharacterTable('[]{}:?&*!"\'#|>%@`\r')
const nestingCodes = createCharacterTable('-?:')
const [lineFeed, space, dash] = ['\n', ' ', '-'].map((letter) => letter.charCodeAt(0)) as [
  number,
  number,
  number,
]

/** Creates a look-up table by character code: 1 for these ASCII characters. */
function createCharacterTable(characters: string): Uint8Array {
  const table = new Uint8Array(128)
  for (const character of characters) table[character.charCodeAt(0)] = 1
  return table
}

/**
 * Why a text exceeds the limits of a hand-written file, checked before parsing; undefined within
 * the limits.
 */
export function findYamlExcess(text: string): string | undefined {
  let [entries, marks, brackets, maxLineDepth] = [0, 0, 0, 0]
  // State of the line: its indentation, and its characters that may open a nested block.
  let [indentation, nestingMarks, isInIndentation] = [0, 0, true]
  for (let i = 0; i < text.length; i++) {
    const letter = text.charCodeAt(i)
    if (entryCodes[letter]) entries++
    else if (punctuationCodes[letter] || (letter === dash && text.charCodeAt(i + 1) === space))
      marks++
    if (entries > maxEntries)
      return `more than ${maxEntries.toLocaleString('en-US')} lines and list entries`
    if (marks > maxMarks)
      return `more than ${maxMarks.toLocaleString('en-US')} brackets, quotes and other marks`
    if (openBracketCodes[letter]) brackets++
    isInIndentation &&= letter === space
    if (isInIndentation) indentation++
    if (nestingCodes[letter]) nestingMarks++
    maxLineDepth = Math.max(maxLineDepth, indentation + nestingMarks)
    if (letter === lineFeed) [indentation, nestingMarks, isInIndentation] = [0, 0, true]
  }
  // There are at most as many levels as brackets plus the depth of the deepest line, so too deep a
  // text has more than half of the limit in one of them. Only such texts are tokenised, which is
  // slow.
  const mayNest = Math.max(brackets, maxLineDepth) > maxNesting / 2
  return mayNest && isDeep(text) ? `nested deeper than ${maxNesting} levels` : undefined
}

/** Counts levels by the parser's tokens, because composing too deep nesting crashes the process. */
function isDeep(text: string): boolean {
  const parser = new Parser()
  // The document and the current value count in addition to the nesting.
  const maxDepth = maxNesting + 2
  for (const lexeme of new Lexer().lex(text)) {
    for (const _ of parser.next(lexeme));
    if (parser.stack.length > maxDepth) return true
  }
  return false
}

/**
 * Parser options for plain data: no binaries, sets or dates by tag. `findRepeatedKey` checks for
 * duplicate keys, because the parser compares each key with every other.
 */
export const plainYaml = {
  resolveKnownTags: false,
  uniqueKeys: false,
  logLevel: 'error',
  prettyErrors: false,
} as const

/**
 * Runs the parser without stack traces: it creates an error for each fault, and capturing traces
 * would take most of the time.
 */
export function runWithoutStackTraces<T>(parse: () => T): T {
  const before = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return parse()
  } finally {
    Error.stackTraceLimit = before
  }
}

/**
 * Parses YAML (hence also JSON) and validates it.
 * @throws YamlFileError with one line per problem: 'prices.yaml:3: gpus.T4: expected a number above
 * 0, got -1'.
 */
export function parseYaml<T>(text: string, fileName: string, schema: z.ZodType<T>): T {
  const lines = new LineCounter()
  const excess = findYamlExcess(text)
  if (excess !== undefined) throw new YamlFileError([`${fileName}: ${excess}`])
  const document = runWithoutStackTraces(() =>
    parseDocument(text, { lineCounter: lines, ...plainYaml }),
  )
  if (document.errors.length > 0)
    throw new YamlFileError(
      document.errors.map((e) => `${fileName}:${lines.linePos(e.pos[0]).line}: ${e.message}`),
    )
  const duplicateKey = findRepeatedKey(document.contents)
  if (duplicateKey)
    throw new YamlFileError([
      `${fileName}:${lines.linePos(duplicateKey.range?.[0] ?? 0).line}: Map keys must be unique`,
    ])
  const parsed = schema.safeParse(convertDocument(document, fileName), { reportInput: true })
  if (parsed.success) return parsed.data
  const findLine = (path: readonly PropertyKey[]) => {
    const node = findNode(document.contents, path)
    return node?.range ? lines.linePos(node.range[0]).line : 1
  }
  throw new YamlFileError(
    limitProblems(parsed.error.issues.flatMap((issue) => resolveUnionIssues(issue))).flatMap(
      (issue) => {
        const path = issue.path.join('.')
        if (issue.code === 'unrecognized_keys') {
          const known = listSchemaKeys(schema, issue.path)
          return limitProblems(issue.keys).map(
            (key) =>
              `${fileName}:${findLine([...issue.path, key])}: ${path ? `${path}: ` : ''}unknown key '${key}'${known ? `, ${suggestNames(key, known)}` : ''}`,
          )
        }
        return [
          `${fileName}:${findLine(issue.path)}: ${path ? `${path}: ` : ''}${issue.message}${describeInput(issue.input)}`,
        ]
      },
    ),
  )
}

type Issue = z.core.$ZodIssue

/**
 * Resolves an issue with its path from the root. Issues of a union are replaced by those of the
 * only alternative whose outer type fits.
 */
export function resolveUnionIssues(issue: Issue, before: readonly PropertyKey[] = []): Issue[] {
  const path = [...before, ...issue.path]
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const matchingAlternatives = issue.errors.filter(
      (issues) =>
        !issues.some(
          (i) =>
            i.path.length === 0 &&
            ['invalid_type', 'invalid_value', 'invalid_union'].includes(i.code),
        ),
    )
    if (matchingAlternatives.length === 1)
      return matchingAlternatives[0]!.flatMap((inner) => resolveUnionIssues(inner, path))
  }
  return [{ ...issue, path }]
}

/** @throws YamlFileError for exponential aliases */
function convertDocument(document: Document, fileName: string): unknown {
  try {
    return document.toJS({ maxAliasCount: maxAliases })
  } catch (error) {
    throw new YamlFileError([
      `${fileName}: ${(error as Error).message}; write the values out instead of aliases (*name)`,
    ])
  }
}

function describeInput(input: unknown): string {
  if (input === undefined) return ''
  try {
    return `, got ${JSON.stringify(input)?.slice(0, 200)}`
  } catch {
    return ', got a value that contains itself' // An alias inside of its own anchor.
  }
}

/** Finds the first duplicate key of a map. */
export function findRepeatedKey(root: unknown): Node | undefined {
  const children = isMap(root)
    ? root.items.map((pair) => pair.value)
    : isSeq(root)
      ? root.items
      : []
  if (isMap(root)) {
    const seen = new Set<string>()
    for (const { key } of root.items) {
      if (isNode(key) && seen.has(String(key))) return key
      seen.add(String(key))
    }
  }
  for (const child of children) {
    const found = findRepeatedKey(child)
    if (found) return found
  }
  return undefined
}

/**
 * Finds the deepest existing node on a path. For a map entry it is the key, whose line is reported.
 */
function findNode(root: unknown, path: readonly PropertyKey[]): Node | undefined {
  let node: unknown = root
  let deepestNode: Node | undefined = isNode(root) ? root : undefined
  for (const step of path) {
    if (isSeq(node)) {
      node = node.items[Number(step)]
      if (isNode(node)) deepestNode = node
      continue
    }
    if (!isMap(node)) break
    const pair = node.items.find((item) => String(item.key) === String(step))
    if (pair === undefined) break
    if (isNode(pair.key)) deepestNode = pair.key
    node = pair.value
  }
  return deepestNode
}

/** Lists the keys of the (possibly nested) object schema that rejected a key. */
function listSchemaKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] | undefined {
  let current: unknown = schema
  for (const step of path) {
    const { shape, element } = (current ?? {}) as {
      shape?: Record<PropertyKey, unknown>
      element?: unknown
    }
    current = shape?.[step] ?? element
  }
  const shape = (current as { shape?: object } | undefined)?.shape
  return shape === undefined ? undefined : Object.keys(shape)
}
