import type { V1PodTemplateSpec } from '@kubernetes/client-node'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  chooseDefaultScheme,
  gpuSchemes,
} from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { restrictedViolations } from '../../trials/launchers/kubernetes/testing/restricted.ts'
import type { Resources } from '../../trials/resources.ts'
import { createServing } from './create-serving.ts'
import { renderSpec, type SpecTargetName } from './index.ts'
import { selectGpus } from './scheduling.ts'
import type { Serving, ServingOptions } from './serving.ts'
import { SpecError } from './spec-error.ts'
import {
  best,
  container,
  evidence,
  found,
  noGpu,
  ownCommand,
  quarter,
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

  test('scales on no figure that is only an upper bound, or was refuted', async () => {
    const kinds = async (s: Serving) => [...(await valid(s, 'hpa')).keys()]
    expect(await kinds(serving())).toContain('HorizontalPodAutoscaler')
    const bound = createServing(
      { ...found, candidate: { ...best, bound: 'upper' } },
      { headroom: 0.2 },
    )
    expect(await kinds(bound)).not.toContain('HorizontalPodAutoscaler')
    const refuted = createServing(
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

  test('the rates of scaling stay within what the API takes, and need a measured start', async () => {
    const behaviourAfter = async (launchSeconds: number | undefined) => {
      const of = createServing(
        { ...found, evidence: { ...evidence, launchSeconds } },
        { headroom: 0.2 },
      )
      return (await valid(of, 'hpa')).get('HorizontalPodAutoscaler')!.spec!.behavior
    }
    expect(await behaviourAfter(undefined)).toBeUndefined()
    // The API takes periods up to half an hour, and windows up to an hour.
    expect(await behaviourAfter(7200)).toMatchObject({
      scaleUp: { policies: [{ periodSeconds: 1800 }] },
      scaleDown: { stabilizationWindowSeconds: 3600 },
    })
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
    expect(() => serving({ namespace: 'a"}' })).toThrow(/not a valid namespace/)
    await expect(renderSpec('compose', serving({ namespace: 'ml' }))).rejects.toThrow(
      /--namespace does not apply/,
    )
  })

  test('cannot be broken out of by names and texts', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ unit: 'binary' }),
        fc.string({ unit: 'binary', minLength: 1 }),
        async (evil, model) => {
          const s = createServing(
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
    createServing({ ...found, deployed }, { headroom: 0.2, modelUri: 's3://b/m' }),
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
      const [key] = ofVendor ? Object.keys(selectGpus(fitting, scheme).limits) : ['nvidia.com/gpu']
      expect(text, scheme).toMatch(new RegExp(`tolerations:\\s+- key: ${key}\\s+operator: Exists`))
    }
    for (const scheme of ['nvidia', 'gke', 'mig-mixed'] as const)
      expect(() => selectGpus(quarter, scheme)).toThrow(SpecError)
    expect(() => selectGpus({ ...whole, gpu: 'P40' }, 'gke')).toThrow(/scheme gke has no name/)
    expect(() => selectGpus({ ...whole, gpu: 'MI300X' }, 'nvidia')).toThrow(
      /does not support MI300X, a GPU of another vendor/,
    )
    expect(() => selectGpus(whole, 'amd')).toThrow(/another vendor/)
  })

  test('follow the traps of each: one shared replica, a dot for a plus, no substring matches', async () => {
    expect(selectGpus(quarter, 'mps').limits).toEqual({ 'nvidia.com/gpu': '1' })
    expect(
      selectGpus({ ...whole, gpu: 'A100-40GB', migProfile: '1g.5gb+me' }, 'mig-mixed').limits,
    ).toEqual({
      'nvidia.com/mig-1g.5gb.me': '1',
    })
    const hami = selectGpus({ ...quarter, gpu: 'L4' }, 'hami')
    expect(hami.limits).toEqual({
      'nvidia.com/gpu': '1',
      'nvidia.com/gpumem': '3840',
      'nvidia.com/gpucores': '25',
    })
    expect(hami.annotations).toEqual({
      'nvidia.com/use-gputype': 'L4',
      'nvidia.com/nouse-gputype': 'L40,L40S',
    })
    expect(selectGpus(quarter, 'aliyun').limits).toEqual({ 'aliyun.com/gpu-mem': '3' })
    expect(selectGpus(whole).requirements[0]!.values).toContain('Tesla-T4')
    expect([
      chooseDefaultScheme(noGpu),
      chooseDefaultScheme(whole),
      chooseDefaultScheme(quarter),
    ]).toEqual([undefined, 'nvidia', 'time-slicing'])
  })
})

describe('GPUs by dynamic resource allocation', () => {
  const dra = (options: Parameters<typeof serving>[0] = {}, resources = whole) =>
    serving({ gpuScheme: 'dra', ...options }, resources)
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
