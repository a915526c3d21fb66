/**
 * Creates the chart of latency against throughput: configurations at their capacity, load curves,
 * Pareto front and SLO. Pure.
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { createKnotPoint } from '../../document/chart-options.ts'
import { sloAxis } from '../../format.ts'
import { listCandidates } from '../../recommendation/candidates.ts'
import type { RankedCandidate } from '../../recommendation/ranked-candidate.ts'
import type { Candidate, Recommendation } from '../../recommendation/types.ts'
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
  /** Labels the SLO line: a static chart has no drag handle that shows the limit. */
  readonly isStatic?: boolean
}

export type LatencyAxis = ReturnType<typeof createLogAxis>

/** More points are drawn in ECharts' large mode, without error bars. */
const maxDetailedPoints = 2_000
/** Maximum number of error bars, those of the best configurations. */
const maxErrorBars = 150
/**
 * Size of a point in large mode, pixels. From 4 pixels on, ECharts draws all points as one path,
 * which takes minutes.
 */
const largeModePointSize = 3

/** The axis reaches to this multiple of the largest SLO limit of a trial. */
const axisReachOfTrials = 1.8
/** The axis includes at least the limit divided and multiplied by this, for dragging it. */
const minAxisMargin = 1.5

/** Creates a latency axis from the fastest unloaded latency to well beyond the SLO. */
export function createLatencyAxis(trials: readonly FinishedTrial[], slo: Slo): LatencyAxis {
  const { of: toAxisUnit, limit } = sloAxis(slo)
  const { percentile } = slo
  const latencies: number[] = []
  for (const t of trials) {
    if (t.state !== 'complete') continue
    const { unloaded, slo: measuredSlo } = t.measurement
    latencies.push(
      toAxisUnit(percentile >= 0.9 ? unloaded.p99Ms : unloaded.p50Ms),
      toAxisUnit(measuredSlo.limitMs) * axisReachOfTrials,
    )
  }
  return createLogAxis(latencies, [limit / minAxisMargin, limit * minAxisMargin])
}

export function createParetoChart(input: ParetoInput, theme: Theme): ChartOption {
  const { recommendation, curves, throughput, devices, latencies } = input
  const axis = sloAxis(recommendation.slo)
  const getLatency: LatencyPosition = (c) => axis.of(c.sloMsAtCapacity)
  const all = listCandidates(recommendation)
  const getThroughput = (rps: number, c: Candidate) =>
    throughput === 'per-dollar' ? computeRequestsPerDollar(rps, c.pricePerHour) : rps
  const getColourIndex = (device: string) => Math.max(0, devices.indexOf(device))
  const served = all.filter((c) => c.capacityRps > 0 && Number.isFinite(c.sloMsAtCapacity))
  const isLarge = served.length > maxDetailedPoints
  const size = createSizeScale(served)
  const points = devices.map((device, i) => ({
    type: 'scatter',
    id: `device ${device}`,
    name: device,
    color: pickColour(i, theme),
    symbol: pickSymbol(i),
    symbolSize: isLarge ? largeModePointSize : 9,
    large: isLarge,
    largeThreshold: 1,
    progressive: 0,
    itemStyle: isLarge
      ? { opacity: 0.5 }
      : { borderColor: theme.surface, borderWidth: 1, opacity: 0.95 },
    data: served
      .filter((c) => c.feasible && getDevice(c.configuration) === device)
      .map((c) => {
        const value = [getLatency(c), getThroughput(c.capacityRps, c), c.trial]
        return size && !isLarge ? { value, symbolSize: size(c) } : value
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
        ...listFrontNames(recommendation).map((name, i) => ({
          name,
          itemStyle: { opacity: 0 },
          lineStyle: { type: pickDash(i), width: 2 },
        })),
        ...(all.some((c) => !c.feasible) ? ['violates the SLO'] : []),
      ],
    }),
    tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
    xAxis: { ...latencies, ...createAxis(`${axis.name} (log)`, theme) },
    yAxis: {
      type: 'value',
      min: 0,
      ...createYAxis(
        throughput === 'per-dollar' ? 'requests per dollar' : 'requests per second',
        theme,
      ),
    },
    series: [
      ...curves.map((ranked) =>
        createCurveSeries(
          ranked,
          axis.of,
          getThroughput,
          latencies.max,
          pickColour(getColourIndex(getDevice(ranked.candidate.configuration)), theme),
        ),
      ),
      ...points,
      createViolatingSeries(all, input.trials, getLatency, getThroughput, theme, isLarge),
      createLatencyFrontSeries(
        recommendation.front,
        getLatency,
        getThroughput,
        latencies.max,
        theme,
      ),
      ...createQualitySeries(recommendation, getLatency, getThroughput, latencies.max, theme),
      ...(isLarge
        ? []
        : [
            createCapacityIntervals(
              served.filter((c) => c.feasible).slice(0, maxErrorBars),
              getLatency,
              getThroughput,
              axis.of,
              theme,
            ),
          ]),
      ...createMarkerSeries(recommendation, getLatency, getThroughput, theme),
      createSloSeries(
        axis.limit,
        latencies.max,
        theme,
        input.isStatic ? `SLO ${axis.limit} ${axis.unit}` : undefined,
      ),
    ],
  }
}

type LatencyPosition = (c: Candidate) => number
type ThroughputPosition = (rps: number, c: Candidate) => number

function createCurveSeries(
  { candidate, curve }: RankedCandidate,
  toAxisUnit: (ms: number) => number,
  getThroughput: ThroughputPosition,
  maxLatency: number,
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
      .filter((knot) => knot.rateRps > 0 && toAxisUnit(knot.latencyMs) <= maxLatency)
      .map((knot) =>
        createKnotPoint(knot, [toAxisUnit(knot.latencyMs), getThroughput(knot.rateRps, candidate)]),
      ),
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
  getLatency: LatencyPosition,
  getThroughput: ThroughputPosition,
  theme: Theme,
  isLarge: boolean,
): object {
  const byNumber = new Map(trials.map((t) => [t.number, t]))
  return {
    type: 'scatter',
    id: 'violating',
    name: 'violates the SLO',
    symbol: isLarge
      ? 'rect'
      : 'path://M0 0 L2 0 L5 3.6 L8 0 L10 0 L6 5 L10 10 L8 10 L5 6.4 L2 10 L0 10 L4 5 Z',
    symbolSize: isLarge ? largeModePointSize : 9,
    large: isLarge,
    largeThreshold: 1,
    color: theme.muted,
    itemStyle: { opacity: 0.8 },
    data: all.flatMap((c) => {
      const trial = c.feasible ? undefined : byNumber.get(c.trial)
      if (trial?.state !== 'complete' || !(c.sloMsAtCapacity > 0)) return []
      const rps = c.capacityRps > 0 ? c.capacityRps : 1000 / trial.measurement.unloaded.meanMs
      return [[getLatency(c), getThroughput(rps, c), c.trial]]
    }),
    z: 3,
  }
}

/**
 * Minimum rise of a step, as a share of the highest throughput. Smaller steps are merged, because
 * the canvas drops segments shorter than two pixels.
 */
const minRiseShare = 0.012

/**
 * Size of a point by the quality of its variant: 7 to 15 pixels. Undefined with fewer than two
 * qualities.
 */
function createSizeScale(served: readonly Candidate[]): ((c: Candidate) => number) | undefined {
  const qualities = served.flatMap(({ quality }) => quality ?? [])
  const [minQuality, maxQuality] = [Math.min(...qualities), Math.max(...qualities)]
  if (!(maxQuality > minQuality)) return undefined
  return ({ quality }) =>
    quality === undefined ? 9 : 7 + (8 * (quality - minQuality)) / (maxQuality - minQuality)
}

/** Fronts of variants above a quality threshold, without the overall front. */
const listBetterFronts = (recommendation: Recommendation) =>
  (recommendation.qualityFronts ?? []).slice(0, -1).filter(({ front }) => front.length > 0)
const dashes = [
  [8, 4],
  [3, 3],
  [10, 3, 2, 3],
]
const pickDash = (i: number) => dashes[i % dashes.length]
const formatFrontName = (minQuality: number) => `front of quality ≥ ${minQuality}`
const listFrontNames = (recommendation: Recommendation): string[] =>
  listBetterFronts(recommendation).map(({ minQuality }) => formatFrontName(minQuality))

function createQualitySeries(
  recommendation: Recommendation,
  getLatency: LatencyPosition,
  getThroughput: ThroughputPosition,
  maxLatency: number,
  theme: Theme,
): object[] {
  return listBetterFronts(recommendation).map(({ minQuality, front }, i) => ({
    ...createLatencyFrontSeries(front, getLatency, getThroughput, maxLatency, theme),
    id: formatFrontName(minQuality),
    name: formatFrontName(minQuality),
    lineStyle: { width: 2, type: pickDash(i) },
  }))
}

function createLatencyFrontSeries(
  front: readonly Candidate[],
  getLatency: LatencyPosition,
  getThroughput: ThroughputPosition,
  maxLatency: number,
  theme: Theme,
): object {
  const top = Math.max(...front.map((c) => getThroughput(c.capacityRps, c)))
  const steps: [number, number][] = []
  let height = 0
  for (const [i, c] of front.entries()) {
    const next = getThroughput(c.capacityRps, c)
    if (next - height < minRiseShare * top && i < front.length - 1) continue
    steps.push([getLatency(c), height], [getLatency(c), next])
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
    data: steps.length > 0 ? [...steps, [maxLatency, height]] : [],
    z: 5,
  }
}

/**
 * Vertical: from the safe capacity, or the lower end of its 90 % interval, to the upper end.
 * Horizontal: the 95 % interval of the latency in a window at that rate.
 */
function createCapacityIntervals(
  served: readonly Candidate[],
  getLatency: LatencyPosition,
  getThroughput: ThroughputPosition,
  toAxisUnit: (ms: number) => number,
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
          getLatency(c),
          getThroughput(Math.min(low, c.capacityRps), c),
          getThroughput(high, c),
          toAxisUnit(fast),
          toAxisUnit(Number.isFinite(slow) ? slow : c.sloMsAtCapacity),
          getThroughput(c.capacityRps, c),
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

function createMarkerSeries(
  recommendation: Recommendation,
  getLatency: LatencyPosition,
  getThroughput: ThroughputPosition,
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
            data: [[getLatency(c), getThroughput(c.capacityRps, c), c.trial]],
            z: 6,
          },
        ]
      : []
  return [
    ...mark(recommendation.best, 'recommended', 'circle', 'bottom'),
    ...(recommendation.defaultCandidate?.trial === recommendation.best?.trial
      ? []
      : mark(recommendation.defaultCandidate, 'baseline', 'rect', 'bottom')),
  ]
}

/** Creates the SLO limit, with the area beyond it shaded. */
function createSloSeries(limit: number, maxLatency: number, theme: Theme, text?: string): object {
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
      data: [[{ xAxis: limit }, { xAxis: Math.max(maxLatency, limit) }]],
    },
    z: 1,
  }
}
