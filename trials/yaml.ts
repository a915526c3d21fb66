/** YAML files of users, checked whole: every problem at once, each with its file and line. */
import { isMap, isNode, LineCounter, type Node, parseDocument } from 'yaml'
import type { z } from 'zod'
import { namesNear } from './devices/device-model-error.ts'

export class YamlFileError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'))
    this.name = 'YamlFileError'
  }
}

/**
 * Parses YAML (hence also JSON) and validates it.
 * @throws YamlFileError with one line per problem: 'prices.yaml:3: gpus.T4: expected a number above 0, got -1'.
 */
export function parseYaml<T>(text: string, fileName: string, schema: z.ZodType<T>): T {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  if (document.errors.length > 0)
    throw new YamlFileError(document.errors.map((e) => `${fileName}:${lines.linePos(e.pos[0]).line}: ${e.message}`))
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

const got = (input: unknown) => (input === undefined ? '' : `, got ${JSON.stringify(input)}`)

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
  for (const step of path) here = (here as { shape?: Record<PropertyKey, unknown> }).shape?.[step]
  const shape = (here as { shape?: object } | undefined)?.shape
  return shape === undefined ? undefined : Object.keys(shape)
}
