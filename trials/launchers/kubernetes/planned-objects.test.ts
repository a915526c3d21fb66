import { expect, test } from 'vitest'
import { protocolFor } from '../../../profiler/protocols/index.ts'
import type { Api } from './api.ts'
import { plannedObjects } from './planned-objects.ts'

test.each([
  [{ cpuCores: 1, gpu: 'T4' }, 'tfjs', 'with-cuda'],
  [{ cpuCores: 1, gpu: 'none' }, 'tfjs', 'on-cpu'],
  [{ cpuCores: 1 }, 'tfjs', 'on-cpu'],
  [{ cpuCores: 1, gpu: 'T4' }, 'emulated', 'on-cpu'],
] as const)('%j with %s is tried in the image %s', (configuration, engine, image) => {
  const options = {
    api: {} as Api,
    experimentId: 'e',
    template: { kind: 'builtin', model: 'bert', engine },
    image: 'on-cpu',
    gpuImage: 'with-cuda',
    port: 8000,
    parameters: [],
    protocol: protocolFor('oip-v2'),
    payload: { kind: 'generated', seed: 1, count: 1 },
    runDirectory: '/tmp',
    reach: 'direct',
  } as const
  const { pod } = plannedObjects(options, configuration, 1, { name: 'o', uid: 'u' }, 'p')
  expect((pod.spec as { containers: unknown[] }).containers).toMatchObject([{ image }])
})
