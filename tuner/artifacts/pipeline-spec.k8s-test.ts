/**
 * The spec of a pipeline, applied to a real cluster as it is, and loaded by a plain client at the
 * rate that the spec is for. The servers have a capacity by their clock, so the rate is known
 * without a measurement on a machine that may be busy.
 */
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { best, recommendation } from '../../reports/specs/spec-samples.contract.ts'
import type { Json } from '../../trials/launchers/kubernetes/manifests/manifests.ts'
import {
  createNamespace,
  type TestNamespace,
  testImage,
  until,
} from '../../trials/launchers/kubernetes/testing/namespace.ts'
import { defaultPriceBook } from '../../trials/prices/book.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import { createProblem } from '../problem/problem.ts'
import { renderStageSpecs } from './stage-servings.ts'

let namespace: TestNamespace
beforeAll(async () => {
  namespace = await createNamespace()
})
afterAll(() => namespace?.remove())

/**
 * A server of one request at a time, each of so many ms, which then calls the given addresses. Its
 * capacity is that of its clock, here and on the cluster.
 */
const script = `
const [ms, port, ...urls] = process.argv.slice(1)
let last = Promise.resolve()
const work = () => (last = last.then(() => new Promise((done) => setTimeout(done, Number(ms)))))
process.on('SIGTERM', () => process.exit())
require('node:http').createServer(async (request, response) => {
  request.resume()
  try {
    if (request.method === 'POST') {
      await work()
      for (const url of urls)
        await fetch(url + '/', { method: 'POST', body: '{}' }).then((answer) => answer.json())
    }
    response.setHeader('content-type', 'application/json').end('{}')
  } catch (error) {
    response.writeHead(502).end(String(error))
  }
}).listen(Number(port), '0.0.0.0')`

const stage = (ms: number, ...urls: string[]) => ({
  protocol: 'json' as const,
  path: '/',
  body: '{}',
  healthPath: '/',
  command: ['node', '-e', script, String(ms), '${port}', ...urls],
})
const sloMs = 250
/** Of the 50 requests per second that the entry serves at most. */
const capacityRps = 30

/** Kinds of the spec at versions that the cluster of these tests has, too. */
const groups: Readonly<Record<string, string>> = {
  Service: '/api/v1',
  Deployment: '/apis/apps/v1',
}
const buildPath = ({ kind }: Json) =>
  `${groups[kind as string]}/namespaces/${namespace.name}/${(kind as string).toLowerCase()}s`

test('a pipeline deployed by its spec meets the SLO at the rate that it is for', async () => {
  const experiment = loadExperiment({
    given: {
      name: 'shop',
      slo: `${sloMs}ms`,
      backend: 'local',
      devices: 'cpu',
      stages: {
        front: {
          model: 'front',
          predictor: stage(20, '${stages.back.url}'),
          calls: ['back'],
          space: { cpuCores: 0.25 },
        },
        back: { model: 'back', predictor: stage(15), replicas: 2, space: { cpuCores: 0.25 } },
      },
    },
    cwd: tmpdir(),
    machine: { cpuCores: 2, gpus: [] },
  })
  const stages = experiment.stages!
  const configuration = {
    'front.cpuCores': 0.25,
    'front.replicas': 1,
    'back.cpuCores': 0.25,
    'back.replicas': 2,
  }
  const { text } = await renderStageSpecs(
    'kubernetes',
    {
      experiment,
      stages,
      recommendation,
      candidate: { ...best, configuration, capacityRps, bundles: undefined },
      trials: [],
      pricePerHour: createProblem(experiment, defaultPriceBook).pricePerHour,
      options: { image: testImage() },
    },
    { autoscaler: 'none' },
  )
  const objects = parseAllDocuments(text).map((document) => document.toJS() as Json)
  expect(objects.map(({ kind, metadata }) => `${kind} ${(metadata as Json).name}`)).toEqual([
    'Deployment shop-front',
    'Service shop-front',
    'Deployment shop-back',
    'Service shop-back',
    'PodDisruptionBudget shop-back',
  ])
  const known = objects.filter(({ kind }) => (kind as string) in groups)
  const made: Json[] = []
  for (const object of known)
    made.push(await namespace.api.request<Json>('POST', buildPath(object), { body: object }))
  for (const object of known.filter(({ kind }) => kind === 'Deployment'))
    await until(async () => {
      const { status } = await namespace.api.request<{ status?: { availableReplicas?: number } }>(
        'GET',
        `${buildPath(object)}/${(object.metadata as Json).name}`,
      )
      return status?.availableReplicas === (object.spec as Json).replicas
    })
  const entry = made.find(
    ({ kind, metadata }) => kind === 'Service' && (metadata as Json).name === 'shop-front',
  )!
  const url = `http://${(entry.spec as Json).clusterIP}/`
  // The node's proxy takes a moment to learn of the endpoints.
  await until(() => post(url).then(({ ok }) => ok))

  const latenciesMs = await load(url, capacityRps, 20)
  const p99Ms = latenciesMs.toSorted((a, b) => a - b)[Math.ceil(0.99 * latenciesMs.length) - 1]!
  console.info(
    `deployed: p99 ${p99Ms.toFixed(0)} ms of ${sloMs} ms, ${latenciesMs.length} requests`,
  )
  expect(p99Ms).toBeLessThanOrEqual(sloMs)
})

async function post(url: string): Promise<{ ok: boolean; ms: number }> {
  const beganMs = performance.now()
  const ok = await fetch(url, { method: 'POST', body: '{}' }).then(
    async (answer) => (await answer.text()) === '{}' && answer.ok,
    () => false,
  )
  return { ok, ms: performance.now() - beganMs }
}

/** Latencies under Poisson arrivals; that of a failed request is infinite. */
async function load(url: string, rateRps: number, seconds: number): Promise<number[]> {
  const count = Math.round(rateRps * seconds)
  const times = Array.from({ length: count }, () => Math.random() * seconds * 1000)
  const beganMs = performance.now()
  const answers = times
    .toSorted((a, b) => a - b)
    .map(async (dueMs) => {
      await sleep(dueMs - (performance.now() - beganMs))
      const { ok, ms } = await post(url)
      return ok ? ms : Number.POSITIVE_INFINITY
    })
  return Promise.all(answers)
}
