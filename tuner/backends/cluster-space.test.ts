import { afterEach, beforeEach, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { inspectCluster } from '../../trials/launchers/kubernetes/gpus/cluster-facts.ts'
import { FakeApiServer } from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { listClusterFindings } from '../cli/commands/doctor/run.ts'
import { useWorkspace } from '../config/testing/workspace.ts'
import { fitToCluster } from './cluster-space.ts'

const workspace = useWorkspace()
let fake: FakeApiServer
beforeEach(async () => {
  fake = new FakeApiServer()
  await fake.start()
})
afterEach(() => fake.stop())

const store = (
  kind: 'nodes' | 'resourceslices' | 'deviceclasses',
  name: string,
  object: object,
  labels = {},
) =>
  fake.objects[kind].set(name, {
    ...object,
    metadata: { name, labels, uid: '', resourceVersion: '', creationTimestamp: '' },
  })
const node = (name: string, labels: Record<string, string>, allocatable: Record<string, string>) =>
  store(
    'nodes',
    name,
    { status: { allocatable: { cpu: '8', memory: '32Gi', ...allocatable } } },
    labels,
  )
const publishT4 = () => {
  fake.draVersions = ['v1beta1']
  const attributes = { type: { string: 'gpu' }, productName: { string: 'Tesla T4' } }
  const devices = [
    { name: 'gpu-0', basic: { attributes, capacity: { memory: { value: '15Gi' } } } },
  ]
  store('resourceslices', 's', {
    spec: { driver: 'gpu.nvidia.com', nodeName: 'n', pool: { name: 'n', generation: 1 }, devices },
  })
  store('deviceclasses', 'gpu.nvidia.com', {})
}
const experiment = (kubernetes: object = {}, gpus = ['T4', 'L4', 'H100']) =>
  workspace.loadFile(
    stringify({
      model: 'bert',
      slo: '50ms',
      backend: 'kubernetes',
      space: { gpu: gpus },
      kubernetes: { image: 'i', ...kubernetes },
    }),
  )
const gpusOf = ({ space }: Awaited<ReturnType<typeof fitToCluster>>) => {
  const gpu = space.parameters.find(({ name }) => name === 'gpu')
  return gpu?.kind === 'categorical' ? gpu.values.filter((value) => value !== 'none') : []
}

test('several schemes in one cluster: the space holds what any of them has, and says which model goes by which', async () => {
  node('plain', { 'nvidia.com/gpu.product': 'NVIDIA-L4' }, { 'nvidia.com/gpu': '1' })
  publishT4()
  const fitted = await fitToCluster(await fake.api(), experiment())
  expect(gpusOf(fitted)).toEqual(['T4', 'L4'])
  expect(fitted).toMatchObject({ draVersion: 'v1beta1' })
  expect(fitted.notices).toEqual([
    'GPU schemes, detected on the nodes: nvidia (L4), dra (T4); each trial uses the scheme that fits its share best',
    expect.stringContaining('no node has them: H100'),
  ])
})

test('a scheme of the user’s own keeps the space; dra needs a server that has it', async () => {
  await expect(
    fitToCluster(await fake.api(), experiment({ gpuScheme: 'dra' })),
  ).rejects.toMatchObject({
    message: expect.stringContaining('does not serve resource.k8s.io'),
  })
  publishT4()
  const fitted = await fitToCluster(
    await fake.api(),
    experiment({ gpuScheme: 'dra', dra: { deviceClass: 'shared.example', sharing: 'capacity' } }),
  )
  expect(gpusOf(fitted)).toEqual(['T4', 'L4', 'H100'])
  expect(fitted).toMatchObject({
    gpuScheme: 'dra',
    draVersion: 'v1beta1',
    dra: { deviceClass: 'shared.example', sharing: 'capacity' },
  })
})

test('none of the models is there: said before anything runs', async () => {
  node('plain', { 'nvidia.com/gpu.product': 'NVIDIA-A30' }, { 'nvidia.com/gpu': '1' })
  await expect(fitToCluster(await fake.api(), experiment())).rejects.toMatchObject({
    message: expect.stringContaining('it has A30'),
  })
})

test('doctor lists device classes and what drivers publish', async () => {
  publishT4()
  const findings = listClusterFindings(await inspectCluster(await fake.api())).map(
    ({ what, found }) => `${what}: ${found}`,
  )
  expect(findings).toContain('Device classes: resource.k8s.io/v1beta1: gpu.nvidia.com')
  expect(findings).toContain('GPU: Tesla-T4 (T4) on 1 node, scheme dra: gpu.nvidia.com 1 free of 1')
})
