/**
 * The objectives: one table entry each, with its cost, its bounds, its texts and the quantity that
 * the search models. Code elsewhere calls these functions and never branches on an objective's
 * kind.
 */

import {
  computeFleetPricePerHour,
  countAffordableReplicas,
  findCheapestBundles,
  type ReplicaPrice,
} from './replica-price.ts'

/** Mean power in a predictor's busiest seconds, W. A component without a power meter is absent. */
export interface Power {
  readonly gpuWatts?: number
  readonly cpuWatts?: number
}

/**
 * Computes the energy of one request at a capacity, J. This is an upper bound, because power is
 * measured in the busiest seconds. Undefined where no component reports its power, or the capacity
 * is 0.
 */
export function computeJoulesPerRequest(
  { gpuWatts, cpuWatts }: Power,
  capacityRps: number,
): number | undefined {
  if ((gpuWatts === undefined && cpuWatts === undefined) || !(capacityRps > 0)) return undefined
  return ((gpuWatts ?? 0) + (cpuWatts ?? 0)) / capacityRps
}

/** Figures that a trial measured. */
export interface MeasuredFigures {
  readonly capacityRps: number
  /** Unloaded latency: the SLO percentile of one request at a time, ms. */
  readonly unloadedMs?: number
  readonly usage?: Power
  /** The server's own metrics at that capacity, by name. */
  readonly metrics?: Readonly<Record<string, number>>
}

/** Measured figures of a configuration with its price, which is exact. */
export interface ConfigurationFigures extends MeasuredFigures, ReplicaPrice {}

/** A configuration with its cost under the objective. */
type CostedFigures = ConfigurationFigures & { readonly cost: number }

/** Formatters of figures, supplied by the caller so that objectives do not round. */
export interface FigureFormat {
  readonly money: (dollars: number) => string
  readonly rate: (rps: number) => string
  readonly latency: (ms: number) => string
  readonly energy: (joules: number) => string
  /** A figure in the unit of the server's own metric. */
  readonly plain: (figure: number) => string
}

export interface Demand {
  readonly demandRps: number
  /** Share of the capacity that stays free, 0 to 1. */
  readonly headroom: number
}
export interface PriceBound {
  readonly maxPricePerHour: number
}

export interface MetricName {
  /** A metric of the server with its labels: 'queue_depth{model="bert"}'. */
  readonly metric: string
}

/** Settings that an objective requires beside its kind. */
interface ObjectiveSettings {
  nothing: object
  demand: Demand
  'price bound': PriceBound
  metric: MetricName
}
export type RequiredInput = keyof ObjectiveSettings
/** Field names of each kind of settings. */
export const requiredFields = {
  nothing: [],
  demand: ['demandRps', 'headroom'],
  'price bound': ['maxPricePerHour'],
  metric: ['metric'],
} as const satisfies {
  [A in RequiredInput]: readonly (keyof ObjectiveSettings[A])[]
}

interface Entry<A extends RequiredInput> {
  readonly requires: A
  /**
   * The quantity that the surrogate models. The cost is proportional to a latency and to the
   * reciprocal of a rate.
   */
  readonly models: 'nothing' | 'rate' | 'latency'
  /**
   * The modelled quantity where it is neither the capacity nor the unloaded latency, for example
   * requests per joule. No device-model prior and no known direction applies to it.
   */
  measure?(measured: MeasuredFigures, objective: ObjectiveSettings[A]): number
  /**
   * The quantity may be zero or negative, so that neither its logarithm nor a ratio exists. The
   * search models it on an asinh axis instead (`toGoodness`).
   */
  readonly isSigned?: true
  /** The objective's figure in `unit`, from a price and the modelled quantity. */
  computeFigure(objective: ObjectiveSettings[A], price: ReplicaPrice, quantity: number): number
  /** The figure is maximised; absent: minimised. */
  readonly isMaximised?: true
  /**
   * The capacity (req/s) at which a configuration of this price has the given cost. Absent: the
   * capacity does not decide this objective.
   */
  computeCapacityAt?(
    objective: ObjectiveSettings[A],
    price: ReplicaPrice,
    cost: number,
  ): number | undefined
  readonly words: ObjectiveWords
  /** The ranked figure: '$0.11 per million requests'. */
  formatCost(
    objective: ObjectiveSettings[A],
    candidate: CostedFigures,
    format: FigureFormat,
  ): string
  /** The part of a verdict after rate and latency. */
  formatVerdict(
    objective: ObjectiveSettings[A],
    candidate: CostedFigures,
    format: FigureFormat,
  ): string
}

export interface ObjectiveWords {
  /** The label in a list of objectives: 'cheapest per request'. */
  readonly choice: string
  /** The label of an axis: '$ per million requests'. */
  readonly unit: string
  /** The form of a gain: '68 % {comparative}', or '2.3× the {figure}'. */
  readonly gainAs: 'share' | 'ratio'
  /** '6 % {comparative}': 'cheaper', 'more throughput'. */
  readonly comparative: string
  /** 'no configuration is {adjective}'. */
  readonly adjective: 'cheaper' | 'better'
  /** The label of the probability that no configuration is better. */
  readonly superlative: 'Cheapest' | 'Best'
  /** '12 % {worse}'. */
  readonly worse: string
  /** '3.1× the {figure}'. */
  readonly figure: string
}

const cheaper = {
  gainAs: 'share',
  comparative: 'cheaper',
  adjective: 'cheaper',
  superlative: 'Cheapest',
  worse: 'more expensive',
  figure: 'cost',
} as const
const better = { adjective: 'better', superlative: 'Best' } as const

const createEntry = <A extends RequiredInput>(
  requires: A,
  properties: Omit<Entry<A>, 'requires'>,
): Entry<A> => ({
  requires,
  ...properties,
})

const metricWords = { unit: 'the metric', figure: 'metric', ...better } as const

/** A metric of a configuration that serves no rate is NaN. */
const metricEntry = {
  models: 'rate',
  measure: ({ metrics = {}, capacityRps }, { metric }) =>
    capacityRps > 0 && Object.hasOwn(metrics, metric) ? metrics[metric]! : Number.NaN,
  computeFigure: (_, __, value) => value,
  isSigned: true,
} as const satisfies Partial<Entry<'metric'>>

const objectives = {
  price: createEntry('nothing', {
    models: 'nothing',
    computeFigure: (_, { pricePerHour }) => pricePerHour,
    words: { choice: 'cheapest replica', unit: '$ per hour, one replica', ...cheaper },
    formatCost: (_, { cost }, { money }) => `${money(cost)}/h`,
    formatVerdict: (_, { cost }, { money }) => `${money(cost)} per hour`,
  }),
  'price-per-request': createEntry('nothing', {
    models: 'rate',
    computeFigure: (_, { pricePerHour }, rps) => (pricePerHour / (rps * 3600)) * 1e6,
    computeCapacityAt: (_, { pricePerHour }, cost) => pricePerHour / 3600 / (cost / 1e6),
    words: { choice: 'cheapest per request', unit: '$ per million requests', ...cheaper },
    formatCost: (_, { cost }, { money }) => `${money(cost)} per million requests`,
    formatVerdict: (_, { cost }, { money }) => `${money(cost)} per million requests`,
  }),
  'price-for-demand': createEntry('demand', {
    models: 'rate',
    computeFigure: (demand, price, rps) =>
      computeFleetPricePerHour(price, countReplicas(demand, rps)),
    computeCapacityAt({ demandRps, headroom }, price, cost) {
      const replicas = countAffordableReplicas(price, cost)
      return replicas < 1 ? undefined : demandRps / (replicas * (1 - headroom))
    },
    words: { choice: 'cheapest for a demand', unit: '$ per hour, all replicas', ...cheaper },
    formatCost: (demand, candidate, { money }) =>
      `${money(candidate.cost)}/h for ${formatReplicas(demand, candidate)}`,
    formatVerdict: (demand, { cost, ...figures }, { money, rate }) =>
      `${formatReplicas(demand, figures)} for ${rate(demand.demandRps)} at ${money(cost)} per hour`,
  }),
  'max-rate': createEntry('price bound', {
    models: 'rate',
    isMaximised: true,
    computeFigure: (_, __, rps) => rps,
    computeCapacityAt: (_, __, cost) => -cost,
    words: {
      choice: 'most throughput within a price',
      unit: 'requests per second',
      gainAs: 'ratio',
      comparative: 'more throughput',
      ...better,
      worse: 'less throughput',
      figure: 'throughput',
    },
    formatCost: (_, { capacityRps }, { rate }) => rate(capacityRps),
    formatVerdict: (_, { pricePerHour }, { money }) => `${money(pricePerHour)} per hour`,
  }),
  'min-latency': createEntry('price bound', {
    models: 'latency',
    computeFigure: (_, __, ms) => ms,
    words: {
      choice: 'least latency within a price',
      unit: 'ms of unloaded latency',
      gainAs: 'share',
      comparative: 'lower latency',
      worse: 'higher latency',
      ...better,
      figure: 'latency',
    },
    formatCost: (_, { cost }, { latency }) => `${latency(cost)} unloaded`,
    formatVerdict: (_, { cost, pricePerHour }, { latency, money }) =>
      `${latency(cost)} unloaded, ${money(pricePerHour)} per hour`,
  }),
  'min-energy': createEntry('nothing', {
    models: 'rate',
    // Requests per joule; 0 for a configuration that serves no rate.
    measure: ({ usage = {}, capacityRps }) =>
      capacityRps > 0 ? 1 / (computeJoulesPerRequest(usage, capacityRps) ?? Number.NaN) : 0,
    computeFigure: (_, __, requestsPerJoule) => 1 / requestsPerJoule,
    words: {
      choice: 'least energy per request',
      unit: 'J per request',
      gainAs: 'share',
      comparative: 'less energy',
      ...better,
      worse: 'more energy',
      figure: 'energy',
    },
    formatCost: (_, { cost }, { energy }) => `${energy(cost)} per request`,
    formatVerdict: (_, { cost, pricePerHour }, { energy, money }) =>
      `${energy(cost)} per request, ${money(pricePerHour)} per hour`,
  }),
  'min-metric': createEntry('metric', {
    ...metricEntry,
    words: {
      ...metricWords,
      choice: 'least of a metric',
      gainAs: 'share',
      comparative: 'lower',
      worse: 'higher',
    },
    formatCost: ({ metric }, { cost }, { plain }) => `${metric} ${plain(cost)}`,
    formatVerdict: ({ metric }, { cost, pricePerHour }, { plain, money }) =>
      `${metric} ${plain(cost)}, ${money(pricePerHour)} per hour`,
  }),
  'max-metric': createEntry('metric', {
    ...metricEntry,
    isMaximised: true,
    words: {
      ...metricWords,
      choice: 'most of a metric',
      gainAs: 'ratio',
      comparative: 'higher',
      worse: 'lower',
    },
    formatCost: ({ metric }, { cost }, { plain }) => `${metric} ${plain(-cost)}`,
    formatVerdict: ({ metric }, { cost, pricePerHour }, { plain, money }) =>
      `${metric} ${plain(-cost)}, ${money(pricePerHour)} per hour`,
  }),
}

export type ObjectiveKind = keyof typeof objectives
type RequiredSettings<E> = E extends Entry<infer A> ? ObjectiveSettings[A] : never
/** The figure that a user minimises or maximises, subject to the problem's constraint. */
export type Objective = {
  [K in ObjectiveKind]: { readonly kind: K } & RequiredSettings<(typeof objectives)[K]>
}[ObjectiveKind]

export const objectiveKinds = Object.keys(objectives) as [ObjectiveKind, ...ObjectiveKind[]]
/** The objective where the user names none. */
export const defaultObjectiveKind = {
  plain: 'price-per-request',
  withDemand: 'price-for-demand',
} as const satisfies Record<string, ObjectiveKind>

/** Returns the entry of a kind. Its methods take the settings that the kind requires. */
const getEntry = (kind: ObjectiveKind) =>
  objectives[kind] as Entry<RequiredInput> & Entry<'nothing'>
type AllSettings = Demand & PriceBound & Partial<MetricName>
const withSettings = (objective: Objective) => objective as Objective & AllSettings & MetricName

export const listKindsRequiring = (input: RequiredInput): ObjectiveKind[] =>
  objectiveKinds.filter((kind) => getRequiredInput(kind) === input)
export const getRequiredInput = (kind: ObjectiveKind): RequiredInput => getEntry(kind).requires
/** Creates the objective of a kind, with the settings it requires; other settings are ignored. */
export const createObjective = (kind: ObjectiveKind, settings: AllSettings): Objective =>
  ({
    kind,
    ...Object.fromEntries(
      requiredFields[getRequiredInput(kind)].map((field) => [field, settings[field]]),
    ),
  }) as unknown as Objective

/** Returns the demand to serve; undefined for an objective without one. */
export const getDemand = (objective: Objective): Demand | undefined =>
  getRequiredInput(objective.kind) === 'demand' ? withSettings(objective) : undefined
/**
 * Returns the highest permitted price of one replica, $ per hour; undefined where nothing bounds
 * it.
 */
export const getPriceBound = (objective: Objective): number | undefined =>
  getRequiredInput(objective.kind) === 'price bound'
    ? withSettings(objective).maxPricePerHour
    : undefined
/** Returns the server metric that the objective ranks by; undefined for other objectives. */
export const getMetric = (objective: Objective): string | undefined =>
  getRequiredInput(objective.kind) === 'metric' ? withSettings(objective).metric : undefined
export const isAbovePriceBound = (objective: Objective, pricePerHour: number): boolean =>
  pricePerHour > (getPriceBound(objective) ?? Number.POSITIVE_INFINITY)

/**
 * Counts the replicas that serve a demand with the headroom free: ceil(demand / (capacity (1 -
 * headroom))). Infinity for no capacity.
 */
export function countReplicas({ demandRps, headroom }: Demand, capacityRps: number): number {
  if (capacityRps <= 0) return Number.POSITIVE_INFINITY
  // Rounding turns 2.1 / (1 × (1 - 0.3)) into 3.0000000000000004, which would cost a replica.
  return Math.max(1, Math.ceil(demandRps / (capacityRps * (1 - headroom)) - 1e-9))
}

/** Formats '5 replicas', '5 replicas on 2 g4dn.xlarge'. */
function formatReplicas(
  demand: Demand,
  { capacityRps, bundles = [] }: ConfigurationFigures,
): string {
  const replicas = countReplicas(demand, capacityRps)
  const purchase = findCheapestBundles(bundles, replicas)
  return `${replicas} replica${replicas === 1 ? '' : 's'}${purchase ? ` on ${purchase.count} ${purchase.bundle.name}` : ''}`
}

export const getModelledQuantity = ({ kind }: Objective): Entry<RequiredInput>['models'] =>
  getEntry(kind).models
/**
 * Whether the search models capacity or unloaded latency, which a device model can predict. False
 * where the objective measures a quantity of its own.
 */
export const modelsCapacityOrLatency = ({ kind }: Objective): boolean =>
  getEntry(kind).measure === undefined
/**
 * Computes the positive quantity that the search models as the rate of a configuration: its
 * capacity, unless the objective measures another one. Larger is better. 0 for a configuration that
 * serves no rate, NaN where the quantity was not measured.
 * @param scale of a signed quantity, from `computeMetricScale`
 */
export function computeModelledRate(
  objective: Objective,
  measured: MeasuredFigures,
  scale = 1,
): number {
  const { measure, isSigned } = getEntry(objective.kind)
  const settings = withSettings(objective)
  if (!isSigned) return measure?.(measured, settings) ?? measured.capacityRps
  if (!(measured.capacityRps > 0)) return 0
  const cost = computeQuantityCost(objective, { pricePerHour: 0 }, measure!(measured, settings))
  return Number.isFinite(cost) ? Math.exp(toGoodness(cost / scale)) : Number.NaN
}

/**
 * Converts a signed cost to the axis that the search maximises: logarithmic far from zero, linear
 * around zero.
 */
const toGoodness = (cost: number): number => -Math.asinh(cost)

/** Width of the linear part of the asinh axis, as a share of the first measured value. Assumed. */
const linearShare = 0.1

/**
 * Computes the scale of a signed quantity: a tenth of the first measured value other than zero. A
 * scale that moved with each trial would change what earlier trials taught. 1 without such a value,
 * and for quantities that are always positive.
 */
export function computeMetricScale(
  objective: Objective,
  measured: Iterable<MeasuredFigures>,
): number {
  const { measure, isSigned } = getEntry(objective.kind)
  if (!isSigned) return 1
  for (const figures of measured) {
    const size = Math.abs(measure!(figures, withSettings(objective)))
    if (size > 0 && Number.isFinite(size)) return linearShare * size
  }
  return 1
}

/**
 * Computes the cost that follows from the modelled quantity, price bounds ignored. Infinity for an
 * unknown quantity or a rate of 0.
 */
function computeQuantityCost(objective: Objective, price: ReplicaPrice, quantity: number): number {
  const { computeFigure, isMaximised } = getEntry(objective.kind)
  const value = computeFigure(withSettings(objective), price, quantity)
  return Number.isNaN(value) ? Number.POSITIVE_INFINITY : isMaximised ? -value : value
}

/**
 * Computes the objective's cost in its unit, to be minimised; the negated figure of an objective
 * that is maximised. Infinity where the figure was not measured.
 */
export function computeCost(objective: Objective, figures: ConfigurationFigures): number {
  const { models, measure } = getEntry(objective.kind)
  const quantity = measure
    ? measure(figures, withSettings(objective))
    : models === 'latency'
      ? figures.unloadedMs
      : figures.capacityRps
  return computeQuantityCost(objective, figures, quantity ?? Number.NaN)
}

/**
 * Computes the ln cost of predicted ln rate and ln unloaded latency. For a signed quantity it is
 * the negated goodness, which increases with the cost. Infinity above the price bound, NaN where
 * the modelled quantity is NaN.
 */
export function computeLogCost(
  objective: Objective,
  price: ReplicaPrice,
  logRate: number,
  logLatency: number,
): number {
  if (isAbovePriceBound(objective, price.pricePerHour)) return Number.POSITIVE_INFINITY
  const { computeFigure, models, isMaximised, isSigned } = getEntry(objective.kind)
  if (isSigned) return -logRate
  const logFigure = Math.log(
    computeFigure(
      withSettings(objective),
      price,
      Math.exp(models === 'latency' ? logLatency : logRate),
    ),
  )
  return isMaximised ? -logFigure : logFigure
}

/**
 * Computes the capacity (req/s) at which a configuration costs as much as the best so far; below it
 * the trial cannot win. Undefined where nothing is to be beaten, or where the capacity does not
 * decide.
 * @param bestCost in the unit of `computeCost`
 */
export function computeCapacityToBeatRps(
  objective: Objective,
  price: ReplicaPrice,
  bestCost: number | undefined,
): number | undefined {
  if (bestCost === undefined || !Number.isFinite(bestCost)) return undefined
  return getEntry(objective.kind).computeCapacityAt?.(withSettings(objective), price, bestCost)
}

/**
 * Returns the figures of a configuration at another capacity. Fields beyond these figures are
 * dropped.
 */
export const withCapacity = (
  { unloadedMs, usage, metrics, pricePerHour, bundles }: ConfigurationFigures,
  capacityRps: number,
): ConfigurationFigures => ({
  capacityRps,
  unloadedMs,
  usage,
  metrics,
  pricePerHour,
  bundles,
})

/**
 * Whether `a`, at the upper end of its 90 % interval of capacity, may cost no more than `b` at the
 * lower end of its own. False for objectives that no capacity interval decides.
 */
export function isOrderUncertain(
  objective: Objective,
  a: ConfigurationFigures & { readonly capacityCi90Rps: readonly [number, number] },
  b: ConfigurationFigures & { readonly capacityCi90Rps: readonly [number, number] },
): boolean {
  if (getModelledQuantity(objective) !== 'rate' || getEntry(objective.kind).isSigned) return false
  const computeCostAt = (c: ConfigurationFigures, capacityRps: number) =>
    computeCost(objective, withCapacity(c, capacityRps))
  return computeCostAt(a, a.capacityCi90Rps[1]) <= computeCostAt(b, b.capacityCi90Rps[0])
}

/**
 * Computes the ratio by which one cost is better than another, 2 = half the price or twice the
 * throughput. Undefined for a signed quantity unless both figures are positive.
 */
export function computeGainRatio(
  objective: Objective,
  betterCost: number,
  otherCost: number,
): number | undefined {
  const { isMaximised, isSigned } = getEntry(objective.kind)
  const arePositive =
    toDisplayedCost(objective, betterCost) > 0 && toDisplayedCost(objective, otherCost) > 0
  if (isSigned && !arePositive) return undefined
  return isMaximised ? betterCost / otherCost : otherCost / betterCost
}

/**
 * Computes the share by which a cost is worse than another, 0.12 = 12 %; negative where it is
 * better. For a signed quantity 0 where both are equal, else undefined.
 */
export function computeRelativeExcess(
  objective: Objective,
  cost: number,
  otherCost: number,
): number | undefined {
  const { isMaximised, isSigned } = getEntry(objective.kind)
  if (isSigned) return cost === otherCost ? 0 : undefined
  return isMaximised ? 1 - cost / otherCost : cost / otherCost - 1
}
/** Returns the figure to display for a cost: the cost, or the positive figure that is maximised. */
export const toDisplayedCost = (objective: Objective, cost: number): number =>
  getEntry(objective.kind).isMaximised ? -cost : cost

export const getObjectiveWords = (kind: ObjectiveKind): ObjectiveWords => getEntry(kind).words
/** Returns the unit of an objective's figures: '$ per million requests', or the metric's name. */
export const getObjectiveUnit = (objective: Objective): string =>
  getMetric(objective) ?? getObjectiveWords(objective.kind).unit
export const formatCost = (
  objective: Objective,
  candidate: CostedFigures,
  format: FigureFormat,
): string => getEntry(objective.kind).formatCost(withSettings(objective), candidate, format)
export const formatVerdict = (
  objective: Objective,
  candidate: CostedFigures,
  format: FigureFormat,
): string => getEntry(objective.kind).formatVerdict(withSettings(objective), candidate, format)
