/**
 * deploy/overlay on a real cluster, with no right beyond its own, in a namespace with Pod
 * Security's restricted profile and a quota: the tuner as a Job that loses its pod, and the page of
 * what it does. TUNE_KUBECTL, where it names one (1.21 or newer), renders it; else what it lists is
 * put together here.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { V1Job, V1Pod } from '@kubernetes/client-node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { Api } from '../../trials/launchers/kubernetes/api/api.ts'
import { connectToPod } from '../../trials/launchers/kubernetes/launch/pod-connection.ts'
import type { Json } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
import { restrict } from '../../trials/launchers/kubernetes/testing/restricted-namespace.ts'

const tunerImage = process.env.TUNE_K8S_TUNER_IMAGE
let namespace: TestNamespace
let policy: Awaited<ReturnType<typeof restrict>>
/** Stands for the volume: a folder of this machine, which is the node's too. */
let store: string
/** A user's copy of deploy/. */
let copy: string
beforeAll(async () => {
  store = mkdtempSync(join(tmpdir(), 'tune-store-'))
  chmodSync(store, 0o777)
  copy = mkdtempSync(join(tmpdir(), 'tune-deploy-'))
  cpSync(fileURLToPath(new URL('../../deploy', import.meta.url)), copy, { recursive: true })
  namespace = await createNamespace()
  policy = await restrict(namespace)
  const hard = { 'limits.cpu': '8', 'limits.memory': '8Gi', 'requests.cpu': '8', pods: '10' }
  await namespace.api.request('POST', `/api/v1/namespaces/${namespace.name}/resourcequotas`, {
    body: { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'all' }, spec: { hard } },
  })
})
afterAll(async () => {
  await policy?.end()
  await namespace?.remove()
  const volume = `/api/v1/persistentvolumes/${namespace.name}`
  await namespace.api.request('DELETE', volume)
  for (const folder of [store, copy]) rmSync(folder, { recursive: true, force: true })
})

const paths: Readonly<Record<string, string>> = {
  ServiceAccount: '/api/v1/namespaces/NS/serviceaccounts',
  Role: '/apis/rbac.authorization.k8s.io/v1/namespaces/NS/roles',
  RoleBinding: '/apis/rbac.authorization.k8s.io/v1/namespaces/NS/rolebindings',
  PersistentVolume: '/api/v1/persistentvolumes',
  PersistentVolumeClaim: '/api/v1/namespaces/NS/persistentvolumeclaims',
  ConfigMap: '/api/v1/namespaces/NS/configmaps',
  Job: '/apis/batch/v1/namespaces/NS/jobs',
  Deployment: '/apis/apps/v1/namespaces/NS/deployments',
  NetworkPolicy: '/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies',
}
const create = (object: Json) =>
  namespace.api.request('POST', paths[object.kind as string]!.replace('NS', namespace.name), {
    body: object,
  })

interface Kustomization {
  readonly resources: readonly string[]
  readonly [field: string]: unknown
}

/**
 * What `kubectl apply -k deploy/overlay` makes of a copy in which the user has set namespace, image
 * and experiment.
 */
function overlay(experiment: object): Json[] {
  const file = join(copy, 'overlay/kustomization.yaml')
  const written = parse(readFileSync(file, 'utf8')) as Kustomization
  const [newName, newTag] = tunerImage!.split(':')
  writeFileSync(
    file,
    stringify({
      ...written,
      namespace: namespace.name,
      images: [{ name: 'tune', newName, newTag }],
    }),
  )
  writeFileSync(join(copy, 'overlay/experiment.yaml'), JSON.stringify(experiment))
  const kubectl = process.env.TUNE_KUBECTL
  if (kubectl !== undefined)
    return objectsOf(
      execFileSync(kubectl, ['kustomize', join(copy, 'overlay')], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    )
  const objects = written.resources.flatMap((folder) => {
    const { resources } = parse(
      readFileSync(join(copy, 'overlay', folder, 'kustomization.yaml'), 'utf8'),
    ) as Kustomization
    return resources.flatMap((one) =>
      objectsOf(readFileSync(join(copy, 'overlay', folder, one), 'utf8')),
    )
  })
  const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'tune-experiment' } }
  const data = { 'experiment.yaml': JSON.stringify(experiment) }
  return JSON.parse(JSON.stringify([{ ...configMap, data }, ...objects]), (key, value) =>
    key === 'image' && value === 'tune' ? tunerImage : value,
  ) as Json[]
}
const objectsOf = (text: string) =>
  parseAllDocuments(text).map((document) => document.toJS() as Json)

const podsOf = async (app: string) =>
  (
    await namespace.api.request<{ items: V1Pod[] }>(
      'GET',
      `/api/v1/namespaces/${namespace.name}/pods`,
      {
        query: { labelSelector: `app.kubernetes.io/name=${app}` },
      },
    )
  ).items
const logOf = async (pod: string): Promise<string> => {
  const response = await namespace.api.stream(
    `/api/v1/namespaces/${namespace.name}/pods/${pod}/log`,
    {},
    AbortSignal.timeout(20_000),
  )
  let text = ''
  for await (const chunk of response) text += chunk
  return text
}
const said = async (app: string): Promise<string> => {
  const [pod] = await podsOf(app)
  return pod === undefined ? '' : logOf(pod.metadata!.name!).catch(() => '')
}

test('a tuner whose pod is killed goes on with its experiment to the end, and the dashboard shows it', {
  timeout: 420_000,
}, async ({ skip }) => {
  if (!tunerImage) skip('TUNE_K8S_TUNER_IMAGE names no image with all of tune')
  if (new URL(namespace.api.server).hostname === '127.0.0.1') skip('its node is not this machine')
  const experiment = {
    model: 'bert',
    slo: '300ms',
    backend: 'kubernetes',
    devices: 'emulated',
    space: {
      cpuCores: [0.3],
      memoryMiB: [400],
      gpu: ['T4'],
      gpuMemoryPercent: [100],
      batchSize: [1, 2, 4, 8],
    },
    kubernetes: { image: testImage() },
    budget: { maxTrials: 3 },
    load: { trialTime: '3s' },
    confirm: false,
  }
  const { name } = namespace
  await create({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteOnce'],
      hostPath: { path: store },
      claimRef: { namespace: name, name: 'tune-store' },
    },
  })
  const objects = overlay(experiment)
  expect(new Set(objects.map(({ kind }) => kind))).not.toContain('ClusterRole')
  for (const object of objects) await create(object)

  await until(async () => /✓ #1/.test(await said('tune')))
  const [first] = await podsOf('tune')
  await namespace.api.request(
    'DELETE',
    `/api/v1/namespaces/${name}/pods/${first!.metadata!.name}`,
    { query: { gracePeriodSeconds: 0 } },
  )
  const job = () =>
    namespace.api.request<V1Job>('GET', `/apis/batch/v1/namespaces/${name}/jobs/tune`)
  for (let tries = 0; tries < 3; tries++) {
    const over = await until(
      async () =>
        (await job()).status?.conditions?.some(({ status }) => status === 'True') === true,
    ).then(
      () => true,
      () => false,
    )
    if (over) break
  }
  const { status } = await job()
  const log = await said('tune')
  expect(status?.conditions, log).toMatchObject([{ type: 'Complete', status: 'True' }])
  // What the first had finished was not run again.
  expect(log).toMatch(/#2/)
  expect(log).not.toMatch(/trial 1 of/)
  expect(existsSync(join(store, 'results'))).toBe(true)
  // Nothing of the trials is left, of neither tuner.
  expect(
    (await namespace.leftovers()).filter((object) => /tune-bert|-lease|-load/.test(object)),
  ).toEqual([])

  await seenByViewer()
  expect(policy.refusals).toEqual([])
})

/** Who is bound to the viewer's Role alone forwards the dashboard's port and looks. */
async function seenByViewer(): Promise<void> {
  const { name } = namespace
  const ready = async () =>
    (await podsOf('tune-dashboard')).find((pod) =>
      pod.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True'),
    )
  await until(async () => (await ready()) !== undefined)
  const subjects = [{ kind: 'User', name: 'viewer', apiGroup: 'rbac.authorization.k8s.io' }]
  const roleRef = {
    kind: 'Role',
    name: 'tune-dashboard-viewer',
    apiGroup: 'rbac.authorization.k8s.io',
  }
  const binding = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'viewer' },
    roleRef,
    subjects,
  }
  await namespace.api.request('POST', paths.RoleBinding!.replace('NS', name), { body: binding })
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  config.loadFromDefault()
  const [user, ...others] = config.users.filter(
    ({ name }) => name === config.getCurrentUser()!.name,
  )
  config.users = [{ ...user!, impersonateUser: 'viewer' }, ...others]
  const api = new Api(config, name)
  await expect(api.request('GET', `/api/v1/namespaces/${name}/configmaps`)).rejects.toMatchObject({
    status: 403,
  })
  const pod = (await ready())!
  const way = await connectToPod(api, 'port-forward', {
    name: pod.metadata!.name!,
    ip: '',
    port: 4455,
  })
  try {
    const page = await fetch(way.url)
    expect(page.status).toBe(200)
    expect(await page.text()).toContain('<html')
  } finally {
    await way.close()
    api.close()
  }
}
