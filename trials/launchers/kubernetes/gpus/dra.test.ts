/**
 * GPUs by dynamic resource allocation, against the official schemas and an API server of this
 * process: no cluster that has it is at hand.
 */
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Pod } from '@kubernetes/client-node'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { protocolFor } from '../../../../profiler/protocols/index.ts'
import { checkManifests } from '../../../../reports/specs/validate.contract.ts'
import { parseResources } from '../../../resources.ts'
import { createKubernetesLauncher } from '../kubernetes-launcher.ts'
import type { KubernetesLauncherOptions } from '../launch/planned-objects.ts'
import type { Json } from '../manifests/manifests.ts'
import { answer, FakeApiServer, status } from '../testing/fake-api-server.ts'
import { inspectCluster } from './cluster-facts.ts'
import { canSatisfyClaim, listSliceDevices, type ResourceSlice } from './device-slices.ts'
import { createClaimTemplate, createDeviceClaim, draSharingModes, draVersions } from './dra.ts'
import { listProducts } from './gpu-names.ts'

const a100 = (configuration: Record<string, string | number> = {}) =>
  parseResources({ gpu: 'A100-40GB', ...configuration })
const claimOf = (asked: ReturnType<typeof a100>, options = {}) =>
  createDeviceClaim(asked, listProducts(asked.gpu!), options)
const attributes = (type: string, productName: string, profile?: string) => ({
  type: { string: type },
  productName: { string: productName },
  ...(profile && { profile: { string: profile } }),
})
const slice = (node: string, devices: object[], generation = 1): ResourceSlice =>
  ({
    spec: {
      driver: 'gpu.nvidia.com',
      nodeName: node,
      pool: { name: node, generation, resourceSliceCount: 1 },
      devices,
    },
  }) as ResourceSlice
const device = (name: string, attributesOf: object, memory: string, more = {}) => ({
  name,
  attributes: attributesOf,
  capacity: { memory: { value: memory } },
  ...more,
})
const boards = slice('a', [
  device('gpu-0', attributes('gpu', 'NVIDIA A100-SXM4-40GB'), '40Gi'),
  device('gpu-1', attributes('gpu', 'NVIDIA A100-SXM4-40GB'), '40Gi'),
])
const sliced = slice('b', [
  device('gpu-0-mig-19-0', attributes('mig', 'NVIDIA A100-SXM4-40GB', '1g.5gb'), '4864Mi'),
])

describe('a claim', () => {
  test.each(
    draVersions.flatMap((version) =>
      [undefined, ...draSharingModes].map((sharing) => [version, sharing] as const),
    ),
  )('of %s, sharing %s, is what the official schema knows', (version, sharing) => {
    const asked = sharing === undefined ? a100() : a100({ gpuMemoryPercent: 25 })
    const template = createClaimTemplate(claimOf(asked, { sharing }), { name: 't' }, version)
    expect(checkManifests(JSON.stringify(template)).problems).toEqual([])
  })

  test('asks for boards by product, whole, sliced and shared', () => {
    expect(createClaimTemplate(claimOf(a100({ gpus: 2 })), { name: 't' }).spec).toEqual({
      spec: {
        devices: {
          requests: [
            {
              name: 'gpu',
              exactly: {
                deviceClassName: 'gpu.nvidia.com',
                allocationMode: 'ExactCount',
                count: 2,
                selectors: [
                  {
                    cel: {
                      expression:
                        "device.attributes['gpu.nvidia.com'].productName.matches('^(NVIDIA[ -]A100[ -]SXM4[ -]40GB|NVIDIA[ -]A100[ -]PCIE[ -]40GB|A100[ -]SXM4[ -]40GB|A100[ -]PCIE[ -]40GB)$')",
                    },
                  },
                ],
              },
            },
          ],
        },
      },
    })
    const slicedClaim = claimOf(a100({ migProfile: '1g.5gb' }))
    expect(slicedClaim).toMatchObject({ deviceClass: 'mig.nvidia.com', count: 1 })
    expect(slicedClaim.selectors[1]).toBe("device.attributes['gpu.nvidia.com'].profile == '1g.5gb'")
    expect(slicedClaim.config).toBeUndefined()

    const quarter = a100({ gpuMemoryPercent: 25 })
    expect(claimOf(quarter).config).toMatchObject({
      kind: 'GpuConfig',
      sharing: {
        strategy: 'MPS',
        mpsConfig: {
          defaultActiveThreadPercentage: 25,
          defaultPinnedDeviceMemoryLimit: `${quarter.gpuMemoryMiB}Mi`,
        },
      },
    })
    expect(claimOf(quarter, { sharing: 'time-slicing' }).config).toMatchObject({
      sharing: { strategy: 'TimeSlicing' },
    })
    const byCapacity = createClaimTemplate(
      claimOf(quarter, { sharing: 'capacity', deviceClass: 'shared.example' }),
      { name: 't' },
      'v1beta1',
    )
    expect(byCapacity).toMatchObject({
      spec: {
        spec: {
          devices: {
            requests: [
              {
                deviceClassName: 'shared.example',
                capacity: { requests: { memory: `${quarter.gpuMemoryMiB}Mi` } },
              },
            ],
          },
        },
      },
    })
    expect(byCapacity).not.toHaveProperty('spec.spec.devices.config')
  })

  test('a product selector takes the driver’s name of every board and no longer one', () => {
    const pattern = (gpu: string) =>
      new RegExp(/matches\('(.*)'\)/.exec(claimOf(parseResources({ gpu })).selectors[0]!)![1]!)
    expect(pattern('T4').test('Tesla T4')).toBe(true)
    expect(pattern('A100-80GB-PCIe').test('NVIDIA A100 80GB PCIe')).toBe(true)
    expect(pattern('L4').test('NVIDIA L4')).toBe(true)
    expect(pattern('L4').test('NVIDIA L40S')).toBe(false)
  })
})

describe('published devices', () => {
  test('are read of every version, of the newest generation of a pool, and of this driver alone', () => {
    const old = slice('a', [device('gpu-7', attributes('gpu', 'NVIDIA L4'), '24Gi')], 0)
    const { name, ...published } = device('gpu-0', attributes('gpu', 'Tesla T4'), '15Gi')
    const v1beta1 = slice('c', [{ name, basic: published }])
    const network = { spec: { ...boards.spec, driver: 'nic.example', pool: { name: 'nics' } } }
    const found = listSliceDevices([old, boards, v1beta1, network])
    expect(found.map(({ product, node }) => `${product} on ${node}`)).toEqual([
      'NVIDIA-A100-SXM4-40GB on a',
      'NVIDIA-A100-SXM4-40GB on a',
      'Tesla-T4 on c',
    ])
    expect(found[2]).toMatchObject({ memoryMiB: 15 * 1024, divisible: false })
  })

  test('meet a claim where one node has enough of them', () => {
    const devices = listSliceDevices([boards, sliced])
    expect(canSatisfyClaim(devices, claimOf(a100({ gpus: 2 })))).toBe(true)
    expect(canSatisfyClaim(devices, claimOf(a100({ gpus: 3 })))).toBe(false)
    expect(canSatisfyClaim(devices, claimOf(a100({ migProfile: '1g.5gb' })))).toBe(true)
    expect(canSatisfyClaim(devices, claimOf(a100({ migProfile: '2g.10gb' })))).toBe(false)
    expect(canSatisfyClaim(devices, claimOf(parseResources({ gpu: 'L4' })))).toBe(false)
    expect(canSatisfyClaim(devices, claimOf(a100({ gpuMemoryPercent: 25 })))).toBe(true)
    expect(
      canSatisfyClaim(devices, claimOf(a100({ gpuMemoryPercent: 25 }), { sharing: 'capacity' })),
    ).toBe(false)
  })
})

describe('on a cluster', () => {
  let fake: FakeApiServer
  let server: Server
  let folder: string
  const open: { close(): Promise<void> }[] = []
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'tune-dra-'))
    server = createServer((_, response) => response.end('{"ok": true}')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    fake = new FakeApiServer()
    fake.draVersions = ['v1', 'v1beta2']
    fake.kubelet = (_, set) => setImmediate(() => set(running))
    await fake.start()
  })
  afterEach(async () => {
    fake.fault = undefined
    await Promise.all(open.splice(0).map((one) => one.close()))
    await fake.stop()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const state = { running: {} }
  const running = {
    conditions: [{ type: 'PodScheduled', status: 'True' }],
    phase: 'Running',
    podIP: '127.0.0.1',
    containerStatuses: [
      { name: 'main', image: 'i', imageID: '', ready: true, restartCount: 0, state },
    ],
  } as V1Pod['status']
  const publish = (...slices: ResourceSlice[]) => {
    for (const [i, one] of slices.entries()) store('resourceslices', `slice-${i}`, one)
  }
  const store = (
    kind: 'resourceslices' | 'resourceclaims' | 'deviceclasses' | 'nodes',
    name: string,
    object: object,
  ) =>
    fake.objects[kind].set(name, {
      ...object,
      metadata: { name, uid: '', resourceVersion: '', creationTimestamp: '' },
    })
  const never = new AbortController().signal
  const launcher = async (options: Partial<KubernetesLauncherOptions> = {}) => {
    const made = createKubernetesLauncher({
      api: await fake.api(),
      experimentId: 'e',
      template: {
        kind: 'command',
        model: 'm',
        command: [],
        protocol: 'json',
        path: '/',
        readyTimeoutS: 5,
      },
      own: {
        pod: {
          spec: {
            containers: [{ name: 'main', image: 'i', resources: { claims: [{ name: 'nic' }] } }],
          },
        },
        container: 'main',
      },
      port: (server.address() as AddressInfo).port,
      parameters: [{ name: 'gpu', category: 'resource' }],
      protocol: protocolFor('json', { path: '/', healthPath: '/', template: '{}' }),
      payload: { kind: 'generated', seed: 1, count: 1 },
      runDirectory: folder,
      connectivity: 'direct',
      gpuScheme: 'dra',
      draVersion: 'v1',
      timeouts: { unschedulableMs: 100, checkIntervalMs: 20, startMs: 400 },
      ...options,
    })
    open.push(made)
    return made
  }

  test('a trial makes a template and a pod that claims by it, both valid and owned; both go', async () => {
    const made = await launcher()
    const predictor = await made.launch({ gpu: 'A100-40GB' }, 1, never)
    const [template] = [...fake.objects.resourceclaimtemplates.values()]
    const [pod] = [...fake.objects.pods.values()]
    const sent = ({
      metadata: { uid: _, resourceVersion: __, creationTimestamp: ___, ...metadata },
      status: ____,
      ...rest
    }: Json & { metadata: Json }) => ({
      ...rest,
      metadata,
    })
    expect(checkManifests(JSON.stringify(sent(template as never))).problems).toEqual([])
    expect(checkManifests(JSON.stringify(sent(pod as never))).problems).toEqual([])
    expect(template!.metadata).toMatchObject({
      name: predictor.pod.name,
      ownerReferences: [{ kind: 'Job' }],
      labels: { 'tune/trial': '1' },
    })
    expect(pod!.spec).toMatchObject({
      resourceClaims: [{ name: 'tuned-gpu', resourceClaimTemplateName: predictor.pod.name }],
      tolerations: [{ key: 'nvidia.com/gpu' }],
      containers: [{ resources: { claims: [{ name: 'nic' }, { name: 'tuned-gpu' }] } }],
    })
    await predictor.stop()
    expect(fake.objects.resourceclaimtemplates.size).toBe(0)
  })

  test('a template that was left is swept; nothing is asked that the Role does not grant', async () => {
    const made = await launcher()
    const predictor = await made.launch({ gpu: 'A100-40GB' }, 1, never)
    const [left] = [...fake.objects.resourceclaimtemplates.values()]
    await predictor.stop()
    fake.objects.resourceclaimtemplates.set('left', {
      ...left!,
      metadata: { ...left!.metadata, name: 'left' },
    })
    await made.sweep()
    expect(fake.objects.resourceclaimtemplates.size).toBe(0)
    const role = readFileSync(new URL('../../../../deploy/base/rbac.yaml', import.meta.url), 'utf8')
    const { rules } = parseAllDocuments(role)[1]!.toJS() as {
      rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[]
    }
    const granted = rules.find(({ resources }) => resources.includes('resourceclaimtemplates'))!
    const verbs = { POST: 'create', DELETE: 'delete', GET: 'list' } as const
    const asked = fake.seen
      .filter((one) => one.includes('/resourceclaimtemplates'))
      .map((one) => verbs[one.split(' ')[0] as 'GET'])
    expect(granted).toMatchObject({
      apiGroups: ['resource.k8s.io'],
      verbs: expect.arrayContaining([...new Set(asked)]),
    })
    expect(new Set(asked).size).toBe(3)
  })

  test('a template that is refused is a failed trial, in the server’s words', async () => {
    fake.fault = ({ method, path }, response) => {
      if (method !== 'POST' || !path.endsWith('/resourceclaimtemplates')) return false
      answer(
        response,
        403,
        status(
          403,
          'Forbidden',
          'resourceclaimtemplates is forbidden: User "u" cannot create resource',
        ),
      )
      return true
    }
    await expect((await launcher()).launch({ gpu: 'A100-40GB' }, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('User "u" cannot create'),
    })
  })

  describe('that has no node for the claim', () => {
    const why = '0/2 nodes are available: 2 cannot allocate all claims.'
    const launched = async (message = why): Promise<unknown> => {
      const conditions = [
        { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message },
      ]
      fake.kubelet = (_, set) => setImmediate(() => set({ conditions } as V1Pod['status']))
      return (await launcher()).launch({ gpu: 'A100-40GB' }, 1, never).then(
        () => 'it launched',
        (error: unknown) => error,
      )
    }
    test('for want of the device: no place for now, with the scheduler’s reason', async () => {
      publish(sliced)
      expect(await launched()).toMatchObject({
        name: 'LaunchError',
        final: 'run',
        message: expect.stringMatching(
          /no node has 1 x NVIDIA-A100.* of class gpu\.nvidia\.com.*cannot allocate all claims/,
        ),
      })
      expect(fake.objects.resourceclaimtemplates.size).toBe(0)
    })
    test('while others hold the device: no word on the configuration', async () => {
      publish(boards)
      expect(await launched()).toMatchObject({
        name: 'LaunchError',
        hint: expect.stringContaining('but other pods use it'),
      })
    })
    test('where devices may not be seen: the scheduler’s word alone', async () => {
      fake.fault = ({ path }, response) => {
        if (!path.endsWith('/resourceslices')) return false
        answer(response, 403, status(403, 'Forbidden', 'resourceslices is forbidden'))
        return true
      }
      expect(await launched()).toMatchObject({
        name: 'LaunchError',
        final: 'run',
        message: `unschedulable: ${why}`,
      })
    })
    test('for want of the class: a failure that says where to name it', async () => {
      expect(
        await launched('request gpu: device class gpu.nvidia.com does not exist'),
      ).toMatchObject({
        name: 'LaunchError',
        hint: expect.stringContaining('kubernetes.dra.deviceClass'),
      })
    })
  })

  test('its devices are listed with what claims hold of them, and trials go by them', async () => {
    const divisible = slice('c', [
      device('gpu-0', attributes('gpu', 'NVIDIA L4'), '24Gi', { allowMultipleAllocations: true }),
    ])
    publish(boards, sliced, divisible)
    store('deviceclasses', 'gpu.nvidia.com', {})
    const results = [{ request: 'gpu', driver: 'gpu.nvidia.com', pool: 'a', device: 'gpu-1' }]
    store('resourceclaims', 'held', { status: { allocation: { devices: { results } } } })
    const facts = await inspectCluster(await fake.api())
    expect(facts.dra).toEqual({ version: 'v1', deviceClasses: ['gpu.nvidia.com'] })
    expect(facts.gpus).toEqual([
      {
        product: 'NVIDIA-A100-SXM4-40GB',
        gpu: 'A100-40GB',
        scheme: 'dra',
        nodes: 2,
        memoryMiB: 40960,
        resources: {
          'gpu.nvidia.com': { total: 2, free: 1 },
          'mig.nvidia.com 1g.5gb': { total: 1, free: 1 },
        },
      },
      {
        product: 'NVIDIA-L4',
        gpu: 'L4',
        scheme: 'dra',
        nodes: 1,
        memoryMiB: 24576,
        divisible: true,
        resources: { 'gpu.nvidia.com': { total: 1, free: 1 } },
      },
    ])
    const made = await launcher({ gpuScheme: undefined, availableGpus: facts.gpus })
    const owner = { name: 'o', uid: 'u' }
    expect(
      made.objectsFor({ gpu: 'L4', gpuMemoryPercent: 50 }, 1, owner, 'p')[0]!.claim,
    ).toMatchObject({ byCapacity: true, count: 1 })
    expect(
      made.objectsFor({ gpu: 'A100-40GB', migProfile: '1g.5gb' }, 1, owner, 'p')[0]!.claim,
    ).toMatchObject({
      deviceClass: 'mig.nvidia.com',
    })
    expect(() =>
      made.objectsFor({ gpu: 'A100-40GB', migProfile: '2g.10gb' }, 1, owner, 'p'),
    ).toThrow(/cannot provide the slice 2g\.10gb/)
  })
})
