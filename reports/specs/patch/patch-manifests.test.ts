import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import type { GpuScheme } from '../../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { createServing } from '../create-serving.ts'
import { selectGpus } from '../scheduling.ts'
import type { Serving } from '../serving.ts'
import { evidence, found } from '../spec-samples.contract.ts'
import { checkManifests } from '../validate.contract.ts'
import { patchManifests } from './patch-manifests.ts'

const resources = { cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpus: 1, gpuShare: 1 }
const container = {
  image: 'ignored:1',
  env: { BATCH_SIZE: '8', MAX_DELAY_MS: '2', HOST: '0.0.0.0' },
  tunedEnv: ['BATCH_SIZE', 'MAX_DELAY_MS'],
  args: ['--workers=2', '--new=1', '--log=none'],
  tunedArgs: ['--workers=2', '--new=1'],
  tunedElsewhere: [],
  port: 8000,
  readyPath: '/',
}
const tuned = { ...found, resources, container }
const serving: Serving = createServing(tuned, { demandRps: 900, headroom: 0.2 })

const manifest = `# Our bert, do not touch without asking ML platform
apiVersion: apps/v1
kind: Deployment
metadata:
    name: bert   # four blanks here, on purpose
spec:
    replicas: 2      # sized by hand in March
    selector: {matchLabels: {app: bert}}
    template:
        metadata: {labels: {app: bert}}
        spec:
            containers:
            -   name: proxy
                image: envoy:1
            -   name: server
                image: "registry.example/bert:7"
                args: [ "--workers=4", '--log=info' ]
                env:
                - name: BATCH_SIZE
                  value: '1'   # one, for now
                # keep last
                - {name: MODE, value: fast}
                resources:
                    limits: {cpu: 8, memory: 16Gi}

---
# scaled by hand until now
apiVersion: v1
kind: Service
metadata: {name: bert}
spec: {selector: {app: bert}, ports: [{port: 80}]}
`
const newFlag = '--new=1: the container has no such argument: add it'
const patch = (text: string, container?: string, of = serving) =>
  patchManifests(text, of, { container, file: 'deployment.yaml' })

describe('patching a manifest', () => {
  const patched = patch(manifest, 'server')

  test('changes the lines of tuned values and leaves the others as they are', () => {
    const before = manifest.split('\n')
    const after = patched.text.split('\n')
    const kept = before.filter((line) => after.includes(line))
    expect(before.filter((line) => !kept.includes(line))).toEqual([
      '    replicas: 2      # sized by hand in March',
      `                args: [ "--workers=4", '--log=info' ]`,
      `                  value: '1'   # one, for now`,
      '                    limits: {cpu: 8, memory: 16Gi}',
    ])
    expect(patched.text).toContain('    replicas: 6      # sized by hand in March\n')
    expect(patched.text).toContain(`                args: [ "--workers=2", '--log=info' ]\n`)
    expect(patched.text).toContain(`                  value: '8'   # one, for now\n`)
    expect(patched.text).toContain('limits: {cpu: "2", memory: 4Gi, nvidia.com/gpu: "1"}\n')
  })

  test('gives what it says, in a valid manifest', () => {
    const { objects, problems } = checkManifests(patched.text)
    expect(problems).toEqual([])
    const pod = (
      objects[0] as {
        spec: { template: { spec: { containers: Record<string, unknown>[]; affinity: unknown } } }
      }
    ).spec.template.spec
    expect(pod.containers[0]).toEqual({ name: 'proxy', image: 'envoy:1' })
    expect(pod.containers[1]).toMatchObject({
      image: 'registry.example/bert:7',
      env: [
        { name: 'BATCH_SIZE', value: '8' },
        { name: 'MODE', value: 'fast' },
        { name: 'MAX_DELAY_MS', value: '2' },
      ],
      resources: {
        requests: { cpu: '2', memory: '4Gi' },
        limits: { cpu: '2', memory: '4Gi', 'nvidia.com/gpu': '1' },
      },
    })
    expect(JSON.stringify(pod.affinity)).toContain('Tesla-T4')
    expect(patched.changes.map((c) => c.where)).toContain('Deployment bert: spec.replicas')
    expect(patched.changes.find((c) => c.where.endsWith('spec.replicas'))).toMatchObject({
      from: 2,
      to: 6,
    })
  })

  test('a second time changes nothing', () => {
    const again = patch(patched.text, 'server')
    expect(again.changes).toEqual([])
    expect(again.text).toBe(patched.text)
  })

  test('sets the bounds of an autoscaler, and then leaves the replicas to it', () => {
    const scaled = `${manifest}---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: bert}\nspec:\n  minReplicas: 1\n  maxReplicas: 3\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: bert}`
    const result = patch(scaled, 'server')
    expect(result.text).toContain('    replicas: 2 ')
    expect(result.text).toContain('  minReplicas: 6\n  maxReplicas: 12\n')
    expect(checkManifests(result.text).problems).toEqual([])
  })

  test('fills what is empty or missing, in the style around it', () => {
    const bare =
      'apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  nodeSelector:\n    nvidia.com/gpu.product: NVIDIA-L4\n  containers:\n  - name: server\n    image: x\n    resources:\n    ports: []'
    const result = patch(bare)
    expect(parseAllDocuments(result.text)[0]!.toJS()).toEqual({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p' },
      spec: {
        nodeSelector: { 'nvidia.com/gpu.product': 'Tesla-T4' },
        containers: [
          {
            name: 'server',
            image: 'x',
            resources: {
              requests: { cpu: '2', memory: '4Gi' },
              limits: { cpu: '2', memory: '4Gi', 'nvidia.com/gpu': '1' },
            },
            ports: [],
            env: [
              { name: 'BATCH_SIZE', value: '8' },
              { name: 'MAX_DELAY_MS', value: '2' },
            ],
          },
        ],
        tolerations: [{ key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }],
      },
    })
    expect(patch(result.text).changes).toEqual([])
  })

  describe('finds the GPU as trials did', () => {
    const podOf = (text: string) =>
      parseAllDocuments(text)[0]!.toJS().spec.template as {
        metadata: { annotations?: object }
        spec: Record<string, unknown>
      }
    const under = (gpuScheme: GpuScheme, share: object = {}) => ({
      ...serving,
      gpuScheme,
      resources: { ...resources, ...share },
    })
    const half = { gpuShare: 0.5, gpuMemoryMiB: 7680 }

    test('by annotations under HAMi, by its scheduler under Volcano, past the taint of another vendor', () => {
      expect(
        podOf(patch(manifest, 'server', under('hami', half)).text).metadata.annotations,
      ).toEqual({
        'nvidia.com/use-gputype': 'T4',
        ...selectGpus({ ...resources, ...half }, 'hami').annotations,
      })
      expect(podOf(patch(manifest, 'server', under('volcano', half)).text).spec.schedulerName).toBe(
        'volcano',
      )
      const amd = podOf(patch(manifest, 'server', under('amd', { gpu: 'MI300X' })).text).spec
      expect(amd.tolerations).toEqual([
        { key: 'amd.com/gpu', operator: 'Exists', effect: 'NoSchedule' },
      ])
    })

    test('beside tolerations of the user’s, which may be enough', () => {
      const tolerating = (list: string) =>
        manifest.replace('        spec:\n', `        spec:\n            tolerations: ${list}\n`)
      const spot = patch(tolerating('[{key: spot, operator: Exists}]'), 'server').text
      expect(podOf(spot).spec.tolerations).toEqual([
        { key: 'spot', operator: 'Exists' },
        { key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' },
      ])
      for (const enough of ['[{operator: Exists}]', '[{key: nvidia.com/gpu, operator: Exists}]']) {
        expect(
          patch(tolerating(enough), 'server').changes.filter(({ where }) =>
            where.includes('tolerations'),
          ),
        ).toEqual([])
      }
    })

    test('what the user has otherwise stays, and is said', () => {
      const affinity =
        'nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}'
      const own = manifest.replace(
        '        spec:\n',
        `        spec:\n            schedulerName: mine\n            affinity: {${affinity}}\n`,
      )
      const { text, unappliedValues } = patch(own, 'server', under('nvidia'))
      expect(podOf(text).spec).toMatchObject({ schedulerName: 'mine' })
      expect(text).toContain(affinity)
      expect(unappliedValues).toEqual([
        newFlag,
        expect.stringMatching(
          /^node affinity for T4 \(nvidia\.com\/gpu\.product In \(.*Tesla-T4.*a nodeAffinity of its own$/,
        ),
      ])
      expect(patch(own, 'server', under('volcano', half)).unappliedValues).toContain(
        'schedulerName = volcano: the manifest uses mine, but only volcano can allocate a share of a GPU',
      )
      expect(patch(patch(manifest, 'server').text, 'server').unappliedValues).toEqual([newFlag])
    })
  })

  test('of KServe sets the bounds and the model server', () => {
    const service =
      'apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: bert}\nspec:\n  predictor:\n    minReplicas: 1\n    model:\n      modelFormat: {name: triton}\n      resources: {}\n'
    const result = patch(service)
    expect(checkManifests(result.text).problems).toEqual([])
    expect(result.text).toContain('cpu: "2"')
    // Of Triton nothing was measured.
    expect(result.text).toContain('minReplicas: 1')
    expect(result.unappliedValues).toContainEqual(
      expect.stringMatching(/^minReplicas = 6 of InferenceService bert: .*--min-replicas/),
    )
    const own = patch(
      service.replace(
        / {4}model:[\s\S]*/,
        '    containers: [{name: kserve-container, image: x}]\n',
      ),
    )
    expect(own.text).toContain('minReplicas: 6')
  })

  test('is refused where it would guess', () => {
    expect(() => patch(manifest.replace('BATCH_SIZE', 'B').replace('--workers', '-w'))).toThrow(
      /several containers that may be the server: Deployment\/bert\/proxy, Deployment\/bert\/server/,
    )
    expect(() => patch(manifest, 'web')).toThrow(/no container web/)
    expect(() => patch('kind: Service\n')).toThrow(/no workload \(Service\)/)
    expect(() => patch('a: [1')).toThrow(/not valid YAML/)
    const anchored =
      'kind: Deployment\nspec:\n  replicas: &n 3\n  other: *n\n  template: {spec: {containers: [{name: a, resources: *r}]}}'
    expect(() => patch(anchored.replace('*r', '*n'))).toThrow(/spec\.replicas is shared: \*n/)
  })

  const withConfiguration = (
    configuration: Serving['configuration'],
    change: Partial<typeof tuned> = {},
    options = {},
  ) =>
    createServing(
      { ...tuned, ...change, candidate: { ...tuned.candidate, configuration } },
      { headroom: 0.2, ...options },
    )

  test('leaves what was not tuned as the user has it: memory, cores, GPU, nodes, and replicas that no demand sizes', () => {
    const batchAlone = patch(manifest, 'server', withConfiguration({ batchSize: 8 }))
    expect(batchAlone.changes.map(({ where }) => where)).toEqual([
      'Deployment bert: spec.template.spec.containers.1.args.0',
      'Deployment bert: spec.template.spec.containers.1.env.0.value',
      'Deployment bert: spec.template.spec.containers.1.env.2',
    ])
    const cores = patch(manifest, 'server', withConfiguration({ batchSize: 8, cpuCores: 2 }))
    expect(cores.text).toContain('limits: {cpu: "2", memory: 16Gi}\n')
    expect(cores.text).toContain('replicas: 2 ')
    expect(cores.text).not.toContain('nvidia.com')
    const scaled = `${manifest}---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: bert}\nspec:\n  minReplicas: 1\n  maxReplicas: 3\n  scaleTargetRef: {kind: Deployment, name: bert}\n`
    expect(patch(scaled, 'server', withConfiguration({ batchSize: 8 })).text).toContain(
      '  minReplicas: 1\n  maxReplicas: 3\n',
    )
    expect(
      patch(scaled, 'server', withConfiguration({ batchSize: 8 }, {}, { minReplicas: 4 })).text,
    ).toContain('  minReplicas: 4\n')
  })

  test('gives a foreign server nothing of the built-in predictor: its own variables are changed, none are added, and what found no place is said', () => {
    const builtin = {
      deployed: { server: 'builtin', engine: 'tfjs', weights: 'missing' },
      evidence: {
        ...evidence,
        measured: {
          how: 'measured',
          server: 'builtin',
          engine: 'tfjs',
          model: 'bert',
          modelKind: 'encoder',
          weights: 'random',
        },
      },
      container: {
        ...container,
        env: { ...container.env, MODEL: 'bert', ENGINE: 'tfjs', PORT: '8000' },
      },
    } as const
    const of = withConfiguration(
      { batchSize: 8, maxDelayMs: 2 },
      builtin as unknown as Partial<typeof tuned>,
    )
    const foreign = patch(manifest, 'server', of)
    expect(
      foreign.changes.map(({ where, to }) => [where.split('.').slice(-3).join('.'), to]),
    ).toContainEqual(['env.0.value', '8'])
    expect(foreign.text).not.toMatch(/MODEL|ENGINE|PORT|MAX_DELAY_MS|HOST/)
    expect(foreign.unappliedValues).toEqual([
      newFlag,
      'MAX_DELAY_MS = 2: this container is not the built-in predictor that was measured',
    ])
    for (const own of ['image: "registry.example/tune-predictor:0.1.0"', 'image: "tune:1"']) {
      const ours = patch(manifest.replace('image: "registry.example/bert:7"', own), 'server', of)
      expect(ours.unappliedValues).toEqual([newFlag])
      expect(ours.text).toContain('MAX_DELAY_MS')
      expect(ours.text).not.toMatch(/ENGINE|HOST|PORT/)
    }
  })

  test('a variable that is taken from elsewhere stays, and is named', () => {
    const elsewhere = manifest.replace(
      "value: '1'   # one, for now",
      'valueFrom: {configMapKeyRef: {name: c, key: k}}',
    )
    const result = patch(elsewhere, 'server')
    expect(result.unappliedValues).toEqual([
      newFlag,
      'BATCH_SIZE = 8: the manifest takes BATCH_SIZE from elsewhere (valueFrom)',
    ])
    expect(checkManifests(result.text).problems).toEqual([])
  })
})

describe('a manifest that is made to hang or to flood', () => {
  const workload = 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\n'
  const laughs = Array.from(
    { length: 9 },
    (_, i) => `a${i}: &a${i} [${Array(9).fill(i === 0 ? 'x' : `*a${i - 1}`)}]`,
  ).join('\n')
  test.each([
    ['entries of entries', '- '.repeat(50_000), /nested deeper/],
    ['30,000 tags', `${workload}x: ${'!a '.repeat(30_000)}`, /not valid YAML/],
    ['bytes by a tag', `${workload}x: !!binary ${'aGk='.repeat(1_000)}`, /binary/],
    ['aliases that multiply', workload + laughs, /alias/i],
    [
      'no list where one has to be',
      `${workload}spec: {template: {spec: {containers: [{name: a, env: [], resources: 5}]}}}`,
      /resources/,
    ],
  ])('%s: refused, with its file', (_, text, message) => {
    const refused = () => patchManifests(text, serving, { file: 'deployment.yaml' })
    expect(refused).toThrow(message)
    expect(refused).toThrow(/^deployment\.yaml/)
  })
})
