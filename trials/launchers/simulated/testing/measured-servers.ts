/** Whole servers that others measured, and the same loads played on the simulated one. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Load } from '../../../../profiler/model/load.ts'
import type { VirtualRun } from '../../../../profiler/model/virtual-server.ts'
import { selectQuantile } from '../../../../profiler/statistics/percentile.ts'
import { parseCsv } from '../../../../search/bench/recorded-tables.ts'
import { type Decoder, decoder, findArchitecture } from '../../../devices/architecture.ts'
import { findGpu } from '../../../devices/catalogue.ts'
import { type EngineProfile, predictStepTimes } from '../../../predictor/llm/engine-profile.ts'
import type { SchedulerLimits } from '../../../predictor/llm/scheduler.ts'
import type { LlmServer } from '../../../predictor/llm/serving-limits.ts'
import { computeCacheSize } from '../../../predictor/llm/step-costs.ts'
import type { LlmDevice, Quantization } from '../../../predictor/llm/step-model.ts'
import { findSaturationRps } from '../llm-capacity.ts'
import type { LlmRequest } from '../llm-configuration.ts'
import { summariseLlmLoad } from '../llm-load.ts'
import { SimulatedLlmServer } from '../llm-server.ts'
import { computeNormalQuantile } from '../queue-waits.ts'

/** What was measured of a server under one load; absent: not told. */
interface Figures {
  readonly tokensPerS?: number
  readonly ttftMs?: number
  /** Between tokens. */
  readonly itlMs?: number
}
export type FigureName = keyof Figures

export interface MeasuredServer {
  readonly engine: string
  readonly device: LlmDevice
  readonly model: string
  readonly measured: Figures
  /** At once, where it was so. */
  readonly users?: number
  /**
   * @param profile of the engine
   * @returns the same figures, simulated
   */
  readonly play: (profile: EngineProfile) => Figures
}

const table = (name: string) =>
  parseCsv(
    readFileSync(
      fileURLToPath(new URL(`../../../devices/tables/${name}.csv`, import.meta.url)),
      'utf8',
    ),
  ) as readonly Record<string, string>[]

/** Two products in the feed-forward part where Llama has three: as many weights. */
const ungated = (
  name: string,
  [layers, hidden, heads, kvHeads, vocabulary]: readonly [number, number, number, number, number],
): Decoder =>
  decoder(name, [layers, hidden, heads, kvHeads, Math.round((2 / 3) * 4 * hidden), vocabulary], {
    maxSequenceLength: 8192,
  })
const pilotModels: Readonly<Record<string, Decoder>> = {
  'llama-7b': findArchitecture('llama-2-7b') as Decoder,
  'mpt-7b-instruct2': ungated('mpt-7b-instruct2', [32, 4096, 32, 32, 50432]),
  'gpt-neox-20b': ungated('gpt-neox-20b', [44, 6144, 64, 64, 50432]),
  'codegen2-16b': ungated('codegen2-16b', [34, 6144, 24, 24, 51200]),
  starcoder: ungated('starcoder', [40, 6144, 48, 1, 49152]),
}

interface Server {
  readonly device: LlmDevice
  readonly maxSequences: number
  readonly maxBatchedTokens: number
  readonly memoryShare: number
  readonly longest: number
}

/** Its schedule, steps and front are the profile's. */
function serverOf(
  { device, maxSequences, maxBatchedTokens, memoryShare, longest }: Server,
  profile: EngineProfile,
): LlmServer {
  const { tokens } = computeCacheSize(device, memoryShare, maxBatchedTokens, longest)
  const limits: SchedulerLimits = {
    maxSequences,
    maxBatchedTokens,
    cacheTokens: tokens,
    queueLimit: 100_000,
    ...profile.order,
  }
  return {
    engine: 'vllm',
    device,
    limits,
    maxModelLength: longest,
    memoryMiB: 0,
    stepMs: predictStepTimes(device, profile),
    hostMs: profile.hostMs.front,
    prefixCaching: true,
  }
}

function played(
  server: Server,
  requests: readonly LlmRequest[],
  load: Load,
): (profile: EngineProfile) => VirtualRun {
  return (profile) =>
    new SimulatedLlmServer({ server: serverOf(server, profile), requests }).play(load)
}

const request = (promptTokens: number, outputTokens: number): LlmRequest => ({
  promptTokens: Math.max(1, Math.round(promptTokens)),
  outputTokens: Math.max(1, Math.round(outputTokens)),
  prefix: [],
})
const meanOf = (values: ArrayLike<number>) =>
  Array.from(values).reduce((sum, v) => sum + v, 0) / values.length
const medianOf = (values: Float64Array) => selectQuantile(Float64Array.from(values).sort(), 0.5)
const tokensPerS = ({ sentMs, latencyMs, stream }: VirtualRun): number =>
  (1000 * stream!.tokens.reduce((sum, n) => sum + n, 0)) /
  Math.max(...latencyMs.map((ms, i) => ms + sentMs[i]!))

/** Lengths that 64 requests of LLM-Pilot had, stretched to the means of a row. */
function pilotRequests(meanInput: number, meanOutput: number): LlmRequest[] {
  const rows = table('llm-servers-lengths').map(
    ({ inputTokens, outputTokens }) => [Number(inputTokens), Number(outputTokens)] as const,
  )
  const [input, output] = [meanOf(rows.map(([i]) => i)), meanOf(rows.map(([, o]) => o))]
  return rows.map(([i, o]) => request((i * meanInput) / input, (o * meanOutput) / output))
}

const pilotDevice = (row: Record<string, string>): LlmDevice => ({
  architecture: pilotModels[row.model!]!,
  gpu: findGpu(row.gpuModel!),
  precision: 'fp16',
  tensorParallel: Number(row.gpus),
})

/** LLM-Pilot: closed loops of users on TGIS, for two minutes; one here. */
export const pilotServers = (name: 'llm-servers' | 'held-out/llm-servers-itl'): MeasuredServer[] =>
  table(name).map((row) => {
    const device = pilotDevice(row)
    const requests = pilotRequests(
      Number(row.meanInputTokens ?? 122),
      Number(row.meanOutputTokens ?? 19),
    )
    const play = played(
      { device, maxSequences: 128, maxBatchedTokens: 8192, memoryShare: 0.9, longest: 1 },
      requests,
      {
        kind: 'closed',
        connections: Number(row.users),
        durationS: (192 + 6 * Number(row.users)) / Number(row.requestsPerSecond ?? 5),
      },
    )
    return {
      engine: 'tgi',
      device,
      model: row.model!,
      users: Number(row.users),
      measured: {
        ...(row.outputTokensPerSecond && {
          tokensPerS: Number(row.outputTokensPerSecond),
          ttftMs: Number(row.ttftP50Ms),
        }),
        itlMs: Number(row.itlP50Ms),
      },
      play: (profile) => {
        const run = play(profile)
        return {
          tokensPerS: tokensPerS(run),
          ttftMs: medianOf(run.stream!.latenciesMs.ttft),
          itlMs: medianOf(run.stream!.gapsMs!),
        }
      },
    }
  })

/** Median in tokens, and deviation of the logarithm; 1,024 at most. */
interface Lognormal {
  readonly median: number
  readonly sigma: number
}
/** ShareGPT as `vllm bench serve` samples it. */
const shareGpt = { input: { median: 80, sigma: 1.3 }, output: { median: 130, sigma: 0.95 } }
/**
 * OpenOrca as MLPerf has it: answers by the percentiles of their latencies over the mean time of a
 * token (250 in the median, 522 and 928 at p90 and p99); prompts are an assumption.
 */
const openOrca = { input: { median: 210, sigma: 0.8 }, output: { median: 250, sigma: 0.575 } }

/** By quantiles of lognormals, brought to means. */
function lognormalRequests(
  of: { readonly input: Lognormal; readonly output: Lognormal },
  count: number,
  meanInput: number,
  meanOutput: number,
): LlmRequest[] {
  const at = ({ median, sigma }: Lognormal, q: number) =>
    Math.min(1024, median * Math.exp(sigma * computeNormalQuantile(q)))
  const drawn = Array.from({ length: count }, (_, i) => {
    const [u, v] = [((i + 0.5) * 0.618034) % 1, ((i + 0.5) * 0.754878) % 1]
    return [at(of.input, u), at(of.output, v)] as const
  })
  const [input, output] = [meanOf(drawn.map(([i]) => i)), meanOf(drawn.map(([, o]) => o))]
  return drawn.map(([i, o]) => request((i * meanInput) / input, (o * meanOutput) / output))
}

/** What the servers of the benchmark start with where they are told nothing. */
const startsWith: Readonly<Record<string, (gpu: string) => Omit<Server, 'device' | 'longest'>>> = {
  vllm: (gpu) => ({
    ...(gpu === 'H100'
      ? { maxSequences: 1024, maxBatchedTokens: 8192 }
      : { maxSequences: 256, maxBatchedTokens: 2048 }),
    memoryShare: 0.9,
  }),
  sglang: () => ({ maxSequences: 2048, maxBatchedTokens: 8192, memoryShare: 0.88 }),
  'tensorrt-llm': () => ({ maxSequences: 2048, maxBatchedTokens: 8192, memoryShare: 0.9 }),
}

const deviceOf = (
  row: Record<string, string>,
  more: Pick<LlmDevice, 'precision' | 'kvCacheDtype' | 'tensorParallel'>,
): LlmDevice => ({
  architecture: findArchitecture(row.model!) as Decoder,
  gpu: findGpu(row.gpuModel!),
  quantization: row.quantization as Quantization,
  ...more,
})

/** gpustack's performance lab: all requests at once, or a few users. */
export const benchServers = (): MeasuredServer[] =>
  table('llm-bench').map((row) => {
    const device = deviceOf(row, { precision: 'bf16', tensorParallel: 1 })
    const [count, users] = [Number(row.requests), Number(row.concurrency)]
    const means = [Number(row.meanInputTokens), Number(row.meanOutputTokens)] as const
    const requests =
      row.lengths === 'fixed'
        ? Array.from({ length: count }, () => request(...means))
        : lognormalRequests(shareGpt, count, ...means)
    const load: Load =
      users < count
        ? { kind: 'closed', connections: users, durationS: 30 }
        : {
            kind: 'open',
            rateRps: count,
            durationS: 1,
            arrivals: { kind: 'trace', atMs: Array.from({ length: count }, () => 0) },
            seed: 1,
          }
    const play = played(
      { device, longest: 1, ...startsWith[row.server!]!(device.gpu.name) },
      requests,
      load,
    )
    return {
      engine: row.server!,
      device,
      model: row.model!,
      users,
      measured: {
        tokensPerS: Number(row.outputTokensPerSecond),
        ttftMs: Number(row.ttftMeanMs),
        itlMs: Number(row.tpotMeanMs),
      },
      play: (profile) => {
        const run = play(profile)
        return {
          tokensPerS: tokensPerS(run),
          ttftMs: meanOf(run.stream!.latenciesMs.ttft),
          itlMs: meanOf(run.stream!.latenciesMs.tpot),
        }
      },
    }
  })

/** Tokens of a prompt in the mean, an assumption: MLPerf publishes those of the answers alone. */
export const assumedPromptTokens = 290

/**
 * MLPerf's Llama-2-70B on TensorRT-LLM: OpenOrca, prompts and answers of 1,024 tokens at most.
 * `Server` has Poisson arrivals close to what the machine can bear, where a few per cent in the
 * rate are seconds of a queue: as many requests at once as it had in the mean (Little's law) are
 * played instead.
 */
export const mlperfServers = (promptTokens = assumedPromptTokens): MeasuredServer[] =>
  table('held-out/llm-mlperf').map((row) => {
    const device = deviceOf(row, {
      precision: 'fp16',
      kvCacheDtype: row.kvCacheDtype as 'fp8',
      tensorParallel: Number(row.gpus),
    })
    const perServer = (name: string) => Number(row[name]) / Number(row.servers)
    const requests = lognormalRequests(
      openOrca,
      1000,
      promptTokens,
      Number(row.outputTokensPerSecond) / Number(row.samplesPerSecond),
    )
    const [maxSequences, offline] = [Number(row.maxSequences), row.scenario === 'Offline']
    const users = offline
      ? 2 * maxSequences
      : Math.round((perServer('samplesPerSecond') * Number(row.latencyMeanMs)) / 1000)
    const server = { device, maxSequences, maxBatchedTokens: 8192, memoryShare: 0.9, longest: 1 }
    const play = played(server, requests, { kind: 'closed', connections: users, durationS: 150 })
    // All came at once at first; few are left at the end.
    const [fromMs, middleMs, toMs] = [50_000, 100_000, 150_000]
    return {
      engine: 'tensorrt-llm',
      device,
      model: row.model!,
      users,
      measured: {
        tokensPerS: perServer('outputTokensPerSecond'),
        ...(!offline && { ttftMs: Number(row.ttftMeanMs), itlMs: Number(row.tpotMeanMs) }),
      },
      play: (profile) => {
        // As many as that at once have no room for all of their answers reserved.
        const { sentMs, latencyMs, stream } = play({ ...profile, order: {} })
        const endMs = latencyMs.map((ms, i) => ms + sentMs[i]!)
        const ended = stream!.tokens.filter((_, i) => endMs[i]! >= middleMs && endMs[i]! < toMs)
        const sent = (values: Float64Array) =>
          values.filter((_, i) => sentMs[i]! >= fromMs && sentMs[i]! < middleMs)
        const { ttft, tpot } = stream!.latenciesMs
        return {
          tokensPerS: (1000 * ended.reduce((sum, n) => sum + n, 0)) / (toMs - middleMs),
          ttftMs: meanOf(sent(ttft)),
          itlMs: meanOf(sent(tpot)),
        }
      },
    }
  })

/** NVIDIA's tables of TensorRT-LLM: tokens a second at the greatest load. */
export const throughputServers = (
  name: 'llm-throughput' | 'held-out/llm-throughput' = 'llm-throughput',
): MeasuredServer[] =>
  table(name).map((row) => {
    const kvCacheDtype = row.kvCacheDtype as 'auto' | 'fp8'
    const device = deviceOf(row, {
      precision: 'fp16',
      kvCacheDtype,
      tensorParallel: Number(row.gpus),
    })
    const lengths = [Number(row.inputTokens), Number(row.outputTokens)] as const
    const load = summariseLlmLoad([request(...lengths)])
    return {
      engine: row.server!,
      device,
      model: row.model!,
      measured: { tokensPerS: Number(row.outputTokensPerSecond) },
      play: (profile) => {
        const server = serverOf(
          { device, longest: lengths[0] + lengths[1], ...startsWith['tensorrt-llm']!('') },
          profile,
        )
        return { tokensPerS: lengths[1] * findSaturationRps({ server, load }) }
      },
    }
  })
