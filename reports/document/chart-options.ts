/** Chart options (ECharts), pure: for SVG on the server and for the browser alike. */
import type { EChartsOption, SeriesOption } from 'echarts'
import type { CurveKnot } from '../../profiler/capacity/capacity-bounds.ts'
import { type Slo, type SloAxis, sloAxis } from '../../profiler/model/slo.ts'
import { getObjectiveUnit, type Objective, toDisplayedCost } from '../../search/objective.ts'
import type { RankedCandidate } from '../recommendation/ranked-candidate.ts'
import type { Candidate, Recommendation } from '../recommendation/types.ts'

/** Okabe-Ito palette, distinguishable with any colour vision; similar hues are not adjacent. */
export const palette = [
  '#0072b2',
  '#d55e00',
  '#009e73',
  '#cc79a7',
  '#000000',
  '#e69f00',
  '#56b4e9',
] as const
/**
 * Distinguishable without colour: circle, square, triangle, diamond, plus, triangle downward, star.
 */
export const symbols = [
  'circle',
  'rect',
  'triangle',
  'diamond',
  'path://M3.5 0 H6.5 V3.5 H10 V6.5 H6.5 V10 H3.5 V6.5 H0 V3.5 H3.5 Z',
  'path://M0 0.5 L10 0.5 L5 9.5 Z',
  'path://M5 0 L6.2 3.6 L10 3.8 L7 6.1 L8.1 9.8 L5 7.7 L1.9 9.8 L3 6.1 L0 3.8 L3.8 3.6 Z',
] as const

const grid = { left: 70, right: 30, top: 60, bottom: 50 }
const axis = (name: string) => ({
  name,
  nameLocation: 'middle' as const,
  nameGap: 32,
  axisLabel: { color: '#333' },
  nameTextStyle: { color: '#333' },
})
const createYAxisOption = (name: string) => ({ ...axis(name), nameGap: 50 })

/** CSS pixels. */
const legendLineHeight = 18

/**
 * Legend with a line for each name, above the plot. Names of configurations are long: side by side
 * they wrap and cover the plot.
 */
const createLegendAbove = (names: readonly string[]) => ({
  grid: { ...grid, top: 40 + names.length * legendLineHeight },
  legend: {
    type: 'plain' as const,
    orient: 'vertical' as const,
    left: 0,
    top: 0,
    itemGap: legendLineHeight - 14,
    itemHeight: 14,
    textStyle: { color: '#333', fontSize: 12, lineHeight: 14 },
    data: [...names],
  },
})

const createSloLine = ({ limit, unit }: SloAxis, along: 'xAxis' | 'yAxis') => ({
  silent: true,
  symbol: 'none',
  lineStyle: { color: '#b00020', type: 'dashed' as const, width: 1.5 },
  label: {
    formatter: `SLO ${limit} ${unit}`,
    color: '#b00020',
    position: along === 'xAxis' ? ('end' as const) : ('insideEndTop' as const),
  },
  data: [{ [along]: limit }],
})

/**
 * Latency of the SLO percentile against requests per dollar: a curve per configuration, the front
 * over them, the SLO with its far side shaded.
 */
export function createParetoOption(
  rankedCandidates: readonly RankedCandidate[],
  front: readonly Candidate[],
  slo: Slo,
  marks: readonly { trial: number; name: string }[],
  /** Fronts of variants of at least some quality, the best first; the last is `front`. */
  qualityFronts: Recommendation['qualityFronts'] = [],
): EChartsOption {
  const perDollar = (rps: number, pricePerHour: number) => (rps * 3600) / pricePerHour
  const latencyAxis = sloAxis(slo)
  const xMax = latencyAxis.limit * 1.6
  const series: SeriesOption[] = rankedCandidates.map((j, i) => ({
    type: 'line',
    name: j.candidate.label,
    symbol: symbols[i % symbols.length],
    symbolSize: 6,
    color: palette[i % palette.length],
    lineStyle: { width: 1 },
    data: (j.curve ?? [])
      .filter((k) => k.rateRps > 0 && latencyAxis.of(k.latencyMs) <= xMax)
      .map((k) =>
        createKnotPoint(k, [
          latencyAxis.of(k.latencyMs),
          perDollar(k.rateRps, j.candidate.pricePerHour),
        ]),
      ),
  }))
  const marked = marks.flatMap(({ trial, name }, i) => {
    const c = rankedCandidates.find((j) => j.candidate.trial === trial)?.candidate
    if (!c || c.capacityRps <= 0) return []
    const label = {
      show: true,
      formatter: name,
      position: 'top' as const,
      color: '#000',
      fontWeight: 'bold' as const,
    }
    return [
      {
        value: [latencyAxis.of(c.sloMsAtCapacity), perDollar(c.capacityRps, c.pricePerHour)],
        symbol: i === 0 ? 'pin' : 'diamond',
        symbolSize: i === 0 ? 26 : 14,
        label,
      },
    ]
  })
  return {
    ...createLegendAbove([
      ...rankedCandidates.map((j) => j.candidate.label),
      'Pareto front',
      ...qualityFronts.slice(0, -1).map((q) => `quality ≥ ${q.minQuality}`),
    ]),
    xAxis: { type: 'value', max: xMax, ...axis(latencyAxis.name) },
    yAxis: { type: 'value', ...createYAxisOption('requests per dollar') },
    series: [
      ...series,
      {
        type: 'line',
        name: 'Pareto front',
        step: 'end',
        symbol: 'none',
        color: '#000',
        lineStyle: { width: 2.5 },
        data: front.map((c) => [
          latencyAxis.of(c.sloMsAtCapacity),
          perDollar(c.capacityRps, c.pricePerHour),
        ]),
        markLine: createSloLine(latencyAxis, 'xAxis'),
        markArea: {
          silent: true,
          itemStyle: { color: '#b0002012' },
          data: [[{ xAxis: latencyAxis.limit }, { xAxis: xMax }]],
        },
      },
      ...qualityFronts.slice(0, -1).map(
        ({ minQuality, front: better }, i): SeriesOption => ({
          type: 'line',
          name: `quality ≥ ${minQuality}`,
          step: 'end',
          symbol: 'none',
          color: '#000',
          lineStyle: { width: 1.5, type: i % 2 === 0 ? 'dashed' : 'dotted' },
          data: better.map((c) => [
            latencyAxis.of(c.sloMsAtCapacity),
            perDollar(c.capacityRps, c.pricePerHour),
          ]),
        }),
      ),
      { type: 'scatter', name: 'marks', color: '#000', data: marked },
    ],
  }
}

/** A modelled, not measured point is hollow. */
export const createKnotPoint = ({ modelled }: CurveKnot, value: number[]) =>
  modelled ? { value, ...hollow } : value
const hollow = { symbol: 'emptyCircle', symbolSize: 10 }

/** Latency at the SLO percentile (log) against the offered rate, with the SLO. */
export function loadCurveOption(
  rankedCandidates: readonly RankedCandidate[],
  slo: Slo,
): EChartsOption {
  const latencyAxis = sloAxis(slo)
  return {
    ...createLegendAbove(rankedCandidates.map((j) => j.candidate.label)),
    xAxis: { type: 'value', min: 0, ...axis('offered rate, req/s') },
    yAxis: { type: 'log', ...createYAxisOption(latencyAxis.name) },
    series: rankedCandidates.map((j, i): SeriesOption => {
      const knots = (j.curve ?? []).filter((k) => Number.isFinite(k.latencyMs))
      return {
        type: 'line',
        name: j.candidate.label,
        color: palette[i % palette.length],
        symbol: symbols[i % symbols.length],
        symbolSize: 7,
        data: knots.map((k) => createKnotPoint(k, [k.rateRps, latencyAxis.of(k.latencyMs)])),
        ...(i === 0 ? { markLine: createSloLine(latencyAxis, 'yAxis') } : {}),
      }
    }),
  }
}

/**
 * Cost of each trial in order, and the best so far. `points`: trial number and cost; infeasible
 * ones left out.
 */
export function createHistoryChart(
  points: readonly { trial: number; cost: number }[],
  objective: Objective,
): EChartsOption {
  const convertCost = (cost: number) => toDisplayedCost(objective, cost)
  let best = Number.POSITIVE_INFINITY
  const bestSoFar = points.map(({ trial, cost }) => {
    best = Math.min(best, cost)
    return [trial, convertCost(best)]
  })
  return {
    grid,
    legend: { top: 0, textStyle: { color: '#333' } },
    xAxis: { type: 'value', minInterval: 1, ...axis('trial') },
    yAxis: {
      type: points.every((p) => convertCost(p.cost) > 0) ? 'log' : 'value',
      ...createYAxisOption(getObjectiveUnit(objective)),
    },
    series: [
      {
        type: 'scatter',
        name: 'trial',
        color: palette[6],
        symbolSize: 8,
        data: points.map((p) => [p.trial, convertCost(p.cost)]),
      },
      {
        type: 'line',
        name: 'best so far',
        color: palette[0],
        step: 'end',
        symbol: 'none',
        data: bestSoFar,
      },
    ],
  }
}

/** Demand over one period against what a static fleet carries. Hours on the x axis. */
export function createDemandOption(
  { spans }: { readonly spans: readonly { readonly rps: number; readonly seconds: number }[] },
  carriesRps: number,
  name: string,
): EChartsOption {
  let seconds = 0
  const steps: [number, number][] = spans.map((span) => {
    seconds += span.seconds
    return [(seconds - span.seconds) / 3600, span.rps]
  })
  const hours = seconds / 3600
  return {
    grid,
    legend: { top: 0, textStyle: { color: '#333' } },
    xAxis: { type: 'value', max: hours, ...axis('hours') },
    yAxis: { type: 'value', ...createYAxisOption('requests per second') },
    series: [
      {
        type: 'line',
        name: 'demand',
        step: 'end',
        symbol: 'none',
        color: palette[0],
        areaStyle: { opacity: 0.15 },
        data: [...steps, [hours, spans.at(-1)!.rps]],
      },
      {
        type: 'line',
        name,
        symbol: 'none',
        color: palette[1],
        data: [
          [0, carriesRps],
          [hours, carriesRps],
        ],
      },
    ],
  }
}
