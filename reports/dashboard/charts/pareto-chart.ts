/**
 * Chart of latency against throughput: configurations at their capacity, load curves, Pareto front
 * and SLO. Pure.
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { sloAxis } from '../../format.ts'
import { candidatesOf } from '../../recommendation/candidates.ts'
import type { RankedCandidate } from '../../recommendation/ranked-candidate.ts'
import type { Candidate, Recommendation } from '../../recommendation/types.ts'
import { createKnotPoint } from '../../report/charts/chart-options.ts'
import { computeRequestsPerDollar, getDevice } from '../data/ranking.ts'
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

export type Throughput = 'per-dollar' | 'per-second'

interface ParetoInput {
  readonly recommendation: Recommendation
  readonly trials: readonly FinishedTrial[]
  /** Configurations to draw with their load curves. */
  readonly curves: readonly RankedCandidate[]
  readonly throughput: Throughput
  readonly latencies: LatencyAxis
  /** Devices in a fixed order, so that each keeps its colour. */
  readonly devices: readonly string[]
  /** Labels the SLO line, if no drag handle shows the limit. */
  readonly still?: boolean
}

export type LatencyAxis = ReturnType<typeof createLogAxis>

/** Beyond this many, points are drawn in ECharts' large mode, without error bars. */
const maxDetailed = 2_000
const maxErrorBars = 150
/**
 * Size of a point in large mode, pixels. From 4 pixels on, ECharts draws all points as one path,
 * which takes minutes.
 */
const pointSize = 3

/** Latency axis from the fastest unloaded latency to well beyond the SLO. */
export function createLatencyAxis(trials: readonly FinishedTrial[], asked: Slo): LatencyAxis {
  const { of, limit } = sloAxis(asked)
  const { percentile } = asked
  const known: number[] = []
  for (const t of trials) {
    if (t.state !== 'complete') continue
    const { unloaded, slo } = t.measurement
    known.push(of(percentile >= 0.9 ? unloaded.p99Ms : unloaded.p50Ms), of(slo.limitMs) * 1.8)
  }
  return createLogAxis(known, [limit / 1.5, limit * 1.5])
}

export function createParetoChart(input: ParetoInput, theme: Theme): ChartOption {
  const { recommendation: r, curves, throughput, devices, latencies } = input
  const shown = sloAxis(r.slo)
  const x: LatencyPosition = (c) => shown.of(c.sloMsAtCapacity)
  const all = candidatesOf(r)
  const y = (rps: number, c: Candidate) =>
    throughput === 'per-dollar' ? computeRequestsPerDollar(rps, c.pricePerHour) : rps
  const place = (device: string) => Math.max(0, devices.indexOf(device))
  const served = all.filter((c) => c.capacityRps > 0 && Number.isFinite(c.sloMsAtCapacity))
  const many = served.length > maxDetailed
  const size = createSizeScale(served)
  const points = devices.map((device, i) => ({
    type: 'scatter',
    id: `device ${device}`,
    name: device,
    color: pickColour(i, theme),
    symbol: pickSymbol(i),
    symbolSize: many ? pointSize : 9,
    large: many,
    largeThreshold: 1,
    progressive: 0,
    itemStyle: many
      ? { opacity: 0.5 }
      : { borderColor: theme.surface, borderWidth: 1, opacity: 0.95 },
    data: served
      .filter((c) => c.feasible && getDevice(c.configuration) === device)
      .map((c) => {
        const value = [x(c), y(c.capacityRps, c), c.trial]
        return size && !many ? { value, symbolSize: size(c) } : value
      }),
    z: 4,
  }))
  return {
    ...createBase(theme),
    grid: { left: 64, right: 24, top: 64, bottom: 48 },
    legend: createLegend(theme, {
      data: [
        ...devices,
        'Pareto front',
        ...listFrontNames(r).map((name, i) => ({
          name,
          itemStyle: { opacity: 0 },
          lineStyle: { type: pickDash(i), width: 2 },
        })),
        ...(all.some((c) => !c.feasible) ? ['no candidate'] : []),
      ],
    }),
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    xAxis: { ...latencies, ...createAxis(`${shown.name} (log)`, theme) },
    yAxis: {
      type: 'value',
      min: 0,
      ...createYAxis(
        throughput === 'per-dollar' ? 'requests per dollar' : 'requests per second',
        theme,
      ),
    },
    series: [
      ...curves.map((j) =>
        createCurveSeries(
          j,
          shown.of,
          y,
          latencies.max,
          pickColour(place(getDevice(j.candidate.configuration)), theme),
        ),
      ),
      ...points,
      createViolatingSeries(all, input.trials, x, y, theme, many),
      createLatencyFrontSeries(r.front, x, y, latencies.max, theme),
      ...createQualitySeries(r, x, y, latencies.max, theme),
      ...(many
        ? []
        : [
            createCapacityIntervals(
              served.filter((c) => c.feasible).slice(0, maxErrorBars),
              x,
              y,
              shown.of,
              theme,
            ),
          ]),
      ...markSeries(r, x, y, theme),
      createSloSeries(
        shown.limit,
        latencies.max,
        theme,
        input.still ? `SLO ${shown.limit} ${shown.unit}` : undefined,
      ),
    ],
  }
}

type LatencyPosition = (c: Candidate) => number
type ThroughputPosition = (rps: number, c: Candidate) => number

function createCurveSeries(
  { candidate, curve }: RankedCandidate,
  of: (ms: number) => number,
  y: ThroughputPosition,
  most: number,
  color: string,
): object {
  return {
    type: 'line',
    id: `curve ${candidate.trial}`,
    silent: true,
    symbol: 'circle',
    symbolSize: 3,
    color,
    lineStyle: { width: 1, opacity: 0.35 },
    itemStyle: { opacity: 0.5 },
    data: (curve ?? [])
      .filter((k) => k.rateRps > 0 && of(k.latencyMs) <= most)
      .map((k) => createKnotPoint(k, [of(k.latencyMs), y(k.rateRps, candidate)])),
    z: 2,
  }
}

/**
 * Configurations that violate the SLO even unloaded: crosses at the rate of one request at a time.
 * Infeasible ones are not drawn.
 */
function createViolatingSeries(
  all: readonly Candidate[],
  trials: readonly FinishedTrial[],
  x: LatencyPosition,
  y: ThroughputPosition,
  theme: Theme,
  many: boolean,
): object {
  const byNumber = new Map(trials.map((t) => [t.number, t]))
  return {
    type: 'scatter',
    id: 'missed',
    name: 'no candidate',
    symbol: many
      ? 'rect'
      : 'path://M0 0 L2 0 L5 3.6 L8 0 L10 0 L6 5 L10 10 L8 10 L5 6.4 L2 10 L0 10 L4 5 Z',
    symbolSize: many ? pointSize : 9,
    large: many,
    largeThreshold: 1,
    color: theme.muted,
    itemStyle: { opacity: 0.8 },
    data: all.flatMap((c) => {
      const trial = c.feasible ? undefined : byNumber.get(c.trial)
      if (trial?.state !== 'complete' || !(c.sloMsAtCapacity > 0)) return []
      const rps = c.capacityRps > 0 ? c.capacityRps : 1000 / trial.measurement.unloaded.meanMs
      return [[x(c), y(rps, c), c.trial]]
    }),
    z: 3,
  }
}

/**
 * Minimum rise of a step, as a share of the highest. Smaller ones are merged, because the canvas
 * drops segments of under two pixels.
 */
const minRiseShare = 0.012

/**
 * Size of a point by the quality of its variant: 7 to 15 pixels. Undefined with fewer than two
 * qualities.
 */
function createSizeScale(served: readonly Candidate[]): ((c: Candidate) => number) | undefined {
  const known = served.flatMap(({ quality }) => quality ?? [])
  const [least, most] = [Math.min(...known), Math.max(...known)]
  if (!(most > least)) return undefined
  return ({ quality }) => (quality === undefined ? 9 : 7 + (8 * (quality - least)) / (most - least))
}

/** Fronts of variants above a quality threshold, without the overall front. */
const listBetterFronts = (r: Recommendation) =>
  (r.qualityFronts ?? []).slice(0, -1).filter(({ front }) => front.length > 0)
const dashes = [
  [8, 4],
  [3, 3],
  [10, 3, 2, 3],
]
const pickDash = (i: number) => dashes[i % dashes.length]
const formatFrontName = (leastQuality: number) => `front of quality ≥ ${leastQuality}`
const listFrontNames = (r: Recommendation): string[] =>
  listBetterFronts(r).map(({ minQuality }) => formatFrontName(minQuality))

function createQualitySeries(
  r: Recommendation,
  x: LatencyPosition,
  y: ThroughputPosition,
  most: number,
  theme: Theme,
): object[] {
  return listBetterFronts(r).map(({ minQuality, front }, i) => ({
    ...createLatencyFrontSeries(front, x, y, most, theme),
    id: formatFrontName(minQuality),
    name: formatFrontName(minQuality),
    lineStyle: { width: 2, type: pickDash(i) },
  }))
}

function createLatencyFrontSeries(
  front: readonly Candidate[],
  x: LatencyPosition,
  y: ThroughputPosition,
  most: number,
  theme: Theme,
): object {
  const top = Math.max(...front.map((c) => y(c.capacityRps, c)))
  const steps: [number, number][] = []
  let height = 0
  for (const [i, c] of front.entries()) {
    const next = y(c.capacityRps, c)
    if (next - height < minRiseShare * top && i < front.length - 1) continue
    steps.push([x(c), height], [x(c), next])
    height = next
  }
  return {
    type: 'line',
    id: 'front',
    name: 'Pareto front',
    symbol: 'none',
    silent: true,
    color: theme.text,
    lineStyle: { width: 2 },
    data: steps.length > 0 ? [...steps, [most, height]] : [],
    z: 5,
  }
}

/**
 * Vertical: from the safe capacity, or the lower end of its 90 % interval, to the upper end.
 * Horizontal: the 95 % interval of the latency in a window at that rate.
 */
function createCapacityIntervals(
  served: readonly Candidate[],
  x: LatencyPosition,
  y: ThroughputPosition,
  of: (ms: number) => number,
  theme: Theme,
): object {
  return {
    type: 'custom',
    id: 'intervals',
    silent: true,
    data: served
      .filter((c) => Number.isFinite(c.capacityCi90Rps[1]))
      .map((c) => {
        const [low, high] = c.capacityCi90Rps
        const [fast, slow] = c.sloCi95Ms ?? [c.sloMsAtCapacity, c.sloMsAtCapacity]
        return [
          x(c),
          y(Math.min(low, c.capacityRps), c),
          y(high, c),
          of(fast),
          of(Number.isFinite(slow) ? slow : c.sloMsAtCapacity),
          y(c.capacityRps, c),
        ]
      }),
    renderItem: (_: unknown, api: { value(i: number): number; coord(at: number[]): number[] }) => {
      const [x, low] = api.coord([api.value(0), api.value(1)]) as [number, number]
      const [, high] = api.coord([api.value(0), api.value(2)]) as [number, number]
      const [fast, level] = api.coord([api.value(3), api.value(5)]) as [number, number]
      const [slow] = api.coord([api.value(4), api.value(5)]) as [number, number]
      const line = (x1: number, y1: number, x2: number, y2: number) => ({
        type: 'line',
        shape: { x1, y1, x2, y2 },
        style: { stroke: theme.muted, lineWidth: 1 },
      })
      return {
        type: 'group',
        children: [
          line(x, low, x, high),
          line(x - 3, low, x + 3, low),
          line(x - 3, high, x + 3, high),
          ...(slow - fast > 1
            ? [
                line(fast, level, slow, level),
                line(fast, level - 3, fast, level + 3),
                line(slow, level - 3, slow, level + 3),
              ]
            : []),
        ],
      }
    },
    encode: { x: [0, 3, 4], y: [1, 2] },
    z: 3,
  }
}

function markSeries(
  r: Recommendation,
  x: LatencyPosition,
  y: ThroughputPosition,
  theme: Theme,
): object[] {
  const mark = (c: Candidate | undefined, name: string, shape: string, position: string) =>
    c && c.capacityRps > 0
      ? [
          {
            type: 'scatter',
            id: name,
            symbol: shape,
            symbolSize: 17,
            itemStyle: { color: 'transparent', borderColor: theme.text, borderWidth: 2 },
            label: {
              show: true,
              position,
              distance: 8,
              formatter: name,
              color: theme.text,
              fontWeight: 600,
              fontSize: 12,
              textBorderColor: theme.surface,
              textBorderWidth: 3,
            },
            data: [[x(c), y(c.capacityRps, c), c.trial]],
            z: 6,
          },
        ]
      : []
  return [
    ...mark(r.best, 'recommended', 'circle', 'bottom'),
    ...(r.defaultCandidate?.trial === r.best?.trial
      ? []
      : mark(r.defaultCandidate, 'baseline', 'rect', 'bottom')),
  ]
}

/** The SLO limit, with the area beyond it shaded. */
function createSloSeries(limit: number, most: number, theme: Theme, text?: string): object {
  return {
    type: 'line',
    id: 'slo',
    data: [],
    silent: true,
    markLine: {
      silent: true,
      symbol: 'none',
      lineStyle: { color: theme.warn, type: [6, 4], width: 1.5 },
      label: { show: text !== undefined, formatter: text, color: theme.warn, position: 'end' },
      data: [{ xAxis: limit }],
    },
    markArea: {
      silent: true,
      itemStyle: { color: `${theme.warn}14` },
      data: [[{ xAxis: limit }, { xAxis: Math.max(most, limit) }]],
    },
    z: 1,
  }
}
