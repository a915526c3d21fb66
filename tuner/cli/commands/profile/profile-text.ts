/**
 * Formats a profile for the terminal: verdict, percentiles, latency histogram, load-latency curve.
 */
import type {
  HistogramBin,
  LatencySummary,
  LoadPoint,
  Profile,
  Slo,
  SteadyWindow,
} from '../../../../profiler/index.ts'
import {
  type StreamLatency,
  streamLatencies,
  streamLatencyNames,
} from '../../../../profiler/model/latency-metrics.ts'
import {
  latency,
  percent,
  percentileName,
  significant,
  sloName,
  sloValue,
} from '../../../../reports/format.ts'
import { formatTable, wrapText } from '../../render/columns.ts'
import { glyph, paint, type Style } from '../../render/glyphs.ts'
import { buildSweepTable, notObservable } from './sweep-table.ts'

export function formatProfile(profile: Profile, style: Style, columns: number): string[] {
  const { verdict, summary, measurement, steady } = profile
  const mark =
    verdict === 'met'
      ? paint(glyph('done', style), 'green', style)
      : paint(glyph('infeasible', style), verdict === 'violated' ? 'yellow' : 'red', style)
  const lines = [
    `${mark} ${paint(summary, 'bold', style)}`,
    `  ${profile.model} at ${profile.url}, ${profile.protocol}`,
  ]
  if (measurement !== undefined) {
    const { unloaded, saturationRps, seconds, requests, slo } = measurement
    const unloadedText =
      unloaded.requests > 0
        ? `unloaded p50 ${sloValue(slo, unloaded.p50Ms)}, p99 ${sloValue(slo, unloaded.p99Ms)}; `
        : ''
    const saturated = saturationRps > 0 ? `saturated at ${significant(saturationRps)} req/s; ` : ''
    lines.push(
      `  ${unloadedText}${saturated}${requests.toLocaleString('en-US')} requests in ${seconds.toFixed(1)} s`,
    )
  }
  if (profile.sweep !== undefined) {
    const { head, rows } = buildSweepTable(profile.sweep, profile.slo)
    lines.push(
      '',
      ...formatTable([head, ...rows].map(([first, ...rest]) => [`  ${first}`, ...rest])),
    )
  }
  if (steady !== undefined)
    lines.push(
      '',
      ...formatSteadyWindow(steady, profile, style),
      ...formatStream(steady.point, profile.slo),
      '',
    )
  // A joint SLO has no single latency to plot.
  if (steady !== undefined && !profile.slo.limits)
    lines.push(...drawHistogram(steady.histogram, profile.slo.limitMs, style, columns))
  const curve = drawCurve(listCurvePoints(profile), profile, style, columns)
  if (curve.length > 0) lines.push('', ...curve)
  if (profile.caveats.length > 0)
    lines.push('', ...profile.caveats.flatMap((caveat) => formatNote(caveat, style, columns)))
  return lines
}

const formatNote = (caveat: string, style: Style, columns: number): string[] =>
  wrapText(`note: ${caveat}`, columns).map((line) =>
    line.replace(/^note:/, paint('note:', 'yellow', style)),
  )

/** Lists every load point in order of time. */
export const listLoadPoints = ({ measurement, below, steady, sweep }: Profile): LoadPoint[] => [
  ...(sweep ?? []),
  ...(measurement?.points ?? []),
  ...(below ?? []),
  ...(steady === undefined ? [] : [steady.point]),
]

/** Open load points, by offered rate: the load-latency curve. */
export function listCurvePoints(profile: Profile): LoadPoint[] {
  const points = listLoadPoints(profile)
  return points
    .filter((p) => p.load.kind === 'open' && p.requests > 0)
    .sort((a, b) => a.offeredRps - b.offeredRps)
}

function formatSteadyWindow(
  { point, percentiles, nEff, proven }: SteadyWindow,
  { slo }: Profile,
  style: Style,
): string[] {
  const head = `At ${significant(point.offeredRps)} req/s for ${point.seconds.toFixed(1)} s: ${significant(point.achievedRps)} successful answers per second, ${significant(point.goodputRps)} within the SLO, ${percent(point.errors / Math.max(1, point.requests))} failed`
  const kinds = Object.entries(point.errorKinds).map(
    ([kind, count]) => `${kind} ${glyph('times', style)} ${count}`,
  )
  const rows = percentiles.map(({ percentile, ms, ci95Ms: [low, high] }) => [
    `  ${slo.metric || slo.limits ? sloName({ ...slo, percentile }) : percentileName(percentile)}`,
    sloValue(slo, ms),
    `[${sloValue(slo, low)}, ${Number.isFinite(high) ? sloValue(slo, high) : 'no bound'}]`,
    ms > slo.limitMs ? paint('over the limit', 'yellow', style) : '',
  ])
  const proof = proven ? 'prove the SLO at 95 %' : 'do not prove the SLO by themselves'
  return [
    head,
    ...(kinds.length > 0 ? [`  ${kinds.join(', ')}`] : []),
    ...formatTable(rows),
    `  ${point.requests} requests are worth ${Math.round(nEff)} independent ones: they ${proof}`,
  ]
}

/** Formats all latencies of streamed answers, and which limits of a joint SLO were met. */
function formatStream({ stream, joint }: LoadPoint, { limits }: Slo): string[] {
  if (!stream) return []
  const row = (name: string, s: LatencySummary, metric: StreamLatency) => {
    const limit = limits?.find((each) => each.metric === metric)
    const shareWithinLimit = metric === 'interToken' ? undefined : joint?.met[metric]
    return [
      `  ${name}`,
      ...[s.p50Ms, s.p90Ms, s.p99Ms].map((ms) => (s.requests > 0 ? latency(ms) : notObservable)),
      limit && shareWithinLimit !== undefined
        ? `${percent(shareWithinLimit)} within ${latency(limit.limitMs)}`
        : '',
    ]
  }
  return [
    '',
    ...formatTable([
      ['  Streams', 'p50', 'p90', 'p99', ''],
      ...streamLatencyNames.map((metric) =>
        row(streamLatencies[metric].title, stream[metric], metric),
      ),
    ]),
    `  ${significant(stream.outputTokensPerSecond)} output tokens per second${formatTokensPerRequest(stream)}${joint ? `; ${percent(joint.good)} of requests met every limit` : ''}`,
  ]
}

const formatTokensPerRequest = ({
  inputTokens,
  outputTokens,
}: NonNullable<LoadPoint['stream']>): string =>
  outputTokens === undefined
    ? ''
    : `, ${significant(outputTokens)} per request${inputTokens === undefined ? '' : ` from ${significant(inputTokens)} input tokens`}`

/** One bar per bin; bins over the SLO are coloured. */
export function drawHistogram(
  bins: readonly HistogramBin[],
  limitMs: number,
  style: Style,
  columns: number,
): string[] {
  const maxCount = Math.max(0, ...bins.map((bin) => bin.count))
  if (maxCount === 0) return []
  const width = Math.max(10, Math.min(60, columns - 34))
  const label = (ms: number) =>
    ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : Math.round(ms).toString()
  return bins.map((bin) => {
    const bar = glyph('full', style).repeat(
      bin.count === 0 ? 0 : Math.max(1, Math.round((width * bin.count) / maxCount)),
    )
    const range = `${label(bin.fromMs).padStart(7)} to ${label(bin.toMs).padStart(7)} ms `
    return `${range}${paint(bar, bin.fromMs > limitMs ? 'yellow' : 'cyan', style)} ${bin.count}`.trimEnd()
  })
}

/**
 * Offered rate (x) against the SLO percentile (y, log) with the limit. Empty for fewer than two
 * points.
 */
export function drawCurve(
  points: readonly LoadPoint[],
  { slo }: Profile,
  style: Style,
  columns: number,
  height = 10,
): string[] {
  const finite = points.filter((p) => Number.isFinite(p.sloMs) && p.sloMs > 0)
  if (finite.length < 2) return []
  const gutter = 9
  const width = Math.max(20, Math.min(72, columns - gutter - 2))
  const high = Math.log(Math.max(slo.limitMs * 1.2, ...finite.map((p) => p.sloMs)))
  const low = Math.log(Math.min(slo.limitMs, ...finite.map((p) => p.sloMs)) * 0.9)
  const mostRps = finite.at(-1)!.offeredRps
  const toRow = (ms: number) =>
    Math.min(
      height - 1,
      Math.max(0, height - 1 - Math.round(((Math.log(ms) - low) / (high - low)) * (height - 1))),
    )
  const grid = Array.from({ length: height }, () => new Array<string>(width).fill(' '))
  const limitRow = toRow(slo.limitMs)
  grid[limitRow]!.fill(glyph('horizontal', style))
  for (const point of finite)
    grid[toRow(point.sloMs)]![Math.round((point.offeredRps / mostRps) * (width - 1))] = glyph(
      point.cut ? 'infeasible' : 'point',
      style,
    )
  const lines = grid.map((cells, row) => {
    const label =
      row === limitRow
        ? latency(slo.limitMs)
        : row === 0
          ? latency(Math.exp(high))
          : row === height - 1
            ? latency(Math.exp(low))
            : ''
    return `${label.padStart(gutter - 1)} ${glyph('vertical', style)}${cells.join('')}`.trimEnd()
  })
  const pad = ' '.repeat(gutter)
  const right = `${significant(mostRps)} req/s offered`
  return [
    `${sloName(slo)} against the offered rate`,
    ...lines,
    `${pad}${glyph('corner', style)}${glyph('horizontal', style).repeat(width)}`,
    `${pad} 0${right.padStart(width - 1)}`,
  ]
}
