import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Job, V1JobSpec, V1Pod } from '@kubernetes/client-node'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { answer, FakeApiServer } from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { LaunchError } from '../../trials/types.ts'
import { backendContract, skipIfSpoilt } from './backend.contract.ts'
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
  const conditions = ['PodScheduled', 'Ready'].map((type) => ({ type, status: 'True' }))
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

const never = new AbortController().signal

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

describe('a pipeline', () => {
  const openPipeline = async (nodes: object[] = []) => {
    const [entry, called] = [await serve('serve'), await serve('mortal')]
    servers.push(entry, called)
    fake.fault = ({ method, path }, response) => {
      if (method !== 'GET' || !path.endsWith('/nodes') || nodes.length === 0) return false
      answer(response, 200, { items: nodes })
      return true
    }
    const createStage = ({ port }: Served, args: string[]) => ({
      model: 'm',
      predictor: asPod,
      kubernetes: {
        pod: {
          spec: {
            containers: [{ name: 'server', image: 'i', args, ports: [{ containerPort: port }] }],
          },
        },
      },
      space: { cpuCores: [1, 2] },
    })
    const experiment = experimentIn(folder, {
      model: undefined,
      backend: 'kubernetes',
      kubernetes: { image: 'i' },
      stages: {
        entry: { ...createStage(entry, ['${stages.called.url}']), calls: ['called'], replicas: 2 },
        called: createStage(called, []),
      },
      db: 'tune.db',
    })
    return openKubernetes(experiment, `e${servers.length}`)
  }
  const configuration = {
    'entry.cpuCores': 1,
    'entry.replicas': 2,
    'called.cpuCores': 1,
    'called.replicas': 1,
  }
  afterEach(() => {
    fake.fault = undefined
    fake.jobWork = measure
  })

  test('is loaded at all replicas of its entry, and says what is unknown', async ({ skip }) => {
    const tasks: { replicaUrls: string[] }[] = []
    fake.jobWork = (job, print) => {
      const task = taskOf(job.spec!)
      if (task !== undefined) tasks.push(JSON.parse(task))
      return measure(job, print)
    }
    const backend = await openPipeline()
    try {
      expect(backend.notices.join('\n')).toContain('Visits to the stages')
      const predictor = await backend.launcher.launch(configuration, 1, never)
      const task = { kind: 'confirmation', rateRps: 50 } as const
      const found = await backend.measure(predictor, task, { number: 1, onStep: () => {} }, never)
      await predictor.stop()
      const url = `http://127.0.0.1:${servers.at(-2)!.port}`
      expect(tasks).toMatchObject([{ url, replicaUrls: [url, url] }])
      skipIfSpoilt(found, skip)
      expect(found.capacityRps).toBeGreaterThan(0)
    } finally {
      await backend.close()
    }
    expect(left()).toEqual([])
  })

  test('fits the cluster with all of its stages', async () => {
    const node = { metadata: { name: 'n' }, status: { allocatable: { cpu: '4', memory: '64Gi' } } }
    const backend = await openPipeline([node])
    try {
      const { constraints } = backend.space
      expect(constraints.at(-1)!.text).toBe(
        'all stages fit in the 4 cores and 64 GiB of the cluster',
      )
      const fits = (called: number) =>
        constraints.every(({ holds }) => holds({ ...configuration, 'called.cpuCores': called }))
      expect([fits(1), fits(2), fits(3)]).toEqual([true, true, false])
    } finally {
      await backend.close()
    }
    const small = { ...node, status: { allocatable: { cpu: '2', memory: '64Gi' } } }
    await expect(openPipeline([small])).rejects.toMatchObject({
      message: expect.stringContaining('its pods together need cpu 3 (the nodes have 2)'),
    })
  })
})

describe('load', () => {
  afterEach(() => {
    fake.jobWork = measure
    fake.kubelet = run
    fake.fault = undefined
    fake.jobMade = () => {}
  })
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
      hint: expect.stringContaining('set their place'),
      final: 'experiment',
    })
    expect(left()).toEqual([])
  })

  test('through a Service: the load generator calls its name, and it is gone afterwards', async () => {
    const asked: { url: string; metrics: { directUrl: string } }[] = []
    fake.jobWork = async (job, print) => {
      const task = taskOf(job.spec!)
      if (task === undefined) return measure(job, print)
      asked.push(JSON.parse(task))
      print('{"measurement": {"caveats": []}}\n')
      return 0
    }
    const { backend, configuration } = await open('serve', 'cluster', {}, { through: 'service' })
    try {
      const predictor = await backend.launcher.launch(configuration, 1, never)
      const [service] = fake.objects.services.keys()
      const options = { number: 1, onStep: () => {} }
      await backend.measure(predictor, { kind: 'trial' }, options, never)
      const { port } = servers.at(-1)!
      expect(asked).toMatchObject([
        {
          url: `http://${service}.${backend.launcher.api.namespace}.svc:${port}`,
          throughService: true,
          metrics: { directUrl: `http://127.0.0.1:${port}` },
        },
      ])
      await predictor.stop()
      expect([...fake.objects.services.keys()]).toEqual([])
    } finally {
      await backend.close()
    }
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
