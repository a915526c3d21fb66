/**
 * Every spec target for every server by a dry run on a real API server: built-in kinds always,
 * those of operators where TUNE_CRDS names a folder with their official CustomResourceDefinitions
 * (YAML), which are installed for the length of this file.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { ApiError } from '../../trials/launchers/kubernetes/api/api.ts'
import type { Json } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import { requestDryRun } from '../../trials/launchers/kubernetes/manifests/server-dry-run.ts'
import {
  createNamespace,
  type TestNamespace,
  until,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
import type { Resources } from '../../trials/resources.ts'
import type { DeployedServer } from '../figures.ts'
import { loadTarget, renderSpec, specTargets } from './index.ts'
import { SpecError } from './spec-error.ts'
import { noGpu, quarter, serving, whole, wide } from './spec-samples.contract.ts'
import { autoscalers, kserveVariants, type SpecOptions, type SpecTarget } from './target.ts'

const crdFolder = process.env.TUNE_CRDS
const crds =
  crdFolder === undefined ? [] : readdirSync(crdFolder).filter((name) => name.endsWith('.yaml'))
const crdPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const builtIn: Readonly<Record<string, string>> = {
  'v1 ConfigMap': '/api/v1',
  'v1 Secret': '/api/v1',
  'v1 Service': '/api/v1',
  'v1 PersistentVolumeClaim': '/api/v1',
  'apps/v1 Deployment': '/apis/apps/v1',
}

let namespace: TestNamespace
/** By 'apiVersion Kind', where its objects are made. */
const places = new Map<string, string>()
const installed: string[] = []
beforeAll(async () => {
  namespace = await createNamespace()
  const { api } = namespace
  for (const [kind, group] of Object.entries(builtIn))
    places.set(kind, `${group}/namespaces/${namespace.name}/${pluralOf(kind)}`)
  for (const file of crds) await install(readFileSync(join(crdFolder!, file), 'utf8'))
  await until(async () => {
    const made = await Promise.all(
      installed.map((name) => api.request<Json>('GET', `${crdPath}/${name}`)),
    )
    return made.every(({ status }) =>
      (status as { conditions?: Json[] })?.conditions?.some(
        (c) => c.type === 'Established' && c.status === 'True',
      ),
    )
  })
})
afterAll(async () => {
  for (const name of installed) await namespace.api.request('DELETE', `${crdPath}/${name}`)
  await namespace?.remove()
})

const pluralOf = (kind: string) => `${kind.split(' ')[1]!.toLowerCase()}s`

async function install(text: string): Promise<void> {
  const crd = parseAllDocuments(text)[0]!.toJS() as {
    metadata: { name: string; annotations?: object }
    spec: {
      group: string
      names: { plural: string; kind: string }
      versions: { name: string }[]
      conversion?: object
    }
  }
  // Conversion asks a webhook of the operator's, which is not there.
  const { conversion: _, ...spec } = crd.spec
  await namespace.api
    .request('POST', crdPath, { body: withoutEmptyDefaults({ ...crd, spec }) as Json })
    .then(() => installed.push(crd.metadata.name))
    .catch((error: unknown) => {
      if (!(error instanceof ApiError && error.status === 409)) throw error
    })
  for (const { name } of spec.versions)
    places.set(
      `${spec.group}/${name} ${spec.names.kind}`,
      `/apis/${spec.group}/${name}/namespaces/${namespace.name}/${spec.names.plural}`,
    )
}

/** Kubernetes 1.20 reads an empty text as null, and refuses it as a default. */
const withoutEmptyDefaults = (tree: unknown): unknown =>
  Array.isArray(tree)
    ? tree.map(withoutEmptyDefaults)
    : typeof tree === 'object' && tree !== null
      ? Object.fromEntries(
          Object.entries(tree)
            .filter(([key, value]) => !(key === 'default' && value === ''))
            .map(([key, value]) => [key, withoutEmptyDefaults(value)]),
        )
      : tree

const optionsOf = ({ takes = [] }: SpecTarget): SpecOptions[] => {
  if (takes.includes('importPath')) return [{ importPath: 'app:bert' }]
  if (takes.includes('variant')) return kserveVariants.map((variant) => ({ variant }))
  if (takes.includes('autoscaler')) return autoscalers.map((autoscaler) => ({ autoscaler }))
  return [{}]
}

const slice: Resources = {
  ...whole,
  gpu: 'A100-40GB',
  gpuShare: 1 / 7,
  gpuMemoryMiB: 4864,
  migProfile: '1g.5gb',
}

const servingHere = (server: DeployedServer, resources: Resources) =>
  serving({ server, namespace: namespace.name }, resources)

const loaded = await Promise.all(
  specTargets.map(async (name) => ({ name, target: await loadTarget(name) })),
)
const cases = loaded
  .filter(({ target }) => target.isNamespaced)
  .flatMap(({ name, target }) =>
    target.servers.map((server): [typeof name, DeployedServer, SpecTarget] => [
      name,
      server,
      target,
    ]),
  )

test.each(cases)(
  '%s with %s: the API server takes what it knows, and drops no field',
  async (name, server, target) => {
    const checked = new Set<string>()
    const unknown = new Set<string>()
    for (const resources of [noGpu, whole, quarter, slice, wide])
      for (const options of optionsOf(target)) {
        const files = await renderSpec(name, servingHere(server, resources), options).catch(
          (error: unknown) => {
            if (error instanceof SpecError) return []
            throw error
          },
        )
        for (const { name: file, text } of files.filter(({ name: file }) => file.endsWith('.yaml')))
          for (const document of parseAllDocuments(text)) {
            const object = document.toJS() as Json
            const kind = `${object.apiVersion} ${object.kind}`
            const place = places.get(kind)
            if (place === undefined) {
              unknown.add(kind)
              continue
            }
            const said = await requestDryRun(namespace.api, place, object).catch(
              (error: unknown) => [String(error)],
            )
            expect(said, `${name} ${server} ${file} ${kind} ${JSON.stringify(options)}`).toEqual([])
            checked.add(kind)
          }
      }
    console.info(
      `${name} ${server}: ${[...checked].join(', ')}; not known to this server: ${[...unknown].join(', ') || 'none'}`,
    )
    expect(checked.size + unknown.size).toBeGreaterThan(0)
  },
)
