/** Token figures of a configuration: latencies, throughput and prices of streamed answers. */
import {
  type LatencyMetric,
  mapMetrics,
  type StreamLatency,
  streamLatencyNames,
} from '../../profiler/model/latency-metrics.ts'
import type { LatencySummary, LoadPoint, StreamSummary } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { meetsSlo } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import { countGpus } from '../../trials/resources.ts'
import { rateTolerance } from './windows.ts'

/** Figures of the window nearest to the capacity. */
interface WindowFigures {
  /** Requests per second. */
  readonly windowRps: number
  readonly latencies: Readonly<Record<StreamLatency, StreamPercentiles>>
  /** By request class; absent if all requests are alike. */
  readonly classes?: Readonly<Record<string, ClassFigures>>
  /** Requests within the SLO, per second. */
  readonly goodputRps: number
}

/**
 * Token figures of a configuration. Tokens and prices are those of the mean request of all windows,
 * at the capacity. Window figures are absent if every window is invalid or far above the capacity.
 */
export interface TokenFigures extends Partial<WindowFigures> {
  /**
   * Mean input tokens of a request. Absent, with all that follows from it, where neither server nor
   * prompts report it.
   */
  readonly inputTokens?: number
  /** Mean output tokens of a request. */
  readonly outputTokens: number
  /** Token rates of one replica at its capacity. */
  readonly outputTokensPerSecond: number
  readonly totalTokensPerSecond?: number
  /** Absent without a GPU. A share of a GPU counts as that share. */
  readonly outputTokensPerSecondPerGpu?: number
  /** Each as if it bore the whole price: input alone, output alone, and both together. */
  readonly pricePerMillionInputTokens?: number
  readonly pricePerMillionOutputTokens: number
  readonly pricePerMillionTokens?: number
}

/** Figures of one request class. */
interface ClassFigures {
  readonly latencies: Readonly<Record<LatencyMetric, StreamPercentiles>>
  /** Share of its requests within its limits, 0-1. */
  readonly good: number
}

export type StreamPercentiles = Pick<LatencySummary, (typeof percentiles)[number]>
export const percentiles = ['p50Ms', 'p90Ms', 'p99Ms'] as const

interface OperatingRate {
  readonly capacityRps: number
  readonly pricePerHour: number
}

/** Undefined if no answers were streamed under load, or no token counts were reported. */
export function computeTokenFigures(
  measurement: Measurement,
  at: OperatingRate,
  configuration: Configuration,
): TokenFigures | undefined {
  const { capacityRps, pricePerHour } = at
  if (!(capacityRps > 0)) return undefined
  const window = findNearestWindow(measurement, capacityRps)
  const outputTokens = computeMeanTokens(measurement, 'outputTokens')
  const inputTokens = computeMeanTokens(measurement, 'inputTokens')
  if (outputTokens === undefined) return undefined
  const perMillion = (tokensEach: number) =>
    (pricePerHour / (capacityRps * 3600 * tokensEach)) * 1e6
  const gpuCount = countGpus(configuration)
  return {
    ...(window !== undefined &&
      window.point.offeredRps <= maxWindowRateRatio * capacityRps &&
      computeWindowFigures(window)),
    outputTokens,
    outputTokensPerSecond: capacityRps * outputTokens,
    ...(gpuCount > 0 && { outputTokensPerSecondPerGpu: (capacityRps * outputTokens) / gpuCount }),
    pricePerMillionOutputTokens: perMillion(outputTokens),
    ...(inputTokens !== undefined && {
      inputTokens,
      totalTokensPerSecond: capacityRps * (inputTokens + outputTokens),
      pricePerMillionInputTokens: perMillion(inputTokens),
      pricePerMillionTokens: perMillion(inputTokens + outputTokens),
    }),
  }
}

/**
 * A window above this multiple of the capacity has no figures for it: its latencies exceed the
 * limits, and its goodput exceeds the capacity.
 */
const maxWindowRateRatio = 1.1

function computeWindowFigures({ point, stream }: StreamedWindow): WindowFigures {
  return {
    windowRps: point.offeredRps,
    latencies: Object.fromEntries(
      streamLatencyNames.map((name) => [name, selectPercentiles(stream[name])]),
    ) as WindowFigures['latencies'],
    ...(stream.classes && {
      classes: Object.fromEntries(
        Object.entries(stream.classes).map(([name, of]) => [
          name,
          { latencies: mapMetrics((metric) => selectPercentiles(of[metric])), good: of.good },
        ]),
      ),
    }),
    goodputRps: point.goodputRps,
  }
}

/**
 * Mean tokens of a request over all windows of open load. Every configuration receives the same
 * mix, of which one window is a small sample. Closed loops are left out: they send more short
 * requests.
 */
function computeMeanTokens(
  { points }: Measurement,
  what: 'inputTokens' | 'outputTokens',
): number | undefined {
  let [sum, requests] = [0, 0]
  for (const { load, stream } of points) {
    const mean = stream?.[what]
    if (load.kind !== 'open' || stream === undefined || mean === undefined) continue
    sum += mean * stream.e2e.requests
    requests += stream.e2e.requests
  }
  return requests > 0 ? sum / requests : undefined
}

const selectPercentiles = ({ p50Ms, p90Ms, p99Ms }: LatencySummary): StreamPercentiles => ({
  p50Ms,
  p90Ms,
  p99Ms,
})

interface StreamedWindow {
  readonly point: LoadPoint
  readonly stream: StreamSummary
}

/**
 * Finds the valid window of open load nearest to the capacity. Windows that meet the SLO at or
 * below the capacity come first, then others at or below it. Of several at one rate the one with
 * the most requests counts.
 */
function findNearestWindow(
  { points, slo }: Measurement,
  capacityRps: number,
): StreamedWindow | undefined {
  const usable = points.flatMap((point) => {
    const { load, stream, cut, invalid, generatorSaturated } = point
    const steady =
      load.kind === 'open' &&
      load.arrivals.kind !== 'sweep' &&
      !cut &&
      !invalid &&
      !generatorSaturated
    return steady && stream !== undefined && stream.e2e.requests > 0 ? [{ point, stream }] : []
  })
  const below = usable.filter(({ point }) => point.offeredRps <= capacityRps * (1 + rateTolerance))
  const distance = ({ point }: { readonly point: LoadPoint }) =>
    Math.abs(point.offeredRps / capacityRps - 1)
  const met = below.filter(({ point }) => meetsSlo(point, slo))
  const among = [met, below, usable].find(({ length }) => length > 0) ?? []
  const minDistance = Math.min(...among.map(distance))
  return among
    .filter((window) => distance(window) <= minDistance + rateTolerance)
    .reduce<(typeof among)[number] | undefined>(
      (a, b) => (a && a.point.requests >= b.point.requests ? a : b),
      undefined,
    )
}
