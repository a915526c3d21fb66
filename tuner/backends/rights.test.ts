/** What a run asks of an API server is what deploy/base grants, no less and no more. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { V1Job, V1Pod } from '@kubernetes/client-node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { FakeApiServer } from '../../trials/launchers/kubernetes/testing/fake-api-server.ts'
import { asked, granted } from '../../trials/launchers/kubernetes/testing/rights.ts'
import { fillSecrets } from '../config/secret-values.ts'
import { openKubernetes } from './kubernetes-backend.ts'
import { asPod, experimentIn, type Served, serve } from './testing/served.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-rights-'))
const fake = new FakeApiServer()
let server: Served
const before = process.env.KUBECONFIG
beforeAll(async () => {
  server = await serve('serve')
  fake.draVersions = ['v1']
  fake.kubelet = runs
  fake.jobWork = works
  await fake.start()
  const { config } = await fake.api()
  writeFileSync(join(folder, 'kubeconfig'), config.exportConfig())
  process.env.KUBECONFIG = join(folder, 'kubeconfig')
})
afterAll(async () => {
  if (before === undefined) delete process.env.KUBECONFIG
  else process.env.KUBECONFIG = before
  await server.stop()
  await fake.stop()
  rmSync(folder, { recursive: true, force: true })
})

function runs({ spec }: V1Pod, set: (status: Partial<V1Pod['status']>) => void): void {
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
  setImmediate(() =>
    set({
      phase: 'Running',
      podIP: '127.0.0.1',
      conditions: [{ type: 'PodScheduled', status: 'True' }],
      containerStatuses,
    }),
  )
}

async function works({ spec }: V1Job, print: (text: string) => void): Promise<number> {
  const { args } = spec!.template.spec!.containers[0]!
  print(args?.includes('--version') ? '0.1.0\n' : '{"measurement": {"caveats": []}}\n')
  return 0
}

const rulesOf = (file: string, kind: string) =>
  parseAllDocuments(readFileSync(new URL(`../../deploy/${file}`, import.meta.url), 'utf8'))
    .map((one) => one.toJS() as { kind: string; rules: Parameters<typeof granted>[0] })
    .filter((one) => one.kind === kind)
    .flatMap(({ rules }) => granted(rules))

test('the Role of deploy/base grants what a run with everything in it asks for, and each of its verbs is asked for', async () => {
  writeFileSync(join(folder, 'bodies.jsonl'), '{}\n')
  const container = {
    name: 'server',
    image: 'i',
    ports: [{ containerPort: server.port }],
    env: [{ name: 'API_KEY', value: 'planted-in-rights' }],
  }
  const experiment = experimentIn(folder, {
    backend: 'kubernetes',
    devices: 'gpu',
    predictor: asPod,
    kubernetes: {
      image: 'i',
      pod: { spec: { containers: [container] } },
      gpuScheme: 'dra',
      through: 'service',
      loadFrom: 'cluster',
    },
    space: { cpuCores: [1], gpu: ['T4'] },
    load: { payload: 'bodies.jsonl', trialTime: '1s', confirmTime: '1s' },
    db: 'tune.db',
  })
  process.env.KUBERNETES_SERVICE_HOST = '127.0.0.1'
  const backend = await openKubernetes(fillSecrets(experiment), 'rights').finally(
    () => delete process.env.KUBERNETES_SERVICE_HOST,
  )
  const never = new AbortController().signal
  try {
    await backend.launcher.sweep?.(never)
    const predictor = await backend.launcher.launch({ cpuCores: 1, gpu: 'T4' }, 1, never)
    await backend.measure(predictor, { kind: 'trial' }, { number: 1, onStep: () => {} }, never)
    await predictor.stop()
  } finally {
    await backend.close()
  }
  const role = rulesOf('base/rbac.yaml', 'Role')
  const clusterRole = rulesOf('nodes-reader.yaml', 'ClusterRole')
  const used = [...new Set(fake.seen.flatMap((request) => asked(request) ?? []))]
  expect(used.filter((right) => !role.includes(right) && !clusterRole.includes(right))).toEqual([])
  // What this run has no occasion for; the tests against a real cluster have.
  const elsewhere = [
    'batch jobs patch', // renewals, ten seconds and more later
    'coordination.k8s.io leases patch',
    'batch jobs get', // an answer that was lost on its way
    'core pods get',
    'core configmaps get',
    'core configmaps list',
    'coordination.k8s.io leases list',
    'core pods/portforward get', // loadFrom: port-forward
    'core pods/portforward create',
    'metrics.k8s.io pods get', // where there is a metrics server
    'resource.k8s.io resourceclaimtemplates get',
  ]
  expect(role.filter((right) => !used.includes(right) && !elsewhere.includes(right))).toEqual([])
})
