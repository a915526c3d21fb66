import { expect, test } from 'vitest'
import { architectureOf, type Decoder } from '../../trials/devices/architecture.ts'
import { type LlmRequest, modelledLlm } from '../../trials/launchers/simulated/llm-configuration.ts'
import { SimulatedLlmServer } from '../../trials/launchers/simulated/llm-server.ts'
import { estimatedModel } from './estimated-rates.ts'
import { requestBuckets } from './length-buckets.ts'
import { type GpuKind, whole } from './packing.ts'

const kinds: GpuKind[] = ['L4', 'H100'].map((name) => ({
  name,
  pricePerHour: 1,
  partitions: [[whole]],
}))
const architecture = architectureOf('llama-3.1-8b') as Decoder
const request = (promptTokens: number, outputTokens: number): LlmRequest => ({
  promptTokens,
  outputTokens,
  prefix: [],
})
const slo = { percentile: 0.9, limitMs: 120, maxErrorRate: 0.001, metric: 'tpot' } as const
const requests = [
  ...Array.from({ length: 300 }, (_, i) => request(80 + (i % 20), 200)),
  ...Array.from({ length: 100 }, () => request(9000, 300)),
]
const estimated = estimatedModel({ name: 'm', architecture, slo, requests }, kinds, () => 1)

test('requests are cut at the edges, each in one bucket, those with a class by it', () => {
  const buckets = requestBuckets([
    request(25, 25),
    request(26, 25),
    request(25, 26),
    request(200_000, 40_000),
    request(25, 1),
  ])
  expect(buckets.map(({ name, share }) => [name, share])).toEqual([
    ['in 1-25, out 1-25', 0.4],
    ['in 1-25, out 26-100', 0.2],
    ['in 26-100, out 1-25', 0.2],
    ['in over 128000, out over 32000', 0.2],
  ])
  const classed = requestBuckets([
    { ...request(5, 5), requestClass: 'a' },
    { ...request(5000, 5), requestClass: 'a' },
  ])
  expect(classed.map(({ name, share, input }) => [name, share, input])).toEqual([
    ['a', 1, undefined],
  ])
})

test('what a GPU is said to carry of a bucket or a mixture keeps the SLO when it is played with other arrivals', () => {
  const [short, long] = [requests.slice(0, 300), requests.slice(300)]
  const played = (gpu: string, own: readonly LlmRequest[], rateRps: number) => {
    const server = new SimulatedLlmServer({
      server: modelledLlm(architecture, { gpu, gpus: 1, maxModelLen: 9300 }),
      requests: own,
    })
    const { stream } = server.play({
      kind: 'open',
      rateRps,
      arrivals: { kind: 'poisson' },
      durationS: 600 / rateRps,
      seed: 11,
    })
    const { tpot } = stream!.latenciesMs
    return tpot.filter((ms) => ms <= slo.limitMs).length / tpot.length
  }
  for (const segment of estimated.segments) {
    const [a, b] = segment.bucketRps as [number, number]
    // A play of 300 requests knows the share to 2 %.
    if (a > 0) expect(played(segment.gpu, short, a), segment.gpu).toBeGreaterThan(0.85)
    if (b > 0) expect(played(segment.gpu, long, b), segment.gpu).toBeGreaterThan(0.85)
    if (segment.rateRps === 0) continue
    const mixed = estimated.mixedRps(segment, [1, 1], segment.rateRps)
    expect(mixed).toBeLessThanOrEqual(segment.rateRps)
    const alternating = Array.from({ length: 100 }, (_, i) => [
      ...short.slice(3 * i, 3 * i + 3),
      long[i]!,
    ]).flat()
    expect(played(segment.gpu, alternating, mixed), segment.gpu).toBeGreaterThan(0.85)
    expect(estimated.mixedRps(segment, [1, 0], 7)).toBe(7)
  }
  expect(estimated.segments.map(({ gpu }) => gpu)).toEqual(['L4', 'H100'])
  expect(estimated.estimated).toContain('nothing was measured')
})

test('requests that no context holds are refused; a kind without room for the model has no replica', () => {
  const long = [request(200_000, 10)]
  expect(() =>
    estimatedModel({ name: 'm', architecture, slo, requests: long }, kinds, () => 1),
  ).toThrow(/m: a request of 200010 tokens is longer/)
  const large = architectureOf('llama-3.1-70b') as Decoder
  const big = estimatedModel(
    { name: 'm', architecture: large, slo: { ...slo, limitMs: 500 }, requests: [request(50, 20)] },
    kinds,
    (kind) => (kind === 'H100' ? 4 : 1),
  )
  expect(big.segments.map(({ gpu, gpus }) => `${gpus} ${gpu}`)).toEqual(['2 H100', '4 H100'])
  expect(() =>
    estimatedModel(
      { name: 'm', architecture: large, slo, requests: [request(50, 20)] },
      kinds,
      () => 1,
    ),
  ).toThrow(/fits on none of L4, H100/)
})
