import type { V1PodTemplateSpec } from '@kubernetes/client-node'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { defaultScheme, gpuSchemes } from '../../trials/launchers/kubernetes/gpu-selection.ts'
import { restrictedViolations } from '../../trials/launchers/kubernetes/testing/restricted.ts'
import type { Resources } from '../../trials/resources.ts'
import { renderSpec, type SpecTargetName } from './index.ts'
import { specGpus } from './pod-gpus.ts'
import { type Serving, type ServingOptions, servingOf } from './serving.ts'
import { SpecError } from './spec-error.ts'
import {
  best,
  container,
  evidence,
  found,
  noGpu,
  ownCommand,
  quarter,
  recommendation,
  serving,
  whole,
} from './spec-samples.contract.ts'
import type { SpecOptions } from './target.ts'
import { checkManifests } from './validate.contract.ts'

const textOf = (files: readonly { name: string; text: string }[], name: string) =>
  files.find((f) => f.name === name)?.text ?? ''
type Tree = { [key: string]: Tree } & Tree[]

describe('kubernetes', () => {
  const valid = async (s: Serving, autoscaler: 'none' | 'hpa' | 'keda') => {
    const { objects, problems } = checkManifests(
      textOf(await renderSpec('kubernetes', s, { autoscaler }), 'deployment.yaml'),
    )
    expect(problems).toEqual([])
    return new Map(objects.map((o) => [String(o.kind), o as unknown as Tree]))
  }

  test.each([
    ['a quarter of a GPU', quarter],
    ['a GPU', whole],
    ['no GPU', noGpu],
  ])(
    'with %s is valid against the closed official schema, fixed and scaled',
    async (_, resources) => {
      expect([...(await valid(serving({}, resources), 'none')).keys()]).toEqual([
        'ConfigMap',
        'Deployment',
        'Service',
        'PodDisruptionBudget',
      ])
      expect([...(await valid(serving({}, resources), 'hpa')).keys()]).toEqual([
        'ConfigMap',
        'Deployment',
        'Service',
        'HorizontalPodAutoscaler',
        'PodDisruptionBudget',
      ])
      expect([...(await valid(serving({}, resources), 'keda')).keys()]).toContain('ScaledObject')
    },
  )

  test('sets what was tuned: replicas, cores, memory, GPU; quantities are strings', async () => {
    const deployment = (await valid(serving(), 'none')).get('Deployment')!
    expect(deployment.spec!.replicas).toBe(6)
    const [server] = deployment.spec!.template!.spec!.containers!
    expect(server!.resources).toEqual({
      requests: { cpu: '2', memory: '4Gi' },
      limits: { cpu: '2', memory: '4Gi', 'nvidia.com/gpu': '1' },
    })
    expect(server!.env).toEqual([
      { name: 'BATCH_SIZE', value: '8' },
      { name: 'GREETING', value: 'a "quoted" text' },
    ])
    expect(
      (await valid(serving({}, noGpu), 'none')).get('Deployment')!.spec!.template!.spec!
        .containers![0]!.resources!.limits,
    ).toEqual({
      cpu: '1500m',
      memory: '1500Mi',
    })
  })

  test('scales at the capacity less the headroom, not at a guess', async () => {
    const hpa = (await valid(serving(), 'hpa')).get('HorizontalPodAutoscaler')!
    expect(hpa.spec!.metrics![0]!.pods!.target).toEqual({
      type: 'AverageValue',
      averageValue: String(Math.floor(0.9 * 212 * 0.8)),
    })
    expect((await valid(serving(), 'hpa')).get('Deployment')!.spec).not.toHaveProperty('replicas')
    expect(
      (await valid(serving(), 'keda')).get('ScaledObject')!.spec!.triggers![0]!.metadata!.threshold,
    ).toBe('152.6')
  })

  test('scales on no figure that is only an upper bound, or was refuted', async () => {
    const kinds = async (s: Serving) => [...(await valid(s, 'hpa')).keys()]
    expect(await kinds(serving())).toContain('HorizontalPodAutoscaler')
    const bound = servingOf({ ...found, candidate: { ...best, bound: 'upper' } }, { headroom: 0.2 })
    expect(await kinds(bound)).not.toContain('HorizontalPodAutoscaler')
    const refuted = servingOf(
      { ...found, evidence: { ...evidence, status: 'refuted' } },
      { headroom: 0.2 },
    )
    expect(await kinds(refuted)).not.toContain('HorizontalPodAutoscaler')
    expect(textOf(await renderSpec('kubernetes', refuted), 'deployment.yaml')).toContain(
      'Note: no autoscaler',
    )
    const scalingIn = async (of: Serving) =>
      textOf(await renderSpec('kubernetes', of), 'deployment.yaml').match(
        /scales from \d+ \(.*\) to \d+ replicas/g,
      )
    expect(await scalingIn(refuted)).toBeNull()
    expect(await scalingIn(serving())).toHaveLength(1)
  })

  test('scales no faster than replicas start, and gives them up slowly', async () => {
    const hpa = (await valid(serving(), 'hpa')).get('HorizontalPodAutoscaler')!
    const behavior = {
      scaleUp: {
        stabilizationWindowSeconds: 0,
        policies: [{ type: 'Percent', value: 100, periodSeconds: 31 }],
      },
      scaleDown: {
        stabilizationWindowSeconds: 310,
        selectPolicy: 'Max',
        policies: [
          { type: 'Pods', value: 1, periodSeconds: 31 },
          { type: 'Percent', value: 10, periodSeconds: 31 },
        ],
      },
    }
    expect(hpa.spec!.behavior).toEqual(behavior)
    const scaled = (await valid(serving(), 'keda')).get('ScaledObject')!
    expect(scaled.spec!.advanced!.horizontalPodAutoscalerConfig!.behavior).toEqual(behavior)
    const unmeasured = servingOf(
      { ...found, evidence: { ...evidence, launchSeconds: undefined } },
      { headroom: 0.2 },
    )
    expect(
      (await valid(unmeasured, 'hpa')).get('HorizontalPodAutoscaler')!.spec,
    ).not.toHaveProperty('behavior')
    // The API takes periods up to half an hour, and windows up to an hour.
    const slow = servingOf(
      { ...found, evidence: { ...evidence, launchSeconds: 7200 } },
      { headroom: 0.2 },
    )
    expect((await valid(slow, 'hpa')).get('HorizontalPodAutoscaler')!.spec!.behavior).toMatchObject(
      {
        scaleUp: { policies: [{ periodSeconds: 1800 }] },
        scaleDown: { stabilizationWindowSeconds: 3600 },
      },
    )
  })

  test("KEDA asks for exactly this Deployment's pods, in the namespace that every object names", async () => {
    const objects = await valid(serving(), 'keda')
    const { query } = objects.get('ScaledObject')!.spec!.triggers![0]!.metadata! as unknown as {
      query: string
    }
    expect(query).toMatch(
      /^sum\(rate\(bert_requests_total\{namespace="default",pod=~".*"\}\[1m\]\)\)$/,
    )
    const pods = new RegExp(`^(?:${/pod=~"([^"]+)"/.exec(query)![1]})$`)
    expect(
      [
        'bert-7d9f8b6c5d-x2x9z',
        'bert-large-7d9f8b6c5d-x2x9z',
        'bert-0',
        'albert-7d9f8b6c5d-x2x9z',
      ].filter((name) => pods.test(name)),
    ).toEqual(['bert-7d9f8b6c5d-x2x9z'])
    for (const object of objects.values()) expect(object.metadata!.namespace).toBe('default')
    const elsewhere = await valid(serving({ namespace: 'ml' }), 'keda')
    expect(JSON.stringify(elsewhere.get('ScaledObject'))).toContain('namespace=\\"ml\\"')
    for (const object of elsewhere.values()) expect(object.metadata!.namespace).toBe('ml')
    expect((await valid(serving(), 'none')).get('Deployment')!.metadata).not.toHaveProperty(
      'namespace',
    )
    expect(() => serving({ namespace: 'a"}' })).toThrow(/not a valid namespace/)
    await expect(renderSpec('compose', serving({ namespace: 'ml' }))).rejects.toThrow(
      /--namespace does not apply/,
    )
  })

  test('pods that scale are scraped; several are spread and budgeted; each ends after what it is doing', async () => {
    const pod = async (s: Serving, autoscaler: 'none' | 'hpa') =>
      (await valid(s, autoscaler)).get('Deployment')!.spec!.template!
    expect((await pod(serving(), 'hpa')).metadata!.annotations).toMatchObject({
      'prometheus.io/scrape': 'true',
      'prometheus.io/port': '8000',
    })
    expect((await pod(serving({ server: 'triton' }), 'hpa')).metadata!.annotations).toMatchObject({
      'prometheus.io/port': '8002',
    })
    const tfserving = await pod(serving({ server: 'tfserving' }), 'hpa')
    expect(tfserving.metadata!.annotations).toMatchObject({
      'prometheus.io/path': '/monitoring/prometheus/metrics',
    })
    expect(tfserving.spec!.containers![0]!.args).toContain(
      '--monitoring_config_file=/etc/tuned/monitoring.config',
    )
    expect((await pod(serving(), 'hpa')).spec!.topologySpreadConstraints).toHaveLength(1)
    const one = await valid(serving({ demandRps: 10 }), 'none')
    expect([...one.keys()]).not.toContain('PodDisruptionBudget')
    expect(one.get('Deployment')!.spec!.template!.spec).not.toHaveProperty(
      'topologySpreadConstraints',
    )
    const grace = async (slowestMs: number) =>
      (
        await pod(
          servingOf({ ...found, evidence: { ...evidence, slowestMs } }, { headroom: 0 }),
          'none',
        )
      ).spec!.terminationGracePeriodSeconds
    expect([await grace(200), await grace(45_000)]).toEqual([30, 100])
    expect((await pod(serving(), 'none')).spec!.containers![0]!.lifecycle).toEqual({
      preStop: { exec: { command: ['sleep', '5'] } },
    })
  })

  test('gives a predictor three times its measured launch to start, and five minutes where none was measured', async () => {
    const startup = async (s: Serving) =>
      (await valid(s, 'none')).get('Deployment')!.spec!.template!.spec!.containers![0]!
        .startupProbe as unknown as {
        periodSeconds: number
        failureThreshold: number
      }
    expect(await startup(serving())).toMatchObject({ periodSeconds: 5, failureThreshold: 19 })
    const unmeasured = servingOf(
      { ...found, evidence: { ...evidence, launchSeconds: undefined } },
      { headroom: 0.2 },
    )
    expect(await startup(unmeasured)).toMatchObject({ failureThreshold: 60 })
  })

  test('says in its header what each figure comes from', async () => {
    const text = textOf(await renderSpec('kubernetes', serving()), 'deployment.yaml')
    expect(text.startsWith(`# ${recommendation.verdict}\n`)).toBe(true)
    expect(text).toContain('experiment bert-7f3a, trial 2 (measured, seed 7)')
    expect(text).toMatch(
      /# {3}safe capacity 191 req\/s \(estimate 212 \[206 to 218\]\) +trial 2, measured: p99 36 ms \(estimated\), SLO 50 ms/,
    )
    expect(text).toMatch(
      /# {3}replicas 6 +demand 900 req\/s \/ \(safe capacity x \(1 - headroom 20 %\)\), rounded up/,
    )
    expect(text).toMatch(/# {3}memory 4096 MiB +tuned/)
    expect(text).toContain(
      '# Note: needs: the device plugin must share each GPU by time-slicing with 4 replicas',
    )
  })

  test('cannot be broken out of by names and texts', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary' }),
        fc.string({ unit: 'binary', minLength: 1 }),
        async (evil, model) => {
          const s = servingOf(
            {
              ...found,
              model,
              candidate: { ...best, label: evil },
              container: { ...container, env: { X: evil }, args: [evil] },
              evidence: {
                ...evidence,
                verdict: evil,
                experimentId: evil,
                measured: { ...ownCommand, how: 'emulated' },
              },
            },
            { headroom: 0 },
          )
          const { objects, problems } = checkManifests(
            textOf(await renderSpec('kubernetes', s), 'deployment.yaml'),
          )
          expect(problems).toEqual([])
          expect(objects.map(({ kind }) => kind)).toEqual(['ConfigMap', 'Deployment', 'Service'])
          const { containers } = (objects[1] as unknown as Tree).spec!.template!.spec!
          expect(containers![0]!.args).toEqual([evil])
          expect(String((objects[1] as unknown as Tree).metadata!.name)).toMatch(
            /^[a-z][-a-z0-9]*[a-z0-9]$|^[a-z]$/,
          )
        },
      ),
    )
  })

  test('keeps a pod of the user as it is, and finds it by label and port', async () => {
    const spec = {
      serviceAccountName: 'ml',
      containers: [
        { name: 'mine', image: 'x:1', env: [{ name: 'A', value: '1' }] },
        { name: 'proxy', image: 'envoy:1' },
      ],
    }
    const own = serving(
      { pod: { metadata: { name: 'p', labels: { team: 'ml' } }, spec } },
      quarter,
      { port: 9090 },
    )
    const objects = await valid(own, 'hpa')
    const { template, selector } = objects.get('Deployment')!.spec!
    expect(template!.spec).toEqual(spec)
    expect(template!.metadata).toEqual({ labels: { team: 'ml', 'app.kubernetes.io/name': 'bert' } })
    expect(selector!.matchLabels).toEqual({ 'app.kubernetes.io/name': 'bert' })
    expect(objects.get('Service')!.spec!.ports![0]!.targetPort).toBe(9090)
    expect([...objects.keys()]).not.toContain('ConfigMap')
  })

  test('runs the built-in predictor as its trials ran: restricted, and with what the user laid over their pod', async () => {
    const overlay = {
      metadata: { annotations: { 'team/owner': 'ml' } },
      spec: {
        priorityClassName: 'low',
        tolerations: [{ key: 'spot', operator: 'Exists' }],
        securityContext: { runAsUser: 2000 },
      },
    }
    const objects = await valid(serving({ server: 'builtin', overlay }), 'hpa')
    const { metadata, spec } = objects.get('Deployment')!.spec!
      .template! as unknown as V1PodTemplateSpec
    // What fetches the weights: a source and a folder, and each once.
    expect(spec!.initContainers).toMatchObject([
      { args: [expect.stringContaining('://'), '/mnt/models'] },
    ])
    expect(restrictedViolations(spec!)).toEqual([])
    expect(spec).toMatchObject({
      priorityClassName: 'low',
      securityContext: { runAsUser: 2000, fsGroup: 1000 },
    })
    expect(spec!.tolerations!.map(({ key }) => key)).toContain('spot')
    expect(metadata!.annotations).toMatchObject({ 'team/owner': 'ml' })
  })

  test('a typo would not pass the schema', async () => {
    const text = textOf(
      await renderSpec('kubernetes', serving(), { autoscaler: 'none' }),
      'deployment.yaml',
    )
    expect(checkManifests(text.replace('replicas:', 'replica:')).problems).not.toEqual([])
    expect(checkManifests(text.replace('cpu: "2"', 'cpu: 2')).problems).not.toEqual([])
  })
})

test.each<[SpecTargetName, SpecOptions, string]>([
  ['kubernetes', {}, 'http://bert'],
  ['kserve', {}, 'http://bert-predictor'],
  ['kserve', { variant: 'knative' }, 'http://bert-predictor'],
  ['seldon', {}, 'http://ADDRESS'],
  ['kubedl', {}, 'http://ADDRESS'],
])('figures of another server are settled where %s %o serves: %s', async (target, options, url) => {
  const deployed = { server: 'triton', weights: 'given' } as const
  const files = await renderSpec(
    target,
    servingOf({ ...found, deployed }, { headroom: 0.2, modelUri: 's3://b/m' }),
    options,
  )
  expect(files.map(({ text }) => text).join('')).toContain(`tune verify --url ${url} `)
})

describe('GPU schemes', () => {
  test('each gives a valid pod, or says why it cannot', async () => {
    const slice: Resources = {
      ...quarter,
      gpu: 'A100-40GB',
      migProfile: '1g.5gb',
      gpuShare: 1 / 7,
      gpuMemoryMiB: 4864,
    }
    for (const scheme of gpuSchemes) {
      const ofVendor = { amd: 'MI300X', intel: 'Max-1550' }[String(scheme)]
      const fitting = ofVendor
        ? { ...whole, gpu: ofVendor }
        : scheme.startsWith('mig')
          ? slice
          : ['nvidia', 'gke', 'karpenter', 'aks'].includes(scheme)
            ? whole
            : quarter
      const text = textOf(
        await renderSpec('kubernetes', serving({ gpuScheme: scheme }, fitting)),
        'deployment.yaml',
      )
      expect(checkManifests(text).problems, scheme).toEqual([])
      // The taint of the nodes that have it, as trials tolerate it.
      const [key] = ofVendor ? Object.keys(specGpus(fitting, scheme).limits) : ['nvidia.com/gpu']
      expect(text, scheme).toMatch(new RegExp(`tolerations:\\s+- key: ${key}\\s+operator: Exists`))
    }
    for (const scheme of ['nvidia', 'gke', 'mig-mixed'] as const)
      expect(() => specGpus(quarter, scheme)).toThrow(SpecError)
    expect(() => specGpus({ ...whole, gpu: 'P40' }, 'gke')).toThrow(/scheme gke has no name/)
    expect(() => specGpus({ ...whole, gpu: 'MI300X' }, 'nvidia')).toThrow(
      /does not support MI300X, a GPU of another vendor/,
    )
    expect(() => specGpus(whole, 'amd')).toThrow(/another vendor/)
  })

  test('follow the traps of each: one shared replica, a dot for a plus, no substring matches', async () => {
    expect(specGpus(quarter, 'mps').limits).toEqual({ 'nvidia.com/gpu': '1' })
    expect(
      specGpus({ ...whole, gpu: 'A100-40GB', migProfile: '1g.5gb+me' }, 'mig-mixed').limits,
    ).toEqual({
      'nvidia.com/mig-1g.5gb.me': '1',
    })
    const hami = specGpus({ ...quarter, gpu: 'L4' }, 'hami')
    expect(hami.limits).toEqual({
      'nvidia.com/gpu': '1',
      'nvidia.com/gpumem': '3840',
      'nvidia.com/gpucores': '25',
    })
    expect(hami.annotations).toEqual({
      'nvidia.com/use-gputype': 'L4',
      'nvidia.com/nouse-gputype': 'L40,L40S',
    })
    expect(specGpus(quarter, 'aliyun').limits).toEqual({ 'aliyun.com/gpu-mem': '3' })
    expect(specGpus(whole).requirements[0]!.values).toContain('Tesla-T4')
    expect([defaultScheme(noGpu), defaultScheme(whole), defaultScheme(quarter)]).toEqual([
      undefined,
      'nvidia',
      'time-slicing',
    ])
  })
})

describe('GPUs by dynamic resource allocation', () => {
  const dra = (options: Parameters<typeof serving>[0] = {}, resources = whole) =>
    serving({ gpuScheme: 'dra', ...options }, resources)
  const template = {
    metadata: { name: 'bert-gpu' },
    spec: { spec: { devices: { requests: [{ exactly: { count: 1 } }] } } },
  }

  test('each pod claims by a template of the spec’s own', async () => {
    const text = textOf(await renderSpec('kubernetes', dra()), 'deployment.yaml')
    const { objects, problems } = checkManifests(text)
    expect(problems).toEqual([])
    expect(objects.find(({ kind }) => kind === 'ResourceClaimTemplate')).toMatchObject(template)
    const { spec } = (objects.find(({ kind }) => kind === 'Deployment') as unknown as Tree).spec!
      .template!
    expect(spec!.resourceClaims).toEqual([
      { name: 'tuned-gpu', resourceClaimTemplateName: 'bert-gpu' },
    ])
    expect(spec!.containers![0]!.resources!.claims).toEqual([{ name: 'tuned-gpu' }])
    expect(spec!.containers![0]!.resources!.limits).toEqual({ cpu: '2', memory: '4Gi' })
    expect(spec!.tolerations).toEqual([
      { key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' },
    ])
  })

  test('a share says what it rests on', async () => {
    const notes = async (options: Partial<ServingOptions>) =>
      textOf(await renderSpec('kubernetes', dra(options, quarter)), 'deployment.yaml')
    expect(await notes({})).toMatch(/needs: .*MPSSupport.*only pods of the same claim share a GPU/)
    expect(await notes({ dra: { sharing: 'capacity' } })).toContain('--consumable-shares=memory')
    for (const sharing of ['mps', 'time-slicing', 'capacity'] as const)
      expect(checkManifests(await notes({ dra: { sharing } })).problems).toEqual([])
  })

  test.each(['command', 'tfserving', 'triton'] as const)(
    'KServe with %s claims so too; Knative, KubeDL and Seldon say that they cannot',
    async (server) => {
      const s = dra({ server })
      const { objects, problems } = checkManifests(
        textOf(await renderSpec('kserve', s), 'inferenceservice.yaml'),
      )
      expect(problems).toEqual([])
      expect(objects.map(({ kind }) => kind)).toContain('ResourceClaimTemplate')
      expect((objects.at(-1) as unknown as Tree).spec!.predictor!.resourceClaims).toHaveLength(1)
      await expect(renderSpec('kserve', s, { variant: 'knative' })).rejects.toThrow(
        /Knative takes no resourceClaims/,
      )
      if (server === 'command') return
      for (const target of ['kubedl', 'seldon'] as const)
        await expect(renderSpec(target, s)).rejects.toThrow(/takes no resourceClaims/)
    },
  )
})
