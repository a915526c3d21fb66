/**
 * What a streamed measurement says of a configuration: the figures by which servers of language
 * models are known. Everything that shows them takes them from here.
 */
import {
  byMetric,
  type LatencyMetric,
  latencyMetricNames,
  latencyMetrics,
  type StreamLatency,
  streamLatencies,
  streamLatencyNames,
} from '../../profiler/model/latency-metrics.ts'
import type { LatencySummary, LoadPoint, StreamSummary } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { meetsSlo } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import { heldGpus } from '../../trials/resources.ts'
import { latency, money, rate, significant } from '../format.ts'
import { sameRate } from './windows.ts'

/** Of the window nearest to the capacity. */
interface WindowFigures {
  /** Requests per second. */
  readonly windowRps: number
  readonly latencies: Readonly<Record<StreamLatency, StreamPercentiles>>
  /** Of requests of several classes, by name. */
  readonly classes?: Readonly<Record<string, ClassFigures>>
  /** Requests that keep the SLO in it, per second. */
  readonly goodputRps: number
}

/**
 * Tokens and prices are what the mean request of all windows comes to at the capacity itself. What
 * is of a window is absent where all are far above it, or spoilt.
 */
export interface TokenFigures extends Partial<WindowFigures> {
  /**
   * Means of a request. Input is absent where neither server nor prompts tell it, and with it what
   * follows from it.
   */
  readonly inputTokens?: number
  readonly outputTokens: number
  /** Of one replica. */
  readonly outputTokensPerSecond: number
  readonly totalTokensPerSecond?: number
  /** Absent without a GPU. A share of a GPU counts as that share. */
  readonly outputTokensPerSecondPerGpu?: number
  /** Each bears the whole price: by input alone, by output alone, and by both together. */
  readonly pricePerMillionInputTokens?: number
  readonly pricePerMillionOutputTokens: number
  readonly pricePerMillionTokens?: number
}

/** Of the answers to one class of requests. */
interface ClassFigures {
  readonly latencies: Readonly<Record<LatencyMetric, StreamPercentiles>>
  /** Share of its requests that kept its limits, 0-1. */
  readonly good: number
}

type StreamPercentiles = Pick<LatencySummary, (typeof percentiles)[number]>
const percentiles = ['p50Ms', 'p90Ms', 'p99Ms'] as const
const streamPercentileNames = { p50Ms: 'p50', p90Ms: 'p90', p99Ms: 'p99' } as const

/** One of the figures: as a column of a table, a field of a file, a line of a text. */
interface TokenFigure {
  /** As CSV and JSON of tables have it. */
  readonly column: string
  readonly title: string
  readonly what: string
  readonly of: (figures: TokenFigures) => number | undefined
  readonly text: (value: number) => string
}

const tokens = (value: number): string => `${significant(value)} tokens/s`

const latencyFigures: readonly TokenFigure[] = streamLatencyNames.flatMap((name) =>
  percentiles.map((percentile) => ({
    column: `${name === 'interToken' ? 'itl' : name}_${streamPercentileNames[percentile]}_ms`,
    title: `${streamLatencies[name].title} ${streamPercentileNames[percentile]}`,
    what: `${streamLatencies[name].title} ${streamPercentileNames[percentile]} (${streamLatencies[name].what}) in the window nearest to the capacity, ms`,
    of: ({ latencies }: TokenFigures) => latencies?.[name][percentile],
    text: latency,
  })),
)

const rateFigures: readonly TokenFigure[] = [
  {
    column: 'goodput_rps',
    title: 'goodput',
    what: 'requests that met the SLO in that window, per second',
    of: (f) => f.goodputRps,
    text: rate,
  },
  {
    column: 'input_tokens',
    title: 'input tokens per request',
    what: 'mean',
    of: (f) => f.inputTokens,
    text: significant,
  },
  {
    column: 'output_tokens',
    title: 'output tokens per request',
    what: 'mean',
    of: (f) => f.outputTokens,
    text: significant,
  },
  {
    column: 'output_tokens_per_second',
    title: 'output',
    what: 'per replica at its capacity',
    of: (f) => f.outputTokensPerSecond,
    text: tokens,
  },
  {
    column: 'total_tokens_per_second',
    title: 'input and output',
    what: 'per replica at its capacity',
    of: (f) => f.totalTokensPerSecond,
    text: tokens,
  },
  {
    column: 'output_tokens_per_second_per_gpu',
    title: 'output per GPU',
    what: 'output tokens per second and GPU; a share of a GPU counts as that share',
    of: (f) => f.outputTokensPerSecondPerGpu,
    text: tokens,
  },
  {
    column: 'price_per_million_input_tokens',
    title: 'per million input tokens',
    what: 'if the input bears the whole price, $',
    of: (f) => f.pricePerMillionInputTokens,
    text: money,
  },
  {
    column: 'price_per_million_output_tokens',
    title: 'per million output tokens',
    what: 'if the output bears the whole price, $',
    of: (f) => f.pricePerMillionOutputTokens,
    text: money,
  },
  {
    column: 'price_per_million_tokens',
    title: 'per million tokens',
    what: 'if input and output bear the price alike, $',
    of: (f) => f.pricePerMillionTokens,
    text: money,
  },
]

/** All of them, in the order in which they are told. */
export const tokenFigures: readonly TokenFigure[] = [...latencyFigures, ...rateFigures]

interface At {
  readonly capacityRps: number
  readonly pricePerHour: number
}

/** Undefined where nothing streamed under load, or nothing reports the tokens. */
export function tokenFiguresOf(
  measurement: Measurement,
  at: At,
  configuration: Configuration,
): TokenFigures | undefined {
  const { capacityRps, pricePerHour } = at
  if (!(capacityRps > 0)) return undefined
  const window = nearestWindow(measurement, capacityRps)
  const outputTokens = meanOf(measurement, 'outputTokens')
  const inputTokens = meanOf(measurement, 'inputTokens')
  if (outputTokens === undefined) return undefined
  const perMillion = (tokensEach: number) =>
    (pricePerHour / (capacityRps * 3600 * tokensEach)) * 1e6
  const held = heldGpus(configuration)
  return {
    ...(window !== undefined &&
      window.point.offeredRps <= farAbove * capacityRps &&
      windowFigures(window)),
    outputTokens,
    outputTokensPerSecond: capacityRps * outputTokens,
    ...(held > 0 && { outputTokensPerSecondPerGpu: (capacityRps * outputTokens) / held }),
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
 * A window at so many times the capacity says nothing of how long answers take there: its own would
 * be beyond the limits, and its goodput beyond the capacity.
 */
const farAbove = 1.1

function windowFigures({ point, stream }: StreamedWindow): WindowFigures {
  return {
    windowRps: point.offeredRps,
    latencies: Object.fromEntries(
      streamLatencyNames.map((name) => [name, percentilesOf(stream[name])]),
    ) as WindowFigures['latencies'],
    ...(stream.classes && {
      classes: Object.fromEntries(
        Object.entries(stream.classes).map(([name, of]) => [
          name,
          { latencies: byMetric((metric) => percentilesOf(of[metric])), good: of.good },
        ]),
      ),
    }),
    goodputRps: point.goodputRps,
  }
}

/**
 * Over all requests of open load: every configuration is sent the same mix, of which one window is
 * a small sample. Closed loops send more of the short ones.
 */
function meanOf({ points }: Measurement, what: 'inputTokens' | 'outputTokens'): number | undefined {
  let [sum, requests] = [0, 0]
  for (const { load, stream } of points) {
    const mean = stream?.[what]
    if (load.kind !== 'open' || stream === undefined || mean === undefined) continue
    sum += mean * stream.e2e.requests
    requests += stream.e2e.requests
  }
  return requests > 0 ? sum / requests : undefined
}

const percentilesOf = ({ p50Ms, p90Ms, p99Ms }: LatencySummary): StreamPercentiles => ({
  p50Ms,
  p90Ms,
  p99Ms,
})

interface StreamedWindow {
  readonly point: LoadPoint
  readonly stream: StreamSummary
}

/**
 * Of the windows of open load at the rate nearest to the capacity, not above it and with the SLO
 * kept where one is, that of the most requests.
 */
function nearestWindow(
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
  const below = usable.filter(({ point }) => point.offeredRps <= capacityRps * (1 + sameRate))
  const distance = ({ point }: { readonly point: LoadPoint }) =>
    Math.abs(point.offeredRps / capacityRps - 1)
  const kept = below.filter(({ point }) => meetsSlo(point, slo))
  const among = [kept, below, usable].find(({ length }) => length > 0) ?? []
  const least = Math.min(...among.map(distance))
  return among
    .filter((window) => distance(window) <= least + sameRate)
    .reduce<(typeof among)[number] | undefined>(
      (a, b) => (a && a.point.requests >= b.point.requests ? a : b),
      undefined,
    )
}

/** '8,040 output tokens/s, $0.18 per million output tokens': beside a verdict. */
export const tokensInBrief = ({
  outputTokensPerSecond,
  pricePerMillionOutputTokens,
}: TokenFigures): string =>
  `${significant(outputTokensPerSecond)} output tokens/s, ${money(pricePerMillionOutputTokens)} per million output tokens`

/** 'at 8.3 req/s': of which rate the latencies are; undefined without any. */
export const windowText = ({ windowRps }: TokenFigures): string | undefined =>
  windowRps === undefined ? undefined : `at ${rate(windowRps)}`

/** Latencies as rows of a table: name, then p50, p90, p99; of all requests, then of each class. */
export const latencyRows = ({ latencies, classes = {} }: TokenFigures): string[][] => {
  if (latencies === undefined) return []
  const row = (title: string, of: StreamPercentiles) => [
    title,
    ...percentiles.map((percentile) => latency(of[percentile])),
  ]
  return [
    ...streamLatencyNames.map((name) => row(streamLatencies[name].title, latencies[name])),
    ...Object.entries(classes).flatMap(([name, each]) =>
      latencyMetricNames.map((metric) =>
        row(`${name} ${latencyMetrics[metric].title}`, each.latencies[metric]),
      ),
    ),
  ]
}

/** Down to a tenth of a per cent: what is not all of them does not read 100 %. */
const shareDown = (share: number): string => `${Math.floor(1000 * share + 1e-9) / 10} %`

/** Everything else: title and value. */
export const rateRows = (figures: TokenFigures): (readonly [title: string, value: string])[] => [
  ...Object.entries(figures.classes ?? {}).map(
    ([name, { good }]) => [`${name} requests within their limits`, shareDown(good)] as const,
  ),
  ...rateFigures.flatMap(({ title, of, text }) => {
    const value = of(figures)
    return value === undefined ? [] : [[title, text(value)] as const]
  }),
]
