/** What is checked before the first trial, against an API server of this process. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { stringify } from 'yaml'
import {
  answer,
  FakeApiServer,
  status,
} from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { useWorkspace } from '../experiment/testing/workspace.ts'
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
  expect(cluster.notices).toContainEqual(expect.stringContaining('stay unknown'))
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

test('a payload that no ConfigMap holds is refused at once', async () => {
  workspace.write('bodies.jsonl', 'x'.repeat(2 ** 20 + 1))
  await expect(open({ load: { payload: 'bodies.jsonl' } })).rejects.toMatchObject({
    message: expect.stringContaining('at most 1024 KiB'),
  })
  expect(fake.seen).toEqual([])
})

test('nodes whose GPUs the user wants cut are cut before anything is looked at, told of, and told to go back', async () => {
  const [config, state] = ['nvidia.com/mig.config', 'nvidia.com/mig.config.state']
  const product = {
    'nvidia.com/mig.capable': 'true',
    'nvidia.com/gpu.product': 'NVIDIA-A100-SXM4-40GB',
  }
  fake.objects.nodes.set('gpu-1', {
    metadata: { name: 'gpu-1', labels: product },
    status: { allocatable: { 'nvidia.com/gpu': '1' } },
  } as never)
  const told: string[] = []
  fake.fault = ({ method, path }) => {
    if (method === 'PATCH' && path.endsWith('/nodes/gpu-1'))
      setImmediate(() => {
        const node = fake.objects.nodes.get('gpu-1') as unknown as {
          metadata: { labels: Record<string, string> }
          status: object
        }
        told.push(node.metadata.labels[config]!)
        node.metadata.labels[state] = 'success'
        node.status = { allocatable: { 'nvidia.com/gpu': '0', 'nvidia.com/mig-1g.5gb': '7' } }
      })
    return false
  }
  const space = { gpu: ['A100-40GB'], migProfile: ['1g.5gb'] }
  const cluster = await open({
    space,
    kubernetes: { image: 'i', configureMig: { 'gpu-1': 'all-1g.5gb' } },
  })
  expect(cluster.notices[0]).toMatch(
    /^Node gpu-1 is cut as all-1g.5gb for this run, and told all-disabled at its end/,
  )
  expect(cluster.notices).toContain('GPU scheme mig-mixed, as the nodes are set up')
  await cluster.close()
  expect(told).toEqual(['all-1g.5gb', 'all-disabled'])
})
