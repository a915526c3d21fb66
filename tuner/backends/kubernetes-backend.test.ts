/** Against an API server of this process; its predictors' pods are one server of this machine, its load Jobs' work is done in this process. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Job, V1Pod } from '@kubernetes/client-node'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { FakeApiServer } from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { LaunchError } from '../../trials/types.ts'
import { backendContract } from './backend.contract.ts'
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
  const containerStatuses = [{ name: spec!.containers[0]!.name, image: 'i', imageID: '', ready: true, restartCount: 0, state }]
  const conditions = [{ type: 'PodScheduled', status: 'True' }]
  setImmediate(() => set({ phase: 'Running', podIP: '127.0.0.1', conditions, containerStatuses }))
}

async function measure({ spec }: V1Job, print: (text: string) => void): Promise<number> {
  const { value } = spec!.template.spec!.containers[0]!.env!.find(({ name }) => name === 'TUNE_LOAD')!
  return runLoadTask(value!, print, new AbortController().signal)
}

const left = () => [...fake.objects.pods.keys(), ...fake.objects.jobs.keys(), ...fake.objects.configmaps.keys()]

const open = async (behaviour: Behaviour, loadFrom: string) => {
  const server = await serve(behaviour)
  servers.push(server)
  const container = { name: 'server', image: 'i', ports: [{ containerPort: server.port }] }
  const experiment = experimentIn(folder, {
    backend: 'kubernetes',
    predictor: asPod,
    kubernetes: { image: 'i', pod: { spec: { containers: [container] } }, loadFrom },
    space: { cpuCores: [1] },
    db: 'tune.db',
  })
  return { backend: await openKubernetes(experiment, `e${servers.length}`), configuration: { cpuCores: 1 } }
}

backendContract('a cluster', {
  open: () => open('serve', 'cluster'),
  openMortal: () => open('mortal', 'cluster'),
  leftovers: left,
})

describe('load', () => {
  afterEach(() => {
    fake.jobWork = measure
  })
  const never = new AbortController().signal
  const measured = async (loadFrom = 'cluster') => {
    const { backend, configuration } = await open('serve', loadFrom)
    try {
      const predictor = await backend.launcher.launch(configuration, 1, never)
      try {
        return await backend.measure(predictor, { kind: 'trial' }, { number: 1, onStep: () => {} }, never)
      } finally {
        await predictor.stop()
      }
    } finally {
      await backend.close()
    }
  }

  test('from here needs no Job', async () => {
    fake.jobWork = async () => expect.unreachable()
    expect((await measured('here')).capacityRps).toBeGreaterThan(0)
    expect(left()).toEqual([])
  })

  test.each([
    ['says why', '{"error": {"name": "ProtocolError", "message": "no such model"}}\n', /: no such model$/],
    ['prints no JSON', 'Error: Cannot find module\n', /pod ended with exit code 1: Error: Cannot find module$/],
    ['prints nothing', '', /pod ended with exit code 1: it printed nothing$/],
  ])('a load generator that measures nothing and %s is a failed launch with its words', async (_, text, message) => {
    fake.jobWork = async (_job, print) => {
      print(text)
      return 1
    }
    const error = await measured().catch((error: unknown) => error)
    expect(error).toBeInstanceOf(LaunchError)
    expect((error as Error).message).toMatch(message)
    expect(left()).toEqual([])
  })
})
