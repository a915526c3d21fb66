/** What becomes of trials on a real cluster, failures above all. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import { launcherContract } from '../launcher.contract.ts'
import type { BuiltinTemplate, CommandTemplate } from '../template.ts'
import { inspectCluster } from './gpus/cluster-facts.ts'
import { createKubernetesLauncher, type KubernetesLauncher } from './kubernetes-launcher.ts'
import type { KubernetesLauncherOptions } from './launch/planned-objects.ts'
import { createNamespace, type TestNamespace, testImage, until } from './testing/namespace.ts'

let namespace: TestNamespace
let folder: string
const open: KubernetesLauncher[] = []
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tune-k8s-'))
  namespace = await createNamespace()
})
afterAll(async () => {
  await Promise.all(open.map((launcher) => launcher.close()))
  await namespace?.remove()
  rmSync(folder, { recursive: true, force: true })
})

const emulated: BuiltinTemplate = {
  kind: 'builtin',
  model: 'bert',
  engine: 'emulated',
  readyTimeoutS: 60,
}
const small = { cpuCores: 0.3, memoryMiB: 400, gpu: 'T4', gpuMemoryPercent: 50, batchSize: 2 }
let count = 0
const launcher = (change: Partial<KubernetesLauncherOptions> = {}): KubernetesLauncher => {
  const made = createKubernetesLauncher({
    api: namespace.api,
    experimentId: `test-${++count}`,
    template: emulated,
    image: testImage(),
    port: 8000,
    parameters: [],
    protocol:
      change.template?.kind === 'command'
        ? protocolFor('json', { path: '/', healthPath: '/', template: '{}' })
        : protocolFor('oip-v2'),
    payload: { kind: 'generated', seed: 1, count: 2 },
    runDirectory: join(folder, String(count)),
    connectivity: 'direct',
    timeouts: { unschedulableMs: 2_000, checkIntervalMs: 200 },
    ...change,
  })
  open.push(made)
  return made
}
const never = new AbortController().signal

launcherContract('the Kubernetes launcher on a real cluster', {
  create: () => launcher(),
  good: small,
  other: { ...small, batchSize: 4 },
  infeasible: { configuration: { ...small, memoryMiB: 16 }, reason: 'out-of-memory' },
  leftovers: async () =>
    (await namespace.leftovers()).filter(
      (object) => !object.includes('-lease-') && !object.startsWith('leases/'),
    ),
  abortAfterMs: [50, 700, 1500],
})

describe('on a real cluster', () => {
  afterEach(async () => {
    await Promise.all(open.splice(0).map((one) => one.close()))
    expect(await namespace.leftovers()).toEqual([])
  })

  test('through the API server: a forwarded port serves', async () => {
    const predictor = await launcher({ connectivity: 'port-forward' }).launch(small, 1, never)
    try {
      if (predictor.target.kind !== 'http') throw new Error('not over HTTP')
      expect(predictor.target.url).toMatch(/^http:\/\/127\.0\.0\.1:/)
      const [body] = predictor.target.bodies
      const answers = await Promise.all(
        [1, 2, 3, 4].map(() => {
          const { url, path, headers } = predictor.target as Extract<
            typeof predictor.target,
            { kind: 'http' }
          >
          return fetch(new URL(path, url), {
            method: 'POST',
            headers: { 'content-type': body!.contentType, ...headers },
            body: Buffer.from(body!.body),
          })
        }),
      )
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    } finally {
      await predictor.stop()
    }
  })

  test('an image that is not there fails, and names it', async () => {
    await expect(
      launcher({ image: 'lab/not-there:1' }).launch(small, 1, never),
    ).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringMatching(/(ErrImagePull|ImagePullBackOff).*lab\/not-there:1/s),
    })
  })

  test('a GPU that no node has has no place for now, in the scheduler’s words', async () => {
    await expect(
      launcher({ template: { ...emulated, engine: 'tfjs' } }).launch(
        { ...small, gpuMemoryPercent: 100 },
        1,
        never,
      ),
    ).rejects.toMatchObject({
      name: 'LaunchError',
      final: 'run',
      message: expect.stringMatching(/nvidia\.com\/gpu.*0\/\d+ nodes are available/s),
    })
  })

  test('more cores than a node has have no place for now, which is told at the first look', async () => {
    const made = launcher({ timeouts: { unschedulableMs: 120_000, checkIntervalMs: 200 } })
    const startedMs = performance.now()
    await expect(made.launch({ ...small, cpuCores: 1000 }, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      final: 'run',
      unplaced: true,
      message: expect.stringMatching(/no node has cpu 1000 \(the largest .*Insufficient cpu/),
    })
    expect(performance.now() - startedMs).toBeLessThan(60_000)
  })

  test('beyond the quota is infeasible, with the quota’s words', async () => {
    const quotas = `/api/v1/namespaces/${namespace.name}/resourcequotas`
    const body = {
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'small' },
      spec: { hard: { 'limits.memory': '100Mi' } },
    }
    await namespace.api.request('POST', quotas, { body })
    try {
      await until(async () => {
        const { status } = await namespace.api.request<{ status?: { hard?: object } }>(
          'GET',
          `${quotas}/small`,
        )
        return status?.hard !== undefined
      })
      await expect(launcher().launch(small, 1, never)).rejects.toMatchObject({
        name: 'InfeasibleError',
        message: expect.stringContaining('exceeded quota: small'),
      })
    } finally {
      await namespace.api.request('DELETE', `${quotas}/small`)
    }
  })

  const own = (
    script: string,
    more: object = {},
    spec: object = {},
  ): Partial<KubernetesLauncherOptions> => {
    const template: CommandTemplate = {
      kind: 'command',
      model: 'm',
      command: [],
      protocol: 'json',
      path: '/',
      readyTimeoutS: 5,
    }
    const container = {
      name: 'main',
      image: testImage(),
      command: ['/usr/bin/node', '-e', script],
      ...more,
    }
    return {
      template,
      own: { pod: { spec: { containers: [container], ...spec } }, container: 'main' },
    }
  }

  test('a container that ends is a crash, with its last words', async () => {
    await expect(
      launcher(own("console.log('no model in /models'); process.exit(3)")).launch({}, 1, never),
    ).rejects.toMatchObject({
      name: 'InfeasibleError',
      reason: 'crashed',
      message: expect.stringMatching(/exit code 3.*no model in \/models/s),
    })
  })

  test('CUDA out of memory in the log is out of memory', async () => {
    const script =
      "console.error('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'); process.exit(1)"
    await expect(launcher(own(script)).launch({}, 1, never)).rejects.toMatchObject({
      reason: 'out-of-memory',
    })
  })

  test('one that never serves is never ready', async () => {
    const change = own('setInterval(() => {}, 1000)')
    const template = { ...(change.template as CommandTemplate), readyTimeoutS: 1 }
    await expect(launcher({ ...change, template }).launch({}, 1, never)).rejects.toMatchObject({
      reason: 'never-ready',
    })
  })

  test('a command that is not in the image fails, and is named', async () => {
    await expect(
      launcher(own('', { command: ['/no/such/server'] })).launch({}, 1, never),
    ).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('/no/such/server'),
    })
  })

  test('a Secret that is not there fails at once, and is named', async () => {
    const env = [
      { name: 'TOKEN', valueFrom: { secretKeyRef: { name: 'no-such-secret', key: 'token' } } },
    ]
    await expect(launcher(own('', { env })).launch({}, 1, never)).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('no-such-secret'),
    })
  })

  test('a volume that is not there fails, and is named', async () => {
    const spec = { volumes: [{ name: 'v', configMap: { name: 'no-such-map' } }] }
    await expect(
      launcher(own('', { volumeMounts: [{ name: 'v', mountPath: '/v' }] }, spec)).launch(
        {},
        1,
        never,
      ),
    ).rejects.toMatchObject({
      name: 'LaunchError',
      message: expect.stringContaining('no-such-map'),
    })
  })

  test('tuned values reach the named container alone', async () => {
    const script =
      "const s = JSON.stringify({argv: process.argv.slice(1), batch: process.env.BATCH_SIZE, keep: process.env.KEEP}); require('http').createServer((q, r) => r.end(s)).listen(8000); process.on('SIGTERM', () => process.exit())"
    const change = own(script, {
      env: [{ name: 'KEEP', value: 'batch ${batchSize}' }],
      args: ['--', '--given'],
    })
    const side = {
      name: 'side',
      image: testImage(),
      command: ['/usr/bin/node', '-e', 'setInterval(() => {}, 1000)'],
    }
    const pod = {
      metadata: { labels: { mine: 'yes' } },
      spec: {
        containers: [side, ...(change.own!.pod.spec as { containers: object[] }).containers],
      },
    }
    const parameters = [
      { name: 'batchSize', category: 'env' },
      { name: 'workers', category: 'args' },
      { name: 'cpuCores', category: 'resource' },
    ] as const
    const predictor = await launcher({
      ...change,
      own: { pod, container: 'main' },
      parameters,
    }).launch({ batchSize: 8, workers: 3, cpuCores: 0.2 }, 1, never)
    try {
      if (predictor.target.kind !== 'http') throw new Error('not over HTTP')
      const said = await (await fetch(predictor.target.url)).json()
      expect(said).toEqual({ argv: ['--given', '--workers=3'], batch: '8', keep: 'batch 8' })
      const { spec, metadata } = await namespace.api.request<{
        spec: { containers: object[] }
        metadata: { labels: object }
      }>('GET', `/api/v1/namespaces/${namespace.name}/pods/${predictor.pod.name}`)
      expect(metadata.labels).toMatchObject({ mine: 'yes', 'tune/trial': '1' })
      expect(spec.containers).toMatchObject([
        { name: 'side', resources: {} },
        { name: 'main', resources: { limits: { cpu: '200m' }, requests: { cpu: '200m' } } },
      ])
    } finally {
      await predictor.stop()
    }
  })

  test('a predictor that is removed from outside has died, and says how', async () => {
    const predictor = await launcher().launch(small, 1, never)
    try {
      await namespace.api.request(
        'DELETE',
        `/api/v1/namespaces/${namespace.name}/pods/${predictor.pod.name}`,
        {
          query: { gracePeriodSeconds: 0 },
        },
      )
      expect(await predictor.died).toMatchObject({
        outOfMemory: false,
        what: expect.stringMatching(/another program deleted the pod|is gone/),
      })
    } finally {
      await predictor.stop()
    }
  })

  test('a node that is tainted ends a predictor, which condemns nothing', async () => {
    const { items } = await namespace.api.request<{
      items: { metadata: { name: string }; spec: { taints?: object[] } }[]
    }>('GET', '/api/v1/nodes')
    const made = launcher()
    const predictor = await made.launch(small, 1, never)
    const { name } = items.find(
      ({ metadata }) => metadata.name === predictor.pod.nodes[0],
    )!.metadata
    const taint = (taints: object[] | null) =>
      namespace.api.request('PATCH', `/api/v1/nodes/${name}`, { body: { spec: { taints } } })
    try {
      await taint([{ key: 'tune-test', effect: 'NoExecute' }])
      expect(await predictor.died).toMatchObject({
        external: true,
        what: expect.stringContaining(`node ${name} now has the taint tune-test:NoExecute`),
      })
      await expect(made.launch(small, 2, never)).rejects.toMatchObject({
        final: 'run',
        message: expect.stringContaining('tune-test:NoExecute, which the pod does not tolerate'),
      })
    } finally {
      await taint(null)
      await predictor.stop()
    }
  })

  const lab = process.env.TUNE_K8S_LAB
  describe.skipIf(!lab)('with GPUs that the lab only pretends to have', () => {
    const fakeGpu = (...args: string[]) =>
      execFileSync(join(lab!, 'fake-gpu'), args, { stdio: 'ignore' })
    const server =
      "require('http').createServer((q, r) => r.end('{}')).listen(8000); process.on('SIGTERM', () => process.exit())"

    test('whole ones: found, asked for by model, and waited for while another trial holds the last', async () => {
      fakeGpu('--count', '1', '--product', 'Tesla-T4', '--memory', '15360')
      try {
        const { gpus } = await inspectCluster(namespace.api)
        expect(gpus).toMatchObject([
          {
            product: 'Tesla-T4',
            gpu: 'T4',
            scheme: 'nvidia',
            resources: { 'nvidia.com/gpu': { total: 1, free: 1 } },
          },
        ])
        const parameters = [{ name: 'gpu', category: 'resource' }] as const
        const made = launcher({ ...own(server), parameters, gpuScheme: 'nvidia' })
        const first = await made.launch({ gpu: 'T4' }, 1, never)
        expect(first.isolation).toContain('nvidia.com/gpu 1')
        const waiting = made.launch({ gpu: 'T4' }, 2, never)
        const early = await Promise.race([
          waiting.then(() => 'launched'),
          new Promise((resolve) => setTimeout(resolve, 4_000, 'waits')),
        ])
        expect(early).toBe('waits')
        await first.stop()
        await (await waiting).stop()
        await expect(made.launch({ gpu: 'V100' }, 3, never)).rejects.toMatchObject({
          final: 'run',
          message: expect.stringContaining('Tesla-V100'),
        })
      } finally {
        fakeGpu('--clear')
      }
    })

    test.each([
      [
        'hami',
        ['nvidia.com/gpumem=15360', 'nvidia.com/gpucores=100'],
        { 'nvidia.com/gpumem': '3840', 'nvidia.com/gpucores': '25' },
      ],
      ['aliyun', ['aliyun.com/gpu-mem=15'], { 'aliyun.com/gpu-mem': '3' }],
      [
        'volcano',
        ['volcano.sh/vgpu-number=4', 'volcano.sh/vgpu-memory=15360', 'volcano.sh/vgpu-cores=100'],
        undefined,
      ],
    ] as const)(
      'a quarter of one under %s: recognised, and the pod asks for it so',
      async (scheme, resources, asked) => {
        fakeGpu('--count', '4', '--product', 'Tesla-T4', ...resources)
        try {
          expect((await inspectCluster(namespace.api)).gpus).toMatchObject([{ gpu: 'T4', scheme }])
          // Volcano's own scheduler is not there to place its pods.
          if (asked === undefined) return
          const parameters = [{ name: 'gpu', category: 'resource' }] as const
          const predictor = await launcher({
            ...own(server),
            parameters,
            gpuScheme: scheme,
          }).launch({ gpu: 'T4', gpuMemoryPercent: 25 }, 1, never)
          const { spec } = await namespace.api.request<{
            spec: { containers: { resources: { limits: object } }[] }
          }>('GET', `/api/v1/namespaces/${namespace.name}/pods/${predictor.pod.name}`)
          await predictor.stop()
          expect(spec.containers[0]!.resources.limits).toMatchObject(asked)
        } finally {
          fakeGpu('--clear', ...resources.map((resource) => resource.split('=')[0]!))
        }
      },
    )
  })
})
