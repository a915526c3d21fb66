/** Token figures as columns, rows and phrases, the same wherever they are shown. */
import {
  latencyMetricNames,
  latencyMetrics,
  streamLatencies,
  streamLatencyNames,
} from '../../profiler/model/latency-metrics.ts'
import { latency, money, rate, significant } from '../format.ts'
import { percentiles, type StreamPercentiles, type TokenFigures } from './token-figures.ts'

const streamPercentileNames = { p50Ms: 'p50', p90Ms: 'p90', p99Ms: 'p99' } as const

/** Texts that show a figure: as a column of a table, a field of a file, a line of a text. */
interface TokenFigure {
  /** Name in CSV and JSON. */
  readonly column: string
  readonly title: string
  readonly what: string
  readonly read: (figures: TokenFigures) => number | undefined
  readonly text: (value: number) => string
}

const formatTokenCount = (value: number): string => `${significant(value)} tokens/s`

const latencyFigures: readonly TokenFigure[] = streamLatencyNames.flatMap((name) =>
  percentiles.map((percentile) => ({
    column: `${name === 'interToken' ? 'itl' : name}_${streamPercentileNames[percentile]}_ms`,
    title: `${streamLatencies[name].title} ${streamPercentileNames[percentile]}`,
    what: `${streamLatencies[name].title} ${streamPercentileNames[percentile]} (${streamLatencies[name].what}) in the window nearest to the capacity, ms`,
    read: ({ latencies }: TokenFigures) => latencies?.[name][percentile],
    text: latency,
  })),
)

const rateFigures: readonly TokenFigure[] = [
  {
    column: 'goodput_rps',
    title: 'goodput',
    what: 'requests that met the SLO in that window, per second',
    read: (f) => f.goodputRps,
    text: rate,
  },
  {
    column: 'input_tokens',
    title: 'input tokens per request',
    what: 'mean',
    read: (f) => f.inputTokens,
    text: significant,
  },
  {
    column: 'output_tokens',
    title: 'output tokens per request',
    what: 'mean',
    read: (f) => f.outputTokens,
    text: significant,
  },
  {
    column: 'output_tokens_per_second',
    title: 'output',
    what: 'per replica at its capacity',
    read: (f) => f.outputTokensPerSecond,
    text: formatTokenCount,
  },
  {
    column: 'total_tokens_per_second',
    title: 'input and output',
    what: 'per replica at its capacity',
    read: (f) => f.totalTokensPerSecond,
    text: formatTokenCount,
  },
  {
    column: 'output_tokens_per_second_per_gpu',
    title: 'output per GPU',
    what: 'output tokens per second and GPU; a share of a GPU counts as that share',
    read: (f) => f.outputTokensPerSecondPerGpu,
    text: formatTokenCount,
  },
  {
    column: 'price_per_million_input_tokens',
    title: 'per million input tokens',
    what: 'if the input bears the whole price, $',
    read: (f) => f.pricePerMillionInputTokens,
    text: money,
  },
  {
    column: 'price_per_million_output_tokens',
    title: 'per million output tokens',
    what: 'if the output bears the whole price, $',
    read: (f) => f.pricePerMillionOutputTokens,
    text: money,
  },
  {
    column: 'price_per_million_tokens',
    title: 'per million tokens',
    what: 'if input and output bear the price alike, $',
    read: (f) => f.pricePerMillionTokens,
    text: money,
  },
]

/** All figures, in the order in which they are shown. */
export const tokenFigures: readonly TokenFigure[] = [...latencyFigures, ...rateFigures]

/** '8,040 output tokens/s, $0.18 per million output tokens': beside a verdict. */
export const formatTokenRates = ({
  outputTokensPerSecond,
  pricePerMillionOutputTokens,
}: TokenFigures): string =>
  `${significant(outputTokensPerSecond)} output tokens/s, ${money(pricePerMillionOutputTokens)} per million output tokens`

/** Formats the rate of the latencies: 'at 8.3 req/s'; undefined without any. */
export const formatWindow = ({ windowRps }: TokenFigures): string | undefined =>
  windowRps === undefined ? undefined : `at ${rate(windowRps)}`

/** Latencies as rows of a table: name, then p50, p90, p99; of all requests, then of each class. */
export const listLatencyRows = ({ latencies, classes = {} }: TokenFigures): string[][] => {
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

/** Rounded down to a tenth of a per cent, so that only all requests read as 100 %. */
const formatShareRoundedDown = (share: number): string =>
  `${Math.floor(1000 * share + 1e-9) / 10} %`

/** All figures but the latencies: title and value. */
export const rateRows = (figures: TokenFigures): (readonly [title: string, value: string])[] => [
  ...Object.entries(figures.classes ?? {}).map(
    ([name, { good }]) =>
      [`${name} requests within their limits`, formatShareRoundedDown(good)] as const,
  ),
  ...rateFigures.flatMap(({ title, read, text }) => {
    const value = read(figures)
    return value === undefined ? [] : [[title, text(value)] as const]
  }),
]
