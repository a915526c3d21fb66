/**
 * Load curves: offered rate against latency percentiles, with the SLO and each curve's knee. Pure.
 */
import type { LoadPoint } from '../../../profiler/model/load-point.ts'
import type { Slo } from '../../../profiler/model/slo.ts'
import { createKnotPoint } from '../../document/chart-options.ts'
import { sloAxis } from '../../format.ts'
import type { RankedCandidate } from '../../recommendation/ranked-candidate.ts'
import { findKnee } from '../data/analysis.ts'
import {
  type ChartOption,
  createAxis,
  createBase,
  createLegend,
  createLogAxis,
  createYAxis,
  pickColour,
  pickSymbol,
  type Theme,
} from './theme.ts'

/**
 * Curves of the SLO's percentile, one for each configuration. Colour and symbol follow their order.
 */
export function createCurvesOption(
  rankedCandidates: readonly RankedCandidate[],
  slo: Slo,
  theme: Theme,
): ChartOption {
  const latencyAxis = sloAxis(slo)
  const finite = rankedCandidates.map((j) => ({
    j,
    knots: (j.curve ?? []).filter((k) => Number.isFinite(k.latencyMs)),
  }))
  const latencies = finite.flatMap(({ knots }) => knots.map((k) => latencyAxis.of(k.latencyMs)))
  const maxLatency = latencyAxis.limit * 8
  const scale = createLogAxis(
    latencies.filter((ms) => ms <= maxLatency),
    [latencyAxis.limit * 1.5],
  )
  return {
    ...createBase(theme),
    grid: { left: 58, right: 24, top: 34, bottom: 48 },
    legend: createLegend(theme, {
      left: 8,
      right: 'auto',
      data: rankedCandidates.map((j) => formatName(j)),
    }),
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    xAxis: { type: 'value', min: 0, ...createAxis('offered rate, requests per second', theme) },
    yAxis: { ...scale, ...createYAxis(`${latencyAxis.name} (log)`, theme) },
    series: [
      ...finite.flatMap(({ j, knots }, i) => [
        {
          type: 'line',
          id: `curve ${j.candidate.trial}`,
          name: formatName(j),
          color: pickColour(i, theme),
          symbol: pickSymbol(i),
          symbolSize: 7,
          lineStyle: { width: 2 },
          data: knots
            .filter((k) => latencyAxis.of(k.latencyMs) <= maxLatency)
            .map((k) =>
              createKnotPoint(k, [k.rateRps, latencyAxis.of(k.latencyMs), j.candidate.trial]),
            ),
          ...(i === 0 ? createSloMarks(slo, theme) : {}),
          z: 3,
        },
        createKneeSeries(j, i, latencyAxis.of, theme),
      ]),
    ],
  }
}

const formatName = ({ candidate }: RankedCandidate): string => `trial ${candidate.trial}`

function createSloMarks(slo: Slo, theme: Theme): object {
  const { limit, unit } = sloAxis(slo)
  return {
    markLine: {
      silent: true,
      symbol: 'none',
      lineStyle: { color: theme.warn, type: [6, 4], width: 1.5 },
      label: { formatter: `SLO ${limit} ${unit}`, color: theme.warn, position: 'insideEndTop' },
      data: [{ yAxis: limit }],
    },
    markArea: {
      silent: true,
      itemStyle: { color: `${theme.warn}12` },
      data: [[{ yAxis: limit }, { yAxis: 1e9 }]],
    },
  }
}

function createKneeSeries(
  j: RankedCandidate,
  i: number,
  of: (ms: number) => number,
  theme: Theme,
): object {
  const knee = j.curve && findKnee(j.curve)
  return {
    type: 'scatter',
    id: `knee ${j.candidate.trial}`,
    silent: true,
    symbol: pickSymbol(i),
    symbolSize: 15,
    itemStyle: { color: 'transparent', borderColor: pickColour(i, theme), borderWidth: 2 },
    label: { show: i === 0, formatter: 'knee', position: 'top', color: theme.muted, fontSize: 11 },
    data: knee ? [[knee.rateRps, of(knee.latencyMs)]] : [],
    z: 4,
  }
}

const percentiles = [
  ['p50', 'p50Ms'],
  ['p90', 'p90Ms'],
  ['p95', 'p95Ms'],
  ['p99', 'p99Ms'],
] as const

/** A window of open load whose figures are those of the server. */
export const isDrawn = (p: LoadPoint): boolean =>
  p.load.kind === 'open' && !p.generatorSaturated && p.p50Ms > 0

/** Every percentile that one trial's load steps measured; steps that failed are left out. */
export function createPercentilesOption(
  points: readonly LoadPoint[],
  slo: Slo,
  theme: Theme,
): ChartOption {
  const latencyAxis = sloAxis(slo)
  const drawnPoints = points.filter(isDrawn).sort((a, b) => a.offeredRps - b.offeredRps)
  return {
    ...createBase(theme),
    grid: { left: 58, right: 20, top: 34, bottom: 48 },
    legend: createLegend(theme, { left: 8, right: 'auto' }),
    tooltip: {
      trigger: 'axis',
      confine: true,
      renderMode: 'richText',
      valueFormatter: (v: number) => `${Number(v).toFixed(1)} ${latencyAxis.unit}`,
    },
    xAxis: { type: 'value', min: 0, ...createAxis('offered rate, requests per second', theme) },
    yAxis: {
      ...createLogAxis(
        drawnPoints.flatMap((p) => [latencyAxis.of(p.p50Ms), latencyAxis.of(p.p99Ms)]),
        [latencyAxis.limit * 1.5],
      ),
      ...createYAxis(`${latencyAxis.latencyName} (log)`, theme),
    },
    series: percentiles.map(([name, key], i) => ({
      type: 'line',
      name,
      color: pickColour(i, theme),
      symbol: pickSymbol(i),
      symbolSize: 6,
      data: drawnPoints
        .filter((p) => Number.isFinite(p[key]))
        .map((p) => [p.offeredRps, latencyAxis.of(p[key])]),
      ...(i === 0 ? createSloMarks(slo, theme) : {}),
    })),
  }
}
