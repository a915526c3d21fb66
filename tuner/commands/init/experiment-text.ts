/** An experiment as a commented file that its user goes on from. Pure. */
import { Document, isMap, isScalar, type Pair, type Scalar } from 'yaml'
import { isRecord } from '../../../profiler/plain-record.ts'

interface Commented {
  /** As the experiment file has it. */
  readonly document: Readonly<Record<string, unknown>>
  /** 'predictor.command' → what stands behind it, or above it where it is a section. */
  readonly comments: Readonly<Record<string, string | undefined>>
  /** Lines above everything, and below. */
  readonly head: readonly string[]
  readonly foot: readonly string[]
  /** Of the JSON Schema, from the file. */
  readonly schemaPath: string
}

export function experimentText({ document, comments, head, foot, schemaPath }: Commented): string {
  const made = new Document(document)
  comment(made.contents, [], comments)
  const body = made.toString({ lineWidth: 0, flowCollectionPadding: false })
  const lines = [
    `# yaml-language-server: $schema=${schemaPath}`,
    ...head.map((line) => `# ${line}`),
    '',
    body.trimEnd(),
  ]
  const end = foot.length > 0 ? ['', ...foot.map((line) => (line === '' ? '#' : `# ${line}`))] : []
  return `${[...lines, ...end].join('\n')}\n`
}

function comment(node: unknown, path: readonly string[], comments: Commented['comments']): void {
  if (!isMap(node)) return
  for (const [i, pair] of (node.items as Pair<Scalar<string>, unknown>[]).entries()) {
    const here = [...path, String(pair.key.value)]
    const said = comments[here.join('.')]
    // Lists and short objects read better in one line, a command by its words.
    if (isMap(pair.value) && (here.length > 2 || path[0] === 'space')) pair.value.flow = true
    if (isRecord(pair.value) && 'items' in pair.value && !isMap(pair.value))
      (pair.value as { flow?: boolean }).flow = true
    if (path.length === 0 && i > 0 && isMap(pair.value)) pair.key.spaceBefore = true
    if (said !== undefined && (isScalar(pair.value) || path[0] === 'space'))
      (pair.value as Scalar).comment = ` ${said}`
    else if (said !== undefined) pair.key.commentBefore = said.replace(/^/gm, ' ')
    comment(pair.value, here, comments)
  }
}
