/**
 * Nodes of the instance whose price was reckoned with: asked for by every target that has pods, and
 * by nothing whose price is of no instance.
 */
import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { createServing } from './create-serving.ts'
import { renderSpec, type SpecTargetName } from './index.ts'
import { patchManifests } from './patch/patch-manifests.ts'
import type { Serving, ServingOptions } from './serving.ts'
import { best, found, podOf, type Tree, whole } from './spec-samples.contract.ts'
import type { SpecOptions } from './target.ts'
import { checkManifests } from './validate.contract.ts'

const label = 'node.kubernetes.io/instance-type'
const bundles = [
  {
    name: 'NC4as_T4_v3',
    replicas: 1,
    perHour: 0.5,
    instanceType: 'Standard_NC4as_T4_v3',
    isFull: true,
  },
  { name: 'four', replicas: 4, perHour: 1.9, instanceType: 'Standard_four' },
] as const
const bought = (
  options: Partial<ServingOptions> = {},
  list: readonly object[] = bundles,
): Serving =>
  createServing(
    {
      ...found,
      resources: whole,
      deployed: { server: 'triton', weights: 'given' },
      candidate: { ...best, ...(list.length > 0 && { bundles: list as typeof bundles }) },
    },
    { headroom: 0, demandRps: 100, modelUri: 's3://bucket/bert', ...options },
  )
const rendered = async (target: SpecTargetName, serving: Serving, options: SpecOptions = {}) => {
  const text = (await renderSpec(target, serving, options)).map((file) => file.text).join('---\n')
  const { objects, problems } = checkManifests(text)
  expect(problems).toEqual([])
  const object = objects.find(({ kind }) => String(kind) in podOf)!
  const [, spec] = podOf[String(object.kind)]!(object.spec as Tree)
  return { text, spec }
}

describe('nodes of the instance that was paid for', () => {
  test.each<[SpecTargetName, SpecOptions]>([
    ['kubernetes', {}],
    ['kserve', {}],
    ['kserve', { variant: 'knative' }],
    ['seldon', {}],
    ['kubedl', {}],
  ])('%s %o asks for them', async (target, options) => {
    const { spec, text } = await rendered(target, bought(), options)
    expect(spec.nodeSelector).toEqual({ [label]: 'Standard_NC4as_T4_v3' })
    if (options.variant === 'knative') expect(text).toContain('podspec-nodeselector')
    expect((await rendered(target, bought({}, []), options)).spec).not.toHaveProperty(
      'nodeSelector',
    )
  })

  test('the ones that are cheapest for as many replicas, with the reason; what fills them is said', async () => {
    const one = await rendered('kubernetes', bought())
    expect(one.text).toMatch(
      /nodes Standard_NC4as_T4_v3 +the cheapest instances for 1 replica, price book; 1 per node leaves no core/,
    )
    const four = await rendered('kubernetes', bought({ demandRps: 190 * 4 }))
    expect(four.spec.nodeSelector).toEqual({ [label]: 'Standard_four' })
    expect(four.text).toMatch(
      /nodes Standard_four +the cheapest instances for 4 replicas, price book\n/,
    )
  })

  test('of an instance without a label, and where a fleet places the pods, none are requested', () => {
    expect(bought({}, [{ name: 'box', replicas: 1, perHour: 1 }]).instanceType).toBeUndefined()
    expect(bought({ replicaPlan: { replicas: 1, timezone: 'UTC' } }).instanceType).toBeUndefined()
  })

  test('what the user lays over the pods goes before', async () => {
    const overlay = { spec: { nodeSelector: { pool: 'gpu', [label]: 'mine' } } }
    expect((await rendered('kubernetes', bought({ overlay }))).spec.nodeSelector).toEqual({
      pool: 'gpu',
      [label]: 'mine',
    })
  })

  test('a patch adds them, and leaves those that the manifest names', () => {
    const manifest = (selector: string) =>
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n${selector}  containers:\n  - name: server\n    image: x\n`
    const patched = (selector: string) => {
      const { text, unappliedValues } = patchManifests(manifest(selector), bought(), {
        file: 'pod.yaml',
        container: 'server',
      })
      return { spec: parseAllDocuments(text)[0]!.toJS().spec, unappliedValues }
    }
    expect(patched('').spec.nodeSelector).toEqual({ [label]: 'Standard_NC4as_T4_v3' })
    const other = patched(`  nodeSelector:\n    ${label}: g6.xlarge\n`)
    expect(other.spec.nodeSelector).toEqual({ [label]: 'g6.xlarge' })
    expect(other.unappliedValues).toContain(
      `nodeSelector ${label} = Standard_NC4as_T4_v3 (instance type used for the price): the manifest has g6.xlarge`,
    )
  })
})
