import type { V1PodSpec } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { parseResources } from '../../../resources.ts'
import { selectGpu } from '../gpus/gpu-selection.ts'
import { restrictedViolations } from '../testing/restricted.ts'
import { createLoadJob } from './load-job.ts'
import { createTrialPod } from './manifests.ts'
import { mergeOverlay, type PodOverlay } from './pod-policy.ts'

const owner = { name: 'o', uid: 'u' }
const labels = { 'tune/trial': '1' }

interface Made {
  readonly metadata: { readonly labels: object; readonly annotations?: object }
  readonly spec: V1PodSpec
}
const predictorPod = (overlay?: PodOverlay): Made => {
  const asked = parseResources({ cpuCores: 2, gpu: 'T4' })
  return createTrialPod({
    name: 'p',
    labels,
    owner,
    template: { kind: 'builtin', model: 'bert', engine: 'tfjs' },
    image: 'tune',
    overlay,
    port: 8000,
    parameters: [],
    configuration: { cpuCores: 2, gpu: 'T4', batchSize: 8 },
    trialNumber: 1,
    requested: asked,
    gpu: selectGpu(asked),
    deadlineS: 60,
  }) as unknown as Made
}
const loadPod = (overlay?: PodOverlay): Made => {
  const payload = { configMap: 'files', folder: '/payload' }
  const job = createLoadJob({
    name: 'l',
    labels,
    owner,
    image: 'tune',
    overlay,
    task: '{}',
    payload,
    deadlineS: 60,
  })
  return (job.spec as { template: Made }).template
}

describe.each([
  ['a trial’s pod of the built-in predictor', 'predictor', predictorPod],
  ['the load generator’s pod', 'load', loadPod],
])('%s', (_, name, podOf) => {
  test('is what the restricted profile asks for, and has limits for a quota', () => {
    const { spec } = podOf()
    expect(restrictedViolations(spec)).toEqual([])
    expect(spec.containers[0]!.resources!.limits).toMatchObject({
      cpu: expect.any(String),
      memory: expect.any(String),
    })
  })

  test('takes what the user lays over it, and keeps what makes it work', () => {
    const { metadata, spec } = podOf({
      metadata: { labels: { team: 'a', 'tune/trial': '9' }, annotations: { note: 'n' } },
      spec: {
        serviceAccountName: 'runner',
        priorityClassName: 'low',
        runtimeClassName: 'nvidia',
        nodeSelector: { pool: 'a' },
        imagePullSecrets: [{ name: 'registry' }],
        tolerations: [{ key: 'pool', operator: 'Exists' }],
        securityContext: { runAsUser: null, fsGroup: 7 },
        volumes: [{ name: 'scratch', emptyDir: {} }],
        containers: [
          {
            name,
            env: [{ name: 'HTTP_PROXY', value: 'p' }],
            volumeMounts: [{ name: 'scratch', mountPath: '/tmp' }],
            resources: { limits: { 'ephemeral-storage': '1Gi' } },
          },
        ],
      },
    })
    expect(metadata).toMatchObject({
      labels: { team: 'a', 'tune/trial': '1' },
      annotations: { note: 'n' },
    })
    expect(spec).toMatchObject({
      serviceAccountName: 'runner',
      priorityClassName: 'low',
      runtimeClassName: 'nvidia',
      nodeSelector: { pool: 'a' },
    })
    expect(spec.imagePullSecrets).toEqual([{ name: 'registry' }])
    expect(spec.tolerations).toContainEqual({ key: 'pool', operator: 'Exists' })
    expect(spec.securityContext).toEqual({
      runAsNonRoot: true,
      fsGroup: 7,
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(spec.volumes).toContainEqual({ name: 'scratch', emptyDir: {} })
    const [container, ...others] = spec.containers
    expect(others).toEqual([])
    expect(container).toMatchObject({
      image: 'tune',
      resources: { limits: { memory: expect.any(String), 'ephemeral-storage': '1Gi' } },
    })
    expect(container!.env).toContainEqual({ name: 'HTTP_PROXY', value: 'p' })
    expect(container!.env!.length).toBeGreaterThan(1)
    expect(container!.volumeMounts).toContainEqual({ name: 'scratch', mountPath: '/tmp' })
  })
})

test('tolerations of the user stand beside the GPU’s', () => {
  const { spec } = predictorPod({ spec: { tolerations: [{ key: 'spot', operator: 'Exists' }] } })
  expect(spec.tolerations!.map(({ key }) => key)).toEqual(['spot', 'nvidia.com/gpu'])
})

test('what is laid over replaces values, merges objects and lists of named things, and takes away by null', () => {
  const base = {
    a: 1,
    b: { c: 1, d: 2 },
    containers: [{ name: 'x', image: 'i', args: ['1'] }],
    list: [1],
  }
  const over = {
    a: 2,
    b: { c: null, e: 3 },
    containers: [{ name: 'x', tty: true }, { name: 'y' }],
    list: [2],
  }
  expect(mergeOverlay(base, over)).toEqual({
    a: 2,
    b: { d: 2, e: 3 },
    containers: [{ name: 'x', image: 'i', args: ['1'], tty: true }, { name: 'y' }],
    list: [1, 2],
  })
  expect(base.containers).toEqual([{ name: 'x', image: 'i', args: ['1'] }])
})

test.each([
  ['a root user', { containers: [{ name: 'x' }] }, 'x: runAsNonRoot'],
  ['a host’s network', { hostNetwork: true, containers: [] }, 'hostNetwork'],
  [
    'a host’s folder',
    { volumes: [{ name: 'v', hostPath: { path: '/' } }], containers: [] },
    'volume v: hostPath',
  ],
])('the check of the profile finds %s', (_, spec, violation) => {
  expect(restrictedViolations(spec as V1PodSpec)).toContain(violation)
})
