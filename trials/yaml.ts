/** YAML files of users, checked whole: every problem at once, each with its file and line. */
import { isMap, isNode, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import type { z } from 'zod'
import { namesNear } from './devices/device-model-error.ts'

export class YamlFileError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'YamlFileError'
  }
}

const mostEntries = 20_000
const mostNested = 200

/** Why a text is too much to be a file that people write, before any parser sees it; undefined for one that is not. */
export function yamlExcess(text: string): string | undefined {
  let entries = 0
  let depth = 0
  for (let i = 0; i < text.length; i++) {
    const letter = text[i]
    if (letter === '\n' || letter === ',') entries++
    if (letter === '[' || letter === '{') depth++
    if (letter === ']' || letter === '}') depth--
    if (depth > mostNested) return `nested deeper than ${mostNested} brackets`
  }
  return entries > mostEntries ? `more than ${mostEntries.toLocaleString('en-US')} lines and list entries` : undefined
}

/** Plain data alone: no binaries, sets or dates by tag. That keys are unique is checked elsewhere: the parser compares each with each. */
export const plainYaml = { resolveKnownTags: false, uniqueKeys: false, logLevel: 'error' } as const

/**
 * Parses YAML (hence also JSON) and validates it.
 * @throws YamlFileError with one line per problem: 'prices.yaml:3: gpus.T4: expected a number above 0, got -1'.
 */
export function parseYaml<T>(text: string, fileName: string, schema: z.ZodType<T>): T {
  const lines = new LineCounter()
  const excess = yamlExcess(text)
  if (excess !== undefined) throw new YamlFileError([`${fileName}: ${excess}`])
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, ...plainYaml })
  if (document.errors.length > 0)
    throw new YamlFileError(document.errors.map((e) => `${fileName}:${lines.linePos(e.pos[0]).line}: ${e.message}`))
  const again = repeatedKey(document.contents)
  if (again) throw new YamlFileError([`${fileName}:${lines.linePos(again.range?.[0] ?? 0).line}: Map keys must be unique`])
  const parsed = schema.safeParse(document.toJS(), { reportInput: true })
  if (parsed.success) return parsed.data
  const lineOf = (path: readonly PropertyKey[]) => {
    const node = nodeAt(document.contents, path)
    return node?.range ? lines.linePos(node.range[0]).line : 1
  }
  throw new YamlFileError(
    parsed.error.issues.flatMap((issue) => {
      const at = issue.path.join('.')
      if (issue.code === 'unrecognized_keys') {
        const known = knownKeys(schema, issue.path)
        return issue.keys.map(
          (key) =>
            `${fileName}:${lineOf([...issue.path, key])}: ${at ? `${at}: ` : ''}unknown key '${key}'${known ? `, ${namesNear(key, known)}` : ''}`,
        )
      }
      return [`${fileName}:${lineOf(issue.path)}: ${at ? `${at}: ` : ''}${issue.message}${got(issue.input)}`]
    }),
  )
}

const got = (input: unknown) => (input === undefined ? '' : `, got ${JSON.stringify(input)?.slice(0, 200)}`)

/** The first key that stands twice in one map. */
function repeatedKey(root: unknown): Node | undefined {
  const children = isMap(root) ? root.items.map((pair) => pair.value) : isSeq(root) ? root.items : []
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
  for (const step of path) here = (here as { shape?: Record<PropertyKey, unknown> } | undefined)?.shape?.[step]
  const shape = (here as { shape?: object } | undefined)?.shape
  return shape === undefined ? undefined : Object.keys(shape)
}
