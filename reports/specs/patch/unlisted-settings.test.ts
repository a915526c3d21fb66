/** Nothing changes but what a patch lists, in manifests made of parts that people write. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isNode, type Node, parseAllDocuments, stringify } from 'yaml'
import type { Serving } from '../serving.ts'
import { checkManifests } from '../validate.contract.ts'
import { bert, language, patchWith } from './patch-samples.contract.ts'
import { getValueAt, type Path, type YamlValue } from './yaml-values.ts'

interface Parts {
  readonly kind: 'Deployment' | 'StatefulSet' | 'Pod' | 'InList'
  readonly isLanguage: boolean
  readonly style: 'block' | 'flow' | 'json'
  readonly sidecar: 'none' | 'before' | 'after'
  readonly resources: YamlValue
  readonly args: YamlValue | undefined
  readonly env: YamlValue | undefined
  readonly selector: YamlValue | undefined
  readonly scaler: 'none' | 'own' | 'other'
  readonly lineEnd: '\n' | '\r\n'
  readonly mark: '' | '\uFEFF'
  readonly isEnded: boolean
}

const quantities = { cpu: '4', memory: '16Gi', 'nvidia.com/gpu': '2' }
const parts: fc.Arbitrary<Parts> = fc.record({
  kind: fc.constantFrom('Deployment', 'StatefulSet', 'Pod', 'InList'),
  isLanguage: fc.boolean(),
  style: fc.constantFrom('block', 'flow', 'json'),
  sidecar: fc.constantFrom('none', 'before', 'after'),
  resources: fc.constantFrom<YamlValue>(
    {},
    { requests: quantities, limits: quantities },
    { limits: { 'nvidia.com/mig-1g.5gb': '1' }, requests: { 'nvidia.com/mig-1g.5gb': '1' } },
    {
      limits: {
        cpu: '1',
        'nvidia.com/gpu': '1',
        'nvidia.com/gpumem': '3000',
        'nvidia.com/gpucores': '30',
      },
    },
    { limits: { 'aliyun.com/gpu-mem': '3', 'ephemeral-storage': '1Gi' } },
    { requests: { cpu: '500m' } },
  ),
  args: fc.constantFrom<YamlValue | undefined>(
    undefined,
    ['--max-num-seqs', '256', '--max-num-batched-tokens=2048'],
    ['--max_num_seqs=256 --other "a b"'],
    ['exec vllm serve m \\\n  --max-num-seqs 256 \\\n  --max-num-batched-tokens "512" # 512\n'],
    ["vllm serve 'm' --max-num-seqs $SEQS --note 'it''s'"],
  ),
  env: fc.constantFrom<YamlValue | undefined>(
    undefined,
    [],
    [{ name: 'BATCH_SIZE', value: '8' }],
    [
      { name: 'SEQS', value: '256' },
      { name: 'MODE', value: 'a: "b" # c' },
    ],
    [{ name: 'BATCH_SIZE', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
  ),
  selector: fc.constantFrom<YamlValue | undefined>(
    undefined,
    { 'nvidia.com/gpu.product': 'Tesla-T4' },
    { zone: 'a' },
  ),
  scaler: fc.constantFrom('none', 'own', 'other'),
  lineEnd: fc.constantFrom('\n', '\r\n'),
  mark: fc.constantFrom('', '\uFEFF'),
  isEnded: fc.boolean(),
})

const defined = (object: Readonly<Record<string, YamlValue | undefined>>): YamlValue =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as YamlValue

function objectsOf({ kind, isLanguage, sidecar, scaler, ...parts }: Parts): YamlValue[] {
  const server = defined({
    name: 'server',
    image: isLanguage ? 'vllm/vllm-openai:v0.11.0' : 'x/tune-predictor:1',
    args: parts.args,
    env: parts.env,
    resources: parts.resources,
  })
  const proxy = { name: 'proxy', image: 'envoy:1', resources: { limits: quantities } }
  const containers = { none: [server], before: [proxy, server], after: [server, proxy] }[sidecar]
  const pod = defined({ nodeSelector: parts.selector, containers })
  const metadata = { name: 'bert', labels: { app: 'bert' } }
  const workload: YamlValue =
    kind === 'Pod'
      ? { apiVersion: 'v1', kind, metadata, spec: pod }
      : {
          apiVersion: 'apps/v1',
          kind: kind === 'InList' ? 'Deployment' : kind,
          metadata,
          spec: {
            replicas: 2,
            selector: { matchLabels: metadata.labels },
            template: { metadata: { labels: metadata.labels }, spec: pod },
          },
        }
  const other: YamlValue = {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'h' },
    spec: {
      minReplicas: 2,
      maxReplicas: 4,
      scaleTargetRef: {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        name: scaler === 'own' ? 'bert' : 'web',
      },
    },
  }
  const objects = scaler === 'none' ? [workload] : [other, workload]
  return kind === 'InList' ? [{ apiVersion: 'v1', kind: 'List', items: objects }] : objects
}

function textOf(given: Parts): string {
  const objects = objectsOf(given)
  if (given.style === 'json') {
    const list =
      objects.length === 1 ? objects[0]! : { apiVersion: 'v1', kind: 'List', items: objects }
    return JSON.stringify(list, null, 2)
  }
  const collectionStyle = given.style === 'flow' ? 'flow' : 'any'
  const text = objects
    .map(
      (object, i) =>
        `# object ${i}\n${stringify(object, { collectionStyle, aliasDuplicateObjects: false })}# its end\n`,
    )
    .join('---\n')
  const plain = given.isEnded ? text : text.replace(/# its end\n$/, '').trimEnd()
  return given.mark + plain.replaceAll('\n', given.lineEnd)
}

const valuesOf = (text: string): YamlValue[] =>
  parseAllDocuments(text).map((document) => document.toJS() as YamlValue)

/** Paths of every value that differs, to the deepest that both have. */
function differences(a: YamlValue | undefined, b: YamlValue | undefined, path: Path): Path[] {
  const isInner = (value: YamlValue | undefined) => typeof value === 'object' && value !== null
  if (!isInner(a) || !isInner(b)) return JSON.stringify(a) === JSON.stringify(b) ? [] : [path]
  const keys = [...new Set([...Object.keys(a as object), ...Object.keys(b as object)])]
  return keys.flatMap((key) =>
    differences(getValueAt(a, [key]), getValueAt(b, [key]), [...path, key]),
  )
}

/** The text without its listed values, and the lines of those that were removed. */
function withoutListed(
  text: string,
  listed: readonly string[],
  isRemoved: (path: string) => boolean,
): string {
  const ranges = parseAllDocuments(text).flatMap((document, index) =>
    listed.flatMap((path) => {
      const [at, ...keys] = JSON.parse(path) as [number, ...Path]
      if (at !== index) return []
      const parent = document.getIn(keys.slice(0, -1), true) as {
        items?: { key?: Node; value?: Node }[]
      }
      const pair = parent?.items?.find(({ key }) => String(key) === String(keys.at(-1)))
      const node = (pair?.value ?? document.getIn(keys, true)) as Node | undefined
      if (!isNode(node)) return []
      const [from, to] = [pair?.key?.range?.[0] ?? node.range![0], node.range![1]]
      if (!isRemoved(path)) return [[from, to] as const]
      const lineEnd = text.indexOf('\n', to)
      return [[text.lastIndexOf('\n', from) + 1, lineEnd < 0 ? text.length : lineEnd + 1] as const]
    }),
  )
  return ranges
    .sort(([a], [b]) => b - a)
    .reduce((left, [from, to]) => left.slice(0, from) + left.slice(to), text)
}

const isSubsequence = (part: string, whole: string): boolean => {
  let at = 0
  for (const letter of whole) if (letter === part[at]) at++
  return at === part.length
}

test('values and bytes that a patch does not list stay; what it gives is valid, and patched once', () => {
  fc.assert(
    fc.property(parts, (given) => {
      const serving: Serving = given.isLanguage ? language() : bert()
      const text = textOf(given)
      const patched = patchWith(serving, text)
      const [before, after] = [valuesOf(text), valuesOf(patched.text)]
      expect(after.length).toBe(before.length)
      const listed = listedPaths(before, patched.changes)
      const changed = before.flatMap((one, i) => differences(one, after[i], [i]))
      const unlisted = changed.filter(
        (path) => !listed.some((one) => isWithin(path, JSON.parse(one) as Path)),
      )
      expect(unlisted).toEqual([])

      const separators = given.style === 'block' ? /$^/g : /[,\s]/g
      const removed = listed.filter((_, i) => patched.changes[i]!.to === undefined)
      const isRemoved = (path: string) => given.style === 'block' && removed.includes(path)
      const kept = withoutListed(text, listed, isRemoved).replace(separators, '')
      expect(isSubsequence(kept, patched.text)).toBe(true)
      expect(patched.text.startsWith('\uFEFF')).toBe(text.startsWith('\uFEFF'))
      const ends = (one: string) => new Set(one.match(/\r?\n/g))
      expect(ends(patched.text).size).toBeLessThanOrEqual(Math.max(1, ends(text).size))
      expect(/\n$/.test(patched.text)).toBe(/\n$/.test(text))
      if (given.style === 'json') JSON.parse(patched.text)

      for (const pod of podsOf(after)) {
        const alone = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: pod }
        expect(checkManifests(JSON.stringify(alone)).problems).toEqual([])
      }
      expect(patchWith(serving, patched.text).changes).toEqual([])
    }),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 50 },
  )
}, 120_000)

/** As [document, ...path], in JSON; by the title and the path that a change has in its object. */
function listedPaths(
  documents: readonly YamlValue[],
  changes: readonly { readonly where: string }[],
): string[] {
  const objects = documents.flatMap((document, i) => {
    const items = getValueAt(document, ['items'])
    return Array.isArray(items)
      ? items.map((value, k) => ({ value, base: [i, 'items', k] }))
      : [{ value: document, base: [i] }]
  })
  return changes.map(({ where }) => {
    const [title, path] = where.split(': ') as [string, string]
    const object = objects.find(
      ({ value }) =>
        `${getValueAt(value, ['kind'])} ${getValueAt(value, ['metadata', 'name'])}` === title,
    )!
    return JSON.stringify([...object.base, ...keysOf(path)])
  })
}

/** A name of a resource or a label has dots of its own. */
const keysOf = (path: string): string[] => {
  const dotted = /\.((?:nvidia|aliyun)\.com\/.*)$/.exec(path)?.[1]
  const plain = dotted === undefined ? path : path.slice(0, -dotted.length - 1)
  return [...plain.split('.'), ...(dotted === undefined ? [] : [dotted])]
}

const isWithin = (path: Path, outer: Path): boolean =>
  outer.every((key, i) => path[i] === undefined || String(path[i]) === String(key))

function podsOf(documents: readonly YamlValue[]): YamlValue[] {
  const objects = documents.flatMap((document) => {
    const items = getValueAt(document, ['items'])
    return Array.isArray(items) ? (items as YamlValue[]) : [document]
  })
  return objects.flatMap((object) => {
    const pod = getValueAt(object, ['spec', 'template', 'spec']) ?? getValueAt(object, ['spec'])
    return getValueAt(pod, ['containers']) === undefined ? [] : [pod!]
  })
}
