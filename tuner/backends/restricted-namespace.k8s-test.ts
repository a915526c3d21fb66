/**
 * A namespace as production has it: Pod Security's restricted profile, and a quota that wants a
 * limit of everything.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
import { restrict } from '../../trials/launchers/kubernetes/testing/restricted-namespace.ts'
import { CliBox } from '../testing/run-cli.ts'

let namespace: TestNamespace
let policy: Awaited<ReturnType<typeof restrict>>
let box: CliBox
beforeAll(async () => {
  namespace = await createNamespace()
  policy = await restrict(namespace)
  const hard = { 'limits.cpu': '8', 'limits.memory': '8Gi', 'requests.cpu': '8', pods: '10' }
  await setQuota('all', hard)
})

/** Resolves once the cluster goes by it. */
async function setQuota(name: string, hard: Readonly<Record<string, string>>): Promise<void> {
  await namespace.api.request('POST', quotas(), {
    body: { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name }, spec: { hard } },
  })
  await until(
    async () =>
      (await namespace.api.request<{ status?: { hard?: object } }>('GET', `${quotas()}/${name}`))
        .status?.hard !== undefined,
  )
}
const quotas = () => `/api/v1/namespaces/${namespace.name}/resourcequotas`

afterAll(async () => {
  await policy?.end()
  await namespace?.remove()
})
beforeEach(() => {
  box = new CliBox()
})
afterEach(async () => {
  box.dispose()
  expect(await namespace.leftovers()).toEqual([])
})

const run = (kubernetes: object = {}, change: object = {}) => {
  const document = {
    model: 'bert',
    slo: '300ms',
    backend: 'kubernetes',
    devices: 'emulated',
    space: { cpuCores: [0.3], memoryMiB: [400], gpu: ['T4'], batchSize: [1] },
    kubernetes: { image: testImage(), namespace: namespace.name, ...kubernetes },
    budget: { maxTrials: 1 },
    load: { trialTime: '2s' },
    confirm: false,
    ...change,
  }
  writeFileSync(join(box.folder, 'experiment.yaml'), JSON.stringify(document))
  return box.run(['-f', 'experiment.yaml', '--events'])
}

test('a trial and its load run as they are', async () => {
  const { code, stdout, stderr } = await run()
  expect(code, stderr + stdout.slice(-2000)).toBe(0)
  expect(stdout).toContain('"state":"complete"')
  expect(policy.refusals).toEqual([])
})

test('a pod that the policy refuses costs no trial, and names what to correct', async () => {
  const before = policy.refusals.length
  const { code, stdout, stderr } = await run({
    job: { spec: { securityContext: { runAsNonRoot: null } } },
  })
  expect([code, stdout], stderr).toEqual([1, ''])
  expect(stderr).toContain('load: runAsNonRoot')
  expect(stderr).toContain('kubernetes.job')
  expect(policy.refusals.length).toBe(before + 1)
})

test('a predictor of one’s own without limits is refused before the first trial, in the quota’s words', async () => {
  const security = {
    runAsNonRoot: true,
    runAsUser: 1000,
    seccompProfile: { type: 'RuntimeDefault' },
  }
  const container = {
    name: 'server',
    image: testImage(),
    args: ['predictor'],
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
    ports: [{ containerPort: 8000 }],
  }
  const pod = { spec: { securityContext: security, containers: [container] } }
  const { code, stderr } = await run(
    { pod },
    {
      predictor: { protocol: 'oip-v2' },
      devices: 'cpu',
      space: { batchSize: { values: [1], category: 'env' } },
    },
  )
  expect(code, stderr).toBe(1)
  expect(stderr).toMatch(/must specify limits\.cpu/)
  expect(stderr).toContain('kubernetes.pod')
})

test('a quota without room for the load generator beside its predictor is told at once, and once', async () => {
  await setQuota('small', { 'requests.cpu': '700m' })
  try {
    const startedMs = performance.now()
    const { code, stdout, stderr } = await run()
    expect([code, stdout], stderr).toEqual([1, ''])
    expect(stderr).toContain(
      'quota small allows requests.cpu 700m, and a predictor and its load generator together request 800m',
    )
    expect(performance.now() - startedMs).toBeLessThan(60_000)
  } finally {
    await namespace.api.request('DELETE', `${quotas()}/small`)
  }
})
