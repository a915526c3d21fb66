/** Reads a YAML file and keeps the line and column of every value. */

import { isAlias, isMap, isPair, isScalar, isSeq, LineCounter, parseAllDocuments } from 'yaml'
import { BoundError, readText } from '../../profiler/bounded-reader.ts'
import { findYamlExcess, maxAliases, plainYaml, runWithoutStackTraces } from '../../trials/yaml.ts'
import type { ConfigProblem, Origin } from './types.ts'

export type Path = readonly (string | number)[]

/** A document of plain data with the origin of each value. */
export interface Layer {
  readonly raw: unknown
  /**
   * Origin of the value at a path, or of the nearest enclosing value; undefined if this layer sets
   * neither.
   */
  readonly findOrigin: (path: Path) => Origin | undefined
  /** Origin of a key, for unknown keys. */
  readonly findKeyOrigin: (path: Path) => Origin | undefined
  /** Folder that relative paths in this layer start from. */
  readonly folder: string
  /** The file it was read from, absolute. */
  readonly path?: string
}

/** Maximum size of an experiment file. */
const maxBytes = 1_048_576
const formatPathKey = (path: Path) => JSON.stringify(path.map(String))

/**
 * @param shown the name to print, as the user gave it
 * @returns the layer, or what is wrong with the file as YAML: every syntax error, duplicate key and
 * unresolved tag, with its place.
 */
export function readYamlFile(
  path: string,
  shown: string,
  folder: string,
): { layer?: Layer; problems: ConfigProblem[] } {
  let text: string
  try {
    text = readText(path, 'document')
  } catch (error) {
    return { problems: [describeReadError(error as NodeJS.ErrnoException, shown)] }
  }
  return readYaml(text, shown, folder)
}

/** Parses the text of a file as `readYamlFile` does. */
export function readYaml(
  text: string,
  shown: string,
  folder: string,
): { layer?: Layer; problems: ConfigProblem[] } {
  if (text.length > maxBytes)
    return {
      problems: [
        {
          where: shown,
          what: 'the file is larger than 1 MiB',
          hint: 'check that it is an experiment file',
        },
      ],
    }
  const excess = findYamlExcess(text)
  if (excess !== undefined)
    return {
      problems: [
        {
          where: shown,
          what: excess,
          hint: 'check that it is an experiment file; put long lists into files of their own',
        },
      ],
    }
  const lines = new LineCounter()
  const documents = runWithoutStackTraces(() =>
    parseAllDocuments(text, { lineCounter: lines, ...plainYaml }),
  )
  const locate = (offset: number) => {
    const { line, col } = lines.linePos(Math.min(offset, text.length))
    return { kind: 'file', file: shown, line, column: col } as const
  }
  const createProblem = (offset: number, what: string, hint: string): ConfigProblem => {
    const { line, column } = locate(offset)
    return { where: `${shown}:${line}:${column}`, what, hint }
  }
  const document = 'empty' in documents ? undefined : documents[0]
  if (!document || document.contents === null)
    return {
      problems: [
        {
          where: shown,
          what: 'the file is empty',
          hint: 'start with `model: bert` and `slo: 50ms`',
        },
      ],
    }
  if (!Array.isArray(documents) || documents.length > 1)
    return {
      problems: [
        createProblem(
          documents[1]!.range[0],
          'a second YAML document',
          'keep one experiment per file; remove the `---`',
        ),
      ],
    }
  const faults = [...document.errors, ...document.warnings]
  const misindented =
    faults.length > 0 ? findMisindentedLine(text, locate(faults[0]!.pos[0]).line) : undefined
  if (misindented !== undefined)
    return {
      problems: [
        {
          where: `${shown}:${misindented.line}:${misindented.indent + 1}`,
          what: `this line is indented by ${misindented.indent} spaces, the line before it by ${misindented.before}`,
          hint: 'indent entries of the same level by the same number of spaces',
        },
      ],
    }
  if (faults.length > 0)
    return {
      problems: faults.map((fault) =>
        createProblem(fault.pos[0], flattenMessage(fault.message), yamlHints[fault.code] ?? ''),
      ),
    }

  const values = new Map<string, number>()
  const keys = new Map<string, number>()
  const problems: ConfigProblem[] = []
  const walk = (node: unknown, path: Path): void => {
    if (isMap(node) || isSeq(node) || isScalar(node) || isAlias(node))
      if (node.range) values.set(formatPathKey(path), node.range[0])
    if (isScalar(node) && hasNul(node.value))
      problems.push(
        createProblem(
          node.range?.[0] ?? 0,
          'a NUL character',
          'remove it: no program, file or server accepts one',
        ),
      )
    if (isSeq(node)) for (const [i, item] of node.items.entries()) walk(item, [...path, i])
    if (!isMap(node)) return
    for (const pair of node.items) {
      if (!isPair(pair) || !isScalar(pair.key)) {
        const at = node.range?.[0] ?? 0
        const hint = isPair(pair) && isMap(pair.key) ? bracesHint : 'write `name: value`'
        problems.push(createProblem(at, 'a key that is not plain text', hint))
        continue
      }
      if (hasNul(pair.key.value))
        problems.push(createProblem(pair.key.range?.[0] ?? 0, 'a NUL character in a name', ''))
      const inner = [...path, String(pair.key.value)]
      if (keys.has(formatPathKey(inner)))
        problems.push(
          createProblem(
            pair.key.range?.[0] ?? 0,
            'Map keys must be unique',
            yamlHints.DUPLICATE_KEY!,
          ),
        )
      const at = pair.key.range?.[0] ?? 0
      if (pair.key.value === '__proto__')
        problems.push(createProblem(at, "unknown key '__proto__'", ''))
      keys.set(formatPathKey(inner), at)
      values.set(formatPathKey(inner), at)
      walk(pair.value, inner)
    }
  }
  walk(document.contents, [])
  if (problems.length > 0) return { problems }

  let raw: unknown
  try {
    raw = document.toJS({ maxAliasCount: maxAliases })
  } catch (error) {
    return {
      problems: [
        {
          where: shown,
          what: flattenMessage((error as Error).message),
          hint: 'write the values out instead of aliases (*name)',
        },
      ],
    }
  }
  const nearest = (places: Map<string, number>, path: Path): Origin | undefined => {
    for (let length = path.length; length >= 0; length--) {
      const at = places.get(formatPathKey(path.slice(0, length)))
      if (at !== undefined) return locate(at)
    }
    return undefined
  }
  return {
    layer: {
      raw,
      findOrigin: (path) => nearest(values, path),
      findKeyOrigin: (path) => nearest(keys, path) ?? nearest(values, path),
      folder,
    },
    problems: [],
  }
}

const countIndent = (line: string) => line.length - line.trimStart().length

/**
 * Finds the line near a syntax error that is indented deeper than a `key: value` before it, which
 * has no entries of its own, or by a depth that no line before it has.
 */
function findMisindentedLine(
  text: string,
  errorLine: number,
): { line: number; indent: number; before: number } | undefined {
  const lines = text.split('\n')
  const isEntry = (line: string) => /^\s*(- )?[\w"'.:-]+:(\s|$)/.test(line)
  for (const line of [errorLine, errorLine + 1]) {
    const [own, before] = [
      lines[line - 1],
      lines.slice(0, line - 1).findLast((l) => l.trim() !== ''),
    ]
    if (own === undefined || before === undefined || !isEntry(own) || !isEntry(before)) continue
    const [indent, above] = [countIndent(own), countIndent(before)]
    const hasValue = /:\s+[^#\s|>&]/.test(before)
    const depths = lines
      .slice(0, line - 1)
      .filter((l) => l.trim() !== '')
      .map(countIndent)
    if ((indent > above && hasValue) || (indent < above && !depths.includes(indent)))
      return { line, indent, before: above }
  }
  return undefined
}

/** Whether a value contains a NUL character, which YAML writes as "\0". */
const hasNul = (value: unknown): boolean => typeof value === 'string' && value.includes('\0')

/** Hint for a template without quotes: YAML parses {{text}} as nested maps. */
const bracesHint = `put a template in single quotes, and a text in its own: '{"text": "{{text}}", "ids": {{ints}}}'`

const yamlHints: Partial<Record<string, string>> = {
  DUPLICATE_KEY: 'each key may appear only once: remove one of them',
  TAB_AS_INDENT: 'indent with spaces',
  BAD_INDENT: 'indent entries of the same level by the same number of spaces',
  MULTILINE_IMPLICIT_KEY: 'a colon is missing, or the indentation is off',
  MISSING_CHAR: 'close the bracket or quote',
  TAG_RESOLVE_FAILED: 'remove the tag (the word after !)',
  BAD_ALIAS: 'put texts that start with * in quotes',
}

const flattenMessage = (message: string) => message.replace(/\s+/g, ' ').trim().slice(0, 300)

function describeReadError(error: NodeJS.ErrnoException, shown: string): ConfigProblem {
  if (error.code === 'ENOENT')
    return { where: shown, what: 'no such file', hint: 'check the path after -f' }
  if (error instanceof BoundError) return { where: shown, what: error.what, hint: error.hint }
  if (error.code === 'EACCES')
    return { where: shown, what: 'no permission to read it', hint: 'check its permissions' }
  return { where: shown, what: `cannot be read: ${error.message}`, hint: '' }
}
