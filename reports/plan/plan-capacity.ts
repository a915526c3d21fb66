/** The capacity plan: how many replicas of what, when, at which price, and what breaks. Pure. */
import { interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import {
  type Bundle,
  computeFleetPricePerHour,
  type ReplicaPrice,
} from '../../search/replica-price.ts'
import type { Offer } from '../../trials/prices/offers.ts'
import type { Resources } from '../../trials/resources.ts'
import type { Provenance } from '../../trials/types.ts'
import type { Status } from '../recommendation/status.ts'
import type { TokenFigures } from '../recommendation/token-figures.ts'
import { type Commitment, planCommitment } from './commitment.ts'
import { type Demand, meanOf, peakOf, periodSeconds, repeated, scaled } from './demand.ts'
import {
  autoscaledFleet,
  type FleetOutcome,
  replicasThatKeep,
  type Surroundings,
  staticFleet,
} from './fleet.ts'
import { behaviourOf, defaultBehaviour, type HpaSettings } from './hpa.ts'
import { losslessSettings, type ScaledFleet } from './lossless.ts'
import {
  type BreakEven,
  breakEven,
  type CloudCost,
  cloudCosts,
  hoursPerMonth,
  replicasForZones,
} from './plan-costs.ts'
import { type FleetUnit, shareOver } from './replica.ts'

/** One price list: on-demand or reserved, of one cloud or another. */
interface PriceList {
  readonly name: string
  readonly currency: string
  /** One replica, or its part of the instance that it is on. */
  readonly perHour: number
  /** Of a list that sells whole instances alone. */
  readonly bundles?: readonly Bundle[]
}

export interface PlanUnit extends FleetUnit {
  readonly trial: number
  /** How far its capacity can be relied on. */
  readonly status: Status
  readonly resources: Resources
  /** One replica; the first list is the one that decides. */
  readonly prices: readonly PriceList[]
  /**
   * From start to ready as trials measured it, by which a spec sets the autoscaler's pace; absent:
   * not measured.
   */
  readonly measuredLaunchSeconds?: number
  /** Of streamed answers. */
  readonly tokens?: TokenFigures
  /** Ways to buy what it runs on. Absent: by the price list alone. */
  readonly offers?: readonly Offer[]
  /** Price per hour of the same with the GPU whole, where it holds a share. */
  readonly wholeGpuPerHour?: number
  /** Of a list that sells whole instances alone. */
  readonly wholeGpuBundles?: readonly Bundle[]
}

export interface PlanInput {
  /**
   * Trial of the recommended configuration: the plan is made with it, the others stand beside it.
   * Absent: with the cheapest for the demand.
   */
  readonly recommended?: number
  readonly units: readonly PlanUnit[]
  /** Where the capacities come from. */
  readonly provenance: Provenance
  /** That the capacities keep. */
  readonly slo: Slo
  readonly demand: Demand
  readonly headroom: number
  /** 0.05 = 5 % more each month. */
  readonly growthPerMonth: number
  readonly months: number
  readonly zones: number
  /** Between requests and replicas, and how old an autoscaler's rates are. */
  readonly surroundings: Surroundings
  /** 0: the last one goes, too. */
  readonly minReplicas: number
  /** A fleet there is already: the trial and how many of it. */
  readonly existing?: { readonly trial: number; readonly replicas: number }
}

interface MonthPlan {
  /** 1, 2, ... */
  readonly month: number
  readonly peakRps: number
  readonly meanRps: number
  /** That lose no minute. */
  readonly replicas: number
  /** That keep the SLO's percentile over all requests of the period, minutes may be lost. */
  readonly replicasOverPeriod: number
  /** Mean demand over what the replicas could carry, 0-1. */
  readonly utilisation: number
  /** SLO percentile of the static fleet at the month's peak, from the load curve, ms. */
  readonly sloMsAtPeak?: number
  readonly staticPerMonth: number
  readonly withSparePerMonth: number
  readonly autoscaled: FleetOutcome
  readonly autoscaledPerMonth: number
  /**
   * Of streamed answers: the mean demand in tokens, and what a million of the output cost on the
   * static fleet, which is paid for when it is idle too.
   */
  readonly outputTokensPerSecond?: number
  readonly inputTokensPerSecond?: number
  readonly staticPerMillionOutputTokens?: number
}

export interface UnitPlan {
  readonly unit: PlanUnit
  readonly months: readonly MonthPlan[]
  /** Over the horizon. */
  readonly staticTotal: number
  readonly autoscaledTotal: number
  /** Month 1 by each price list, static. */
  readonly byPriceList: readonly {
    readonly name: string
    readonly currency: string
    readonly perMonth: number
  }[]
  /** Month 1 on rented instances. */
  readonly clouds: readonly CloudCost[]
  /** Replicas that stand the loss of one zone, month 1. */
  readonly zoneReplicas: number
  readonly zonePerMonth: number
  /** Month 1: what sharing the GPU saves against whole ones. */
  readonly sharingSavesPerMonth?: number
}

/** The autoscaler's settings for the configuration that the plan is made with, month 1. */
interface Scaling {
  /** Target, least replicas and windows as given, at the pace that a spec sets. */
  readonly given: ScaledFleet
  /**
   * The same, the requests counted before the replicas, by a gateway: those that wait count, too.
   */
  readonly countedBefore: ScaledFleet
  /** The cheapest that lose no minute; absent: none is cheaper than a fleet that never changes. */
  readonly lossless?: ScaledFleet & { readonly perMonth: number }
}

interface ExistingFleet {
  readonly label: string
  readonly replicas: number
  /** With the headroom kept, at the full capacity, and with one replica lost. */
  readonly carriesRps: number
  readonly atMostRps: number
  readonly withOneLostRps: number
  readonly perMonth: number
  readonly underDemand: readonly { readonly month: number; readonly outcome: FleetOutcome }[]
}

export interface Plan {
  readonly demand: Demand
  readonly input: PlanInput
  /** Cheapest static fleet in month 1 first. */
  readonly units: readonly UnitPlan[]
  readonly scaling: Scaling
  /**
   * For the configuration that the plan is made with, month 1; absent: on demand is all that has a
   * price.
   */
  readonly commitment?: Commitment
  readonly breakEven: readonly BreakEven[]
  readonly existing?: ExistingFleet
}

/**
 * Longer than an autoscaler and its nodes remember anything: a period that is shorter is played so
 * often that it takes as long.
 */
const leastPlayedSeconds = 7200
/** Each of them is looked at, as one that may be committed to. */
const mostReplicas = 100_000

/** Throws RangeError for shares, counts and capacities that cannot be. */
export function planCapacity(given: PlanInput): Plan {
  check(given)
  const input = { ...given, demand: repeated(given.demand, leastPlayedSeconds) }
  // What is recommended comes first; the others by what they cost for the demand.
  const rank = ({ unit, months }: UnitPlan) =>
    unit.trial === input.recommended ? 0 : months[0]!.staticPerMonth
  const units = input.units.map((unit) => unitPlan(unit, input)).sort((a, b) => rank(a) - rank(b))
  const lastPeak = peakOf(input.demand) * (1 + input.growthPerMonth) ** (input.months - 1)
  const rivals = input.units.map(({ label, capacityRps, prices: [first] }) => ({
    label,
    capacityRps,
    ...priceIn(first!),
  }))
  const scaling = scalingOf(units[0]!, input)
  const commitment = commitmentOf(units[0]!, scaling, input)
  return {
    demand: given.demand,
    input,
    units,
    scaling,
    ...(commitment && { commitment }),
    breakEven: breakEven(rivals, 4 * lastPeak, input.headroom),
    ...(input.existing ? { existing: existingFleet(input, input.existing) } : {}),
  }
}

function check({
  units,
  demand,
  headroom,
  months,
  growthPerMonth,
  zones,
  minReplicas,
  existing,
}: PlanInput): void {
  if (units.length === 0) throw new RangeError('there is no configuration to plan with')
  for (const unit of units)
    if (!(unit.capacityRps > 0)) throw new RangeError(`${unit.label} has no capacity`)
  if (!(headroom >= 0 && headroom < 1))
    throw new RangeError(`headroom is ${headroom}: use a share from 0 to below 1`)
  if (!(Number.isInteger(months) && months >= 1 && months <= 120))
    throw new RangeError(`months is ${months}: use 1 to 120`)
  if (!(growthPerMonth > -1 && growthPerMonth <= 10))
    throw new RangeError(`growth is ${growthPerMonth}: use a share per month, such as 5%`)
  if (!(Number.isInteger(zones) && zones >= 1))
    throw new RangeError(`zones is ${zones}: use 1 or more`)
  if (!(Number.isInteger(minReplicas) && minReplicas >= 0))
    throw new RangeError(`min replicas is ${minReplicas}: use 0 or more`)
  const highestRps =
    (peakOf(demand) * Math.max(1, (1 + growthPerMonth) ** (months - 1))) / (1 - headroom)
  const large = units.find(({ capacityRps }) => !(highestRps / capacityRps <= mostReplicas))
  if (large)
    throw new RangeError(
      `${large.label} would need ${Math.ceil(highestRps / large.capacityRps)} replicas, but a plan has at most ${mostReplicas}`,
    )
  if (minReplicas > mostReplicas || (existing && existing.replicas > mostReplicas))
    throw new RangeError(`a plan has at most ${mostReplicas} replicas`)
  if (existing && !(Number.isInteger(existing.replicas) && existing.replicas >= 1))
    throw new RangeError(
      `a fleet cannot have ${existing.replicas} replicas: use a whole number of 1 or more`,
    )
}

/** Rounding errors of products such as 50 × 3.06 × 720 are no money. */
const cents = (dollars: number): number => Math.round(dollars * 1e6) / 1e6

const priceIn = ({ perHour, bundles }: Pick<PriceList, 'perHour' | 'bundles'>): ReplicaPrice => ({
  pricePerHour: perHour,
  ...(bundles && { bundles }),
})

const fleetPerMonth = (list: Pick<PriceList, 'perHour' | 'bundles'>, replicas: number): number =>
  cents(computeFleetPricePerHour(priceIn(list), replicas) * hoursPerMonth)

const monthDemand = (input: PlanInput, month: number): Demand =>
  scaled(input.demand, (1 + input.growthPerMonth) ** (month - 1))

function unitPlan(unit: PlanUnit, input: PlanInput): UnitPlan {
  const perMonth = unit.prices[0]!.perHour * hoursPerMonth
  const fleet = (replicas: number) => fleetPerMonth(unit.prices[0]!, replicas)
  const months = Array.from({ length: input.months }, (_, i): MonthPlan => {
    const demand = monthDemand(input, i + 1)
    const kept = replicasThatKeep(unit, demand, input.headroom, input.surroundings)
    const replicas = Math.max(input.minReplicas, kept.everyMinute)
    const autoscaled = autoscaledFleet(unit, demand, settingsOf(unit, input), input.surroundings)
    return {
      month: i + 1,
      peakRps: peakOf(demand),
      meanRps: meanOf(demand),
      replicas,
      replicasOverPeriod: Math.max(input.minReplicas, kept.wholePeriod),
      utilisation: meanOf(demand) / (replicas * unit.capacityRps),
      // A peak that is short enough to wait has no latency of its own.
      ...(unit.curve && shareOver(unit, peakOf(demand) / replicas) < 1
        ? { sloMsAtPeak: interpolateLatency(unit.curve, peakOf(demand) / replicas) }
        : {}),
      staticPerMonth: fleet(replicas),
      withSparePerMonth: fleet(replicas + 1),
      autoscaled,
      autoscaledPerMonth: cents(autoscaled.meanReplicas * perMonth),
      ...(unit.tokens && tokensOf(unit.tokens, meanOf(demand), fleet(replicas))),
    }
  })
  const { replicas } = months[0]!
  const zoneReplicas = replicasForZones(replicas, input.zones)
  const total = (of: (m: MonthPlan) => number) => cents(months.reduce((sum, m) => sum + of(m), 0))
  const { wholeGpuPerHour: whole, wholeGpuBundles } = unit
  return {
    unit,
    months,
    staticTotal: total((m) => m.staticPerMonth),
    autoscaledTotal: total((m) => m.autoscaledPerMonth),
    byPriceList: unit.prices.map((list) => ({
      name: list.name,
      currency: list.currency,
      perMonth: fleetPerMonth(list, replicas),
    })),
    clouds: cloudCosts(unit.resources, replicas),
    zoneReplicas,
    zonePerMonth: fleet(zoneReplicas),
    ...(whole !== undefined && {
      sharingSavesPerMonth: cents(
        fleetPerMonth({ perHour: whole, bundles: wholeGpuBundles }, replicas) - fleet(replicas),
      ),
    }),
  }
}

/** As given, at the pace that a spec sets. */
function settingsOf(unit: PlanUnit, { headroom, minReplicas }: PlanInput): HpaSettings {
  return {
    targetRps: unit.capacityRps * (1 - headroom),
    minReplicas,
    maxReplicas: Number.POSITIVE_INFINITY,
    behaviour: behaviourOf(unit.measuredLaunchSeconds) ?? defaultBehaviour,
    counts: minReplicas === 0 ? 'came' : 'answered',
  }
}

function scalingOf({ unit, months: [first] }: UnitPlan, input: PlanInput): Scaling {
  const settings = settingsOf(unit, input)
  const before = { ...settings, counts: 'came' } as const
  // As a manifest has them: without KEDA there is no way to zero, and the replicas count.
  const writable = {
    ...settings,
    minReplicas: Math.max(1, settings.minReplicas),
    counts: 'answered',
  } as const
  const lossless = losslessSettings(
    unit,
    input.demand,
    writable,
    first!.replicas,
    input.surroundings,
  )
  return {
    given: { settings, outcome: first!.autoscaled },
    countedBefore: {
      settings: before,
      outcome: autoscaledFleet(unit, input.demand, before, input.surroundings),
    },
    ...(lossless && {
      lossless: {
        ...lossless,
        perMonth: cents(lossless.outcome.meanReplicas * unit.prices[0]!.perHour * hoursPerMonth),
      },
    }),
  }
}

function commitmentOf(
  { unit, months: [first] }: UnitPlan,
  { lossless }: Scaling,
  { demand, surroundings }: PlanInput,
) {
  const { paid } = lossless?.outcome ?? staticFleet(unit, demand, first!.replicas, surroundings)
  return planCommitment(unit.offers ?? [], paid, periodSeconds(demand))
}

function tokensOf({ outputTokens, inputTokens }: TokenFigures, meanRps: number, perMonth: number) {
  const outputTokensPerSecond = meanRps * outputTokens
  return {
    outputTokensPerSecond,
    ...(inputTokens !== undefined && { inputTokensPerSecond: meanRps * inputTokens }),
    ...(outputTokensPerSecond > 0 && {
      staticPerMillionOutputTokens:
        (perMonth / (outputTokensPerSecond * 3600 * hoursPerMonth)) * 1e6,
    }),
  }
}

function existingFleet(
  input: PlanInput,
  { trial, replicas }: { trial: number; replicas: number },
): ExistingFleet {
  const unit = input.units.find((u) => u.trial === trial)
  if (!unit) throw new RangeError(`trial ${trial} is not among the configurations of the plan`)
  const all = replicas * unit.capacityRps
  return {
    label: unit.label,
    replicas,
    carriesRps: all * (1 - input.headroom),
    atMostRps: all,
    withOneLostRps: (replicas - 1) * unit.capacityRps,
    perMonth: fleetPerMonth(unit.prices[0]!, replicas),
    underDemand: Array.from({ length: input.months }, (_, i) => ({
      month: i + 1,
      outcome: staticFleet(unit, monthDemand(input, i + 1), replicas, input.surroundings),
    })),
  }
}
