/** YAML files of users, checked whole: every problem at once, each with its file and line. */
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
import { namesNear } from './near-names.ts'

/** Those that help: who has more of them has another file. */
const mostProblems = 20
const mostLetters = 300

export class YamlFileError extends Error {
  /** The first of them, each cut, and how many more there are. */
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    const told = firstOf(problems).map((problem) =>
      problem.length > mostLetters ? `${problem.slice(0, mostLetters)}…` : problem,
    )
    super(told.join('\n'))
    this.name = 'YamlFileError'
    this.problems =
      told.length < problems.length
        ? [...told, `${told[0]!.split(':')[0]}: and ${problems.length - told.length} more problems`]
        : told
  }
}

const firstOf = <T>(all: readonly T[]): readonly T[] => all.slice(0, mostProblems)

const mostEntries = 20_000
/**
 * Each is a token of the parser's, if not an error: a file of as many lines as may be has three in
 * each.
 */
const mostMarks = 60_000
const mostNested = 200
/** How often aliases may be resolved: they can stand for each other. */
export const mostAliases = 100

const isEntry = codes('\n,')
const isBracket = codes('[{')
const isMark = codes('[]{}:?&*!"\'#|>%@`\r')
const isNesting = codes('-?:')
const [lineFeed, space, dash] = ['\n', ' ', '-'].map((letter) => letter.charCodeAt(0)) as [
  number,
  number,
  number,
]

/** ASCII letters by their code. */
function codes(letters: string): Uint8Array {
  const table = new Uint8Array(128)
  for (const letter of letters) table[letter.charCodeAt(0)] = 1
  return table
}

/**
 * Why a text is too much to be a file that people write, before a document is made of it; undefined
 * for one that is not.
 */
export function yamlExcess(text: string): string | undefined {
  let [entries, marks, brackets, deepest] = [0, 0, 0, 0]
  // Of the line: its indentation and what may nest in it.
  let [indented, nests, isIndent] = [0, 0, true]
  for (let i = 0; i < text.length; i++) {
    const letter = text.charCodeAt(i)
    if (isEntry[letter]) entries++
    else if (isMark[letter] || (letter === dash && text.charCodeAt(i + 1) === space)) marks++
    if (entries > mostEntries)
      return `more than ${mostEntries.toLocaleString('en-US')} lines and list entries`
    if (marks > mostMarks)
      return `more than ${mostMarks.toLocaleString('en-US')} brackets, quotes and other marks`
    if (isBracket[letter]) brackets++
    isIndent &&= letter === space
    if (isIndent) indented++
    if (isNesting[letter]) nests++
    deepest = Math.max(deepest, indented + nests)
    if (letter === lineFeed) [indented, nests, isIndent] = [0, 0, true]
  }
  const mayNest = Math.max(brackets, deepest) > mostNested / 2
  return mayNest && isDeep(text) ? `nested deeper than ${mostNested} levels` : undefined
}

/**
 * By the parser's own tokens: making a document of what is nested too deep ends the whole process,
 * not with an error.
 */
function isDeep(text: string): boolean {
  const parser = new Parser()
  // A document, and the value that is being read, beside what they are in.
  const most = mostNested + 2
  for (const lexeme of new Lexer().lex(text)) {
    for (const _ of parser.next(lexeme));
    if (parser.stack.length > most) return true
  }
  return false
}

/**
 * Plain data alone: no binaries, sets or dates by tag. That keys are unique is checked elsewhere:
 * the parser compares each with each.
 */
export const plainYaml = {
  resolveKnownTags: false,
  uniqueKeys: false,
  logLevel: 'error',
  prettyErrors: false,
} as const

/**
 * Runs the parser. It makes an error of each wrong mark, and where in the program it did so is of
 * no use: that would take longer than all the rest.
 */
export function withoutTraces<T>(parse: () => T): T {
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
  const excess = yamlExcess(text)
  if (excess !== undefined) throw new YamlFileError([`${fileName}: ${excess}`])
  const document = withoutTraces(() => parseDocument(text, { lineCounter: lines, ...plainYaml }))
  if (document.errors.length > 0)
    throw new YamlFileError(
      document.errors.map((e) => `${fileName}:${lines.linePos(e.pos[0]).line}: ${e.message}`),
    )
  const again = repeatedKey(document.contents)
  if (again)
    throw new YamlFileError([
      `${fileName}:${lines.linePos(again.range?.[0] ?? 0).line}: Map keys must be unique`,
    ])
  const parsed = schema.safeParse(plainOf(document, fileName), { reportInput: true })
  if (parsed.success) return parsed.data
  const lineOf = (path: readonly PropertyKey[]) => {
    const node = nodeAt(document.contents, path)
    return node?.range ? lines.linePos(node.range[0]).line : 1
  }
  throw new YamlFileError(
    firstOf(parsed.error.issues.flatMap((issue) => meantIssues(issue))).flatMap((issue) => {
      const at = issue.path.join('.')
      if (issue.code === 'unrecognized_keys') {
        const known = knownKeys(schema, issue.path)
        return firstOf(issue.keys).map(
          (key) =>
            `${fileName}:${lineOf([...issue.path, key])}: ${at ? `${at}: ` : ''}unknown key '${key}'${known ? `, ${namesNear(key, known)}` : ''}`,
        )
      }
      return [
        `${fileName}:${lineOf(issue.path)}: ${at ? `${at}: ` : ''}${issue.message}${got(issue.input)}`,
      ]
    }),
  )
}

type Issue = z.core.$ZodIssue

/**
 * An issue with its path from the root; that of a union is replaced by those of the alternative
 * that was meant: the only one whose outer type fits.
 */
export function meantIssues(issue: Issue, before: readonly PropertyKey[] = []): Issue[] {
  const path = [...before, ...issue.path]
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const meant = issue.errors.filter(
      (issues) =>
        !issues.some(
          (i) =>
            i.path.length === 0 &&
            ['invalid_type', 'invalid_value', 'invalid_union'].includes(i.code),
        ),
    )
    if (meant.length === 1) return meant[0]!.flatMap((inner) => meantIssues(inner, path))
  }
  return [{ ...issue, path }]
}

/** @throws YamlFileError for aliases that multiply what they stand for */
function plainOf(document: Document, fileName: string): unknown {
  try {
    return document.toJS({ maxAliasCount: mostAliases })
  } catch (error) {
    throw new YamlFileError([
      `${fileName}: ${(error as Error).message}; write the values out instead of aliases (*name)`,
    ])
  }
}

function got(input: unknown): string {
  if (input === undefined) return ''
  try {
    return `, got ${JSON.stringify(input)?.slice(0, 200)}`
  } catch {
    return ', got a value that contains itself' // An alias inside of its own anchor.
  }
}

/** The first key that stands twice in one map. */
export function repeatedKey(root: unknown): Node | undefined {
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
    const found = repeatedKey(child)
    if (found) return found
  }
  return undefined
}

/** The deepest node along a path; a map's key stands for the line of its pair. */
function nodeAt(root: unknown, path: readonly PropertyKey[]): Node | undefined {
  let node: unknown = root
  let at: Node | undefined = isNode(root) ? root : undefined
  for (const step of path) {
    if (isSeq(node)) {
      node = node.items[Number(step)]
      if (isNode(node)) at = node
      continue
    }
    if (!isMap(node)) break
    const pair = node.items.find((item) => String(item.key) === String(step))
    if (pair === undefined) break
    if (isNode(pair.key)) at = pair.key
    node = pair.value
  }
  return at
}

/** The keys of the (possibly nested) object schema that rejected a key. */
function knownKeys(schema: z.ZodType, path: readonly PropertyKey[]): string[] | undefined {
  let here: unknown = schema
  for (const step of path) {
    const { shape, element } = (here ?? {}) as {
      shape?: Record<PropertyKey, unknown>
      element?: unknown
    }
    here = shape?.[step] ?? element
  }
  const shape = (here as { shape?: object } | undefined)?.shape
  return shape === undefined ? undefined : Object.keys(shape)
}
