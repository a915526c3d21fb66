/** Renders an experiment as a commented file. Pure. */
import { Document, isMap, isScalar, type Pair, type Scalar } from 'yaml'
import { isRecord } from '../../../../profiler/plain-record.ts'

interface CommentedDocument {
  /** Settings in the form of the experiment file. */
  readonly document: Readonly<Record<string, unknown>>
  /** 'predictor.command' → comment behind the value, or above a section. */
  readonly comments: Readonly<Record<string, string | undefined>>
  /** Comment lines at the top and at the bottom. */
  readonly head: readonly string[]
  readonly foot: readonly string[]
  /** Path of the JSON Schema, relative to the file. */
  readonly schemaPath: string
}

export function renderExperimentFile({
  document,
  comments,
  head,
  foot,
  schemaPath,
}: CommentedDocument): string {
  const made = new Document(document)
  addComments(made.contents, [], comments)
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

function addComments(
  node: unknown,
  path: readonly string[],
  comments: CommentedDocument['comments'],
): void {
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
    addComments(pair.value, here, comments)
  }
}
