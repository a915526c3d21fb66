/**
 * Chart of cost against capacity: each configuration with its interval and status, the
 * recommendation, the baseline with the gain over it, and statistically tied rivals. Pure
 * functions.
 */
import {
  computeCost as computeObjectiveCost,
  createObjective,
  getDemand,
  getObjectiveWords,
  getRequiredInput,
  type ObjectiveKind,
  objectiveKinds,
} from '../../../search/objective.ts'
import { money as dollars, rate } from '../../format.ts'
import { listCandidates } from '../../recommendation/candidates.ts'
import { describeStatus } from '../../recommendation/describe-status.ts'
import { getOpenRivals } from '../../recommendation/open-rivals.ts'
import { isConfirmed, type Status } from '../../recommendation/status.ts'
import { type Candidate, conclusions, type Recommendation } from '../../recommendation/types.ts'
import { formatGain } from '../../recommendation/verdict.ts'
import { getDevice } from '../data/ranking.ts'
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

/** Cost measure of the vertical axis: that of an objective, e.g. $ per hour of one replica. */
export type CostMeasure = ObjectiveKind

interface DecisionInput {
  readonly recommendation: Recommendation
  readonly costMeasure: CostMeasure
  /** Devices in a fixed order, so that colour and shape stay with their GPU. */
  readonly devices: readonly string[]
}

/** Above this number of configurations, points are small and have neither intervals nor labels. */
const maxDetailedPoints = 600
/** Above this number of configurations, ECharts' large mode draws each series in one style. */
const maxStyledPoints = 2_000
/** Maximum number of better or tied configurations that are marked. */
const maxMarkedRivals = 12
/** The cost axis extends to this share of the lowest cost. */
const labelRoomShare = 0.8
/**
 * Size of a point in large mode, px. Above 3 px, ECharts fills all points as one path, which takes
 * a canvas minutes.
 */
const largeModePointPx = 3

/** Capacity in req/s, cost in dollars and trial number of a candidate. */
type ToPoint = (c: Candidate) => number[]
/** Cost of a candidate in dollars, at its capacity or at a given rate. */
type CostFunction = (c: Candidate, capacityRps?: number) => number

/**
 * Lists the cost measures that the chart offers, that of the recommendation's objective first.
 * Measures that need a demand are left out if there is none.
 */
export function listCostMeasures({
  objective,
}: Pick<Recommendation, 'objective'>): readonly CostMeasure[] {
  const costMeasures = objectiveKinds.filter(
    (kind) =>
      getObjectiveWords(kind).unit.startsWith('$') &&
      (getDemand(objective) || getRequiredInput(kind) === 'nothing'),
  )
  return [
    ...costMeasures.filter((kind) => kind === objective.kind),
    ...costMeasures.filter((kind) => kind !== objective.kind),
  ]
}

/** Creates the cost function of a cost measure. */
export function createCostFunction(
  costMeasure: CostMeasure,
  { objective }: Pick<Recommendation, 'objective'>,
): CostFunction {
  const { demandRps, headroom } = getDemand(objective) ?? { demandRps: 0, headroom: 0 }
  const objectiveOfMeasure = createObjective(costMeasure, {
    demandRps,
    headroom,
    maxPricePerHour: Number.POSITIVE_INFINITY,
  })
  return (c, capacityRps = c.capacityRps) =>
    computeObjectiveCost(objectiveOfMeasure, { ...c, capacityRps })
}

/** The unit without the dollar sign: 'per hour, one replica'. */
export const formatCostUnit = (costMeasure: CostMeasure): string =>
  getObjectiveWords(costMeasure).unit.replace(/^\$ /, '')

/** Pareto front of cost and capacity, by descending capacity. */
export function findParetoFront(
  candidates: readonly Candidate[],
  computeCost: CostFunction,
): Candidate[] {
  const front: Candidate[] = []
  for (const c of candidates
    .filter((c) => c.feasible)
    .sort((a, b) => b.capacityRps - a.capacityRps || computeCost(a) - computeCost(b))) {
    const last = front.at(-1)
    if (!last || computeCost(c) < computeCost(last)) front.push(c)
  }
  return front
}

export function createDecisionOption(
  { recommendation: r, costMeasure, devices }: DecisionInput,
  theme: Theme,
): ChartOption {
  const computeCost = createCostFunction(costMeasure, r)
  const servingCandidates = listServingCandidates(r)
  const isDetailed = servingCandidates.length <= maxDetailedPoints
  const getDeviceIndex = (c: Candidate) => Math.max(0, devices.indexOf(getDevice(c.configuration)))
  const toPoint: ToPoint = (c) => [c.capacityRps, computeCost(c), c.trial]
  const scale = createScales(servingCandidates, computeCost)
  return {
    ...createCostFrame(scale, costMeasure, devices, theme),
    series: [
      createFrontSeries(findParetoFront(servingCandidates, computeCost), computeCost, theme.muted),
      ...devices.flatMap((device, i) => {
        const candidatesOnDevice = servingCandidates.filter(
          (c) => getDevice(c.configuration) === device,
        )
        return servingCandidates.length > maxStyledPoints
          ? createDensePointSeries(candidatesOnDevice, device, toPoint, pickColour(i, theme))
          : [createPointSeries(candidatesOnDevice, device, i, { toPoint, isDetailed, theme })]
      }),
      ...(isDetailed
        ? [
            createIntervalSeries(servingCandidates, computeCost, scale.x, theme),
            createRefutedSeries(servingCandidates, toPoint, theme),
            createDeviceNameSeries(servingCandidates, getDeviceIndex, toPoint, theme),
          ]
        : []),
      ...(r.best ? createHighlightSeries(r, r.best, toPoint, theme) : []),
    ],
  }
}

function createPointSeries(
  candidatesOnDevice: readonly Candidate[],
  device: string,
  deviceIndex: number,
  {
    toPoint,
    isDetailed,
    theme,
  }: { readonly toPoint: ToPoint; readonly isDetailed: boolean; readonly theme: Theme },
): object {
  return {
    type: 'scatter',
    id: `decide ${device}`,
    name: device,
    color: pickColour(deviceIndex, theme),
    symbol: pickSymbol(deviceIndex),
    symbolSize: isDetailed ? 11 : 4,
    data: candidatesOnDevice.map((c) => ({
      value: toPoint(c),
      itemStyle: styleMark(c.status, pickColour(deviceIndex, theme), theme),
    })),
    z: 4,
  }
}

/**
 * Series in large mode for the configurations of one device. Bounds and inconclusive results are
 * pale.
 */
function createDensePointSeries(
  candidatesOnDevice: readonly Candidate[],
  device: string,
  toPoint: ToPoint,
  color: string,
): object[] {
  const isReliable = ({ status }: Candidate) => isConfirmed(status) || status === 'measured'
  const createSeries = (id: string, candidates: readonly Candidate[], opacity: number) => ({
    type: 'scatter',
    id: `${id} ${device}`,
    name: device,
    color,
    symbol: 'rect',
    symbolSize: largeModePointPx,
    large: true,
    largeThreshold: 1,
    progressive: 0,
    itemStyle: { opacity },
    data: candidates.map(toPoint),
    z: 4,
  })
  return [
    createSeries(
      'decide',
      candidatesOnDevice.filter((c) => isReliable(c)),
      0.7,
    ),
    createSeries(
      'unreliable',
      candidatesOnDevice.filter((c) => !isReliable(c)),
      0.25,
    ),
  ]
}

/**
 * Axes, legend and grid of a chart of cost against capacity.
 * @param names in the legend
 */
export const createCostFrame = (
  scale: ReturnType<typeof createScales>,
  costMeasure: CostMeasure,
  names: readonly string[],
  theme: Theme,
): ChartOption => ({
  ...createBase(theme),
  grid: { left: 64, right: 72, top: 44, bottom: 48 },
  legend: createLegend(theme, { left: 8, right: 8, data: [...names] }),
  tooltip: { trigger: 'item', confine: true, appendTo: 'body' },
  xAxis: { ...scale.x, ...createAxis('capacity of one replica, requests per second (log)', theme) },
  yAxis: {
    ...scale.y,
    ...createYAxis(`${getObjectiveWords(costMeasure).unit} (log)`, theme, {
      nameGap: 50,
      axisLabel: { color: theme.muted, fontSize: 11, formatter: dollars },
    }),
  },
})

/** Candidates that serve (capacity above 0) and have a price. */
export const listServingCandidates = (r: Recommendation): Candidate[] =>
  listCandidates(r).filter((c) => c.capacityRps > 0 && Number.isFinite(c.pricePerHour))

/** Logarithmic axis ranges. The cost axis leaves room for a label below the cheapest point. */
export function createScales(servingCandidates: readonly Candidate[], computeCost: CostFunction) {
  const costs = servingCandidates.map((c) => computeCost(c))
  const capacities = servingCandidates.map((c) => c.capacityRps)
  return {
    x: createLogAxis(
      capacities,
      servingCandidates.flatMap((c) => c.capacityCi90Rps),
    ),
    y: createLogAxis(
      costs,
      costs.map((cost) => cost * labelRoomShare),
    ),
  }
}

/** Mark of a status. Filled with outline: confirmed. Filled: measured once. Hollow: unreliable. */
export function styleMark(status: Status, color: string, theme: Theme): object {
  if (isConfirmed(status)) return { opacity: 1, color, borderColor: theme.text, borderWidth: 2.5 }
  if (status === 'measured')
    return { opacity: 1, color, borderColor: theme.surface, borderWidth: 1 }
  return {
    opacity: 1,
    color: theme.surface,
    borderColor: color,
    borderWidth: 1.5,
    borderType: status === 'bound' ? 'dotted' : 'solid',
  }
}

/** @param id of the series */
export function createFrontSeries(
  front: readonly Candidate[],
  computeCost: CostFunction,
  color: string,
  id = 'cheapest',
): object {
  return {
    type: 'line',
    id,
    silent: true,
    symbol: 'none',
    step: 'start',
    color,
    lineStyle: { width: 1.5, opacity: 0.6 },
    data: [...front].reverse().map((c) => [c.capacityRps, computeCost(c)]),
    z: 1,
  }
}

/**
 * 90 % interval of the capacity, with the cost at each end. The lower end is at most the safe
 * capacity; an unbounded upper end reaches the edge of the chart.
 */
function createIntervalSeries(
  servingCandidates: readonly Candidate[],
  computeCost: CostFunction,
  x: { readonly max: number },
  theme: Theme,
): object {
  const ends = servingCandidates
    .filter((c) => c.capacityCi90Rps[0] > 0)
    .map((c) => {
      const low = Math.min(c.capacityCi90Rps[0], c.capacityRps)
      const high = Math.min(c.capacityCi90Rps[1], x.max)
      return [low, computeCost(c, low), high, computeCost(c, high)]
    })
  return {
    type: 'custom',
    id: 'capacity intervals',
    silent: true,
    data: ends,
    encode: { x: [0, 2], y: [1, 3] },
    renderItem: (_: unknown, api: { value(i: number): number; coord(at: number[]): number[] }) => {
      const [x1, y1] = api.coord([api.value(0), api.value(1)]) as [number, number]
      const [x2, y2] = api.coord([api.value(2), api.value(3)]) as [number, number]
      const line = (ax: number, ay: number, bx: number, by: number) => ({
        type: 'line',
        shape: { x1: ax, y1: ay, x2: bx, y2: by },
        style: { stroke: theme.muted, lineWidth: 1.2 },
      })
      return {
        type: 'group',
        children: [
          line(x1, y1, x2, y2),
          line(x1, y1 - 4, x1, y1 + 4),
          line(x2, y2 - 4, x2, y2 + 4),
        ],
      }
    },
    z: 3,
  }
}

const cross = 'path://M0 0 L2 0 L5 3.6 L8 0 L10 0 L6 5 L10 10 L8 10 L5 6.4 L2 10 L0 10 L4 5 Z'

function createRefutedSeries(
  servingCandidates: readonly Candidate[],
  toPoint: ToPoint,
  theme: Theme,
): object {
  return {
    type: 'scatter',
    id: 'refuted',
    silent: true,
    symbol: cross,
    symbolSize: 15,
    color: theme.warn,
    data: servingCandidates.filter((c) => c.status === 'refuted').map(toPoint),
    z: 5,
  }
}

/** Labels the best configuration of each GPU. */
function createDeviceNameSeries(
  servingCandidates: readonly Candidate[],
  getDeviceIndex: (c: Candidate) => number,
  toPoint: ToPoint,
  theme: Theme,
): object {
  const first = new Map<string, Candidate>()
  for (const c of servingCandidates)
    if (!first.has(getDevice(c.configuration))) first.set(getDevice(c.configuration), c)
  return {
    type: 'scatter',
    id: 'device names',
    silent: true,
    symbolSize: 0.1,
    data: [...first].map(([device, c]) => ({
      value: toPoint(c),
      label: { ...styleLabel(device, 'right', theme), color: pickColour(getDeviceIndex(c), theme) },
    })),
    labelLayout: { hideOverlap: true, moveOverlap: 'shiftY' },
    z: 7,
  }
}

export const styleLabel = (formatter: string, position: string, theme: Theme): object => ({
  show: true,
  formatter,
  position,
  distance: 9,
  fontSize: 12,
  fontWeight: 600,
  color: theme.text,
  textBorderColor: theme.surface,
  textBorderWidth: 3,
})

/** Marks the recommendation, the baseline with the gain over it, and statistically tied rivals. */
function createHighlightSeries(
  r: Recommendation,
  best: Candidate,
  toPoint: ToPoint,
  theme: Theme,
): object[] {
  const { defaultCandidate, gainOverDefault } = r
  const createRing = (
    id: string,
    candidates: readonly Candidate[],
    size: number,
    border: object,
    label?: object,
  ) => ({
    type: 'scatter',
    id,
    silent: true,
    symbol: 'circle',
    symbolSize: size,
    itemStyle: { color: 'transparent', ...border },
    ...(label && { label }),
    data: candidates.map(toPoint),
    z: 6,
  })
  const { better, close } = getOpenRivals(r)
  const tiedRivals = [...better, ...close]
    .filter((c) => c.capacityRps > 0)
    .slice(0, maxMarkedRivals)
  // Not marked if it is the recommendation itself.
  const baseline =
    defaultCandidate && defaultCandidate.capacityRps > 0 && defaultCandidate.trial !== best.trial
      ? defaultCandidate
      : undefined
  return [
    createRing('statistically tied', tiedRivals, 21, {
      borderColor: theme.warn,
      borderWidth: 1.5,
      borderType: 'dashed',
    }),
    createRing(
      'recommended',
      [best],
      21,
      { borderColor: theme.text, borderWidth: 2 },
      styleLabel('recommended', 'bottom', theme),
    ),
    ...(baseline
      ? [
          createRing(
            'baseline',
            [baseline],
            21,
            { borderColor: theme.muted, borderWidth: 1.5 },
            styleLabel('baseline', 'top', theme),
          ),
        ]
      : []),
    ...(baseline && gainOverDefault !== undefined
      ? [createGainSeries(baseline, best, formatGain(r.objective, gainOverDefault), toPoint, theme)]
      : []),
  ]
}

function createGainSeries(
  from: Candidate,
  to: Candidate,
  text: string,
  toPoint: ToPoint,
  theme: Theme,
): object {
  const toCoordinates = (c: Candidate) => toPoint(c).slice(0, 2)
  return {
    type: 'line',
    id: 'gain',
    silent: true,
    data: [],
    markLine: {
      silent: true,
      symbol: ['none', 'arrow'],
      symbolSize: 9,
      lineStyle: { color: theme.muted, type: 'dashed', width: 1.5 },
      label: {
        ...styleLabel(text, 'middle', theme),
        color: theme.good,
        backgroundColor: theme.surface,
        padding: [2, 5],
        borderRadius: 4,
      },
      data: [[{ coord: toCoordinates(from) }, { coord: toCoordinates(to) }]],
    },
    z: 6,
  }
}

/** Text alternative of the chart. */
export function describeDecision(r: Recommendation, costMeasure: CostMeasure): string {
  const computeCost = createCostFunction(costMeasure, r)
  const servingCandidates = listCandidates(r).filter((c) => c.capacityRps > 0)
  if (!r.best)
    return `Cost and capacity of ${servingCandidates.length} configurations: ${conclusions[r.conclusion]}`
  const describeCandidate = (c: Candidate) =>
    `${c.label}, ${describeStatus(c.status, r.provenance).name}: ${rate(c.capacityRps)}, ${dollars(computeCost(c))} ${formatCostUnit(costMeasure)}`
  return `Cost and capacity of ${servingCandidates.length} configurations. Recommended: ${describeCandidate(r.best)}. ${r.defaultCandidate ? `Baseline: ${describeCandidate(r.defaultCandidate)}. ` : ''}Cheapest by capacity: ${findParetoFront(
    servingCandidates,
    computeCost,
  )
    .slice(0, 6)
    .map((c) => `trial ${c.trial}`)
    .join(', ')}`
}
