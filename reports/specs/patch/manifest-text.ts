/** The text of a manifest file: its documents, and places in it. */
import { type Document, LineCounter, type Node, parseAllDocuments } from 'yaml'
import {
  findRepeatedKey,
  findYamlExcess,
  maxAliases,
  plainYaml,
  runWithoutStackTraces,
} from '../../../trials/yaml.ts'
import { SpecError } from '../spec-error.ts'
import type { YamlValue } from './yaml-values.ts'

/** Parses all documents as Kubernetes reads them: merge keys are resolved. */
export const parseDocuments = (text: string, lineCounter?: LineCounter): Document.Parsed[] =>
  runWithoutStackTraces(() =>
    parseAllDocuments(text, { ...plainYaml, merge: true, lineCounter }),
  ) as Document.Parsed[]

/**
 * Reads the data of each document of a YAML or JSON file, and the lines of places in it.
 * @throws SpecError for text that is no YAML, names that stand twice in one block, and aliases that
 * multiply
 */
export function readDocuments(
  text: string,
  file: string,
): {
  readonly values: readonly YamlValue[]
  readonly lineOf: (node: Node) => number
  readonly documents: readonly Document[]
} {
  const excess = findYamlExcess(text)
  if (excess !== undefined)
    throw new SpecError(
      `${file} is too large for a manifest: ${excess}`,
      'give a file that holds only the workload',
    )
  const lines = new LineCounter()
  const documents = parseDocuments(text, lines)
  const findLine = (offset: number) => lines.linePos(offset).line
  const [error] = documents.flatMap((d) => [...d.errors, ...d.warnings])
  if (error)
    throw new SpecError(
      `${file}:${findLine(error.pos[0])}: not valid YAML: ${error.message.slice(0, 300)}`,
      'correct it first',
    )
  for (const { contents } of documents) {
    const again = findRepeatedKey(contents)
    if (again)
      throw new SpecError(
        `${file}:${findLine(again.range![0])}: ${String(again)} appears twice in one block`,
        'remove one of them: programs differ in which one they use',
      )
  }
  return {
    documents,
    values: documents.map((document) => readValue(document, file)),
    lineOf: (node) => findLine(node.range![0]),
  }
}

/** @throws SpecError for aliases that multiply what they stand for */
function readValue(document: Document, file: string): YamlValue {
  try {
    return document.toJS({ maxAliasCount: maxAliases }) as YamlValue
  } catch (error) {
    throw new SpecError(
      `${file} cannot be read: ${(error as Error).message}`,
      'write the values out instead of aliases (*name)',
    )
  }
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text.replace(/^\uFEFF/, ''))
    return true
  } catch {
    return false
  }
}

export const getRange = (node: Node): [number, number] => [node.range![0], node.range![1]]

export const splice = (
  text: string,
  [from, to]: readonly [number, number],
  insert: string,
): string => text.slice(0, from) + insert + text.slice(to)

/** Line end of the line before an offset, or of the text's first line if there is none before. */
export function detectLineEnd(text: string, at: number): '\n' | '\r\n' {
  const before = text.lastIndexOf('\n', at - 1)
  const line = before >= 0 ? before : text.indexOf('\n')
  return line > 0 && text[line - 1] === '\r' ? '\r\n' : '\n'
}
