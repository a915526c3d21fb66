/**
 * The launcher against an API server of this process, which fails in ways that a real one cannot be
 * told to.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Pod } from '@kubernetes/client-node'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { registerSecret } from '../../secrets.ts'
import { launcherContract } from '../launcher.contract.ts'
import type { Api } from './api/api.ts'
import { createKubernetesLauncher, type KubernetesLauncher } from './kubernetes-launcher.ts'
import { answer, FakeApiServer, status } from './testing/fake-api-server.ts'

let fake: FakeApiServer
let folder: string
let pods: Server
const open: KubernetesLauncher[] = []
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tune-fake-k8s-'))
  pods = createServer((_, response) => response.end('{"ok": true}')).listen(0, '127.0.0.1')
  await once(pods, 'listening')
  fake = new FakeApiServer()
  fake.kubelet = runs
  await fake.start()
})
afterEach(async () => {
  fake.fault = undefined
  await Promise.all(open.splice(0).map((launcher) => launcher.close()))
  await fake.stop()
  pods.close()
  rmSync(folder, { recursive: true, force: true })
})

const scheduled = { conditions: [{ type: 'PodScheduled', status: 'True' }] }
const running = {
  ...scheduled,
  phase: 'Running',
  podIP: '127.0.0.1',
  containerStatuses: [container({ running: {} })],
}
function container(state: object) {
  return { name: 'main', image: 'i', imageID: '', ready: true, restartCount: 0, state }
}
function runs(pod: V1Pod, set: (status: object) => void): void {
  const { limits = {} } = pod.spec!.containers[0]!.resources ?? {}
  const small = limits.memory === '1Mi'
  setImmediate(() => {
    set(
      small
        ? {
            ...scheduled,
            phase: 'Failed',
            containerStatuses: [container({ terminated: { exitCode: 137, reason: 'OOMKilled' } })],
          }
        : running,
    )
  })
}

const launcherOf = (api: Api, startMs = 400, env: object[] = []): KubernetesLauncher => {
  const made = createKubernetesLauncher({
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
    own: {
      pod: { spec: { containers: [{ name: 'main', image: 'i', ...(env.length > 0 && { env }) }] } },
      container: 'main',
    },
    port: (pods.address() as AddressInfo).port,
    parameters: [],
    protocol: protocolFor('json', { path: '/', healthPath: '/', template: '{}' }),
    payload: { kind: 'generated', seed: 1, count: 1 },
    runDirectory: folder,
    connectivity: 'direct',
    timeouts: { unschedulableMs: 100, checkIntervalMs: 20, startMs },
  })
  open.push(made)
  return made
}
const launcher = async (timeouts?: Parameters<FakeApiServer['api']>[0]) =>
  launcherOf(await fake.api(timeouts))
const never = new AbortController().signal

launcherContract('the Kubernetes launcher', {
  create: () => launcher(),
  good: { memoryMiB: 100 },
  other: { skip: 'the fake has one server for all its pods; on a real cluster it is tested' },
  infeasible: { configuration: { memoryMiB: 1 }, reason: 'out-of-memory' },
  leftovers: () =>
    [...fake.objects.pods.keys(), ...fake.objects.jobs.keys()].filter(
      (name) => !name.includes('-lease-'),
    ),
  abortAfterMs: [0, 2, 5, 10, 30],
})

test('a pod is given its secrets by a Secret, which goes with it', async () => {
  registerSecret('planted-in-launch')
  const made = launcherOf(await fake.api(), 400, [{ name: 'API_KEY', value: 'planted-in-launch' }])
  const predictor = await made.launch({}, 1, never)
  expect(JSON.stringify([...fake.objects.pods.values()])).not.toContain('planted')
  expect([...fake.objects.secrets.values()]).toMatchObject([
    {
      stringData: { 'secret-1': 'planted-in-launch' },
      metadata: { ownerReferences: [{ kind: 'Job' }] },
    },
  ])
  await predictor.stop()
  expect(fake.objects.secrets.size).toBe(0)
})

describe('an API server in trouble', () => {
  const serves = async (made: KubernetesLauncher) => {
    const predictor = await made.launch({}, 1, never)
    await predictor.stop()
    expect([...fake.objects.pods.keys()]).toEqual([])
  }
  const first = (times: number, code: number, headers: Record<string, string> = {}) => {
    let left = times
    fake.fault = (_, response) => {
      if (left-- <= 0) return false
      answer(response, code, status(code, 'Busy', 'later, please'), headers)
      return true
    }
  }

  test.each([429, 500, 503])('%d: it is asked again', async (code) => {
    first(4, code)
    await serves(await launcher())
  })

  test('Retry-After is kept', async () => {
    first(1, 429, { 'retry-after': '1' })
    const startedMs = performance.now()
    await serves(await launcher())
    expect(performance.now() - startedMs).toBeGreaterThan(999)
  })

  test('one that never recovers is a failed trial, with the server’s words', async () => {
    const made = await launcher({ retryMs: 100 })
    first(Number.POSITIVE_INFINITY, 503)
    await expect(made.launch({}, 1, never)).rejects.toMatchObject({
      message: expect.stringContaining('later, please'),
    })
  })

  test('an answer that is lost on its way makes no second pod', async () => {
    const made = await launcher()
    await made.owner(never)
    let broken = false
    fake.fault = ({ method, path }, response) => {
      if (broken || method !== 'POST' || !path.endsWith('/pods')) return false
      broken = true
      // It is stored, and the connection ends before the answer.
      response.end = () => response.destroy()
      return false
    }
    await serves(made)
    expect(broken).toBe(true)
  })

  test('a restart in the middle of a start is waited out', async () => {
    fake.kubelet = () => {}
    const made = await launcher()
    const launch = made.launch({}, 1, never)
    await waitFor(() => fake.objects.pods.size === 1)
    await fake.stop()
    fake.setStatus([...fake.objects.pods.keys()][0]!, running)
    await fake.start()
    await (await launch).stop()
  })

  test('410 Gone: the pods are listed anew', async () => {
    fake.kubelet = () => {}
    const made = await launcher()
    const launch = made.launch({}, 1, never)
    await waitFor(
      () =>
        fake.objects.pods.size === 1 &&
        fake.seen.some((request) => request.includes('/pods (watch)')),
    )
    fake.endWatches('gone')
    fake.setStatus([...fake.objects.pods.keys()][0]!, running)
    await (await launch).stop()
    expect(
      fake.seen.filter((request) => request === 'GET /api/v1/namespaces/test/pods').length,
    ).toBeGreaterThan(1)
  })

  test('refused: the server’s message and what to do', async () => {
    fake.fault = ({ method }, response) => {
      if (method !== 'POST') return false
      answer(
        response,
        403,
        status(403, 'Forbidden', 'configmaps is forbidden: User "u" cannot create resource'),
      )
      return true
    }
    await expect((await launcher()).launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('User "u" cannot create'),
      hint: expect.stringContaining('rbac'),
    })
  })
})

describe('a pod in trouble', () => {
  const launchOf = async (
    given: object,
    say: (pod: string) => void = () => {},
  ): Promise<unknown> => {
    fake.kubelet = ({ metadata }, set) =>
      setImmediate(() => {
        say(metadata!.name!)
        set(given)
      })
    return (await launcher()).launch({}, 1, never).then(
      () => 'it launched',
      (error: unknown) => error,
    )
  }
  const waiting = (reason: string, message: string) => ({
    ...scheduled,
    phase: 'Pending',
    containerStatuses: [container({ waiting: { reason, message } })],
  })
  test.each([
    [
      'evicted',
      { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' },
      'LaunchError',
      /Evicted: The node was low/,
    ],
    [
      'on a lost node',
      { ...running, reason: 'NodeLost', message: 'Node n is not responding' },
      'LaunchError',
      /NodeLost/,
    ],
    [
      'past its deadline',
      { phase: 'Failed', reason: 'DeadlineExceeded' },
      'LaunchError',
      /DeadlineExceeded/,
    ],
    [
      'refused by its node',
      { phase: 'Failed', reason: 'OutOfnvidia.com/gpu', message: 'not enough' },
      'LaunchError',
      /OutOfnvidia/,
    ],
    [
      'without its image',
      waiting('ImagePullBackOff', 'Back-off pulling image "i"'),
      'LaunchError',
      /ImagePullBackOff: Back-off/,
    ],
    [
      'with a bad image name',
      waiting('InvalidImageName', 'couldn’t parse'),
      'LaunchError',
      /InvalidImageName/,
    ],
    [
      'that never starts',
      { ...scheduled, phase: 'Pending' },
      'LaunchError',
      /did not start within/,
    ],
    [
      'that no node fits',
      {
        conditions: [
          {
            type: 'PodScheduled',
            status: 'False',
            reason: 'Unschedulable',
            message: '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.',
          },
        ],
      },
      'LaunchError',
      /0\/3 nodes are available/,
    ],
  ])('%s', async (_, given, name, message) => {
    expect(await launchOf(given)).toMatchObject({ name, message: expect.stringMatching(message) })
    expect([...fake.objects.pods.keys()]).toEqual([])
  })

  test.each([
    ['with a bad image name', waiting('InvalidImageName', 'couldn’t parse'), 'experiment'],
    [
      'whose image is not there',
      waiting('ErrImagePull', 'manifest unknown: i not found'),
      'experiment',
    ],
    [
      'whose Secret is not there',
      waiting('CreateContainerConfigError', 'secret "s" not found'),
      'experiment',
    ],
    [
      'whose registry is slow',
      waiting('ImagePullBackOff', 'Back-off pulling image "i"'),
      undefined,
    ],
    [
      'that was evicted',
      { phase: 'Failed', reason: 'Evicted', message: 'low on memory' },
      undefined,
    ],
  ])('%s is tried again only where that may help', async (_, given, final) => {
    expect(await launchOf(given)).toMatchObject({ name: 'LaunchError', final })
  })

  test.each([
    ['rpc error: code = NotFound desc = failed to resolve reference "i": not found', 'experiment'],
    ['rpc error: code = Unknown desc = dial tcp: lookup registry.example: no such host', undefined],
  ])('whose node tells in an event alone why it has no image: %s', async (why, final) => {
    const said = `Failed to pull image "i": ${why}`
    const given = waiting('ImagePullBackOff', 'Back-off pulling image "i"')
    // Who may not watch events asks for them: they are there when the pod's end is.
    fake.fault = ({ path, query }, response) => {
      if (!path.endsWith('/events') || query.has('fieldSelector')) return false
      answer(response, 403, status(403, 'Forbidden', 'events is forbidden'))
      return true
    }
    const error = await launchOf(given, (pod) => fake.say(pod, 'Failed', said))
    expect(error).toMatchObject({
      name: 'LaunchError',
      final,
      message: expect.stringContaining(`Back-off pulling image "i": ${said}`),
    })
  })

  test('that a policy refuses is not asked for again', async () => {
    fake.fault = ({ method, path }, response) => {
      if (method !== 'POST' || !path.endsWith('/pods')) return false
      answer(
        response,
        403,
        status(403, 'Forbidden', 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'),
      )
      return true
    }
    expect(await launchOf({})).toMatchObject({
      name: 'LaunchError',
      final: 'configuration',
      hint: expect.stringContaining('kubernetes.pod'),
    })
  })

  test('that no node has waits for the autoscaler while that adds one, and tells its last words', async () => {
    const conditions = [
      {
        type: 'PodScheduled',
        status: 'False',
        reason: 'Unschedulable',
        message: '0/3 nodes: Insufficient nvidia.com/gpu',
      },
    ]
    let pod = ''
    fake.kubelet = ({ metadata }, set) =>
      setImmediate(() => {
        pod = metadata!.name!
        fake.say(pod, 'TriggeredScaleUp', 'pod triggered scale-up: [{gpu-pool 0->1 (max: 4)}]')
        set({ conditions } as never)
      })
    const waits: string[] = []
    const launched = launcherOf(await fake.api()).launch({}, 1, never, (what) => waits.push(what))
    const early = await Promise.race([
      launched.catch(() => 'gave up'),
      new Promise((resolve) => setTimeout(resolve, 500, 'waits')),
    ])
    expect(early).toBe('waits')
    expect(waits[0]).toBe(
      'a node (TriggeredScaleUp: pod triggered scale-up: [{gpu-pool 0->1 (max: 4)}])',
    )
    const lastTimestamp = new Date(Date.now() + 1000).toISOString()
    fake.say(
      pod,
      'NotTriggerScaleUp',
      'pod did not trigger scale-up: 1 max node group size reached',
      { lastTimestamp },
    )
    await expect(launched).rejects.toMatchObject({
      final: 'run',
      message: expect.stringMatching(/Insufficient nvidia.*max node group size/),
    })
  })

  test('whose node group gets no node, by the autoscaler’s own status, waits no longer', async () => {
    const conditions = [
      {
        type: 'PodScheduled',
        status: 'False',
        reason: 'Unschedulable',
        message: '0/3 nodes: Insufficient nvidia.com/gpu',
      },
    ]
    const say = (pod: string) =>
      fake.say(pod, 'TriggeredScaleUp', 'pod triggered scale-up: [{nap-l4 0->1 (max: 9)}]')
    const group = {
      name: 'nap-l4',
      scaleUp: {
        status: 'Backoff',
        backoffInfo: { errorCode: 'QUOTA_EXCEEDED', errorMessage: 'NVIDIA_L4_GPUS' },
      },
    }
    fake.fault = ({ path }, response) => {
      if (!path.endsWith('/kube-system/configmaps/cluster-autoscaler-status')) return false
      answer(response, 200, {
        data: { status: JSON.stringify({ nodeGroups: [{ name: 'other' }, group] }) },
      })
      return true
    }
    expect(await launchOf({ conditions }, say)).toMatchObject({
      final: 'run',
      message: expect.stringContaining('node group nap-l4: QUOTA_EXCEEDED: NVIDIA_L4_GPUS'),
    })
  })

  test('that Karpenter can make no node for is told so', async () => {
    const conditions = [
      {
        type: 'PodScheduled',
        status: 'False',
        reason: 'Unschedulable',
        message: '0/3 nodes: Insufficient nvidia.com/gpu',
      },
    ]
    const say = (pod: string) =>
      fake.say(pod, 'Nominated', 'Pod should schedule on: nodeclaim/gpu-x1')
    fake.fault = ({ path }, response) => {
      if (!path.endsWith('/nodeclaims/gpu-x1')) return false
      answer(response, 200, {
        status: {
          conditions: [{ type: 'Launched', status: 'False', reason: 'InsufficientCapacity' }],
        },
      })
      return true
    }
    expect(await launchOf({ conditions }, say)).toMatchObject({
      final: 'run',
      message: expect.stringContaining('nodeclaim gpu-x1: InsufficientCapacity'),
    })
  })

  test('that a free node would hold is no word on the configuration', async () => {
    const allocatable = { cpu: '8', memory: '64Gi', pods: '110' }
    fake.objects.nodes.set('n', {
      metadata: { name: 'n', uid: '', resourceVersion: '', creationTimestamp: '' },
      status: { allocatable },
    })
    const given = {
      conditions: [
        {
          type: 'PodScheduled',
          status: 'False',
          reason: 'Unschedulable',
          message: '0/1 nodes: Insufficient cpu',
        },
      ],
    }
    expect(await launchOf(given)).toMatchObject({
      name: 'LaunchError',
      hint: expect.stringContaining('node n would have room'),
    })
  })

  test('that gets its node late tells the wait apart from its start', async () => {
    const why = {
      type: 'PodScheduled',
      status: 'False',
      reason: 'Unschedulable',
      message: '0/3 nodes: Insufficient nvidia.com/gpu',
    }
    let pod = ''
    fake.kubelet = ({ metadata }, set) => {
      pod = metadata!.name!
      fake.say(pod, 'TriggeredScaleUp', 'pod triggered scale-up: [{gpu-pool 0->1 (max: 4)}]')
      setImmediate(() => set({ conditions: [why] } as never))
    }
    const waits: string[] = []
    const startedMs = performance.now()
    const launched = launcherOf(await fake.api(), 60_000).launch({}, 1, never, (what) =>
      waits.push(what),
    )
    await waitFor(() => waits.length > 0)
    fake.setStatus(pod, running)
    const predictor = await launched
    const { launchSeconds = 0, nodeWaitSeconds = 0 } = await predictor.usage()
    // The clock of a place looks every 20 ms.
    expect(nodeWaitSeconds).toBeGreaterThan(0.01)
    expect(launchSeconds + nodeWaitSeconds).toBeLessThan((performance.now() - startedMs) / 1000)
    await predictor.stop()
    // One that had a place at once waited for none.
    fake.kubelet = runs
    const second = await launcherOf(await fake.api()).launch({}, 2, never)
    expect(await second.usage()).not.toHaveProperty('nodeWaitSeconds')
    await second.stop()
  })

  test('that dies under load has died, out of memory where the cluster says so', async () => {
    const predictor = await (await launcher()).launch({}, 1, never)
    fake.setStatus(predictor.pod.name, {
      containerStatuses: [
        container({ terminated: { exitCode: 137, reason: 'OOMKilled' } }),
      ] as never,
    })
    expect(await predictor.died).toMatchObject({ outOfMemory: true })
    await predictor.stop()
  })
})

test('a hundred trials at once: requests and memory stay small', async () => {
  const made = launcherOf(await fake.api(), 60_000)
  await made.owner(never)
  const before = fake.seen.length
  const predictors = await Promise.all(
    Array.from({ length: 100 }, (_, i) => made.launch({}, i + 1, never)),
  )
  expect(fake.objects.pods.size).toBe(100)
  await Promise.all(predictors.map((predictor) => predictor.stop()))
  const perTrial = (fake.seen.length - before) / 100
  expect(perTrial).toBeLessThan(6)
  // One list and one watch of each, however many trials: no trial asks for events, or for pods, by
  // itself.
  const asked = (kind: string) =>
    fake.seen.filter((request) => request === `GET /api/v1/namespaces/test/${kind}`)
  expect([asked('pods').length, asked('events').length]).toEqual([1, 1])
  console.info(
    `${perTrial.toFixed(2)} API requests a trial, ${Math.round(process.memoryUsage().rss / 2 ** 20)} MiB resident with 100 at once`,
  )
})

const waitFor = async (holds: () => boolean): Promise<void> => {
  const until = performance.now() + 60_000
  while (!holds()) {
    if (performance.now() > until) throw new Error('waited a minute in vain')
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
