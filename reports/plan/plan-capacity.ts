/** The capacity plan: how many replicas of what, when, at which price, and what breaks. Pure. */
import { latencyAt } from '../../profiler/capacity/capacity-under.ts'
import type { Slo } from '../../profiler/types.ts'
import type { Resources } from '../../trials/resources.ts'
import type { Status } from '../recommendation/status.ts'
import type { TokenFigures } from '../recommendation/token-figures.ts'
import { type Demand, meanOf, peakOf, scaled } from './demand.ts'
import { autoscaledFleet, type FleetOutcome, type FleetUnit, replicasForPeak, staticFleet } from './fleet.ts'
import { type BreakEven, breakEven, type CloudCost, cloudCosts, hoursPerMonth, replicasForZones } from './plan-costs.ts'

/** One price list: on-demand, reserved, spot, of one cloud or another. */
interface PriceList {
  readonly name: string
  readonly currency: string
  readonly perHour: number
}

export interface PlanUnit extends FleetUnit {
  readonly trial: number
  /** How far its capacity can be relied on. */
  readonly status: Status
  readonly resources: Resources
  /** One replica; the first list is the one that decides. */
  readonly prices: readonly PriceList[]
  /** Of streamed answers. */
  readonly tokens?: TokenFigures
  /** Price per hour of the same with the GPU whole, where it holds a share. */
  readonly wholeGpuPerHour?: number
}

export interface PlanInput {
  /** Trial of the recommended configuration: the plan is made with it, the others stand beside it. Absent: with the cheapest for the demand. */
  readonly recommended?: number
  readonly units: readonly PlanUnit[]
  /** That the capacities keep. */
  readonly slo: Slo
  readonly demand: Demand
  readonly headroom: number
  /** 0.05 = 5 % more each month. */
  readonly growthPerMonth: number
  readonly months: number
  readonly zones: number
  readonly reactionSeconds: number
  readonly scaleDownSeconds: number
  readonly minReplicas: number
  /** A fleet there is already: the trial and how many of it. */
  readonly existing?: { readonly trial: number; readonly replicas: number }
}

interface MonthPlan {
  /** 1, 2, ... */
  readonly month: number
  readonly peakRps: number
  readonly meanRps: number
  readonly replicas: number
  /** Mean demand over what the replicas could carry, 0-1. */
  readonly utilisation: number
  /** SLO percentile of the static fleet at the month's peak, from the load curve, ms. */
  readonly sloMsAtPeak?: number
  readonly staticPerMonth: number
  readonly withSparePerMonth: number
  readonly autoscaled: FleetOutcome
  readonly autoscaledPerMonth: number
  /** Of streamed answers: the mean demand in tokens, and what a million of the output cost on the static fleet, which is paid for when it is idle too. */
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
  readonly byPriceList: readonly { readonly name: string; readonly currency: string; readonly perMonth: number }[]
  /** Month 1 on rented instances. */
  readonly clouds: readonly CloudCost[]
  /** Replicas that stand the loss of one zone, month 1. */
  readonly zoneReplicas: number
  readonly zonePerMonth: number
  /** Month 1: what sharing the GPU saves against whole ones. */
  readonly sharingSavesPerMonth?: number
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
  readonly breakEven: readonly BreakEven[]
  readonly existing?: ExistingFleet
}

/** Throws RangeError for shares, counts and capacities that cannot be. */
export function planCapacity(input: PlanInput): Plan {
  check(input)
  // What is recommended comes first; the others by what they cost for the demand.
  const rank = ({ unit, months }: UnitPlan) => (unit.trial === input.recommended ? 0 : months[0]!.staticPerMonth)
  const units = input.units.map((unit) => unitPlan(unit, input)).sort((a, b) => rank(a) - rank(b))
  const lastPeak = peakOf(input.demand) * (1 + input.growthPerMonth) ** (input.months - 1)
  const rivals = input.units.map((u) => ({ label: u.label, capacityRps: u.capacityRps, pricePerHour: u.prices[0]!.perHour }))
  return {
    demand: input.demand,
    input,
    units,
    breakEven: breakEven(rivals, 4 * lastPeak, input.headroom),
    ...(input.existing ? { existing: existingFleet(input, input.existing) } : {}),
  }
}

function check({ units, headroom, months, growthPerMonth, zones, minReplicas, existing }: PlanInput): void {
  if (units.length === 0) throw new RangeError('there is no configuration to plan with')
  for (const unit of units) if (!(unit.capacityRps > 0)) throw new RangeError(`${unit.label} has no capacity`)
  if (!(headroom >= 0 && headroom < 1)) throw new RangeError(`headroom is ${headroom}: give a share from 0 to below 1`)
  if (!(Number.isInteger(months) && months >= 1 && months <= 120)) throw new RangeError(`months is ${months}: give 1 to 120`)
  if (!(growthPerMonth > -1 && growthPerMonth <= 10))
    throw new RangeError(`growth is ${growthPerMonth}: give a share per month, such as 5%`)
  if (!(Number.isInteger(zones) && zones >= 1)) throw new RangeError(`zones is ${zones}: give 1 or more`)
  if (!(Number.isInteger(minReplicas) && minReplicas >= 0)) throw new RangeError(`min replicas is ${minReplicas}: give 0 or more`)
  if (existing && !(Number.isInteger(existing.replicas) && existing.replicas >= 1))
    throw new RangeError(`a fleet of ${existing.replicas} replicas is none`)
}

/** Rounding errors of products such as 50 × 3.06 × 720 are no money. */
const cents = (dollars: number): number => Math.round(dollars * 1e6) / 1e6

const monthDemand = (input: PlanInput, month: number): Demand => scaled(input.demand, (1 + input.growthPerMonth) ** (month - 1))

function unitPlan(unit: PlanUnit, input: PlanInput): UnitPlan {
  const perMonth = unit.prices[0]!.perHour * hoursPerMonth
  const months = Array.from({ length: input.months }, (_, i): MonthPlan => {
    const demand = monthDemand(input, i + 1)
    const replicas = Math.max(input.minReplicas, replicasForPeak(unit, demand, input.headroom))
    const autoscaled = autoscaledFleet(unit, demand, { ...input, maxReplicas: Number.POSITIVE_INFINITY })
    return {
      month: i + 1,
      peakRps: peakOf(demand),
      meanRps: meanOf(demand),
      replicas,
      utilisation: meanOf(demand) / (replicas * unit.capacityRps),
      ...(unit.curve ? { sloMsAtPeak: latencyAt(unit.curve, peakOf(demand) / replicas) } : {}),
      staticPerMonth: cents(replicas * perMonth),
      withSparePerMonth: cents((replicas + 1) * perMonth),
      autoscaled,
      autoscaledPerMonth: cents(autoscaled.meanReplicas * perMonth),
      ...(unit.tokens && tokensOf(unit.tokens, meanOf(demand), replicas * perMonth)),
    }
  })
  const { replicas } = months[0]!
  const zoneReplicas = replicasForZones(replicas, input.zones)
  const total = (of: (m: MonthPlan) => number) => cents(months.reduce((sum, m) => sum + of(m), 0))
  const whole = unit.wholeGpuPerHour
  return {
    unit,
    months,
    staticTotal: total((m) => m.staticPerMonth),
    autoscaledTotal: total((m) => m.autoscaledPerMonth),
    byPriceList: unit.prices.map(({ name, currency, perHour }) => ({
      name,
      currency,
      perMonth: cents(replicas * perHour * hoursPerMonth),
    })),
    clouds: cloudCosts(unit.resources, replicas),
    zoneReplicas,
    zonePerMonth: cents(zoneReplicas * perMonth),
    ...(whole === undefined ? {} : { sharingSavesPerMonth: cents(replicas * (whole - unit.prices[0]!.perHour) * hoursPerMonth) }),
  }
}

function tokensOf({ outputTokens, inputTokens }: TokenFigures, meanRps: number, perMonth: number) {
  const outputTokensPerSecond = meanRps * outputTokens
  return {
    outputTokensPerSecond,
    ...(inputTokens !== undefined && { inputTokensPerSecond: meanRps * inputTokens }),
    ...(outputTokensPerSecond > 0 && { staticPerMillionOutputTokens: (perMonth / (outputTokensPerSecond * 3600 * hoursPerMonth)) * 1e6 }),
  }
}

function existingFleet(input: PlanInput, { trial, replicas }: { trial: number; replicas: number }): ExistingFleet {
  const unit = input.units.find((u) => u.trial === trial)
  if (!unit) throw new RangeError(`trial ${trial} is not among the configurations of the plan`)
  const all = replicas * unit.capacityRps
  return {
    label: unit.label,
    replicas,
    carriesRps: all * (1 - input.headroom),
    atMostRps: all,
    withOneLostRps: (replicas - 1) * unit.capacityRps,
    perMonth: cents(replicas * unit.prices[0]!.perHour * hoursPerMonth),
    underDemand: Array.from({ length: input.months }, (_, i) => ({
      month: i + 1,
      outcome: staticFleet(unit, monthDemand(input, i + 1), replicas),
    })),
  }
}
