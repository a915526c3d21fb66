import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { recommend } from '../../reports/recommendation/recommend.ts'
import { complete, measured, sampleInput } from '../../reports/samples.contract.ts'
import { renderSpec } from '../../reports/specs/index.ts'
import { checkManifests } from '../../reports/specs/validate.contract.ts'
import { useWorkspace } from '../config/testing/workspace.ts'
import { applyOwnPod } from './own-pod.ts'
import { resolveServing } from './serving.ts'

const workspace = useWorkspace()

const pod = {
  metadata: { labels: { team: 'ml' } },
  spec: {
    serviceAccountName: 'bert',
    containers: [
      {
        name: 'server',
        image: 'registry.example/bert:7',
        args: ['--log=info'],
        env: [
          { name: 'MODE', value: 'fast' },
          { name: 'BATCH_SIZE', value: '1' },
        ],
        ports: [{ containerPort: 9000 }],
        resources: { limits: { 'ephemeral-storage': '1Gi' } },
      },
      { name: 'proxy', image: 'envoy:1' },
    ],
  },
}

test("the user's own pod gets the nodes that the price was for, beside those that it selects", () => {
  const of = (nodeSelector?: object) => {
    const kubernetes = {
      pod: { ...pod, spec: { ...pod.spec, ...(nodeSelector && { nodeSelector }) } },
      container: 'server',
    }
    const experiment = workspace.loadFile(
      stringify({
        model: 'bert',
        slo: '50ms',
        backend: 'kubernetes',
        space: { gpu: ['T4'] },
        predictor: { protocol: 'oip-v2' },
        kubernetes,
      }),
    )
    const bundles = [{ name: 'g4dn.xlarge', replicas: 1, perHour: 1, instanceType: 'g4dn.xlarge' }]
    const pricePerHour = Object.assign(() => 1, { bundles: () => bundles })
    const recommendation = recommend({
      ...sampleInput,
      trials: [complete(1, { gpu: 'T4' }, measured(265, 10))],
      pricePerHour,
    })
    const made = applyOwnPod(
      experiment,
      resolveServing(
        experiment,
        { ...recommendation, provenance: 'measured' },
        recommendation.best!,
        [],
      ),
    )
    return made.pod!.spec.nodeSelector
  }
  expect(of()).toEqual({ 'node.kubernetes.io/instance-type': 'g4dn.xlarge' })
  expect(of({ pool: 'gpu', 'node.kubernetes.io/instance-type': 'mine' })).toEqual({
    pool: 'gpu',
    'node.kubernetes.io/instance-type': 'mine',
  })
})

test("a spec deploys the experiment's own pod with the tuned values in its container, and nothing of a trial's", async () => {
  const experiment = workspace.loadFile(
    stringify({
      model: 'bert',
      slo: '50ms',
      backend: 'kubernetes',
      space: { cpuCores: '1..4', gpu: ['T4'], batchSize: { values: [1, 8], category: 'env' } },
      predictor: { protocol: 'oip-v2' },
      kubernetes: { pod, container: 'server' },
    }),
  )
  const configuration = { cpuCores: 2, gpu: 'T4', batchSize: 8 }
  const recommendation = recommend({
    ...sampleInput,
    trials: [complete(1, configuration, measured(265, 10))],
    pricePerHour: () => 1,
  })
  const serving = applyOwnPod(
    experiment,
    resolveServing(
      experiment,
      { ...recommendation, provenance: 'measured' },
      recommendation.best!,
      [],
    ),
  )
  const { objects, problems } = checkManifests(
    (await renderSpec('kubernetes', serving, { autoscaler: 'none' }))[0]!.text,
  )
  expect(problems).toEqual([])
  const [deployment, service] = objects as unknown as [
    { spec: { template: typeof pod & { spec: Record<string, unknown> } } },
    { spec: { ports: unknown[] } },
  ]
  const { template } = deployment.spec
  expect(template.metadata.labels).toEqual({ team: 'ml', 'app.kubernetes.io/name': 'bert' })
  expect(Object.keys(template.spec).sort()).toEqual([
    'affinity',
    'containers',
    'serviceAccountName',
    'tolerations',
  ])
  expect(template.spec.containers[1]).toEqual({ name: 'proxy', image: 'envoy:1' })
  expect(template.spec.containers[0]).toMatchObject({
    image: 'registry.example/bert:7',
    args: ['--log=info'],
    env: [
      { name: 'MODE', value: 'fast' },
      { name: 'BATCH_SIZE', value: '8' },
    ],
    resources: {
      requests: { cpu: '2' },
      limits: { cpu: '2', 'nvidia.com/gpu': '1', 'ephemeral-storage': '1Gi' },
    },
  })
  expect(service.spec.ports).toEqual([{ name: 'http', port: 80, targetPort: 9000 }])
})
