/**
 * Against an API server of this process; its predictors' pods are one server of this machine, its
 * load Jobs' work is done in this process.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as ask, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Job, V1JobSpec, V1Pod } from '@kubernetes/client-node'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import {
  answer,
  FakeApiServer,
  status,
} from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { LaunchError } from '../../trials/types.ts'
import { backendContract, skipIfSpoilt } from './backend.contract.ts'
import type { MeasureTask } from './backend.ts'
import { openKubernetes } from './kubernetes-backend.ts'
import { runLoadTask } from './load-task.ts'
import { asPod, type Behaviour, experimentIn, type Served, serve } from './testing/served.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-kubernetes-backend-'))
const fake = new FakeApiServer()
const servers: Served[] = []
/** As a tuner inside the cluster: pods are reached at their addresses. */
const variables = ['KUBECONFIG', 'KUBERNETES_SERVICE_HOST'] as const
const before = variables.map((name) => process.env[name])
beforeAll(async () => {
  fake.kubelet = run
  fake.jobWork = measure
  await fake.start()
  const { config } = await fake.api()
  writeFileSync(join(folder, 'kubeconfig'), config.exportConfig())
  process.env.KUBECONFIG = join(folder, 'kubeconfig')
  process.env.KUBERNETES_SERVICE_HOST = '127.0.0.1'
})
afterAll(async () => {
  for (const [i, name] of variables.entries()) {
    if (before[i] === undefined) delete process.env[name]
    else process.env[name] = before[i]
  }
  await Promise.all(servers.map((server) => server.stop()))
  await fake.stop()
  rmSync(folder, { recursive: true, force: true })
})

function run({ spec }: V1Pod, set: (status: Partial<V1Pod['status']>) => void): void {
  const state = { running: {} }
  const containerStatuses = [
    {
      name: spec!.containers[0]!.name,
      image: 'i',
      imageID: '',
      ready: true,
      restartCount: 0,
      state,
    },
  ]
  const conditions = [{ type: 'PodScheduled', status: 'True' }]
  setImmediate(() => set({ phase: 'Running', podIP: '127.0.0.1', conditions, containerStatuses }))
}

async function measure({ spec }: V1Job, print: (text: string) => void): Promise<number> {
  const task = taskOf(spec!)
  if (task !== undefined) return runLoadTask(task, print, new AbortController().signal)
  print('0.1.0\n')
  return 0
}

const taskOf = (spec: V1JobSpec) =>
  spec.template.spec!.containers[0]!.env?.find(({ name }) => name === 'TUNE_LOAD')?.value

const left = () => [
  ...fake.objects.pods.keys(),
  ...fake.objects.jobs.keys(),
  ...fake.objects.configmaps.keys(),
  ...fake.objects.leases.keys(),
]

const open = async (
  behaviour: Behaviour,
  loadFrom: string,
  change: object = {},
  kubernetes: object = {},
) => {
  const server = await serve(behaviour)
  servers.push(server)
  const container = { name: 'server', image: 'i', ports: [{ containerPort: server.port }] }
  const experiment = experimentIn(folder, {
    backend: 'kubernetes',
    predictor: asPod,
    kubernetes: { image: 'i', pod: { spec: { containers: [container] } }, loadFrom, ...kubernetes },
    space: { cpuCores: [1] },
    db: 'tune.db',
    ...change,
  })
  return {
    backend: await openKubernetes(experiment, `e${servers.length}`),
    configuration: { cpuCores: 1 },
  }
}

backendContract('a cluster', {
  open: () => open('serve', 'cluster'),
  openMortal: () => open('mortal', 'cluster'),
  leftovers: left,
})

/** A gateway as a proxy of this process: the header says which Service of the cluster is meant. */
async function gateway(port: () => number) {
  const called: string[] = []
  const server = createServer((request, response) => {
    const service = String(request.headers['x-service'])
    called.push(service)
    const { spec } = (fake.objects.services.get(service) ?? {}) as {
      spec?: { selector: Record<string, string> }
    }
    const pod = [...fake.objects.pods.values()].find(({ metadata: { labels } }) =>
      Object.entries(spec?.selector ?? { none: '' }).every(
        ([name, value]) => labels?.[name] === value,
      ),
    )
    if (pod === undefined) return response.writeHead(503).end()
    request.pipe(
      ask(
        { port: port(), method: request.method, path: request.url, headers: request.headers },
        (answer) => {
          response.writeHead(answer.statusCode!, answer.headers)
          answer.pipe(response)
        },
      ),
    )
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    called,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

describe('load', () => {
  afterEach(() => {
    fake.jobWork = measure
    fake.kubelet = run
    fake.fault = undefined
    fake.jobMade = () => {}
  })
  const never = new AbortController().signal
  const measured = async (loadFrom = 'cluster') => {
    const { backend, configuration } = await open('serve', loadFrom)
    try {
      const predictor = await backend.launcher.launch(configuration, 1, never)
      try {
        return await backend.measure(
          predictor,
          { kind: 'trial' },
          { number: 1, onStep: () => {} },
          never,
        )
      } finally {
        await predictor.stop()
      }
    } finally {
      await backend.close()
    }
  }

  test('from here needs no Job', async ({ skip }) => {
    fake.jobWork = async () => expect.unreachable()
    const found = await measured('here')
    expect(left()).toEqual([])
    skipIfSpoilt(found, skip)
    expect(found.capacityRps).toBeGreaterThan(0)
  })

  test.each([
    [
      'says why',
      '{"error": {"name": "ProtocolError", "message": "no such model"}}\n',
      /: no such model$/,
    ],
    [
      'prints no JSON',
      'Error: Cannot find module\n',
      /pod ended with exit code 1: Error: Cannot find module$/,
    ],
    ['prints nothing', '', /pod ended with exit code 1: it printed nothing$/],
  ])(
    'a load generator that measures nothing and %s is a failed launch with its words',
    async (_, text, message) => {
      fake.jobWork = async (job, print) => {
        if (taskOf(job.spec!) === undefined) return measure(job, print)
        print(text)
        return 1
      }
      const error = await measured().catch((error: unknown) => error)
      expect(error).toBeInstanceOf(LaunchError)
      expect((error as Error).message).toMatch(message)
      expect(left()).toEqual([])
    },
  )

  test('the Job reads what the server says of itself under load; what it does not say ends the run', async ({
    skip,
  }) => {
    const reading = async (metrics: unknown) => {
      const { backend, configuration } = await open('serve', 'cluster', { metrics })
      try {
        const predictor = await backend.launcher.launch(configuration, 1, never)
        const task = { kind: 'confirmation', rateRps: 60 } as const
        return await backend
          .measure(predictor, task, { number: 1, onStep: () => {} }, never)
          .finally(() => predictor.stop())
      } finally {
        await backend.close()
      }
    }
    const found = await reading('served_total <= 1')
    skipIfSpoilt(found, skip)
    const { value } = found.metrics![0]!
    expect(value).toBeGreaterThan(20)
    expect(value).toBeLessThan(200)
    expect(found.caveats.join()).toMatch(
      /served_total is [\d.]+ at 60 requests per second, over its bound of 1$/,
    )
    await expect(reading({ name: 'served_total', from: ':1/metrics' })).rejects.toMatchObject({
      message: expect.stringMatching(/^metrics: http:.*:1\/metrics cannot be read/),
      hint: expect.stringContaining('say where they are'),
      final: 'experiment',
    })
    expect(left()).toEqual([])
  })

  test('through a gateway: to the Service of the trial, which is gone afterwards, and what the way adds is told', async () => {
    const way = await gateway(() => servers.at(-1)!.port)
    const { backend, configuration } = await open(
      'serve',
      'cluster',
      {},
      { through: { gateway: way.url, headers: { 'x-service': '${service}' } } },
    )
    try {
      const predictor = await backend.launcher.launch(configuration, 1, never)
      const [service] = fake.objects.services.keys()
      const measure = (task: MeasureTask) =>
        backend.measure(predictor, task, { number: 1, onStep: () => {} }, never)
      const found = await measure({ kind: 'trial' })
      expect(new Set(way.called)).toEqual(new Set([service]))
      expect(way.called.length).toBeGreaterThan(20)
      expect(found.detour).toMatchObject({
        by: `the gateway ${way.url}`,
        way: { requests: expect.any(Number) },
        direct: expect.anything(),
      })
      expect(found.detour!.direct!.requests).toBeGreaterThan(0)
      expect(found.caveats.join()).toContain('than straight to the pod')
      // Told once: a confirmation adds its own figures to what the trial said.
      expect((await measure({ kind: 'confirmation', rateRps: 20 })).detour).toBeUndefined()
      await predictor.stop()
      expect([...fake.objects.services.keys()]).toEqual([])
    } finally {
      await backend.close()
      way.close()
    }
  })

  test('in a mesh predictors get its sidecar, and load takes a Service unless the pod is asked for', async () => {
    const planned = async (kubernetes: object) => {
      const { backend } = await open('serve', 'cluster', {}, { mesh: 'istio', ...kubernetes })
      const { pod, way } = backend.launcher.objectsFor(
        { cpuCores: 1 },
        1,
        { name: 'o', uid: 'u' },
        'n',
      )
      await backend.close()
      return { pod, way: way?.map(({ kind }) => kind) }
    }
    expect(await planned({})).toMatchObject({
      pod: { metadata: { labels: { 'sidecar.istio.io/inject': 'true' } } },
      way: ['Service'],
    })
    expect((await planned({ through: 'pod' })).way).toBeUndefined()
  })

  test('a Gateway where the cluster has no Gateway API is told before the first trial', async () => {
    fake.fault = ({ path }, response) => {
      if (!path.endsWith('/httproutes')) return false
      answer(
        response,
        404,
        status(404, 'NotFound', 'the server could not find the requested resource'),
      )
      return true
    }
    const opened = open(
      'serve',
      'cluster',
      {},
      { through: { gateway: 'http://gw', parent: { name: 'g' } } },
    )
    await expect(opened).rejects.toMatchObject({
      message: 'the API server has no HTTPRoute (gateway.networking.k8s.io/v1)',
      hint: expect.stringContaining('CRDs of the Gateway API'),
    })
    expect(left()).toEqual([])
  })

  test('an image that is none of tune is told before any predictor is launched', async () => {
    fake.jobWork = async (_, print) => {
      print('nginx: [emerg] unexpected option\n')
      return 1
    }
    fake.kubelet = () => expect.unreachable()
    const error = await measured().catch((error: unknown) => error)
    expect(error).toMatchObject({
      message: expect.stringMatching(/ended with exit code 1: nginx: /),
      hint: expect.stringContaining('entry point of i'),
    })
    expect(left()).toEqual([])
  })

  test('the Job that is tried beforehand mounts no payload: its ConfigMap is made for the first measurement', async () => {
    writeFileSync(join(folder, 'bodies.jsonl'), '{}\n')
    const mounted: unknown[] = []
    fake.jobWork = async (job, print) => {
      mounted.push(job.spec!.template.spec!.volumes)
      return measure(job, print)
    }
    const { backend, configuration } = await open('serve', 'cluster', {
      load: { payload: 'bodies.jsonl' },
    })
    try {
      const predictor = await backend.launcher.launch(configuration, 1, never)
      await predictor.stop()
    } finally {
      await backend.close()
    }
    expect(mounted).toEqual([undefined])
  })

  test('a Job that the cluster makes no pod for is told in its words, at once', async () => {
    fake.jobWork = undefined
    fake.jobMade = (name) => {
      const message =
        'Error creating: pods "x" is forbidden: failed quota: q: must specify limits.ephemeral-storage'
      if (name.includes('-load-')) fake.say(name, 'FailedCreate', message, { type: 'Warning' })
    }
    expect(await measured().catch((error: unknown) => error)).toMatchObject({
      message: expect.stringContaining('must specify limits.ephemeral-storage'),
      hint: expect.stringContaining('kubernetes.job'),
    })
    expect(left()).toEqual([])
  })
})
