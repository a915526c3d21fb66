/**
 * What deploy/ holds, as far as it can be checked without a cluster and without an engine that
 * builds images.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type {
  V1Deployment,
  V1LabelSelector,
  V1NetworkPolicy,
  V1PodSpec,
} from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { checkManifests } from '../../../reports/specs/validate.contract.ts'
import { nodeFlags } from '../../predictor/node-flags.ts'
import { createLoadJob } from './manifests/load-job.ts'
import { createLabels, labelNames } from './manifests/manifests.ts'
import { restrictedViolations } from './testing/restricted.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const deploy = join(root, 'deploy')
const read = (file: string) => readFileSync(join(deploy, file), 'utf8')
/** Those of overlay/ are patches. */
const manifests = readdirSync(deploy, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.yaml') && !/kustomization|experiment|^overlay/.test(file),
)

test.each(manifests)('%s: official fields of stable APIs alone, from 1.28 on', (file) => {
  const { objects, problems } = checkManifests(read(file))
  expect(problems).toEqual([])
  expect(objects.length).toBeGreaterThan(0)
  for (const { apiVersion } of objects) expect(apiVersion).toMatch(/^([a-z0-9.]+\/)?v1$/)
})

test.each(manifests)(
  '%s: its pods are what the restricted profile asks for, with limits for a quota',
  (file) => {
    const pods = parseAllDocuments(read(file)).flatMap((document) => podSpecsIn(document.toJS()))
    for (const spec of pods) {
      expect(restrictedViolations(spec)).toEqual([])
      for (const { resources } of spec.containers)
        expect(resources?.limits).toMatchObject({
          cpu: expect.anything(),
          memory: expect.anything(),
        })
    }
  },
)

function podSpecsIn(object: unknown): V1PodSpec[] {
  if (typeof object !== 'object' || object === null) return []
  return 'containers' in object ? [object as V1PodSpec] : Object.values(object).flatMap(podSpecsIn)
}

test.each(['base', 'dashboard', 'network-policies', 'overlay'])(
  'the kustomization of %s names files that are there',
  (folder) => {
    const {
      resources,
      configMapGenerator = [],
      patches = [],
    } = parseAllDocuments(read(`${folder}/kustomization.yaml`))[0]!.toJS()
    const paths = patches.map((one: { path: string }) => one.path)
    const files = [
      ...resources,
      ...paths,
      ...configMapGenerator.flatMap((one: { files: string[] }) => one.files),
    ]
    for (const file of files) expect(existsSync(join(deploy, folder, file)), file).toBe(true)
  },
)

/** As it is written; the client's own type renames `from`. */
interface Ingress {
  readonly from: readonly { readonly podSelector: V1LabelSelector }[]
}

describe('in a namespace that denies by default', () => {
  const policies = parseAllDocuments(read('network-policies/policies.yaml')).map(
    (document) => document.toJS() as V1NetworkPolicy,
  )
  const { template } = parseAllDocuments(read('base/job.yaml'))[0]!.toJS().spec
  const load = createLoadJob({
    name: 'l',
    labels: createLabels('e', 'load', 1),
    owner: { name: 'o', uid: 'u' },
    image: 'i',
    deadlineS: 1,
  })
  /** As pods are labelled when they are made. */
  const pods = {
    tuner: template.metadata.labels,
    load: (load.spec as { template: { metadata: { labels: Record<string, string> } } }).template
      .metadata.labels,
    predictor: createLabels('e', 'predictor', 1),
    stage: createLabels('e', 'predictor', 1, 'embed'),
    stranger: { app: 'shop', [labelNames.role]: 'predictor' },
  }
  const selects = (selector: V1LabelSelector | undefined, labels: Record<string, string>) =>
    Object.entries(selector?.matchLabels ?? {}).every(([name, value]) => labels[name] === value) &&
    (selector?.matchExpressions ?? []).every(({ key }) => labels[key] !== undefined)
  const allows = (from: keyof typeof pods, to: keyof typeof pods): boolean => {
    const leaves = policies
      .filter(
        ({ spec }) =>
          spec!.policyTypes!.includes('Egress') && selects(spec!.podSelector, pods[from]),
      )
      .some(({ spec }) =>
        spec!.egress?.some(({ to: peers }) =>
          peers?.some((peer) => !peer.namespaceSelector && selects(peer.podSelector, pods[to])),
        ),
      )
    const enters = policies
      .filter(({ spec }) => selects(spec!.podSelector, pods[to]))
      .some(({ spec }) =>
        (spec!.ingress as readonly Ingress[] | undefined)?.some(({ from: peers }) =>
          peers.some((peer) => selects(peer.podSelector, pods[from])),
        ),
      )
    return leaves && enters
  }

  test('load generator and tuner reach predictors, stages each other, and nothing reaches or leaves beyond that', () => {
    const allowed = (Object.keys(pods) as (keyof typeof pods)[]).flatMap((from) =>
      (Object.keys(pods) as (keyof typeof pods)[])
        .filter((to) => allows(from, to))
        .map((to) => `${from} → ${to}`),
    )
    expect(allowed.sort()).toEqual([
      'load → predictor',
      'load → stage',
      'stage → stage',
      'tuner → predictor',
      'tuner → stage',
    ])
  })

  test('every policy selects pods of ours alone', () => {
    for (const { spec } of policies)
      expect(selects(spec!.podSelector, pods.stranger), JSON.stringify(spec!.podSelector)).toBe(
        false,
      )
  })
})

test('the dashboard has no rights, no Service and a store that it cannot write', () => {
  const objects = ['dashboard/deployment.yaml', 'dashboard/rbac.yaml'].flatMap((file) =>
    parseAllDocuments(read(file)).map((one) => one.toJS()),
  )
  expect(objects.map(({ kind }) => kind)).toEqual(['Deployment', 'Role'])
  const { spec } = (objects[0] as V1Deployment).spec!.template
  expect(spec).toMatchObject({ automountServiceAccountToken: false })
  expect(spec!.serviceAccountName).toBeUndefined()
  for (const { volumeMounts } of [...spec!.containers, ...spec!.initContainers!])
    expect(volumeMounts).toEqual([expect.objectContaining({ readOnly: true })])
})

describe.each(readdirSync(deploy).filter((file) => file.endsWith('Dockerfile')))('%s', (file) => {
  const lines = read(file)
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => /^[A-Z]+ /.test(line))
  const of = (instruction: string) =>
    lines
      .filter((line) => line.startsWith(`${instruction} `))
      .map((line) => line.slice(instruction.length + 1))
  const ignored = read(`${file}.dockerignore`).split('\n').filter(Boolean)

  test('copies what is there and is not ignored, of the folder or of an earlier stage', () => {
    const stages = of('FROM').flatMap((line) => / AS (\S+)$/.exec(line)?.[1] ?? [])
    for (const line of of('COPY')) {
      const [, stage, paths = line] = /^--from=(\S+) (.*)$/.exec(line) ?? []
      if (stage !== undefined) expect(stages, line).toContain(stage)
      else
        for (const path of paths.split(/\s+/).slice(0, -1)) {
          expect(existsSync(join(root, path)), line).toBe(true)
          expect(ignored, line).not.toContain(path)
        }
    }
  })

  test('starts what its own build makes, not as root', () => {
    const [entry] = of('ENTRYPOINT').map((line) => JSON.parse(line) as string[])
    const source = /^\/app\/dist\/(.*)\.js$/.exec(entry!.at(-1)!)?.[1]
    expect(existsSync(join(root, `${source}.ts`)), String(entry)).toBe(true)
    // One that serves is started as it was measured.
    if (of('CMD').some((line) => line.includes('predictor')))
      expect(entry!.slice(1, -1)).toEqual(nodeFlags)
    // A name would not do: a cluster that wants runAsNonRoot could not tell it from root.
    expect(of('USER')).toEqual(['1000'])
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>
    }
    for (const [, script] of lines.join('\n').matchAll(/npm run (?:-s )?(\S+)/g))
      expect(scripts).toHaveProperty(script!)
  })
})
