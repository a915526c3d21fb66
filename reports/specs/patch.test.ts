import { describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { recommend } from '../recommendation/recommend.ts'
import { sampleInput, slo } from '../samples.contract.ts'
import { patchManifests } from './patch.ts'
import { type Serving, servingOf } from './serving.ts'
import { checkManifests } from './validate.contract.ts'

const recommendation = recommend(sampleInput)
const serving: Serving = servingOf(
  'bert',
  recommendation.best!,
  { cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpus: 1, gpuShare: 1 },
  { image: 'ignored:1', env: { BATCH_SIZE: '8', MAX_DELAY_MS: '2' }, args: ['--workers=2', '--new=1'], port: 8000, readyPath: '/' },
  { experimentId: 'e', provenance: 'measured', seed: 1, slo, verdict: recommendation.verdict },
  { demandRps: 1000, headroom: 0.2 },
)

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
const patch = (text: string, container?: string) => patchManifests(text, serving, { container, file: 'deployment.yaml' })

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
    const pod = (objects[0] as { spec: { template: { spec: { containers: Record<string, unknown>[]; affinity: unknown } } } }).spec.template
      .spec
    expect(pod.containers[0]).toEqual({ name: 'proxy', image: 'envoy:1' })
    expect(pod.containers[1]).toMatchObject({
      image: 'registry.example/bert:7',
      env: [
        { name: 'BATCH_SIZE', value: '8' },
        { name: 'MODE', value: 'fast' },
        { name: 'MAX_DELAY_MS', value: '2' },
      ],
      resources: { requests: { cpu: '2', memory: '4Gi' }, limits: { cpu: '2', memory: '4Gi', 'nvidia.com/gpu': '1' } },
    })
    expect(JSON.stringify(pod.affinity)).toContain('Tesla-T4')
    expect(patched.changes.map((c) => c.where)).toContain('Deployment bert: spec.replicas')
    expect(patched.changes.find((c) => c.where.endsWith('spec.replicas'))).toMatchObject({ from: 2, to: 6 })
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
            resources: { requests: { cpu: '2', memory: '4Gi' }, limits: { cpu: '2', memory: '4Gi', 'nvidia.com/gpu': '1' } },
            ports: [],
            env: [
              { name: 'BATCH_SIZE', value: '8' },
              { name: 'MAX_DELAY_MS', value: '2' },
            ],
          },
        ],
      },
    })
    expect(patch(result.text).changes).toEqual([])
  })

  test('of KServe sets the bounds and the model server', () => {
    const service =
      'apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: bert}\nspec:\n  predictor:\n    minReplicas: 1\n    model:\n      modelFormat: {name: triton}\n      resources: {}\n'
    const result = patch(service)
    expect(checkManifests(result.text).problems).toEqual([])
    expect(result.text).toContain('minReplicas: 6')
    expect(result.text).toContain('cpu: "2"')
  })

  test('is refused where it would guess', () => {
    expect(() => patch(manifest)).toThrow(/several containers: proxy, server/)
    expect(() => patch(manifest, 'web')).toThrow(/no container web/)
    expect(() => patch('kind: Service\n')).toThrow(/no workload \(Service\)/)
    expect(() => patch('a: [1')).toThrow(/not valid YAML/)
    const anchored = 'kind: Deployment\nspec:\n  replicas: &n 3\n  other: *n\n  template: {spec: {containers: [{name: a, resources: *r}]}}'
    expect(() => patch(anchored.replace('*r', '*n'))).toThrow(/alias/)
  })
})
