/**
 * A language model's requests split over kinds of GPUs: `npm run bench:mixes`. Mélange's kinds and
 * prices (Griggs et al. 2024, table 1), llama-3.1-8b, short chats, long documents and both: the mix
 * beside the best and the dearest single kind, and every pool of the mix played in virtual time at
 * the rate that is routed to it: the share of a pool's requests within the limit, the lowest of
 * them, where the SLO asks for 90 %.
 */

import type { LengthDistribution } from '../../profiler/prompt-spec.ts'
import { drawLength } from '../../profiler/protocols/prompts.ts'
import { seeded } from '../../profiler/seeded-random.ts'
import type { Slo } from '../../profiler/types.ts'
import { architectureOf, type Decoder } from '../../trials/devices/architecture.ts'
import { type LlmRequest, modelledLlm } from '../../trials/launchers/simulated/llm-configuration.ts'
import { SimulatedLlmServer } from '../../trials/launchers/simulated/llm-server.ts'
import { percent } from '../format.ts'
import { estimatedModel } from './estimated-rates.ts'
import { requestBuckets } from './length-buckets.ts'
import { mixOf } from './mixes.ts'
import { pack } from './pack.ts'
import { FleetError, type GpuKind, type Segment, whole } from './packing.ts'
import { poolOf } from './rules.ts'

const uniform = seeded(5)
const architecture = architectureOf('llama-3.1-8b') as Decoder
const kinds: GpuKind[] = [
  ['L4', 0.7],
  ['A10G', 1.01],
  ['A100-80GB', 3.67],
  ['H100', 7.516],
].map(([name, price]) => ({
  name: String(name),
  pricePerHour: Number(price),
  partitions: [[whole]],
}))

const drawn = (
  count: number,
  input: LengthDistribution,
  output: LengthDistribution,
): LlmRequest[] =>
  Array.from({ length: count }, () => ({
    promptTokens: drawLength(input, uniform),
    outputTokens: drawLength(output, uniform),
    prefix: [],
  }))
const chats = drawn(
  1600,
  { kind: 'lognormal', median: 120, sigma: 0.9, most: 2000 },
  { kind: 'lognormal', median: 160, sigma: 0.7, most: 1000 },
)
const documents = drawn(
  400,
  { kind: 'normal', mean: 8000, deviation: 3000, most: 20_000 },
  { kind: 'lognormal', median: 250, sigma: 0.5, most: 1000 },
)
const loads = {
  'short chats': chats,
  'long documents': documents,
  'both, 80 % chats': [...chats, ...documents],
}

const names = (segments: readonly Segment[]): string =>
  kinds
    .flatMap(({ name }) => {
      const count = segments.filter(({ gpu }) => gpu === name).length
      return count > 0 ? [`${count} ${name}`] : []
    })
    .join(', ')

/** The least share within the limit, of the pools. @param segments of the packing, one a GPU */
function playedShare(
  segments: readonly Segment[],
  requests: readonly LlmRequest[],
  demandRps: number,
  limitMs: number,
): number {
  const buckets = requestBuckets(requests)
  let least = 1
  for (const pool of new Map(segments.map((segment) => [poolOf(segment), segment])).values()) {
    const replicas = segments.filter((segment) => poolOf(segment) === poolOf(pool)).length
    const served = buckets.flatMap(({ requests: own }, b) =>
      own.slice(0, Math.round(own.length * pool.routed!.parts[b]!)),
    )
    const mixed = served
      .map((request) => ({ request, at: uniform() }))
      .sort((a, b) => a.at - b.at)
      .map(({ request }) => request)
    const maxModelLen = Number(/maxModelLen (\d+)/.exec(pool.label)![1])
    const server = new SimulatedLlmServer({
      server: modelledLlm(architecture, { gpu: pool.gpu, gpus: 1, maxModelLen }),
      requests: mixed,
    })
    const rateRps = (demandRps * pool.routed!.share) / replicas
    const { stream } = server.play({
      kind: 'open',
      rateRps,
      arrivals: { kind: 'poisson' },
      durationS: 4000 / rateRps,
      seed: 3,
    })
    const { tpot } = stream!.latenciesMs
    least = Math.min(least, tpot.filter((ms) => ms <= limitMs).length / tpot.length)
  }
  return least
}

console.log(
  'requests | SLO | req/s | the mix | $/h | best single kind | saves | dearest | saves | by input alone $/h | within the limit in virtual time, least of the pools',
)
for (const [what, requests] of Object.entries(loads))
  for (const limitMs of [120, 40])
    for (const rps of [2, 8, 32, 128]) {
      const slo: Slo = { percentile: 0.9, limitMs, maxErrorRate: 0.001, metric: 'tpot' }
      const model = estimatedModel({ name: 'llama', architecture, slo, requests }, kinds, () => 1)
      try {
        const { gpus, pricePerHour } = await pack([model], [rps], kinds, 10)
        const { kinds: single, byInput } = await mixOf(model, rps, kinds)
        const [best, dearest] = [single[0]!, single.at(-1)!]
        const saved = (of: typeof best) => percent(1 - pricePerHour / of.pricePerHour)
        const segments = gpus.flatMap(({ slots }) =>
          slots.flatMap(({ segment }) => (segment ? [segment] : [])),
        )
        const kept = percent(playedShare(segments, requests, rps, limitMs))
        console.log(
          `${what} | p90 tpot ${limitMs} ms | ${rps} | ${names(segments)} | ${pricePerHour.toFixed(2)} | ${best.gpus} ${best.kind} ${best.pricePerHour.toFixed(2)} | ${saved(best)} | ${dearest.gpus} ${dearest.kind} ${dearest.pricePerHour.toFixed(2)} | ${saved(dearest)} | ${byInput?.pricePerHour.toFixed(2) ?? '-'} | ${kept}`,
        )
      } catch (error) {
        if (!(error instanceof FleetError)) throw error
        console.log(`${what} | p90 tpot ${limitMs} ms | ${rps} | ${error.message}`)
      }
    }
