/** Pipelines of pods against an API server of this process. */
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Pod, V1Service } from '@kubernetes/client-node'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import type { Configuration } from '../../../search/types.ts'
import { launcherContract } from '../launcher.contract.ts'
import type { KubernetesLauncher } from './kubernetes-launcher.ts'
import type { KubernetesLauncherOptions } from './launch/planned-objects.ts'
import { createKubernetesPipelineLauncher } from './pipeline-launcher.ts'
import { answer, FakeApiServer, status } from './testing/fake-api-server.ts'

let fake: FakeApiServer
let folder: string
let server: Server
const open: KubernetesLauncher[] = []
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tune-fake-pipeline-'))
  server = createServer((_, response) => response.end('{"ok": true}')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  fake = new FakeApiServer()
  fake.kubelet = run
  await fake.start()
})
afterEach(async () => {
  fake.fault = undefined
  await Promise.all(open.splice(0).map((launcher) => launcher.close()))
  await fake.stop()
  server.close()
  rmSync(folder, { recursive: true, force: true })
})

const never = new AbortController().signal

const createStatus = (state: object, ready = true) => ({
  phase: 'running' in state ? 'Running' : 'Failed',
  podIP: '127.0.0.1',
  conditions: [
    { type: 'PodScheduled', status: 'True' },
    { type: 'Ready', status: ready ? 'True' : 'False' },
  ],
  containerStatuses: [
    { name: 'main', image: 'i', imageID: '', ready: true, restartCount: 0, state },
  ],
})
const running = createStatus({ running: {} })
const outOfMemory = createStatus({ terminated: { exitCode: 137, reason: 'OOMKilled' } })

/** As its node would. */
function place(pod: string): void {
  const stored = fake.objects.pods.get(pod)
  if (stored === undefined) return
  fake.objects.pods.set(pod, { ...stored, spec: { ...(stored.spec as object), nodeName: 'n' } })
}

function run({ metadata, spec }: V1Pod, set: (status: object) => void): void {
  const isSmall = spec!.containers[0]!.resources?.limits?.memory === '1Mi'
  setImmediate(() => {
    place(metadata!.name!)
    set(isSmall ? outOfMemory : running)
  })
}

const stageOf = ({ metadata }: V1Pod): string => metadata!.labels!['tune/stage']!
const podsOf = (stage: string): V1Pod[] =>
  ([...fake.objects.pods.values()] as unknown as V1Pod[]).filter((pod) => stageOf(pod) === stage)

const createLauncher = async (
  change: Partial<KubernetesLauncherOptions> = {},
): Promise<KubernetesLauncher> => {
  const api = await fake.api()
  const createOptions = (args: string[]): KubernetesLauncherOptions => ({
    api,
    experimentId: 'e',
    template: {
      kind: 'command',
      model: 'm',
      command: [],
      protocol: 'json',
      path: '/',
      readyTimeoutS: 5,
    },
    own: { pod: { spec: { containers: [{ name: 'main', image: 'i', args }] } }, container: 'main' },
    port: (server.address() as AddressInfo).port,
    parameters: [],
    protocol: protocolFor('json', { path: '/', healthPath: '/', template: '{}' }),
    payload: { kind: 'generated', seed: 1, count: 1 },
    runDirectory: folder,
    connectivity: 'direct',
    timeouts: { unschedulableMs: 100, checkIntervalMs: 20, startMs: 5_000 },
    ...change,
  })
  const created = createKubernetesPipelineLauncher({
    pipeline: {
      stages: [
        { name: 'first', calls: [{ stage: 'second', ratio: 1 }], parallelCalls: false },
        { name: 'second', calls: [], parallelCalls: false },
      ],
    },
    stages: new Map([
      ['first', createOptions(['--next=${stages.second.url}'])],
      ['second', createOptions([])],
    ]),
  })
  open.push(created)
  return created
}

const configuration: Configuration = {
  'first.cpuCores': 1,
  'first.replicas': 1,
  'second.cpuCores': 2,
  'second.replicas': 2,
}

launcherContract('the Kubernetes launcher of pipelines', {
  create: () => createLauncher(),
  good: configuration,
  other: { skip: 'the fake has one server for all its pods; on a real cluster it is tested' },
  infeasible: {
    configuration: { ...configuration, 'second.memoryMiB': 1 },
    reason: 'out-of-memory',
  },
  leftovers: () =>
    [
      ...fake.objects.pods.keys(),
      ...fake.objects.jobs.keys(),
      ...fake.objects.services.keys(),
    ].filter((name) => !name.includes('-lease-')),
  abortAfterMs: [0, 5, 15, 40],
})

describe('the pods of a pipeline', () => {
  test('called stages first, each behind a Service whose address reaches the caller', async () => {
    const predictor = await (await createLauncher()).launch(configuration, 3, never)
    const pods = [...fake.objects.pods.values()] as unknown as V1Pod[]
    expect(pods.map(stageOf)).toEqual(['second', 'second', 'first'])
    const services = [...fake.objects.services.values()] as unknown as V1Service[]
    expect(services).toMatchObject([
      {
        metadata: { ownerReferences: [{ kind: 'Job' }] },
        spec: { selector: { 'tune/trial': '3', 'tune/stage': 'second' } },
      },
    ])
    const { port } = server.address() as AddressInfo
    const { spec, metadata } = podsOf('first')[0]!
    const { name } = services[0]!.metadata!
    expect(spec!.containers[0]!.args).toEqual([`--next=http://${name}.test.svc:${port}`])
    expect(metadata!.ownerReferences).toMatchObject([{ kind: 'Job' }])
    for (const stage of ['first', 'second-1', 'second-2'])
      expect(existsSync(join(folder, 'trials', '3', stage))).toBe(true)
    expect(predictor.isolation).toMatch(/^first: pod .*cpu 1.*; second: pod .*cpu 2/)
    expect(predictor.pod).toMatchObject({
      name: metadata!.name,
      urls: [`http://127.0.0.1:${port}`],
      nodes: ['n'],
    })
  })

  test('several replicas of the entry share the load', async () => {
    const entryOfTwo = { ...configuration, 'first.replicas': 2 }
    const predictor = await (await createLauncher()).launch(entryOfTwo, 1, never)
    expect(predictor.pod.urls).toHaveLength(2)
    expect(predictor.target).toMatchObject({ replicas: [{ weight: 1 }, { weight: 1 }] })
    await predictor.stop()
    const throughService = await createLauncher({ usesService: true })
    const { pod } = await throughService.launch(entryOfTwo, 2, never)
    const stages = ([...fake.objects.services.values()] as unknown as V1Service[]).map(
      ({ metadata, spec }) => [spec!.selector!['tune/stage'], metadata!.name],
    )
    expect(stages).toEqual([
      ['second', expect.any(String)],
      ['first', /\/\/([^.]+)/.exec(pod.serviceUrl!)![1]],
    ])
  })

  test('a stage that its Service does not reach is told as such', async () => {
    fake.kubelet = (_, set) => setImmediate(() => set(createStatus({ running: {} }, false)))
    const template = {
      kind: 'command',
      model: 'm',
      command: [],
      protocol: 'json',
      path: '/',
      readyTimeoutS: 0.3,
    } as const
    const launcher = await createLauncher({ template })
    await expect(launcher.launch(configuration, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringMatching(/^stage second: the server answers, but its pod is not ready/),
      hint: expect.stringContaining('readinessProbe'),
    })
  })
})

describe('a stage that dies', () => {
  test('under load is named, with its reason', async () => {
    const predictor = await (await createLauncher()).launch(configuration, 1, never)
    fake.setStatus(podsOf('second')[1]!.metadata!.name!, outOfMemory)
    expect(await predictor.died).toMatchObject({
      what: expect.stringMatching(/^stage second: out of memory/),
      outOfMemory: true,
    })
  })

  test('while its caller starts ends the launch', async () => {
    fake.kubelet = (pod, set) => {
      if (stageOf(pod) === 'second') return run(pod, set)
      fake.setStatus(podsOf('second')[0]!.metadata!.name!, outOfMemory)
    }
    await expect((await createLauncher()).launch(configuration, 1, never)).rejects.toMatchObject({
      name: 'InfeasibleError',
      message: expect.stringMatching(/^stage second: out of memory/),
    })
    expect([...fake.objects.pods.keys(), ...fake.objects.services.keys()]).toEqual([])
  })
})

describe('stages that find no room', () => {
  const message = '0/1 nodes are available: 1 Insufficient cpu.'
  const unplaced = {
    conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
  }
  const addNode = (cpu: string) =>
    fake.objects.nodes.set('n', {
      metadata: { name: 'n', uid: '', resourceVersion: '', creationTimestamp: '' },
      spec: {},
      status: { allocatable: { cpu, memory: '4Gi' } },
    })

  test('beside those of their own trial are told at once', async () => {
    addNode('4500m')
    fake.kubelet = (pod, set) => {
      if (stageOf(pod) === 'second') return run(pod, set)
      setImmediate(() => set(unplaced as never))
    }
    const launcher = await createLauncher({
      timeouts: { unschedulableMs: 60_000, checkIntervalMs: 20 },
    })
    await expect(launcher.launch(configuration, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      final: 'run',
      message: expect.stringMatching(
        /^stage first: unschedulable: no node has cpu 1 in addition to the other pods of its trial/,
      ),
    })
  })

  test('in two trials that wait for each other: the later one gives up', async () => {
    addNode('100')
    const waiting = new Set<string>()
    fake.kubelet = (pod, set) => {
      if (stageOf(pod) === 'second') return run(pod, set)
      waiting.add(pod.metadata!.name!)
      setImmediate(() => set(unplaced as never))
    }
    const launcher = await createLauncher({
      timeouts: { unschedulableMs: 400, checkIntervalMs: 20, startMs: 60_000 },
    })
    const first = launcher.launch(configuration, 1, never)
    const second = launcher.launch(configuration, 2, never)
    await expect(second).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringMatching(/^stage first: unschedulable/),
    })
    expect(podsOf('second').map(({ metadata }) => metadata!.labels!['tune/trial'])).toEqual([
      '1',
      '1',
    ])
    for (const name of waiting) {
      place(name)
      fake.setStatus(name, running)
    }
    await (await first).stop()
  })

  test('in a quota that their own trial uses up cannot serve', async () => {
    fake.fault = ({ method, path }, response) => {
      if (method !== 'POST' || !path.endsWith('/pods') || podsOf('second').length < 2) return false
      const said =
        'pods "x" is forbidden: exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=4, limited: limits.cpu=4'
      answer(response, 403, status(403, 'Forbidden', said))
      return true
    }
    await expect((await createLauncher()).launch(configuration, 1, never)).rejects.toMatchObject({
      name: 'InfeasibleError',
      message: expect.stringMatching(/^stage first: .*exceeded quota: q/),
    })
  })
})
