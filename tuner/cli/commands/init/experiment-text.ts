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
  const yamlDocument = new Document(document)
  addComments(yamlDocument.contents, [], comments)
  const body = yamlDocument.toString({ lineWidth: 0, flowCollectionPadding: false })
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
    const keyPath = [...path, String(pair.key.value)]
    const comment = comments[keyPath.join('.')]
    // Lists and short objects read better in one line, a command by its words.
    if (isMap(pair.value) && (keyPath.length > 2 || path[0] === 'space')) pair.value.flow = true
    if (isRecord(pair.value) && 'items' in pair.value && !isMap(pair.value))
      (pair.value as { flow?: boolean }).flow = true
    if (path.length === 0 && i > 0 && isMap(pair.value)) pair.key.spaceBefore = true
    if (comment !== undefined && (isScalar(pair.value) || path[0] === 'space'))
      (pair.value as Scalar).comment = ` ${comment}`
    else if (comment !== undefined) pair.key.commentBefore = comment.replace(/^/gm, ' ')
    addComments(pair.value, keyPath, comments)
  }
}
