import type { ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { answer, FakeApiServer, status } from '../testing/fake-api-server.ts'
import {
  createKubeletReader,
  createMetricsServerReader,
  findUsageSource,
  samplePodUsage,
  summariseUsage,
} from './pod-usage.ts'

describe('readings', () => {
  test('of counters give exact means, the busiest of them, and the peak of memory', () => {
    const readings = [
      { atMs: 0, cpuSeconds: 10, memoryMiB: 100 },
      { atMs: 5_000, cpuSeconds: 20, memoryMiB: 300 },
      { atMs: 5_200, cpuSeconds: 20.8 },
      { atMs: 10_000, cpuSeconds: 22, memoryMiB: 200 },
    ]
    expect(summariseUsage(readings, 0)).toEqual({
      cpuCores: 1.2,
      busiestCpuCores: 2,
      peakRssMiB: 300,
    })
  })
  test('of averages count where all of their time is the trial’s', () => {
    const reading = (atMs: number, cores: number) => ({
      atMs,
      memoryMiB: 50,
      mean: { cores, overMs: 15_000 },
    })
    expect(
      summariseUsage([reading(110_000, 9), reading(116_000, 1), reading(131_000, 3)], 100_000),
    ).toEqual({
      cpuCores: 2,
      busiestCpuCores: 3,
      peakRssMiB: 50,
    })
    expect(summariseUsage([reading(110_000, 9)], 100_000)).toEqual({
      cpuCores: undefined,
      busiestCpuCores: undefined,
      peakRssMiB: 50,
    })
  })
  test('of counters before the load began are no word on the load', () => {
    const readings = [
      { atMs: 0, cpuSeconds: 0, memoryMiB: 500 },
      { atMs: 10_000, cpuSeconds: 1, memoryMiB: 100 },
      { atMs: 20_000, cpuSeconds: 21 },
    ]
    expect(summariseUsage(readings, 9_000)).toEqual({
      cpuCores: 2,
      busiestCpuCores: 2,
      peakRssMiB: 500,
    })
    expect(summariseUsage(readings, 11_000)).toMatchObject({
      cpuCores: undefined,
      busiestCpuCores: undefined,
    })
  })
  test('one counter, or none: unknown', () => {
    const unknown = { cpuCores: undefined, busiestCpuCores: undefined, peakRssMiB: undefined }
    expect(summariseUsage([{ atMs: 0, cpuSeconds: 10 }], 0)).toEqual(unknown)
    expect(summariseUsage([], 0)).toEqual(unknown)
  })
})

describe('of a cluster', () => {
  let fake: FakeApiServer
  beforeEach(async () => {
    fake = new FakeApiServer()
    await fake.start()
  })
  afterEach(() => fake.stop())
  const serve = (answers: Record<string, (response: ServerResponse) => void>) => {
    fake.fault = ({ path }, response) => {
      answers[path]?.(response)
      return path in answers
    }
  }
  const reviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
  const allowed = (is: boolean) => (response: ServerResponse) =>
    answer(response, 201, { status: { allowed: is } })
  const metrics = '/apis/metrics.k8s.io/v1beta1'

  test('the node’s own counters where they may be read, else a metrics server, else nothing', async () => {
    const source = async () => findUsageSource(await fake.api())
    serve({ [reviews]: allowed(true), [metrics]: (response) => answer(response, 200, {}) })
    expect(await source()).toBe('kubelet')
    serve({ [reviews]: allowed(false), [metrics]: (response) => answer(response, 200, {}) })
    expect(await source()).toBe('metrics-server')
    serve({
      [reviews]: allowed(false),
      [metrics]: (response) => answer(response, 503, status(503, 'ServiceUnavailable', 'away')),
    })
    expect(await source()).toBeUndefined()
    serve({})
    expect(await source()).toBeUndefined()
  })

  test('counters of the container that is tuned, by the node’s clock', async () => {
    const start = Date.parse('2026-01-01T00:00:00Z')
    let reads = 0
    serve({
      '/api/v1/nodes/n/proxy/stats/summary': (response) => {
        const seconds = 10 * reads++
        const stats = (cores: number, name: string) => ({
          name,
          cpu: {
            time: new Date(start + seconds * 1000).toISOString(),
            usageCoreNanoSeconds: cores * seconds * 1e9,
          },
          memory: { rssBytes: 64 * 2 ** 20, workingSetBytes: 80 * 2 ** 20 },
        })
        const podRef = { name: 'p', namespace: 'test' }
        answer(response, 200, {
          pods: [
            { podRef: { name: 'p', namespace: 'other' } },
            { podRef, containers: [stats(3, 'proxy'), stats(1.5, 'main')] },
          ],
        })
      },
    })
    const sampler = samplePodUsage(
      createKubeletReader(await fake.api(), { name: 'p', node: 'n', container: 'main' }),
      () => start,
    )
    expect(await sampler.read()).toEqual({ cpuCores: 1.5, busiestCpuCores: 1.5, peakRssMiB: 64 })
    sampler.stop()
  })

  test('a metrics server’s figures, and nothing of one that knows no such pod yet', async () => {
    const pod = `${metrics}/namespaces/test/pods/p`
    const containers = [{ name: 'main', usage: { cpu: '1500000000n', memory: '65536Ki' } }]
    serve({
      [pod]: (response) =>
        answer(response, 200, { timestamp: '2026-01-01T00:01:00Z', window: '15.5s', containers }),
    })
    const place = { name: 'p', node: 'n', container: 'main' }
    const known = samplePodUsage(createMetricsServerReader(await fake.api(), place), () =>
      Date.parse('2026-01-01T00:00:00Z'),
    )
    expect(await known.read()).toEqual({ cpuCores: 1.5, busiestCpuCores: 1.5, peakRssMiB: 64 })
    known.stop()
    serve({})
    const unknown = samplePodUsage(createMetricsServerReader(await fake.api(), place), () => 0)
    expect(await unknown.read()).toEqual({
      cpuCores: undefined,
      busiestCpuCores: undefined,
      peakRssMiB: undefined,
    })
    unknown.stop()
  })
})
