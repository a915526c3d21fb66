/** What is checked before the first trial, against an API server of this process. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import {
  answer,
  FakeApiServer,
  status,
} from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { useWorkspace } from '../config/testing/workspace.ts'
import { openKubernetes } from './kubernetes-backend.ts'

const workspace = useWorkspace()
let fake: FakeApiServer
const before = process.env.KUBECONFIG
beforeEach(async () => {
  fake = new FakeApiServer()
  fake.draVersions = ['v1']
  await fake.start()
  const { config } = await fake.api()
  workspace.write('kubeconfig', config.exportConfig())
  process.env.KUBECONFIG = workspace.path('kubeconfig')
})
afterEach(async () => {
  if (before === undefined) delete process.env.KUBECONFIG
  else process.env.KUBECONFIG = before
  await fake.stop()
})

const open = (change: object = {}) => {
  const document = {
    model: 'bert',
    slo: '50ms',
    backend: 'kubernetes',
    space: { gpu: ['T4'] },
    kubernetes: { image: 'i', gpuScheme: 'dra' },
    ...change,
  }
  return openKubernetes(workspace.loadFile(stringify(document)), 'e')
}
const posted = () =>
  fake.seen.filter((one) => one.startsWith('POST')).map((one) => one.split('/').at(-1))

test('every kind of object is tried by the server, and nothing is made', async () => {
  workspace.write('bodies.jsonl', '{}\n')
  const cluster = await open({ load: { payload: 'bodies.jsonl' } })
  expect(posted().filter((kind) => kind !== 'selfsubjectaccessreviews')).toEqual([
    'jobs',
    'pods',
    'resourceclaimtemplates',
    'jobs',
    'pods',
    'configmaps',
  ])
  expect([
    fake.objects.pods.size,
    fake.objects.resourceclaimtemplates.size,
    fake.objects.jobs.size,
    fake.objects.configmaps.size,
  ]).toEqual([0, 0, 0, 0])
  expect(cluster.notices).toContainEqual(expect.stringContaining('will be unknown'))
  await cluster.close()
})

test('a field of the claim that the server drops is named', async () => {
  fake.fault = ({ method, path }, response) => {
    if (method !== 'POST' || !path.endsWith('/resourceclaimtemplates')) return false
    answer(response, 201, {
      apiVersion: 'resource.k8s.io/v1',
      kind: 'ResourceClaimTemplate',
      metadata: {},
      spec: { spec: { devices: {} } },
    })
    return true
  }
  await expect(open()).rejects.toMatchObject({
    message: expect.stringContaining('resource claim template spec.spec.devices.requests'),
  })
})

test('leave to make claims that is not given is said before the first trial', async () => {
  fake.fault = ({ method, path }, response) => {
    if (method !== 'POST' || !path.endsWith('/resourceclaimtemplates')) return false
    answer(
      response,
      403,
      status(403, 'Forbidden', 'resourceclaimtemplates.resource.k8s.io is forbidden'),
    )
    return true
  }
  await expect(open()).rejects.toMatchObject({
    status: 403,
    hint: expect.stringContaining('deploy/base/rbac.yaml'),
  })
})

test('a namespace that is being deleted is said before the first trial', async () => {
  fake.fault = ({ method, path }, response) => {
    if (method !== 'POST' || !path.endsWith('/jobs')) return false
    const said =
      'jobs.batch "tune-check-lease" is forbidden: unable to create new content in namespace test because it is being terminated'
    answer(response, 403, status(403, 'Forbidden', said))
    return true
  }
  await expect(open()).rejects.toMatchObject({
    message: expect.stringContaining('namespace test is being deleted'),
    hint: expect.stringContaining('--namespace'),
  })
})

describe('what can never be placed is said before the first trial, once:', () => {
  const listed = (kind: string, items: object[]) => {
    fake.fault = ({ method, path }, response) => {
      if (method !== 'GET' || !path.endsWith(`/${kind}`)) return false
      answer(response, 200, { items })
      return true
    }
  }
  const space = { gpu: ['T4'], cpuCores: [2, 4] }
  test('a quota without room for a load generator beside the smallest predictor', async () => {
    listed('resourcequotas', [
      { metadata: { name: 'q' }, spec: { hard: { 'requests.cpu': '2400m' } } },
    ])
    await expect(open({ space })).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining(
        'quota q allows requests.cpu 2400m, and a predictor and its load generator together request 2500m',
      ),
    })
    listed('resourcequotas', [
      { metadata: { name: 'q' }, spec: { hard: { 'requests.cpu': '2500m', pods: '2' } } },
      { metadata: { name: 'best-effort' }, spec: { hard: { pods: '0' }, scopes: ['BestEffort'] } },
    ])
    await (await open({ space })).close()
  })
  test('no node that is large enough for the smallest predictor', async () => {
    const node = (cpu: string) => ({
      metadata: { name: `n-${cpu}` },
      status: { allocatable: { cpu, memory: '64Gi' } },
    })
    listed('nodes', [node('1500m')])
    await expect(open({ space })).rejects.toMatchObject({
      message: expect.stringContaining('no node has cpu 2 (the largest has cpu 1.5)'),
    })
    listed('nodes', [node('1500m'), node('3')])
    await (await open({ space })).close()
    listed('nodes', [node('1500m')])
    const kubernetes = { image: 'i', gpuScheme: 'dra', scaleUpTimeout: '1m' }
    await (await open({ space, kubernetes })).close()
  })
})

test('a payload that no ConfigMap holds is refused at once', async () => {
  workspace.write('bodies.jsonl', 'x'.repeat(2 ** 20 + 1))
  await expect(open({ load: { payload: 'bodies.jsonl' } })).rejects.toMatchObject({
    message: expect.stringContaining('at most 1024 KiB'),
  })
  expect(fake.seen).toEqual([])
})
