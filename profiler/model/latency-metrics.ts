/**
 * Latencies of an answer that an SLO may bound, in the order in which limits are listed. A new one
 * is an entry here, plus its measurement (load/recorder.ts) and its model (the simulated language
 * models). Files, flags, schemas, texts and tables follow.
 */
export const latencyMetrics = {
  ttft: {
    title: 'TTFT',
    what: 'the time to the first token',
    streamed: true,
    aliases: ['time_to_first_token'],
  },
  tpot: {
    title: 'TPOT',
    what: 'the time per output token after the first',
    streamed: true,
    aliases: ['inter_token_latency'],
  },
  e2e: {
    title: 'E2E',
    what: 'the whole answer',
    streamed: false,
    aliases: ['e2el', 'request_latency'],
  },
} as const satisfies Readonly<
  Record<
    string,
    {
      readonly title: string
      readonly what: string
      readonly streamed: boolean
      readonly aliases: readonly string[]
    }
  >
>

/** Streamed metrics apply to answers that arrive in parts. */
export type LatencyMetric = keyof typeof latencyMetrics

export const latencyMetricNames = Object.keys(latencyMetrics) as [LatencyMetric, ...LatencyMetric[]]

/**
 * All latencies reported for a window of streamed answers, in the order of an answer:
 * `latencyMetrics`, and the gaps between tokens, which no SLO bounds.
 */
export const streamLatencies = {
  ttft: latencyMetrics.ttft,
  interToken: { title: 'ITL', what: 'the gap between two output tokens' },
  tpot: latencyMetrics.tpot,
  e2e: latencyMetrics.e2e,
} as const
export type StreamLatency = keyof typeof streamLatencies
export const streamLatencyNames = Object.keys(streamLatencies) as [
  StreamLatency,
  ...StreamLatency[],
]

/** Builds a record with one value for each metric. */
export const mapMetrics = <T>(getValue: (metric: LatencyMetric) => T): Record<LatencyMetric, T> =>
  Object.fromEntries(latencyMetricNames.map((metric) => [metric, getValue(metric)])) as Record<
    LatencyMetric,
    T
  >
