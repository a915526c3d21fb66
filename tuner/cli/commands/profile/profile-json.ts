/** Renders a profile as JSON, as CSV of its load points, and as an HTML report. */
import type { LoadPoint, Profile } from '../../../../profiler/index.ts'
import { type Block, heading, list, paragraph, table } from '../../../../reports/document/blocks.ts'
import { palette } from '../../../../reports/document/chart-options.ts'
import { toHtml } from '../../../../reports/document/html.ts'
import { renderSvg } from '../../../../reports/document/svg.ts'
import {
  percentileName,
  significant,
  sloAxis,
  sloName,
  sloText,
  sloValue,
} from '../../../../reports/format.ts'
import { formatCsv } from '../../../../trials/csv.ts'
import { listCurvePoints, listLoadPoints } from './profile-text.ts'
import { buildSweepTable, streamColumns } from './sweep-table.ts'

/**
 * Schema version 1. Missing figures are null: a percentile without answers, an unbounded end of an
 * interval (see `bound`).
 */
export const renderJson = (profile: Profile): string =>
  `${JSON.stringify({ schemaVersion: 1, ...profile }, null, 2)}\n`

export function renderCsv(profile: Profile): string {
  const header =
    'load,connections,offered_rps,achieved_rps,goodput_rps,requests,errors,p50_ms,p90_ms,p95_ms,p99_ms,max_ms,slo_ms,slo_low_ms,slo_high_ms,seconds,cut,generator_saturated,lateness_p99_ms'
  const points = listLoadPoints(profile)
  const more = points.some(({ stream }) => stream !== undefined) ? streamColumns : []
  const row = (p: LoadPoint) => [
    p.load.kind,
    p.load.kind === 'closed' ? p.load.connections : undefined,
    p.offeredRps,
    p.achievedRps,
    p.goodputRps,
    p.requests,
    p.errors,
    p.p50Ms,
    p.p90Ms,
    p.p95Ms,
    p.p99Ms,
    p.maxMs,
    p.sloMs,
    ...p.sloCi95Ms,
    p.seconds,
    p.cut ?? false,
    p.generatorSaturated,
    p.latenessP99Ms,
    ...more.map(([, of]) => of(p)),
  ]
  return formatCsv([...header.split(','), ...more.map(([name]) => name)], points.map(row))
}

export async function renderHtml(profile: Profile, at: Date): Promise<string> {
  const { slo, steady, measurement, summary } = profile
  const name = sloName(slo)
  const blocks: Block[] = [
    heading(1, `${profile.model} at ${profile.url}`),
    { kind: 'paragraph', text: summary, strong: true },
    paragraph(
      `SLO ${sloText(slo)}, at most ${slo.maxErrorRate * 100} % failed. Protocol ${profile.protocol}. ${at.toISOString().slice(0, 16).replace('T', ' ')} UTC.`,
    ),
    ...list(profile.caveats),
  ]
  const curve = listCurvePoints(profile).filter((p) => Number.isFinite(p.sloMs))
  if (curve.length > 1) {
    blocks.push(heading(2, 'Latency against load'), {
      kind: 'chart',
      svg: await renderCurve(curve, profile),
      alt: `${name} against the offered rate`,
    })
  }
  if (steady !== undefined) {
    const rows = steady.percentiles.map(({ percentile, ms, ci95Ms: [low, high] }) => [
      slo.metric || slo.limits ? sloName({ ...slo, percentile }) : percentileName(percentile),
      sloValue(slo, ms),
      sloValue(slo, low),
      Number.isFinite(high) ? sloValue(slo, high) : 'no bound',
    ])
    blocks.push(
      heading(2, `Latencies at ${significant(steady.point.offeredRps)} requests per second`),
      ...table(['percentile', 'latency', 'from', 'to (95 %)'], rows, [1, 2, 3]),
    )
    if (steady.histogram.length > 0 && !slo.limits)
      blocks.push({
        kind: 'chart',
        svg: await renderHistogram(profile),
        alt: 'histogram of latencies',
      })
  }
  if (profile.sweep !== undefined) {
    const { head, rows } = buildSweepTable(profile.sweep, slo)
    blocks.push(heading(2, 'Loads'), ...table(head, rows, []))
  }
  if (measurement !== undefined) {
    const rows = listLoadPoints(profile).map((p) => [
      p.load.kind === 'closed' ? `${p.load.connections} at a time` : 'open',
      significant(p.offeredRps),
      significant(p.achievedRps),
      String(p.requests),
      String(p.errors),
      sloValue(slo, p.p50Ms),
      sloValue(slo, p.sloMs),
      [p.cut ? 'cut short' : '', p.generatorSaturated ? 'generator saturated' : '']
        .filter(Boolean)
        .join(', '),
    ])
    blocks.push(
      heading(2, 'Load points'),
      ...table(
        ['load', 'offered/s', 'achieved/s', 'requests', 'errors', 'p50', name, ''],
        rows,
        [1, 2, 3, 4, 5, 6],
      ),
    )
  }
  return toHtml(`Profile of ${profile.model}`, blocks)
}

const createAxis = (name: string) => ({ name, nameLocation: 'middle' as const, nameGap: 32 })

function renderCurve(points: readonly LoadPoint[], { slo }: Profile): Promise<string> {
  const axis = sloAxis(slo)
  return renderSvg({
    grid: { left: 70, right: 30, top: 30, bottom: 50 },
    xAxis: { type: 'value', min: 0, ...createAxis('offered rate, requests per second') },
    yAxis: { type: 'log', ...createAxis(axis.name), nameGap: 50 },
    series: [
      {
        type: 'line',
        color: palette[0],
        data: points.map((p) => [p.offeredRps, axis.of(p.sloMs)]),
        markLine: {
          silent: true,
          symbol: 'none',
          data: [{ yAxis: axis.limit }],
          label: { formatter: `SLO ${axis.limit} ${axis.unit}`, position: 'insideEndTop' },
        },
      },
    ],
  })
}

function renderHistogram({ steady }: Profile): Promise<string> {
  const bins = steady?.histogram ?? []
  // Step line: each bin from its lower to its upper edge.
  const data = bins.flatMap((bin) => [
    [bin.fromMs, bin.count],
    [bin.toMs, bin.count],
  ])
  return renderSvg({
    grid: { left: 70, right: 30, top: 30, bottom: 50 },
    xAxis: {
      type: 'log',
      min: bins[0]?.fromMs,
      max: bins.at(-1)?.toMs,
      ...createAxis('latency, ms'),
    },
    yAxis: { type: 'value', ...createAxis('requests'), nameGap: 50 },
    series: [{ type: 'line', color: palette[0], showSymbol: false, areaStyle: {}, data }],
  })
}
