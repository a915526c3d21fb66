/** A sweep as a table with a row per load, for terminal, report and CSV. */
import type { LatencySummary, LoadPoint, Slo } from '../../../../profiler/index.ts'
import { streamLatencies, streamLatencyNames } from '../../../../profiler/model/latency-metrics.ts'
import { meetsSlo } from '../../../../profiler/model/slo.ts'
import {
  latency,
  percent,
  percentileName,
  significant,
  sloName,
  sloValue,
} from '../../../../reports/format.ts'

interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/**
 * p50, p90 and p99 of the latency, or of all latencies of streamed answers, with their token rate.
 */
export function buildSweepTable(points: readonly LoadPoint[], slo: Slo): Table {
  const streamed = points.some(({ stream }) => stream !== undefined)
  const names = streamed
    ? streamLatencyNames.map((name) => streamLatencies[name].title)
    : ['latency']
  const summaries = (point: LoadPoint): (LatencySummary | undefined)[] =>
    streamed ? streamLatencyNames.map((name) => point.stream?.[name]) : [point]
  return {
    head: [
      'load',
      'req/s',
      ...(streamed ? ['output tokens/s'] : []),
      ...names.map((name) => `${name} p50, p90, p99`),
      slo.limits ? `${percentileName(slo.percentile)} of limits` : sloName(slo),
      'within the SLO',
      '',
    ],
    rows: points.map((point) => [
      point.load.kind === 'closed'
        ? `${point.load.connections} at a time`
        : `${significant(point.offeredRps)} req/s`,
      significant(point.achievedRps),
      ...(streamed ? [significant(point.stream?.outputTokensPerSecond ?? 0)] : []),
      ...summaries(point).map((summary) =>
        summary !== undefined && summary.requests > 0
          ? formatPercentiles(summary)
          : (point.stream?.e2e.requests ?? 0) > 0
            ? notObservable
            : 'no answer',
      ),
      sloValue(slo, point.sloMs),
      percent(point.achievedRps > 0 ? point.goodputRps / point.achievedRps : 0),
      [
        meetsSlo(point, slo) ? 'meets it' : '',
        point.errors > 0 ? `${point.errors} failed` : '',
        point.generatorSaturated ? 'generator saturated' : '',
      ]
        .filter(Boolean)
        .join(', '),
    ]),
  }
}

/** The answer arrived in one chunk, so its token latencies are unknown. */
export const notObservable = 'not observable'

/** '48, 120, 310 ms'. */
const formatPercentiles = ({ p50Ms, p90Ms, p99Ms }: LatencySummary): string =>
  `${[p50Ms, p90Ms].map((ms) => latency(ms).replace(' ms', '')).join(', ')}, ${latency(p99Ms)}`

/** Columns of streamed answers in the CSV of load points. */
export const streamColumns: readonly (readonly [
  name: string,
  readFigure: (point: LoadPoint) => number | undefined,
])[] = [
  ...streamLatencyNames.flatMap((name) =>
    (['p50', 'p90', 'p99'] as const).map(
      (percentile) =>
        [
          `${name === 'interToken' ? 'itl' : name}_${percentile}_ms`,
          ({ stream }: LoadPoint) => stream?.[name][`${percentile}Ms`],
        ] as const,
    ),
  ),
  ['output_tokens_per_second', ({ stream }) => stream?.outputTokensPerSecond],
  ['output_tokens', ({ stream }) => stream?.outputTokens],
  ['input_tokens', ({ stream }) => stream?.inputTokens],
]
