/** The Kubernetes objects of a manifest file, those inside of lists and templates too. */
import { type Document, isNode } from 'yaml'
import { readDocuments } from './manifest-text.ts'
import { getValueAt, listAt, type Path, type YamlValue } from './yaml-values.ts'

export interface ManifestObject {
  /** Index of its document in the file. */
  readonly document: number
  /** Path of the object in its document: empty if it is the whole document. */
  readonly base: Path
  readonly value: YamlValue
  readonly kind: string
  readonly name: string
  readonly namespace?: string
  /** 'Deployment bert' */
  readonly title: string
  /** Line of a place below the object. */
  readonly lineOf: (path: Path) => number
}

/** @throws SpecError for text that is not YAML or that programs read differently */
export function readObjects(text: string, file: string): ManifestObject[] {
  const { values, documents, lineOf } = readDocuments(text, file)
  return values.flatMap((value, document) =>
    listObjects(value, [], (base) => ({
      document,
      lineOf: findLineBelow(documents[document]!, base, lineOf),
    })),
  )
}

const findLineBelow =
  (document: Document, base: Path, lineOf: Parameters<typeof findLineOf>[1]) => (path: Path) =>
    findLineOf(document.getIn([...base, ...path], true), lineOf)

const findLineOf = (node: unknown, lineOf: ReturnType<typeof readDocuments>['lineOf']): number =>
  isNode(node) && node.range ? lineOf(node) : 1

type DocumentPosition = Pick<ManifestObject, 'document' | 'lineOf'>

function listObjects(
  value: YamlValue,
  base: Path,
  place: (base: Path) => DocumentPosition,
): ManifestObject[] {
  const kind = getValueAt(value, ['kind'])
  if (typeof kind !== 'string') return []
  // Lists are the output of 'kubectl get -o json'; a Template is OpenShift's.
  const field = kind.endsWith('List') ? 'items' : kind === 'Template' ? 'objects' : undefined
  if (field !== undefined)
    return listAt(value, [field]).flatMap((item, i) =>
      listObjects(item, [...base, field, i], place),
    )
  const name = String(getValueAt(value, ['metadata', 'name']))
  const namespace = getValueAt(value, ['metadata', 'namespace'])
  return [
    {
      ...place(base),
      base,
      value,
      kind,
      name,
      ...(typeof namespace === 'string' && { namespace }),
      title: `${kind} ${name}`,
    },
  ]
}

/**
 * Whether a reference of one object means another: same kind and name, and the same namespace if
 * both name one.
 */
export const isReferenceTo = (
  reference: YamlValue | undefined,
  from: ManifestObject,
  to: ManifestObject,
  names: readonly string[] = [to.name],
): boolean =>
  // A reference of KEDA without a kind means a Deployment.
  (getValueAt(reference, ['kind']) ?? 'Deployment') === to.kind &&
  names.includes(String(getValueAt(reference, ['name']))) &&
  (from.namespace === undefined || to.namespace === undefined || from.namespace === to.namespace)
