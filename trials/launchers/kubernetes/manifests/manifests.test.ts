import { expect, test } from 'vitest'
import { parseResources } from '../../../resources.ts'
import { selectGpu } from '../gpus/gpu-selection.ts'
import { createTrialPod, type Json } from './manifests.ts'
import { listDroppedFields } from './server-dry-run.ts'

const podOf = (
  container: Json,
  configuration: Record<string, number | string>,
  spec: Json = {},
) => {
  const asked = parseResources(configuration)
  const pod = createTrialPod({
    name: 'p',
    labels: { 'tune/trial': '1' },
    owner: { name: 'o', uid: 'u' },
    template: { kind: 'command', model: 'm', command: [], protocol: 'json' },
    own: {
      pod: {
        spec: {
          ...spec,
          containers: [
            { name: 'other', image: 'o' },
            { name: 'main', image: 'i', ...container },
          ],
        },
      },
      container: 'main',
    },
    port: 8000,
    parameters: Object.keys(configuration).map((name) => ({
      name,
      category: name === 'workers' ? 'args' : name === 'batchSize' ? 'env' : 'resource',
    })),
    configuration,
    trialNumber: 1,
    requested: asked,
    gpu: selectGpu(asked),
    deadlineS: 60,
  })
  const { containers, ...rest } = pod.spec as { containers: Json[] } & Json
  return { other: containers[0]!, main: containers[1]!, spec: rest }
}

test('parameters are filled in where they stand; what is the shell’s stays', () => {
  const { main, other } = podOf(
    {
      command: ['sh', '-c', 'exec serve ${HOME} --batch ${batchSize}'],
      args: ['x'],
      env: [
        { name: 'BATCH_SIZE', value: '1' },
        { name: 'A', value: '$${HOME}' },
      ],
    },
    { batchSize: 8, workers: 2 },
  )
  expect(main).toMatchObject({
    command: ['sh', '-c', 'exec serve ${HOME} --batch 8'],
    args: ['x', '--workers=2'],
    env: [
      { name: 'A', value: '$${HOME}' },
      { name: 'BATCH_SIZE', value: '8' },
    ],
  })
  expect(other).toEqual({ name: 'other', image: 'o' })
})

test('what is tuned is held, requests as limits; what is not tuned stays as it was', () => {
  const resources = {
    requests: { cpu: '100m', memory: '1Gi' },
    limits: { memory: '2Gi', 'nvidia.com/gpu': '4' },
  }
  const { main } = podOf({ resources }, { cpuCores: 1.5, gpu: 'T4' })
  expect(main.resources).toEqual({
    requests: { cpu: '1500m', memory: '1Gi', 'nvidia.com/gpu': '1' },
    limits: { cpu: '1500m', memory: '2Gi', 'nvidia.com/gpu': '1' },
  })
})

test('the GPU’s node labels join each of the user’s own terms', () => {
  const zone = { key: 'zone', operator: 'In', values: ['a'] }
  const affinity = {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [{ matchExpressions: [zone] }],
      },
    },
  }
  const { spec } = podOf({}, { gpu: 'T4' }, { affinity })
  expect(spec.affinity).toMatchObject({
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [
          {
            matchExpressions: [
              zone,
              { key: 'nvidia.com/gpu.product', operator: 'In', values: ['Tesla-T4', 'NVIDIA-T4'] },
            ],
          },
        ],
      },
    },
  })
})

test('a field that a server dropped is found; a default that it left out is not', () => {
  const sent = {
    spec: { containers: [{ name: 'a', imagePullPolice: 'Never', stdin: false, env: [] }] },
  }
  expect(
    listDroppedFields(sent, { spec: { containers: [{ name: 'a', imagePullPolicy: 'Always' }] } }),
  ).toEqual(['spec.containers[0].imagePullPolice'])
})
