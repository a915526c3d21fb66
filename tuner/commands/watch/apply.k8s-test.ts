/**
 * `tune watch --apply` on a real cluster, with no more rights than deploy/ grants: what is kept,
 * what is stepped back from, and what is left by whom.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { V1Deployment, V1Pod } from '@kubernetes/client-node'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { parseAllDocuments, stringify } from 'yaml'
import type { Json } from '../../../trials/launchers/kubernetes/manifests.ts'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../../../trials/launchers/kubernetes/testing/namespace.ts'
import { CliBox } from '../../testing/run-cli.ts'

// Several rollouts and canaries each, one after the other, and a killed tuner's minute.
vi.setConfig({ testTimeout: 400_000 })

let namespace: TestNamespace
const box = new CliBox()
const folder = mkdtempSync(join(tmpdir(), 'tune-apply-'))
const path = (name: string) => join(box.folder, name)

beforeAll(async () => {
  namespace = await createNamespace()
  for (const file of ['base/rbac.yaml', 'apply.yaml'])
    for (const object of read(file)) await create(object)
  await asServiceAccount()
  // Two configurations alike but for their memory, which costs more today: the deployed one is
  // trial 2, the proposed one trial 1.
  const space = { cpuCores: [0.5], memoryMiB: [1200, 3000], batchSize: [1] }
  const settings = {
    devices: 'cpu',
    sampler: 'grid',
    budget: { maxTrials: 2 },
    confirm: false,
    space,
  }
  writeFileSync(
    path('e.yaml'),
    JSON.stringify({ model: 'bert-tiny', slo: 'p90<5s', backend: 'simulated', ...settings }),
  )
  expect((await box.run(['-f', 'e.yaml', '--plain'])).code).toBe(0)
  writeFileSync(path('prices.yaml'), 'name: today\ncurrency: USD\nvcpu: 0.02\nmemoryGiB: 0.03\n')
})
afterAll(async () => {
  await namespace?.remove()
  rmSync(folder, { recursive: true, force: true })
  await box.end()
})

const read = (file: string): Json[] =>
  parseAllDocuments(
    readFileSync(fileURLToPath(new URL(`../../../deploy/${file}`, import.meta.url)), 'utf8'),
  ).map((document) => document.toJS() as Json)

async function create(object: Json): Promise<void> {
  const group = object.apiVersion === 'v1' ? '/api/v1' : `/apis/${object.apiVersion}`
  const subjects = (object.subjects as Json[] | undefined)?.map((subject) => ({
    ...subject,
    namespace: namespace.name,
  }))
  const body = { ...object, ...(subjects && { subjects }) }
  await namespace.api.request(
    'POST',
    `${group}/namespaces/${namespace.name}/${String(object.kind).toLowerCase()}s`,
    { body },
  )
}

/** KUBECONFIG of the tuner's service account, by its own token. */
async function asServiceAccount(): Promise<void> {
  interface Secret {
    readonly metadata: { readonly annotations?: Readonly<Record<string, string>> }
    readonly data: { readonly token: string; readonly 'ca.crt': string }
  }
  let found: Secret | undefined
  await until(async () => {
    const { items } = await namespace.api.request<{ items: Secret[] }>(
      'GET',
      `/api/v1/namespaces/${namespace.name}/secrets`,
    )
    found = items.find(
      ({ metadata }) => metadata.annotations?.['kubernetes.io/service-account.name'] === 'tune',
    )
    return found !== undefined
  })
  const context = {
    name: 'lab',
    context: { cluster: 'lab', user: 'tune', namespace: namespace.name },
  }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'lab',
    clusters: [
      {
        name: 'lab',
        cluster: {
          server: namespace.api.server,
          'certificate-authority-data': found!.data['ca.crt'],
        },
      },
    ],
    users: [{ name: 'tune', user: { token: Buffer.from(found!.data.token, 'base64').toString() } }],
    contexts: [context],
  }
  writeFileSync(join(folder, 'kubeconfig'), stringify(config))
}

/**
 * A model server in a few lines, of which a test says how it is when its pod is the canary's, or
 * another's.
 */
const server = (canary: string, others = '') => `
const { hostname } = require('os')
let delay = 5
if (hostname().includes('-canary-')) { ${canary} } else { ${others} }
const json = { name: 'bert-tiny', inputs: [{ name: 'text', shape: [-1], datatype: 'BYTES' }], outputs: [{ name: 'out', shape: [-1], datatype: 'FP32' }] }
const answer = { model_name: 'bert-tiny', outputs: [{ name: 'out', shape: [1], datatype: 'FP32', data: [1] }] }
require('http').createServer((request, response) => {
  request.resume()
  request.on('end', () => setTimeout(() => response.end(JSON.stringify(/infer/.test(request.url) ? answer : json)), request.method === 'POST' ? delay : 0))
}).listen(8000)
process.on('SIGTERM', () => setTimeout(() => process.exit(), 500))
`

/** A Deployment bert, as its user wrote it. */
const deploymentOf = (container: Json): Json => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name: 'bert' },
  spec: {
    replicas: 1,
    progressDeadlineSeconds: 60,
    selector: { matchLabels: { app: 'bert' } },
    template: {
      metadata: { labels: { app: 'bert' } },
      spec: {
        terminationGracePeriodSeconds: 3,
        containers: [
          {
            name: 'server',
            ports: [{ containerPort: 8000 }],
            resources: {
              requests: { cpu: '500m', memory: '3000Mi' },
              limits: { cpu: '500m', memory: '3000Mi' },
            },
            readinessProbe: { httpGet: { path: '/v2/health/ready', port: 8000 }, periodSeconds: 1 },
            ...container,
          },
        ],
      },
    },
  },
})
const withServer = (script: string) =>
  deploymentOf({ image: 'lab/node:1', command: ['/usr/bin/node', '-e', script] })

const deployment = () =>
  namespace.api.request<V1Deployment>(
    'GET',
    `/apis/apps/v1/namespaces/${namespace.name}/deployments/bert`,
  )
const pods = async () => {
  const query = { labelSelector: 'app=bert' }
  const { items } = await namespace.api.request<{ items: V1Pod[] }>(
    'GET',
    `/api/v1/namespaces/${namespace.name}/pods`,
    { query },
  )
  return items.filter(({ metadata }) => metadata?.deletionTimestamp === undefined)
}
const memoryOf = ({ spec }: V1Deployment) =>
  spec!.template.spec!.containers[0]!.resources!.limits!.memory

/** It serves, applied under that field manager; and the manifest is the user's file. */
async function serve(manifest: Json, manager = 'tune'): Promise<void> {
  const bert = `/apis/apps/v1/namespaces/${namespace.name}/deployments/bert`
  await namespace.api
    .request('DELETE', bert, { query: { propagationPolicy: 'Foreground' } })
    .catch(() => undefined)
  await until(
    async () =>
      (await pods()).length === 0 && (await deployment().catch(() => undefined)) === undefined,
  )
  writeFileSync(path('bert.yaml'), stringify(manifest))
  await namespace.api.request('PATCH', bert, {
    patch: 'apply',
    body: manifest,
    query: { fieldManager: manager },
  })
  await until(async () => (await deployment()).status?.availableReplicas === 1)
}

let looks = 0
/**
 * A look of its own name at a production that keeps its SLO: what was seen and tried before is not
 * known to it.
 */
beforeEach(() => {
  looks++
  const nowS = Date.now() / 1000
  const line = (i: number) =>
    JSON.stringify({ ts: nowS - 600 + i, latency_ms: 20, status: 200, uri: '/v2' })
  writeFileSync(path('a.log'), `${Array.from({ length: 500 }, (_, i) => line(i)).join('\n')}\n`)
})
const look = (...more: string[]) => [
  ...[
    'watch',
    '--name',
    `look-${looks}`,
    '--log',
    'a.log',
    '--replicas',
    '1',
    '--window',
    '30s',
    '--trial',
    '2',
    '--prices',
    'prices.yaml',
  ],
  ...[
    '--once',
    '--patch',
    'bert.yaml',
    '--apply',
    '--probe-rate',
    '4rps',
    '--canary-time',
    '12s',
    ...more,
  ],
]
const env = () => ({ KUBECONFIG: join(folder, 'kubeconfig') })

/**
 * A client that asks the Service again and again until it is told to end: how many were answered,
 * and how many were not.
 */
async function client() {
  await create({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: `bert-${looks}` },
    spec: { selector: { app: 'bert' }, ports: [{ port: 80, targetPort: 8000 }] },
  })
  const { spec } = await namespace.api.request<{ spec: { clusterIP: string } }>(
    'GET',
    `/api/v1/namespaces/${namespace.name}/services/bert-${looks}`,
  )
  const url = `http://${spec.clusterIP}/v2/models/bert-tiny`
  const ask = () =>
    fetch(url, { headers: { connection: 'close' }, signal: AbortSignal.timeout(5000) }).then(
      ({ ok }) => ok,
    )
  await until(() => ask().catch(() => false))
  const told = { answered: 0, failed: 0 }
  let going = true
  const asking = (async () => {
    while (going) {
      if (await ask().catch(() => false)) told.answered++
      else told.failed++
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  return async () => {
    going = false
    await asking
    return told
  }
}

test('a cheaper configuration of the built-in predictor: by canary, kept, and taken back when asked', async () => {
  const set = {
    ENGINE: 'emulated',
    GPU: 'T4',
    MODEL: 'bert-tiny',
    HOST: '0.0.0.0',
    PORT: '8000',
    BATCH_SIZE: '1',
  }
  const containerEnv = Object.entries(set).map(([name, value]) => ({ name, value }))
  const lifecycle = { preStop: { exec: { command: ['sleep', '2'] } } }
  await serve(
    deploymentOf({ image: testImage(), args: ['predictor'], env: containerEnv, lifecycle }),
  )
  const before = await deployment()
  const planned = await box.run(look('--dry-run'), env())
  expect(planned.stdout, planned.stderr).toContain('planned: the server accepts every object')
  expect(planned.stderr).toContain('canary: Deployment bert-canary')
  expect((await deployment()).metadata!.resourceVersion).toBe(before.metadata!.resourceVersion)

  const end = await client()
  const { code, stdout, stderr } = await box.run(look('--json'), env())
  const { answered, failed } = await end()
  expect(code, stderr + stdout).toBe(0)
  expect(JSON.parse(stdout.trim().split('\n').at(-1)!)).toMatchObject({
    schema: 'tune.watch-apply/v1',
    kind: 'kept',
    trial: 1,
  })
  expect(stderr).toContain('the canary keeps the SLO')
  const after = await deployment()
  expect(memoryOf(after)).toBe('1200Mi')
  expect(after.metadata!.annotations).toMatchObject({ 'tune/trial': '1' })
  expect((await pods()).map(({ metadata }) => metadata!.labels)).toEqual([
    expect.not.objectContaining({ 'tune/canary': 'bert' }),
  ])
  expect(failed).toBe(0)
  expect(answered).toBeGreaterThan(50)

  const back = await box.run(
    look().map((arg) => (arg === '--apply' ? '--step-back' : arg)),
    env(),
  )
  expect(back.stdout, back.stderr).toContain('Deployment bert is put back')
  const again = await deployment()
  expect(again.spec!.template).toEqual(before.spec!.template)
  expect(again.metadata!.annotations).not.toHaveProperty('tune/trial')
})

test.each([
  ['breaks the SLO', 'delay = 8000', /its canary does not keep the SLO: .* over 5000 ms/],
  ['ends', 'process.exit(3)', /its canary does not keep the SLO: .*ended with exit code 3/],
  [
    'never gets ready',
    "setInterval(() => {}, 1e6); require('http').createServer = () => ({ listen() {} })",
    /its canary does not keep the SLO: .*(deadline|progress)/,
  ],
])(
  'a canary that %s: stepped back, the old one undisturbed, and not tried again',
  async (_, canary, why) => {
    await serve(withServer(server(canary)))
    const before = await deployment()
    const [pod] = await pods()
    const end = canary.startsWith('delay') ? undefined : await client()
    const { code, stdout, stderr } = await box.run(look(), env())
    expect(code, stderr + stdout).toBe(5)
    expect(stdout).toMatch(why)
    expect(stdout).toContain('Deployment bert was not changed')
    const after = await deployment()
    expect(after.metadata!.generation).toBe(before.metadata!.generation)
    expect((await pods()).map(({ metadata }) => metadata!.uid)).toEqual([pod!.metadata!.uid])
    if (end) expect((await end()).failed).toBe(0)
    const again = await box.run(look(), env())
    expect(again.stderr).toContain('trial 1 is passed over for 7 days')
    expect(again.stdout).toContain('nothing to change')
  },
)

test('a change that is worse than its canary was: put back, with its own pods', async () => {
  // As slow as can be where it has the memory of the new configuration, and is not the canary.
  const limit = `Number(require('fs').readFileSync('/sys/fs/cgroup/memory/memory.limit_in_bytes', 'utf8'))`
  await serve(withServer(server('', `if (${limit} < 2e9) delay = 8000`)))
  const before = await deployment()
  const { code, stdout, stderr } = await box.run(look(), env())
  expect(code, stderr + stdout).toBe(5)
  expect(stdout).toMatch(
    /trial 1: does not keep the SLO: .* over 5000 ms.*; Deployment bert is put back/,
  )
  const after = await deployment()
  expect(after.spec!.template).toEqual(before.spec!.template)
  expect(after.status).toMatchObject({ availableReplicas: 1, updatedReplicas: 1 })
})

test('Ctrl-C takes the canary away; of a killed one the cluster does, and the next look says what was cut off', async () => {
  await serve(withServer(server('')))
  const canaries = async () =>
    (await pods()).filter(({ metadata }) => metadata!.labels!['tune/canary'] === 'bert').length
  const stopped = box.start(look('--canary-time', '300s'), env())
  await stopped.said('judging bert-canary')
  expect(await canaries()).toBe(1)
  stopped.child.kill('SIGINT')
  expect(await stopped.result).toMatchObject({
    code: 130,
    stderr: expect.stringContaining('interrupted: stepping back'),
  })
  expect(await canaries()).toBe(0)
  expect((await namespace.leftovers()).filter((one) => /canary/.test(one))).toEqual([])

  const killed = box.start(look('--canary-time', '300s'), env())
  await killed.said('judging bert-canary')
  killed.child.kill('SIGKILL')
  await killed.result
  await until(async () => (await canaries()) === 0)
  expect(memoryOf(await deployment())).toBe('3000Mi')
  const told = await box.run(
    look().filter((arg) => arg !== '--apply'),
    env(),
  )
  expect(told.stderr).toContain('was cut off while its canary was judged')
  const { code, stdout, stderr } = await box.run(look(), env())
  expect(code, stderr + stdout).toBe(0)
  expect(stdout).toMatch(
    /the canary of trial 1 is removed[\s\S]*kept: Deployment bert serves trial 1/,
  )
})

test('fields in other hands are named and not taken, unless these hands were named', async () => {
  await serve(withServer(server('')), 'kubectl-client-side-apply')
  const before = await deployment()
  const refused = await box.run(look(), env())
  expect(refused.code).toBe(1)
  expect(refused.stderr).toMatch(
    /nothing is changed: Apply failed with \d+ conflict.*kubectl-client-side-apply.*resources.*memory/s,
  )
  expect(refused.stderr).toContain('--take-over kubectl-client-side-apply')
  expect((await deployment()).metadata!.resourceVersion).toBe(before.metadata!.resourceVersion)
  const taken = await box.run(look('--take-over', 'kubectl-client-side-apply'), env())
  expect(taken.code, taken.stderr).toBe(0)
  expect(memoryOf(await deployment())).toBe('1200Mi')
})
