/**
 * What people decide on: money against capacity, each configuration with its interval and status,
 * the baseline, the gain, and statistically tied rivals. Pure.
 */
import {
  computeCost,
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

/** Quantity of the vertical axis: the cost that an objective counts. */
export type Bill = ObjectiveKind

interface DecisionInput {
  readonly recommendation: Recommendation
  readonly bill: Bill
  /** Devices in a fixed order, so that colour and shape stay with their GPU. */
  readonly devices: readonly string[]
}

/** Beyond this many, points are small and have neither intervals nor labels. */
const maxDetailed = 600
/** Beyond this many, they are drawn in ECharts' large mode, all of a series in one style. */
const maxOutlined = 2_000
/**
 * Pixels of a point there: above 3 it would fill all as one path, which a canvas takes minutes for.
 */
const pointSize = 3

type DollarFunction = (c: Candidate, capacityRps?: number) => number

/**
 * Lists the bills that a recommendation can be seen by, that of its own objective first. Without a
 * demand there is none for it.
 */
export function listBills({ objective }: Pick<Recommendation, 'objective'>): readonly Bill[] {
  const bills = objectiveKinds.filter(
    (kind) =>
      getObjectiveWords(kind).unit.startsWith('$') &&
      (getDemand(objective) || getRequiredInput(kind) === 'nothing'),
  )
  return [
    ...bills.filter((kind) => kind === objective.kind),
    ...bills.filter((kind) => kind !== objective.kind),
  ]
}

/** Creates the cost function of a bill: dollars at the capacity, or at a given rate. */
export function createDollarFunction(
  bill: Bill,
  { objective }: Pick<Recommendation, 'objective'>,
): DollarFunction {
  const { demandRps, headroom } = getDemand(objective) ?? { demandRps: 0, headroom: 0 }
  const counted = createObjective(bill, {
    demandRps,
    headroom,
    maxPricePerHour: Number.POSITIVE_INFINITY,
  })
  return (c, capacityRps = c.capacityRps) => computeCost(counted, { ...c, capacityRps })
}

/** '$ per hour, one replica', without the sign. */
export const formatBill = (bill: Bill): string => getObjectiveWords(bill).unit.replace(/^\$ /, '')

/** Pareto front of cost and capacity, by falling capacity. */
export function findCheapestByCapacity(
  candidates: readonly Candidate[],
  dollarsOf: DollarFunction,
): Candidate[] {
  const front: Candidate[] = []
  for (const c of candidates
    .filter((c) => c.feasible)
    .sort((a, b) => b.capacityRps - a.capacityRps || dollarsOf(a) - dollarsOf(b))) {
    const last = front.at(-1)
    if (!last || dollarsOf(c) < dollarsOf(last)) front.push(c)
  }
  return front
}

export function createDecisionOption(
  { recommendation: r, bill, devices }: DecisionInput,
  theme: Theme,
): ChartOption {
  const toDollars = createDollarFunction(bill, r)
  const served = listServed(r)
  const few = served.length <= maxDetailed
  const place = (c: Candidate) => Math.max(0, devices.indexOf(getDevice(c.configuration)))
  const locatePoint = (c: Candidate) => [c.capacityRps, toDollars(c), c.trial]
  const scale = createScales(served, toDollars)
  return {
    ...createMoneyFrame(scale, bill, devices, theme),
    series: [
      createFrontSeries(findCheapestByCapacity(served, toDollars), toDollars, theme.muted),
      ...devices.flatMap((device, i) => {
        const ofIt = served.filter((c) => getDevice(c.configuration) === device)
        return served.length > maxOutlined
          ? createDensePointSeries(ofIt, device, locatePoint, pickColour(i, theme))
          : [createPointSeries(ofIt, device, i, { at: locatePoint, few, theme })]
      }),
      ...(few
        ? [
            createIntervalSeries(served, toDollars, scale.x, theme),
            createRefutedSeries(served, locatePoint, theme),
            nameSeries(served, place, locatePoint, theme),
          ]
        : []),
      ...(r.best ? highlightSeries(r, r.best, locatePoint, theme) : []),
    ],
  }
}

function createPointSeries(
  ofIt: readonly Candidate[],
  device: string,
  i: number,
  {
    at,
    few,
    theme,
  }: { readonly at: (c: Candidate) => number[]; readonly few: boolean; readonly theme: Theme },
): object {
  return {
    type: 'scatter',
    id: `decide ${device}`,
    name: device,
    color: pickColour(i, theme),
    symbol: pickSymbol(i),
    symbolSize: few ? 11 : 4,
    data: ofIt.map((c) => ({
      value: at(c),
      itemStyle: styleMark(c.status, pickColour(i, theme), theme),
    })),
    z: 4,
  }
}

/** Series for very many configurations of one device; unreliable ones are pale. */
function createDensePointSeries(
  ofIt: readonly Candidate[],
  device: string,
  at: (c: Candidate) => number[],
  color: string,
): object[] {
  const isReliable = ({ status }: Candidate) => isConfirmed(status) || status === 'measured'
  const kind = (id: string, some: readonly Candidate[], opacity: number) => ({
    type: 'scatter',
    id: `${id} ${device}`,
    name: device,
    color,
    symbol: 'rect',
    symbolSize: pointSize,
    large: true,
    largeThreshold: 1,
    progressive: 0,
    itemStyle: { opacity },
    data: some.map(at),
    z: 4,
  })
  return [
    kind(
      'decide',
      ofIt.filter((c) => isReliable(c)),
      0.7,
    ),
    kind(
      'unsure',
      ofIt.filter((c) => !isReliable(c)),
      0.25,
    ),
  ]
}

/**
 * Axes, legend and grid of a chart of cost against capacity.
 * @param names in the legend
 */
export const createMoneyFrame = (
  scale: ReturnType<typeof createScales>,
  bill: Bill,
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
    ...createYAxis(`${getObjectiveWords(bill).unit} (log)`, theme, {
      nameGap: 50,
      axisLabel: { color: theme.muted, fontSize: 11, formatter: dollars },
    }),
  },
})

/** Configurations with a capacity and a price. */
export const listServed = (r: Recommendation): Candidate[] =>
  listCandidates(r).filter((c) => c.capacityRps > 0 && Number.isFinite(c.pricePerHour))

/** Axis ranges, with room for a label below the cheapest. */
export function createScales(served: readonly Candidate[], dollarsOf: DollarFunction) {
  const costs = served.map((c) => dollarsOf(c))
  const capacities = served.map((c) => c.capacityRps)
  return {
    x: createLogAxis(
      capacities,
      served.flatMap((c) => c.capacityCi90Rps),
    ),
    y: createLogAxis(
      costs,
      costs.map((each) => each * 0.8),
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
  dollarsOf: DollarFunction,
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
    data: [...front].reverse().map((c) => [c.capacityRps, dollarsOf(c)]),
    z: 1,
  }
}

/**
 * Interval of capacity and cost: from the safe capacity, or the lower end of the 90 % interval, to
 * the upper end. An open end reaches the edge.
 */
function createIntervalSeries(
  served: readonly Candidate[],
  dollarsOf: DollarFunction,
  x: { readonly max: number },
  theme: Theme,
): object {
  const ends = served
    .filter((c) => c.capacityCi90Rps[0] > 0)
    .map((c) => {
      const low = Math.min(c.capacityCi90Rps[0], c.capacityRps)
      const high = Math.min(c.capacityCi90Rps[1], x.max)
      return [low, dollarsOf(c, low), high, dollarsOf(c, high)]
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
  served: readonly Candidate[],
  at: (c: Candidate) => number[],
  theme: Theme,
): object {
  return {
    type: 'scatter',
    id: 'refuted',
    silent: true,
    symbol: cross,
    symbolSize: 15,
    color: theme.warn,
    data: served.filter((c) => c.status === 'refuted').map(at),
    z: 5,
  }
}

/** Labels the best configuration of each GPU. */
function nameSeries(
  served: readonly Candidate[],
  place: (c: Candidate) => number,
  at: (c: Candidate) => number[],
  theme: Theme,
): object {
  const first = new Map<string, Candidate>()
  for (const c of served)
    if (!first.has(getDevice(c.configuration))) first.set(getDevice(c.configuration), c)
  return {
    type: 'scatter',
    id: 'device names',
    silent: true,
    symbolSize: 0.1,
    data: [...first].map(([device, c]) => ({
      value: at(c),
      label: { ...styleLabel(device, 'right', theme), color: pickColour(place(c), theme) },
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
function highlightSeries(
  r: Recommendation,
  best: Candidate,
  at: (c: Candidate) => number[],
  theme: Theme,
): object[] {
  const { defaultCandidate: start, gainOverDefault: gain } = r
  const createRing = (
    id: string,
    found: readonly Candidate[],
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
    data: found.map(at),
    z: 6,
  })
  const { better, close } = getOpenRivals(r)
  const open = [...better, ...close].filter((c) => c.capacityRps > 0).slice(0, maxTied)
  const away = start && start.capacityRps > 0 && start.trial !== best.trial ? start : undefined
  return [
    createRing('statistically tied', open, 21, {
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
    ...(away
      ? [
          createRing(
            'baseline',
            [away],
            21,
            { borderColor: theme.muted, borderWidth: 1.5 },
            styleLabel('baseline', 'top', theme),
          ),
        ]
      : []),
    ...(away && gain !== undefined
      ? [createGainSeries(away, best, formatGain(r.objective, gain), at, theme)]
      : []),
  ]
}
/** Maximum number of better or tied configurations that are marked. */
const maxTied = 12

function createGainSeries(
  from: Candidate,
  to: Candidate,
  text: string,
  at: (c: Candidate) => number[],
  theme: Theme,
): object {
  const locate = (c: Candidate) => at(c).slice(0, 2)
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
      data: [[{ coord: locate(from) }, { coord: locate(to) }]],
    },
    z: 6,
  }
}

/** Text alternative of the chart. */
export function describeDecision(r: Recommendation, bill: Bill): string {
  const dollarsOf = createDollarFunction(bill, r)
  const served = listCandidates(r).filter((c) => c.capacityRps > 0)
  if (!r.best)
    return `Cost and capacity of ${served.length} configurations: ${conclusions[r.conclusion]}`
  const one = (c: Candidate) =>
    `${c.label}, ${describeStatus(c.status, r.provenance).name}: ${rate(c.capacityRps)}, ${dollars(dollarsOf(c))} ${formatBill(bill)}`
  return `Cost and capacity of ${served.length} configurations. Recommended: ${one(r.best)}. ${r.defaultCandidate ? `Baseline: ${one(r.defaultCandidate)}. ` : ''}Cheapest by capacity: ${findCheapestByCapacity(
    served,
    dollarsOf,
  )
    .slice(0, 6)
    .map((c) => `trial ${c.trial}`)
    .join(', ')}`
}
