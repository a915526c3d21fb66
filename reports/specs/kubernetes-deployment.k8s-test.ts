/** Generated specs against a real API server, and the recommended Deployment really serving. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { createServingEnvironment } from '../../trials/launchers/builtin.ts'
import { gpuSchemes } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import type { Json } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import { requestDryRun } from '../../trials/launchers/kubernetes/manifests/server-dry-run.ts'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
import type { Resources } from '../../trials/resources.ts'
import { createServing } from './create-serving.ts'
import { renderSpec } from './index.ts'
import type { Container, ServingOptions } from './serving.ts'
import { SpecError } from './spec-error.ts'
import { found } from './spec-samples.contract.ts'

let namespace: TestNamespace
beforeAll(async () => {
  namespace = await createNamespace()
})
afterAll(() => namespace?.remove())

const files = [{ path: '/etc/server/queue.conf', contents: 'limit = 100\n' }]
const container: Container = {
  image: 'registry.example/bert:1',
  args: ['--model=bert'],
  files,
  port: 8000,
  readyPath: '/v2/health/ready',
}

const objectsOf = async (
  resources: Resources,
  given: Container,
  options: Partial<ServingOptions> = {},
  autoscaler: 'none' | 'hpa' = 'none',
): Promise<Json[]> => {
  const serving = createServing(
    { ...found, resources, container: given },
    { headroom: 0.2, ...options },
  )
  const { text } = (await renderSpec('kubernetes', serving, { autoscaler })).find(
    ({ name }) => name === 'deployment.yaml',
  )!
  return parseAllDocuments(text).map((document) => document.toJS() as Json)
}

/** Kinds that every cluster from 1.20 on has at the version that the specs use. */
const groups: Readonly<Record<string, string>> = {
  ConfigMap: '/api/v1',
  Service: '/api/v1',
  Deployment: '/apis/apps/v1',
}
const pathOf = ({ kind }: Json) =>
  `${groups[kind as string]}/namespaces/${namespace.name}/${(kind as string).toLowerCase()}s`

describe('plain Kubernetes', () => {
  const shares: [string, Resources][] = [
    ['no GPU', { cpuCores: 1.5, memoryMiB: 1500, gpus: 0, gpuShare: 0 }],
    [
      'a GPU',
      { cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpus: 1, gpuShare: 1, gpuMemoryMiB: 15360 },
    ],
    [
      'a quarter of a GPU',
      { cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpus: 1, gpuShare: 0.25, gpuMemoryMiB: 3840 },
    ],
    [
      'a MIG slice',
      {
        cpuCores: 2,
        memoryMiB: 4096,
        gpu: 'A100-40GB',
        gpus: 1,
        gpuShare: 1 / 7,
        gpuMemoryMiB: 4864,
        migProfile: '1g.5gb',
      },
    ],
  ]
  test.each(shares)(
    'with %s: the API server takes every object, under every scheme that can give it',
    async (_, resources) => {
      let checked = 0
      for (const gpuScheme of resources.gpu === undefined
        ? [undefined]
        : gpuSchemes.filter((scheme) => scheme !== 'dra')) {
        for (const autoscaler of ['none', 'hpa'] as const) {
          let objects: Json[]
          try {
            objects = await objectsOf(resources, container, { gpuScheme }, autoscaler)
          } catch (error) {
            if (error instanceof SpecError) continue
            throw error
          }
          for (const object of objects.filter(({ kind }) => (kind as string) in groups)) {
            expect(
              await requestDryRun(namespace.api, pathOf(object), object),
              `${gpuScheme} ${object.kind}`,
            ).toEqual([])
            checked++
          }
        }
      }
      expect(checked).toBeGreaterThanOrEqual(6)
    },
  )

  test('the built-in predictor, applied as written, answers through its Service', async () => {
    const env = {
      ...createServingEnvironment(
        { kind: 'builtin', model: 'bert-tiny', engine: 'tfjs' },
        { batchSize: 2 },
        'tfjs',
      ),
      MODEL: 'bert-tiny',
      ENGINE: 'tfjs',
      CPU_CORES: '1',
      HOST: '0.0.0.0',
      PORT: '8000',
    }
    // With the image alone it serves; an image whose entry point is `tune` needs to be told so.
    const served: Container = {
      image: testImage(),
      args: ['predictor'],
      env,
      port: 8000,
      readyPath: '/v2/health/ready',
      livePath: '/v2/health/live',
    }
    const objects = await objectsOf(
      { cpuCores: 0.5, memoryMiB: 512, gpus: 0, gpuShare: 0 },
      served,
      { minReplicas: 1, maxReplicas: 1 },
    )
    const one = (object: Json) =>
      object.kind === 'Deployment'
        ? { ...object, spec: { ...(object.spec as Json), replicas: 1 } }
        : object
    const made: Json[] = []
    for (const object of objects)
      made.push(await namespace.api.request<Json>('POST', pathOf(object), { body: one(object) }))
    const deployment = objects.find(({ kind }) => kind === 'Deployment')!
    const name = (deployment.metadata as { name: string }).name
    await until(async () => {
      const { status } = await namespace.api.request<{ status?: { availableReplicas?: number } }>(
        'GET',
        `${pathOf(deployment)}/${name}`,
      )
      return (status?.availableReplicas ?? 0) >= 1
    })
    const service = made.find(({ kind }) => kind === 'Service')!
    const { clusterIP, ports } = service.spec as { clusterIP: string; ports: { port: number }[] }
    const body = JSON.stringify({
      inputs: [{ name: 'text', shape: [1], datatype: 'BYTES', data: ['does it serve?'] }],
    })
    let answer: Response | undefined
    // The node's proxy takes a moment to learn of the endpoint.
    for (let tries = 0; tries < 50 && answer === undefined; tries++) {
      answer = await fetch(`http://${clusterIP}:${ports[0]!.port}/v2/models/bert-tiny/infer`, {
        method: 'POST',
        body,
      }).catch(() => undefined)
      if (answer === undefined) await sleep(200)
    }
    expect(answer?.status, await answer?.clone().text()).toBe(200)
    expect(await answer!.json()).toMatchObject({ model_name: 'bert-tiny' })
    for (const object of [...objects].reverse()) {
      await namespace.api.request(
        'DELETE',
        `${pathOf(object)}/${(object.metadata as { name: string }).name}`,
        {
          query: { propagationPolicy: 'Background' },
        },
      )
    }
    await until(async () => (await namespace.leftovers()).length === 0)
  })
})
