/**
 * The objectives: what is best among configurations that keep the SLO, one entry each. Whatever
 * costs, bounds, counts replicas, ranks or puts into words asks here; nothing else asks which
 * objective it is.
 */

import {
  cheapestBundles,
  fleetPerHour,
  type ReplicaPrice,
  replicasWithin,
} from './replica-price.ts'

/** What was drawn in a predictor's busiest seconds, W, of what tells it. */
export interface Power {
  readonly gpuWatts?: number
  readonly cpuWatts?: number
}

/**
 * Energy of one request at a capacity, J, of what tells its power. At most: power is that of the
 * busiest seconds, and no fewer requests are answered then. Undefined where nothing tells it.
 */
export function joulesPerRequest(
  { gpuWatts, cpuWatts }: Power,
  capacityRps: number,
): number | undefined {
  if ((gpuWatts === undefined && cpuWatts === undefined) || !(capacityRps > 0)) return undefined
  return ((gpuWatts ?? 0) + (cpuWatts ?? 0)) / capacityRps
}

/** What a trial measured. */
export interface Measured {
  readonly capacityRps: number
  /** SLO percentile of one request at a time, ms. */
  readonly idleMs?: number
  /** What its trial used: cores busy, MiB, ... by name. */
  readonly usage?: Power
  /** Of the server's own metrics at that capacity, by name. */
  readonly metrics?: Readonly<Record<string, number>>
}

/** What is known of a configuration that serves; its price is exact. */
export interface Figures extends Measured, ReplicaPrice {}

/** A configuration with what the objective minimises. */
type Costed = Figures & { readonly cost: number }

/** How figures are written; given, so that objectives know words and not digits. */
export interface Writing {
  readonly money: (dollars: number) => string
  readonly rate: (rps: number) => string
  readonly latency: (ms: number) => string
  readonly energy: (joules: number) => string
  /** A figure without a unit of ours. */
  readonly plain: (figure: number) => string
}

export interface Demand {
  readonly demandRps: number
  /** Share of the capacity kept free, 0-1. */
  readonly headroom: number
}
export interface PriceBound {
  readonly maxPricePerHour: number
}

export interface MetricName {
  /** Of a metric of the server's own, labels and all: 'queue_depth{model="bert"}'. */
  readonly metric: string
}

/** What a user must say beside the name. */
interface Asked {
  nothing: object
  demand: Demand
  'price bound': PriceBound
  metric: MetricName
}
export type Asks = keyof Asked
/** Fields of what is asked. */
export const askedFields = {
  nothing: [],
  demand: ['demandRps', 'headroom'],
  'price bound': ['maxPricePerHour'],
  metric: ['metric'],
} as const satisfies {
  [A in Asks]: readonly (keyof Asked[A])[]
}

interface Entry<A extends Asks> {
  readonly asks: A
  /**
   * What a measurement must tell; the search models it, and the cost falls with a rate and rises
   * with a latency, in proportion.
   */
  readonly learns: 'nothing' | 'rate' | 'latency'
  /**
   * What is learned where it is neither the capacity nor the idle latency: requests per joule, say.
   * Such a rate has no physics and no direction known beforehand.
   */
  learned?(measured: Measured, objective: Asked[A]): number
  /**
   * What is learned may be zero or less, and has neither a logarithm nor a share: the search learns
   * how good it is on an axis of its own (`goodness`).
   */
  readonly anySign?: true
  /**
   * What is to be minimised, in `unit`, of a price and of what was learned; a quantity to be
   * maximised where `most`.
   */
  figure(objective: Asked[A], price: ReplicaPrice, learned: number): number
  readonly most?: true
  /**
   * What must be measured to win: the capacity at which a configuration costs as much as another.
   * Absent: no capacity decides.
   */
  capacityAt?(objective: Asked[A], price: ReplicaPrice, cost: number): number | undefined
  readonly words: ObjectiveWords
  /** '$0.11 per million requests': what is ranked by. */
  costText(objective: Asked[A], of: Costed, write: Writing): string
  /** What follows rate and latency in a verdict. */
  verdictText(objective: Asked[A], of: Costed, write: Writing): string
}

export interface ObjectiveWords {
  /** In a list to choose from: 'cheapest per request'. */
  readonly choice: string
  /** Of an axis: '$ per million requests'. */
  readonly unit: string
  /** How a gain reads: '68 % {comparative}', or '2.3× the {figure}'. */
  readonly gainAs: 'share' | 'ratio'
  /** '6 % {comparative}': 'cheaper', 'more throughput' */
  readonly comparative: string
  /** 'no configuration is {adjective}' */
  readonly adjective: 'cheaper' | 'better'
  /** The label of whether nothing else is that. */
  readonly superlative: 'Cheapest' | 'Best'
  /** '12 % {worse}' */
  readonly worse: string
  /** '3.1× the {figure}' */
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

const entry = <A extends Asks>(asks: A, rest: Omit<Entry<A>, 'asks'>): Entry<A> => ({
  asks,
  ...rest,
})

const metricWords = { unit: 'the metric', figure: 'metric', ...better } as const

/** Of what serves nothing a metric says nothing. */
const ofMetric = {
  learns: 'rate',
  learned: ({ metrics = {}, capacityRps }, { metric }) =>
    capacityRps > 0 && Object.hasOwn(metrics, metric) ? metrics[metric]! : Number.NaN,
  figure: (_, __, value) => value,
  anySign: true,
} as const satisfies Partial<Entry<'metric'>>

const objectives = {
  price: entry('nothing', {
    learns: 'nothing',
    figure: (_, { pricePerHour }) => pricePerHour,
    words: { choice: 'cheapest replica', unit: '$ per hour, one replica', ...cheaper },
    costText: (_, { cost }, { money }) => `${money(cost)}/h`,
    verdictText: (_, { cost }, { money }) => `${money(cost)} per hour`,
  }),
  'price-per-request': entry('nothing', {
    learns: 'rate',
    figure: (_, { pricePerHour }, rps) => (pricePerHour / (rps * 3600)) * 1e6,
    capacityAt: (_, { pricePerHour }, cost) => pricePerHour / 3600 / (cost / 1e6),
    words: { choice: 'cheapest per request', unit: '$ per million requests', ...cheaper },
    costText: (_, { cost }, { money }) => `${money(cost)} per million requests`,
    verdictText: (_, { cost }, { money }) => `${money(cost)} per million requests`,
  }),
  'price-for-demand': entry('demand', {
    learns: 'rate',
    figure: (demand, price, rps) => fleetPerHour(price, replicasFor(demand, rps)),
    capacityAt({ demandRps, headroom }, price, cost) {
      const replicas = replicasWithin(price, cost)
      return replicas < 1 ? undefined : demandRps / (replicas * (1 - headroom))
    },
    words: { choice: 'cheapest for a demand', unit: '$ per hour, all replicas', ...cheaper },
    costText: (demand, of, { money }) => `${money(of.cost)}/h for ${replicasText(demand, of)}`,
    verdictText: (demand, { cost, ...of }, { money, rate }) =>
      `${replicasText(demand, of)} for ${rate(demand.demandRps)} at ${money(cost)} per hour`,
  }),
  'max-rate': entry('price bound', {
    learns: 'rate',
    most: true,
    figure: (_, __, rps) => rps,
    capacityAt: (_, __, cost) => -cost,
    words: {
      choice: 'most throughput within a price',
      unit: 'requests per second',
      gainAs: 'ratio',
      comparative: 'more throughput',
      ...better,
      worse: 'less throughput',
      figure: 'throughput',
    },
    costText: (_, { capacityRps }, { rate }) => rate(capacityRps),
    verdictText: (_, { pricePerHour }, { money }) => `${money(pricePerHour)} per hour`,
  }),
  'min-latency': entry('price bound', {
    learns: 'latency',
    figure: (_, __, ms) => ms,
    words: {
      choice: 'least latency within a price',
      unit: 'ms of unloaded latency',
      gainAs: 'share',
      comparative: 'lower latency',
      worse: 'higher latency',
      ...better,
      figure: 'latency',
    },
    costText: (_, { cost }, { latency }) => `${latency(cost)} unloaded`,
    verdictText: (_, { cost, pricePerHour }, { latency, money }) =>
      `${latency(cost)} unloaded, ${money(pricePerHour)} per hour`,
  }),
  'min-energy': entry('nothing', {
    learns: 'rate',
    // Requests of a joule; what serves nothing serves nothing for any energy.
    learned: ({ usage = {}, capacityRps }) =>
      capacityRps > 0 ? 1 / (joulesPerRequest(usage, capacityRps) ?? Number.NaN) : 0,
    figure: (_, __, requestsPerJoule) => 1 / requestsPerJoule,
    words: {
      choice: 'least energy per request',
      unit: 'J per request',
      gainAs: 'share',
      comparative: 'less energy',
      ...better,
      worse: 'more energy',
      figure: 'energy',
    },
    costText: (_, { cost }, { energy }) => `${energy(cost)} per request`,
    verdictText: (_, { cost, pricePerHour }, { energy, money }) =>
      `${energy(cost)} per request, ${money(pricePerHour)} per hour`,
  }),
  'min-metric': entry('metric', {
    ...ofMetric,
    words: {
      ...metricWords,
      choice: 'least of a metric',
      gainAs: 'share',
      comparative: 'lower',
      worse: 'higher',
    },
    costText: ({ metric }, { cost }, { plain }) => `${metric} ${plain(cost)}`,
    verdictText: ({ metric }, { cost, pricePerHour }, { plain, money }) =>
      `${metric} ${plain(cost)}, ${money(pricePerHour)} per hour`,
  }),
  'max-metric': entry('metric', {
    ...ofMetric,
    most: true,
    words: {
      ...metricWords,
      choice: 'most of a metric',
      gainAs: 'ratio',
      comparative: 'higher',
      worse: 'lower',
    },
    costText: ({ metric }, { cost }, { plain }) => `${metric} ${plain(-cost)}`,
    verdictText: ({ metric }, { cost, pricePerHour }, { plain, money }) =>
      `${metric} ${plain(-cost)}, ${money(pricePerHour)} per hour`,
  }),
}

export type ObjectiveKind = keyof typeof objectives
type AskedBy<E> = E extends Entry<infer A> ? Asked[A] : never
/** What a user minimises or maximises. The constraint of the problem always holds beside it. */
export type Objective = {
  [K in ObjectiveKind]: { readonly kind: K } & AskedBy<(typeof objectives)[K]>
}[ObjectiveKind]

export const objectiveKinds = Object.keys(objectives) as [ObjectiveKind, ...ObjectiveKind[]]
/** What stands where the user names none. */
export const defaultKind = {
  plain: 'price-per-request',
  withDemand: 'price-for-demand',
} as const satisfies Record<string, ObjectiveKind>

const of = (kind: ObjectiveKind) => objectives[kind] as Entry<Asks> & Entry<'nothing'>
type AllAsked = Demand & PriceBound & Partial<MetricName>
const said = (objective: Objective) => objective as Objective & AllAsked & MetricName

export const kindsAsking = (asks: Asks): ObjectiveKind[] =>
  objectiveKinds.filter((kind) => asksOf(kind) === asks)
export const asksOf = (kind: ObjectiveKind): Asks => of(kind).asks
/** An objective with what it asks for, out of more. */
export const objectiveOf = (kind: ObjectiveKind, given: AllAsked): Objective =>
  ({
    kind,
    ...Object.fromEntries(askedFields[asksOf(kind)].map((field) => [field, given[field]])),
  }) as unknown as Objective

/** The demand that is to be served, where there is one. */
export const demandOf = (objective: Objective): Demand | undefined =>
  asksOf(objective.kind) === 'demand' ? said(objective) : undefined
/** The most that one replica may cost an hour, $; undefined where nothing bounds it. */
export const priceBoundOf = (objective: Objective): number | undefined =>
  asksOf(objective.kind) === 'price bound' ? said(objective).maxPricePerHour : undefined
/** The metric that is ranked by, where one is. */
export const metricOf = (objective: Objective): string | undefined =>
  asksOf(objective.kind) === 'metric' ? said(objective).metric : undefined
export const isTooDear = (objective: Objective, pricePerHour: number): boolean =>
  pricePerHour > (priceBoundOf(objective) ?? Number.POSITIVE_INFINITY)

/**
 * Replicas that serve a demand with headroom kept free: ceil(demand / (capacity (1 - headroom))).
 * Infinity for no capacity.
 */
export function replicasFor({ demandRps, headroom }: Demand, capacityRps: number): number {
  if (capacityRps <= 0) return Number.POSITIVE_INFINITY
  // Without the allowance 300 / (100 × 1) could come out as 3.0000000000000004 and cost a replica.
  return Math.max(1, Math.ceil(demandRps / (capacityRps * (1 - headroom)) - 1e-9))
}

/** '5 replicas', '5 replicas on 2 g4dn.xlarge' */
function replicasText(demand: Demand, { capacityRps, bundles = [] }: Figures): string {
  const replicas = replicasFor(demand, capacityRps)
  const bought = cheapestBundles(bundles, replicas)
  return `${replicas} replica${replicas === 1 ? '' : 's'}${bought ? ` on ${bought.count} ${bought.bundle.name}` : ''}`
}

export const learnsOf = ({ kind }: Objective): Entry<Asks>['learns'] => of(kind).learns
/**
 * Whether the search learns capacities and idle latencies, of which physics tells something
 * beforehand, and not a quantity of the objective's own.
 */
export const learnsPlainly = ({ kind }: Objective): boolean => of(kind).learned === undefined
/**
 * What the search learns as the rate of a configuration: its capacity, unless the objective counts
 * requests by something else. Always the more the better, 0 of what serves nothing, NaN where it
 * was not measured. @param scale as `learnedScale` has it
 */
export function learnedRate(objective: Objective, measured: Measured, scale = 1): number {
  const { learned, anySign } = of(objective.kind)
  if (!anySign) return learned?.(measured, said(objective)) ?? measured.capacityRps
  if (!(measured.capacityRps > 0)) return 0
  const costs = costOf(objective, { pricePerHour: 0 }, learned!(measured, said(objective)))
  return Number.isFinite(costs) ? Math.exp(goodness(costs / scale)) : Number.NaN
}

/**
 * Good as ln rate is, of any sign: logarithmic for what is far from zero, by the scale, and even
 * around it.
 */
const goodness = (costs: number): number => -Math.asinh(costs)

/** Of what `scale` is the tenth part, values are told apart by their ratios. */
const evenPart = 0.1

/**
 * The scale of a quantity that may be zero or less: of the first trial that has one other than
 * zero, for one that moved with each trial would move what earlier ones taught. 1 where there is
 * none, and where the quantity needs none.
 */
export function learnedScale(objective: Objective, measured: Iterable<Measured>): number {
  const { learned, anySign } = of(objective.kind)
  if (!anySign) return 1
  for (const one of measured) {
    const size = Math.abs(learned!(one, said(objective)))
    if (size > 0 && Number.isFinite(size)) return evenPart * size
  }
  return 1
}

/**
 * Price bounds left out: of a capacity, an idle latency or what else is learned. Infinity where
 * that is unknown or nothing.
 */
function costOf(objective: Objective, price: ReplicaPrice, learned: number): number {
  const { figure, most } = of(objective.kind)
  const value = figure(said(objective), price, learned)
  return Number.isNaN(value) ? Number.POSITIVE_INFINITY : most ? -value : value
}

/**
 * What an objective minimises, in its unit (what is to be maximised is negated); Infinity where it
 * was not measured.
 */
export function cost(objective: Objective, figures: Figures): number {
  const { learns, learned } = of(objective.kind)
  const known = learned
    ? learned(figures, said(objective))
    : learns === 'latency'
      ? figures.idleMs
      : figures.capacityRps
  return costOf(objective, figures, known ?? Number.NaN)
}

/**
 * The same in ln, of what the search believes: ln rate, ln idle latency; of what may be zero or
 * less its badness, which rises with it. Infinity where the price is out of bounds, NaN where
 * nothing is believed.
 */
export function logCost(
  objective: Objective,
  price: ReplicaPrice,
  logRate: number,
  logLatency: number,
): number {
  if (isTooDear(objective, price.pricePerHour)) return Number.POSITIVE_INFINITY
  const { figure, learns, most, anySign } = of(objective.kind)
  if (anySign) return -logRate
  const logFigure = Math.log(
    figure(said(objective), price, Math.exp(learns === 'latency' ? logLatency : logRate)),
  )
  return most ? -logFigure : logFigure
}

/**
 * Capacity (req/s) at which a configuration costs as much as the best so far; below it the trial
 * cannot win. Undefined: nothing to beat, or no capacity decides. `bestCost` is in the unit of
 * `cost`.
 */
export function capacityToBeatRps(
  objective: Objective,
  price: ReplicaPrice,
  bestCost: number | undefined,
): number | undefined {
  if (bestCost === undefined || !Number.isFinite(bestCost)) return undefined
  return of(objective.kind).capacityAt?.(said(objective), price, bestCost)
}

/**
 * What is known of a configuration, at another capacity; of what it has beside that nothing is
 * taken along.
 */
export const atCapacity = (
  { idleMs, usage, metrics, pricePerHour, bundles }: Figures,
  capacityRps: number,
): Figures => ({
  capacityRps,
  idleMs,
  usage,
  metrics,
  pricePerHour,
  bundles,
})

/**
 * Whether the 90 % intervals of two capacities leave it open which configuration costs less. Prices
 * and idle latencies have none.
 */
export function orderIsOpen(
  objective: Objective,
  a: Figures & { readonly capacityCi90Rps: readonly [number, number] },
  b: Figures & { readonly capacityCi90Rps: readonly [number, number] },
): boolean {
  if (learnsOf(objective) !== 'rate' || of(objective.kind).anySign) return false
  const at = (c: Figures, capacityRps: number) => cost(objective, atCapacity(c, capacityRps))
  return at(a, a.capacityCi90Rps[1]) <= at(b, b.capacityCi90Rps[0])
}

/**
 * How many times as good (cheap, fast, much) a cost is as another; undefined where that has no
 * meaning: of what may be zero or less, unless neither is.
 */
export function gainOver(objective: Objective, better: number, than: number): number | undefined {
  const { most, anySign } = of(objective.kind)
  if (anySign && !(shownCost(objective, better) > 0 && shownCost(objective, than) > 0))
    return undefined
  return most ? better / than : than / better
}

/**
 * By which share a cost is worse than another, 0.12 = 12 %; negative where it is better. Of what
 * may be zero or less there is no share: undefined, and 0 for equal ones.
 */
export function partWorse(objective: Objective, costs: number, than: number): number | undefined {
  const { most, anySign } = of(objective.kind)
  if (anySign) return costs === than ? 0 : undefined
  return most ? 1 - costs / than : costs / than - 1
}
/** What a cost stands for: itself, or what is maximised. */
export const shownCost = (objective: Objective, costs: number): number =>
  of(objective.kind).most ? -costs : costs

export const wordsOf = (kind: ObjectiveKind): ObjectiveWords => of(kind).words
/** What the figures of an objective are of: '$ per million requests', or the metric's name. */
export const unitOf = (objective: Objective): string =>
  metricOf(objective) ?? wordsOf(objective.kind).unit
export const costText = (objective: Objective, candidate: Costed, write: Writing): string =>
  of(objective.kind).costText(said(objective), candidate, write)
export const verdictText = (objective: Objective, candidate: Costed, write: Writing): string =>
  of(objective.kind).verdictText(said(objective), candidate, write)
