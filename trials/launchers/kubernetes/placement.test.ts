/** Pods that find no place, or lose it: against an API server of this process. */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Pod } from '@kubernetes/client-node'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { createKubernetesLauncher, type KubernetesLauncher } from './kubernetes-launcher.ts'
import { runLoad } from './launch/load-run.ts'
import { answer, FakeApiServer, status } from './testing/fake-api-server.ts'

let fake: FakeApiServer
let folder: string
let server: Server
const open: KubernetesLauncher[] = []
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tune-placement-'))
  server = createServer((_, response) => response.end('{"ok": true}')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  fake = new FakeApiServer()
  fake.kubelet = runs
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
const runs = (_: V1Pod, set: (status: object) => void) =>
  setImmediate(() =>
    set({
      phase: 'Running',
      podIP: '127.0.0.1',
      conditions: [{ type: 'PodScheduled', status: 'True' }],
      containerStatuses: [
        {
          name: 'main',
          image: 'i',
          imageID: '',
          ready: true,
          restartCount: 0,
          state: { running: {} },
        },
      ],
    }),
  )

const launcher = async (timeouts: object = {}): Promise<KubernetesLauncher> => {
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
    own: { pod: { spec: { containers: [{ name: 'main', image: 'i' }] } }, container: 'main' },
    port: (server.address() as AddressInfo).port,
    parameters: [],
    protocol: protocolFor('json', { path: '/', healthPath: '/', template: '{}' }),
    payload: { kind: 'generated', seed: 1, count: 1 },
    runDirectory: folder,
    connectivity: 'direct',
    timeouts: { unschedulableMs: 100, checkIntervalMs: 20, startMs: 60_000, ...timeouts },
  })
  open.push(made)
  return made
}
/** As its node would. */
const place = (pod: string, nodeName: string) => {
  const stored = fake.objects.pods.get(pod)!
  fake.objects.pods.set(pod, { ...stored, spec: { ...(stored.spec as object), nodeName } })
  fake.setStatus(pod, {})
}

const unplaced = (message: string) => ({
  conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
})
const nodeOf = (spec: object = {}, allocatable: object = { cpu: '2', memory: '4Gi' }) =>
  fake.objects.nodes.set('n', {
    metadata: { name: 'n', uid: '', resourceVersion: '', creationTimestamp: '' },
    spec,
    status: { allocatable },
  })
const asksFor = async (configuration: object, timeouts: object, waits: string[] = []) => {
  const given = unplaced('0/1 nodes are available: 1 Insufficient cpu.')
  fake.kubelet = (_, set) => setImmediate(() => set(given as never))
  return (await launcher(timeouts))
    .launch(configuration as never, 1, never, (what) => waits.push(what))
    .then(
      () => 'it launched',
      (error: unknown) => error,
    )
}

test.each([
  ['no node is large enough', {}, /no node has cpu 64 \(the largest has cpu 2\)/, 64],
  [
    'every node is for others',
    { taints: [{ key: 'dedicated', value: 'db', effect: 'NoSchedule' }] },
    /node n has the taint dedicated=db:NoSchedule, which the pod does not tolerate/,
    1,
  ],
])(
  'that can never have a place, as %s, is told at the first look',
  async (_, spec, message, cpuCores) => {
    nodeOf(spec)
    const startedMs = performance.now()
    expect(
      await asksFor({ cpuCores }, { unschedulableMs: 60_000, checkIntervalMs: 20 }),
    ).toMatchObject({
      name: 'LaunchError',
      final: 'run',
      unplaced: true,
      message: expect.stringMatching(message),
    })
    expect(performance.now() - startedMs).toBeLessThan(30_000)
    expect([...fake.objects.pods.keys()]).toEqual([])
  },
)

test.each([
  ['room that others hold', {}, 1, /^room on node n, which other pods use: 0\/1 nodes/],
  ['a cordoned node', { unschedulable: true }, 1, /^a node that accepts pods: node n is cordoned/],
])('says that it waits for %s, once', async (_, spec, cpuCores, words) => {
  nodeOf(spec)
  const waits: string[] = []
  const error = await asksFor({ cpuCores }, { unschedulableMs: 300, checkIntervalMs: 20 }, waits)
  expect(error).toMatchObject({ name: 'LaunchError', unplaced: true, final: undefined })
  expect(waits).toEqual([expect.stringMatching(words)])
})

test('that an autoscaler may yet find a node for waits for its word, which is said', async () => {
  nodeOf()
  fake.fault = ({ path }, response) => {
    if (path !== '/apis/karpenter.sh') return false
    answer(response, 200, { versions: [] })
    return true
  }
  const waits: string[] = []
  const error = await asksFor(
    { cpuCores: 64 },
    { unschedulableMs: 300, checkIntervalMs: 20 },
    waits,
  )
  expect(error).toMatchObject({ final: 'run' })
  expect(waits).toEqual([
    'a node that an autoscaler may add: no node has cpu 64 (the largest has cpu 2)',
  ])
})

test('that others’ quota has no room for waits for it, says so, and is not tried again', async () => {
  const said =
    'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
  fake.fault = ({ method, path }, response) => {
    if (method !== 'POST' || !path.endsWith('/pods')) return false
    answer(response, 403, status(403, 'Forbidden', said))
    return true
  }
  const waits: string[] = []
  const error = await asksFor({}, { unschedulableMs: 2_500, checkIntervalMs: 20 }, waits)
  expect(error).toMatchObject({
    final: 'run',
    unplaced: true,
    message: expect.stringContaining('exceeded quota'),
  })
  expect(waits).toEqual([expect.stringMatching(/^quota: .*exceeded quota/)])
})

describe('that is gone under load is no word on the configuration, for', () => {
  const deathAfter = async (change: (pod: string) => void | Promise<void>) => {
    const predictor = await (await launcher()).launch({}, 1, never)
    await change(predictor.pod.name)
    fake.remove('pods', predictor.pod.name)
    const death = await predictor.died
    await predictor.stop()
    return death
  }
  test('its node was drained', async () => {
    nodeOf({ unschedulable: true })
    const death = await deathAfter((pod) => {
      place(pod, 'n')
    })
    expect(death).toMatchObject({
      external: true,
      what: expect.stringMatching(/^node n is cordoned/),
    })
  })
  test('its node was tainted', async () => {
    nodeOf({ taints: [{ key: 'sick', effect: 'NoExecute' }] })
    const death = await deathAfter((pod) => {
      place(pod, 'n')
    })
    expect(death).toMatchObject({
      external: true,
      what: expect.stringMatching(/taint sick:NoExecute/),
    })
  })
  test('its owner is gone', async () => {
    const death = await deathAfter(() => {
      for (const job of fake.objects.jobs.keys()) fake.remove('jobs', job)
    })
    expect(death).toMatchObject({
      external: true,
      what: expect.stringMatching(/^another program removed the Job that owns the trial's objects/),
    })
  })
  test('its namespace is being deleted', async () => {
    const death = await deathAfter(() => {
      const said =
        'configmaps "tune-check" is forbidden: unable to create new content in namespace test because it is being terminated'
      fake.fault = ({ method }, response) => {
        if (method !== 'POST') return false
        answer(response, 403, status(403, 'Forbidden', said))
        return true
      }
    })
    expect(death).toMatchObject({
      external: true,
      what: expect.stringMatching(/^namespace test is being deleted/),
    })
  })
  test('somebody removed it', async () => {
    expect(await deathAfter(() => {})).toMatchObject({
      external: true,
      what: expect.stringContaining('is gone'),
    })
  })
})

test('what DaemonSets hold of a node is never free', async () => {
  nodeOf()
  const ownerReferences = [{ kind: 'DaemonSet' }]
  const metadata = { name: 'log-shipper', uid: '', resourceVersion: '', creationTimestamp: '' }
  const containers = [{ resources: { requests: { cpu: '300m' } } }]
  fake.objects.pods.set('log-shipper', {
    metadata: { ...metadata, ownerReferences } as never,
    spec: { nodeName: 'n', containers },
  })
  expect(
    await asksFor({ cpuCores: 1.8 }, { unschedulableMs: 60_000, checkIntervalMs: 20 }),
  ).toMatchObject({
    final: 'run',
    message: expect.stringContaining(
      "no node has cpu 1.8 in addition to the node's own pods (the largest has cpu 2)",
    ),
  })
  // They are counted once.
  expect(await asksFor({ cpuCores: 1.6 }, { unschedulableMs: 300 })).toMatchObject({
    final: undefined,
    hint: expect.stringContaining('node n would have room'),
  })
})

test('a load generator that has never room beside its predictor is told at the first look', async () => {
  nodeOf({}, { cpu: '2', memory: '8Gi' })
  const made = await launcher()
  const predictor = await made.launch({ cpuCores: 1.8 }, 1, never)
  place(predictor.pod.name, 'n')
  fake.jobMade = (job) =>
    fake.put(
      'pods',
      {
        metadata: {
          ...fake.objects.jobs.get(job)!.metadata,
          name: `${job}-x`,
          labels: { ...fake.objects.jobs.get(job)!.metadata.labels, 'job-name': job },
        },
        status: unplaced('0/1 nodes are available: 1 Insufficient cpu.'),
      },
      'ADDED',
    )
  const load = runLoad(
    {
      api: made.api,
      watch: made.watch,
      explainLoss: made.explainLoss,
      experimentId: 'e',
      trial: 1,
      owner: await made.owner(never),
      image: 'i',
      deadlineS: 60,
      onLine: () => true,
      timeouts: { unschedulableMs: 60_000, checkIntervalMs: 20 },
    },
    never,
  )
  await expect(load).rejects.toMatchObject({
    final: 'run',
    unplaced: undefined,
    message: expect.stringContaining(
      "the load generator's pod is unschedulable: no node has cpu 0.5 in addition to the other pods of its trial (the largest has cpu 2)",
    ),
  })
  await predictor.stop()
})
