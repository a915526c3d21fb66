/** The Kubernetes objects of a manifest file, those inside of lists and templates too. */
import { type Document, isNode } from 'yaml'
import { readDocuments } from './manifest-text.ts'
import { listAt, type Path, valueAt, type YamlValue } from './yaml-values.ts'

export interface ManifestObject {
  /** Of its document in the file. */
  readonly document: number
  /** Of the object in its document: empty where it is the document. */
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

/** Throws SpecError for text that is no YAML or that programs read differently. */
export function readObjects(text: string, file: string): ManifestObject[] {
  const { values, documents, lineOf } = readDocuments(text, file)
  return values.flatMap((value, document) =>
    objectsIn(value, [], (base) => ({
      document,
      lineOf: lineBelow(documents[document]!, base, lineOf),
    })),
  )
}

const lineBelow =
  (document: Document, base: Path, lineOf: Parameters<typeof lineFor>[1]) => (path: Path) =>
    lineFor(document.getIn([...base, ...path], true), lineOf)

const lineFor = (node: unknown, lineOf: ReturnType<typeof readDocuments>['lineOf']): number =>
  isNode(node) && node.range ? lineOf(node) : 1

type DocumentPosition = Pick<ManifestObject, 'document' | 'lineOf'>

function objectsIn(
  value: YamlValue,
  base: Path,
  place: (base: Path) => DocumentPosition,
): ManifestObject[] {
  const kind = valueAt(value, ['kind'])
  if (typeof kind !== 'string') return []
  // 'kubectl get -o json', and a Template of OpenShift.
  const field = kind.endsWith('List') ? 'items' : kind === 'Template' ? 'objects' : undefined
  if (field !== undefined)
    return listAt(value, [field]).flatMap((item, i) => objectsIn(item, [...base, field, i], place))
  const name = String(valueAt(value, ['metadata', 'name']))
  const namespace = valueAt(value, ['metadata', 'namespace'])
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

/** By a reference within a namespace: kind, name, and the namespace where both give one. */
export const isReferenceTo = (
  reference: YamlValue | undefined,
  from: ManifestObject,
  to: ManifestObject,
  names: readonly string[] = [to.name],
): boolean =>
  // KEDA means a Deployment where it says nothing.
  (valueAt(reference, ['kind']) ?? 'Deployment') === to.kind &&
  names.includes(String(valueAt(reference, ['name']))) &&
  (from.namespace === undefined || to.namespace === undefined || from.namespace === to.namespace)
