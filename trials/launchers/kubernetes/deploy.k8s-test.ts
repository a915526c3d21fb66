/**
 * The manifests of deploy/ against a real API server, and trials with no more rights than they
 * grant.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { Api } from './api/api.ts'
import { createKubernetesLauncher } from './kubernetes-launcher.ts'
import { runLoad } from './launch/load-run.ts'
import type { Json } from './manifests/manifests.ts'
import { requestDryRun } from './manifests/server-dry-run.ts'
import { createNamespace, type TestNamespace, testImage } from './testing/namespace.ts'

let namespace: TestNamespace
const folder = mkdtempSync(join(tmpdir(), 'tune-deploy-'))
beforeAll(async () => {
  namespace = await createNamespace()
})
afterAll(async () => {
  await namespace?.remove()
  rmSync(folder, { recursive: true, force: true })
})

const read = (file: string): Json[] =>
  parseAllDocuments(
    readFileSync(fileURLToPath(new URL(`../../../deploy/${file}`, import.meta.url)), 'utf8'),
  ).map((document) => document.toJS() as Json)
const plural: Readonly<Record<string, string>> = {
  ServiceAccount: 'serviceaccounts',
  Role: 'roles',
  RoleBinding: 'rolebindings',
  PersistentVolumeClaim: 'persistentvolumeclaims',
  Job: 'jobs',
  Deployment: 'deployments',
  NetworkPolicy: 'networkpolicies',
}
const pathOf = ({ apiVersion, kind }: Json) =>
  `${apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`}/namespaces/${namespace.name}/${plural[kind as string]}`

test('every object is taken as written', async () => {
  const { minor } = await namespace.api.request<{ minor: string }>('GET', '/version')
  const old = Number.parseInt(minor, 10) < 26
  const others = [
    'dashboard/deployment.yaml',
    'dashboard/rbac.yaml',
    'network-policies/policies.yaml',
  ].flatMap(read)
  const [cronJob] = read('cronjob.yaml')
  // batch/v1 has CronJobs from 1.21 on: its Job is what can be checked everywhere.
  const { jobTemplate } = cronJob!.spec as { jobTemplate: Json }
  const job: Json = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'weekly' },
    ...jobTemplate,
  }
  for (const object of [
    ...read('base/rbac.yaml'),
    ...read('base/volume.yaml'),
    ...read('base/job.yaml'),
    job,
    ...others,
  ]) {
    // Servers before 1.26 have no podFailurePolicy: there a Job that cannot succeed is tried ten
    // times.
    const unknown = (await requestDryRun(namespace.api, pathOf(object), object)).filter(
      (field) => !(old && field === 'spec.podFailurePolicy'),
    )
    expect(unknown, String(object.kind)).toEqual([])
  }
})

test('the Role is enough for a trial, its load, its events and its removal', async () => {
  for (const object of read('base/rbac.yaml')) {
    // The namespace is what `kubectl -n` would fill in.
    const subjects = (object.subjects as Json[] | undefined)?.map((subject) => ({
      ...subject,
      namespace: namespace.name,
    }))
    await namespace.api.request('POST', pathOf(object), {
      body: { ...object, ...(subjects && { subjects }) },
    })
  }
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  config.loadFromDefault()
  const [user, ...others] = config.users.filter(
    ({ name }) => name === config.getCurrentUser()!.name,
  )
  config.users = [
    { ...user!, impersonateUser: `system:serviceaccount:${namespace.name}:tune` },
    ...others,
  ]
  const api = new Api(config, namespace.name)
  await expect(api.request('GET', '/api/v1/nodes')).rejects.toMatchObject({ status: 403 })

  const launcher = createKubernetesLauncher({
    api,
    experimentId: 'rights',
    template: { kind: 'builtin', model: 'bert', engine: 'emulated' },
    image: testImage(),
    port: 8000,
    parameters: [],
    protocol: protocolFor('oip-v2'),
    payload: { kind: 'generated', seed: 1, count: 2 },
    runDirectory: folder,
    connectivity: 'direct',
  })
  const never = new AbortController().signal
  await launcher.sweep()
  const predictor = await launcher.launch({ cpuCores: 0.3, memoryMiB: 400, gpu: 'T4' }, 1, never)
  try {
    const lines: string[] = []
    const owner = await launcher.owner(never)
    const options = {
      api,
      watch: launcher.watch,
      experimentId: 'rights',
      trial: 1,
      owner,
      image: testImage(),
      deadlineS: 60,
      explainLoss: launcher.explainLoss,
    }
    // No task at all: what matters is that the Job runs, is read and is removed.
    const onLine = (line: string) => lines.push(line) < 0
    expect(await runLoad({ ...options, task: '{}', onLine }, never)).toBe(1)
    expect(lines.at(-1)).toContain('error')
    expect(await launcher.watch.events.listEvents(predictor.pod.name, never)).toEqual(
      expect.arrayContaining([expect.objectContaining({ reason: 'Started' })]),
    )
    expect(launcher.watch.events.problem).toBeUndefined()
  } finally {
    await predictor.stop()
    await launcher.close()
  }
  expect(await namespace.leftovers()).toEqual([])
})
