/** The capacity plan: replicas, prices and SLO violations of each configuration, by month. Pure. */
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
import {
  computeMeanRps,
  type Demand,
  findPeakRps,
  repeatPeriod,
  scaleDemand,
  sumPeriodSeconds,
} from './demand.ts'
import {
  type FleetOutcome,
  findMinReplicas,
  type Surroundings,
  simulateAutoscaledFleet,
  simulateStaticFleet,
} from './fleet.ts'
import { buildBehaviour, defaultBehaviour, type HpaSettings } from './hpa.ts'
import { findLosslessSettings, type ScaledFleet } from './lossless.ts'
import {
  type BreakEven,
  type CloudCost,
  countReplicasForZones,
  findBreakEvens,
  hoursPerMonth,
  listCloudCosts,
} from './plan-costs.ts'
import { computeOverLimitShare, type FleetUnit } from './replica.ts'

/** The price of a replica in one price list. */
interface PriceList {
  readonly name: string
  readonly currency: string
  /** Price of one replica, or of its part of an instance. */
  readonly perHour: number
  /** Instances, where the list has whole instances only. */
  readonly bundles?: readonly Bundle[]
}

export interface PlanUnit extends FleetUnit {
  readonly trial: number
  /** How far its capacity can be relied on. */
  readonly status: Status
  readonly resources: Resources
  /** Prices of one replica; the first list decides. */
  readonly prices: readonly PriceList[]
  /**
   * From start to ready as trials measured it, by which a spec sets the autoscaler's pace; absent:
   * not measured.
   */
  readonly measuredLaunchSeconds?: number
  /** Tokens of streamed answers. */
  readonly tokens?: TokenFigures
  /** Offers for what it runs on. Absent: the price list only. */
  readonly offers?: readonly Offer[]
  /** For a share of a GPU: price per hour with the whole GPU. */
  readonly wholeGpuPerHour?: number
  /** Instances, where the list has whole instances only. */
  readonly wholeGpuBundles?: readonly Bundle[]
}

export interface PlanInput {
  /** Trial of the recommended configuration, which is planned in detail. Absent: the cheapest. */
  readonly recommended?: number
  readonly units: readonly PlanUnit[]
  /** Where the capacities come from. */
  readonly provenance: Provenance
  /** SLO that the capacities meet. */
  readonly slo: Slo
  readonly demand: Demand
  readonly headroom: number
  /** Growth of the demand: 0.05 = 5 % more each month. */
  readonly growthPerMonth: number
  readonly months: number
  readonly zones: number
  /** Client timeout, and age of the autoscaler's rates. */
  readonly surroundings: Surroundings
  /** 0: scales to zero. */
  readonly minReplicas: number
  /** The current fleet: its trial and number of replicas. */
  readonly existing?: { readonly trial: number; readonly replicas: number }
}

interface MonthPlan {
  /** 1, 2, ... */
  readonly month: number
  readonly peakRps: number
  readonly meanRps: number
  /** Fixed replicas that lose no minute. */
  readonly replicas: number
  /** Fixed replicas that meet the SLO over all requests of the period, with lost minutes. */
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
   * For streamed answers: the mean demand in tokens, and the price of a million output tokens on the
   * static fleet, idle hours included.
   */
  readonly outputTokensPerSecond?: number
  readonly inputTokensPerSecond?: number
  readonly staticPerMillionOutputTokens?: number
}

export interface UnitPlan {
  readonly unit: PlanUnit
  readonly months: readonly MonthPlan[]
  /** Prices over all months. */
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
  /** Replicas that survive the loss of one zone, month 1. */
  readonly zoneReplicas: number
  readonly zonePerMonth: number
  /** Month 1: what sharing the GPU saves against whole ones. */
  readonly sharingSavesPerMonth?: number
}

/** The autoscaler's settings for the configuration that the plan is made with, month 1. */
interface Scaling {
  /** Configured settings, at the pace that a spec sets. */
  readonly given: ScaledFleet
  /** The same with all requests counted by a gateway, waiting ones included. */
  readonly countedBefore: ScaledFleet
  /** The cheapest without lost minutes; absent: none is cheaper than fixed replicas. */
  readonly lossless?: ScaledFleet & { readonly perMonth: number }
}

interface ExistingFleet {
  readonly label: string
  readonly replicas: number
  /** Rate with the headroom left free. */
  readonly carriesRps: number
  /** Rate at full capacity. */
  readonly atMostRps: number
  /** Rate at full capacity with one replica lost. */
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
  /** For the configuration planned in detail, month 1; absent without committed prices. */
  readonly commitment?: Commitment
  readonly breakEven: readonly BreakEven[]
  readonly existing?: ExistingFleet
}

/**
 * Shorter periods are repeated up to this. It is longer than autoscaler and nodes remember anything:
 * up to an hour of stabilisation, and the age of the metrics.
 */
const minSimulatedSeconds = 7200
/** Most replicas of a plan. It bounds the work: each replica is considered for a commitment. */
const maxReplicas = 100_000

/** @throws RangeError for impossible shares, counts and capacities */
export function planCapacity(request: PlanInput): Plan {
  validateInput(request)
  const input = { ...request, demand: repeatPeriod(request.demand, minSimulatedSeconds) }
  // What is recommended comes first; the others by what they cost for the demand.
  const rank = ({ unit, months }: UnitPlan) =>
    unit.trial === input.recommended ? 0 : months[0]!.staticPerMonth
  const units = input.units.map((unit) => planUnit(unit, input)).sort((a, b) => rank(a) - rank(b))
  const lastPeak = findPeakRps(input.demand) * (1 + input.growthPerMonth) ** (input.months - 1)
  const rivals = input.units.map(({ label, capacityRps, prices: [first] }) => ({
    label,
    capacityRps,
    ...toReplicaPrice(first!),
  }))
  const scaling = planScaling(units[0]!, input)
  const commitment = planUnitCommitment(units[0]!, scaling, input)
  return {
    demand: request.demand,
    input,
    units,
    scaling,
    ...(commitment && { commitment }),
    breakEven: findBreakEvens(rivals, 4 * lastPeak, input.headroom),
    ...(input.existing ? { existing: assessExistingFleet(input, input.existing) } : {}),
  }
}

function validateInput({
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
    (findPeakRps(demand) * Math.max(1, (1 + growthPerMonth) ** (months - 1))) / (1 - headroom)
  const large = units.find(({ capacityRps }) => !(highestRps / capacityRps <= maxReplicas))
  if (large)
    throw new RangeError(
      `${large.label} would need ${Math.ceil(highestRps / large.capacityRps)} replicas, but a plan has at most ${maxReplicas}`,
    )
  if (minReplicas > maxReplicas || (existing && existing.replicas > maxReplicas))
    throw new RangeError(`a plan has at most ${maxReplicas} replicas`)
  if (existing && !(Number.isInteger(existing.replicas) && existing.replicas >= 1))
    throw new RangeError(
      `a fleet cannot have ${existing.replicas} replicas: use a whole number of 1 or more`,
    )
}

/** Removes rounding errors of products like 50 × 3.06 × 720. */
const roundMoney = (dollars: number): number => Math.round(dollars * 1e6) / 1e6

const toReplicaPrice = ({
  perHour,
  bundles,
}: Pick<PriceList, 'perHour' | 'bundles'>): ReplicaPrice => ({
  pricePerHour: perHour,
  ...(bundles && { bundles }),
})

const computePricePerMonth = (
  list: Pick<PriceList, 'perHour' | 'bundles'>,
  replicas: number,
): number => roundMoney(computeFleetPricePerHour(toReplicaPrice(list), replicas) * hoursPerMonth)

const scaleToMonth = (input: PlanInput, month: number): Demand =>
  scaleDemand(input.demand, (1 + input.growthPerMonth) ** (month - 1))

function planUnit(unit: PlanUnit, input: PlanInput): UnitPlan {
  const perMonth = unit.prices[0]!.perHour * hoursPerMonth
  const computeFleetPerMonth = (replicas: number) => computePricePerMonth(unit.prices[0]!, replicas)
  const months = Array.from({ length: input.months }, (_, i): MonthPlan => {
    const demand = scaleToMonth(input, i + 1)
    const fixedReplicas = findMinReplicas(unit, demand, input.headroom, input.surroundings)
    const replicas = Math.max(input.minReplicas, fixedReplicas.everyMinute)
    const autoscaled = simulateAutoscaledFleet(
      unit,
      demand,
      buildHpaSettings(unit, input),
      input.surroundings,
    )
    return {
      month: i + 1,
      peakRps: findPeakRps(demand),
      meanRps: computeMeanRps(demand),
      replicas,
      replicasOverPeriod: Math.max(input.minReplicas, fixedReplicas.wholePeriod),
      utilisation: computeMeanRps(demand) / (replicas * unit.capacityRps),
      // A peak above saturation waits in the queue and has no steady latency.
      ...(unit.curve && computeOverLimitShare(unit, findPeakRps(demand) / replicas) < 1
        ? { sloMsAtPeak: interpolateLatency(unit.curve, findPeakRps(demand) / replicas) }
        : {}),
      staticPerMonth: computeFleetPerMonth(replicas),
      withSparePerMonth: computeFleetPerMonth(replicas + 1),
      autoscaled,
      autoscaledPerMonth: roundMoney(autoscaled.meanReplicas * perMonth),
      ...(unit.tokens &&
        computeTokenDemand(unit.tokens, computeMeanRps(demand), computeFleetPerMonth(replicas))),
    }
  })
  const { replicas } = months[0]!
  const zoneReplicas = countReplicasForZones(replicas, input.zones)
  const sumMonths = (getPrice: (m: MonthPlan) => number) =>
    roundMoney(months.reduce((sum, m) => sum + getPrice(m), 0))
  const { wholeGpuPerHour, wholeGpuBundles } = unit
  return {
    unit,
    months,
    staticTotal: sumMonths((m) => m.staticPerMonth),
    autoscaledTotal: sumMonths((m) => m.autoscaledPerMonth),
    byPriceList: unit.prices.map((list) => ({
      name: list.name,
      currency: list.currency,
      perMonth: computePricePerMonth(list, replicas),
    })),
    clouds: listCloudCosts(unit.resources, replicas),
    zoneReplicas,
    zonePerMonth: computeFleetPerMonth(zoneReplicas),
    ...(wholeGpuPerHour !== undefined && {
      sharingSavesPerMonth: roundMoney(
        computePricePerMonth({ perHour: wholeGpuPerHour, bundles: wholeGpuBundles }, replicas) -
          computeFleetPerMonth(replicas),
      ),
    }),
  }
}

/** The configured settings of the autoscaler, at the pace that a spec sets. */
function buildHpaSettings(unit: PlanUnit, { headroom, minReplicas }: PlanInput): HpaSettings {
  return {
    targetRps: unit.capacityRps * (1 - headroom),
    minReplicas,
    maxReplicas: Number.POSITIVE_INFINITY,
    behaviour: buildBehaviour(unit.measuredLaunchSeconds) ?? defaultBehaviour,
    countedRequests: minReplicas === 0 ? 'arrived' : 'answered',
  }
}

function planScaling({ unit, months: [first] }: UnitPlan, input: PlanInput): Scaling {
  const settings = buildHpaSettings(unit, input)
  const gatewaySettings = { ...settings, countedRequests: 'arrived' } as const
  // As in a manifest without KEDA: no scaling to zero, and the replicas count.
  const manifestSettings = {
    ...settings,
    minReplicas: Math.max(1, settings.minReplicas),
    countedRequests: 'answered',
  } as const
  const lossless = findLosslessSettings(
    unit,
    input.demand,
    manifestSettings,
    first!.replicas,
    input.surroundings,
  )
  return {
    given: { settings, outcome: first!.autoscaled },
    countedBefore: {
      settings: gatewaySettings,
      outcome: simulateAutoscaledFleet(unit, input.demand, gatewaySettings, input.surroundings),
    },
    ...(lossless && {
      lossless: {
        ...lossless,
        perMonth: roundMoney(
          lossless.outcome.meanReplicas * unit.prices[0]!.perHour * hoursPerMonth,
        ),
      },
    }),
  }
}

function planUnitCommitment(
  { unit, months: [first] }: UnitPlan,
  { lossless }: Scaling,
  { demand, surroundings }: PlanInput,
) {
  const { paid } =
    lossless?.outcome ?? simulateStaticFleet(unit, demand, first!.replicas, surroundings)
  return planCommitment(unit.offers ?? [], paid, sumPeriodSeconds(demand))
}

function computeTokenDemand(
  { outputTokens, inputTokens }: TokenFigures,
  meanRps: number,
  perMonth: number,
) {
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

function assessExistingFleet(
  input: PlanInput,
  { trial, replicas }: { trial: number; replicas: number },
): ExistingFleet {
  const unit = input.units.find((u) => u.trial === trial)
  if (!unit) throw new RangeError(`trial ${trial} is not among the configurations of the plan`)
  const totalRps = replicas * unit.capacityRps
  return {
    label: unit.label,
    replicas,
    carriesRps: totalRps * (1 - input.headroom),
    atMostRps: totalRps,
    withOneLostRps: (replicas - 1) * unit.capacityRps,
    perMonth: computePricePerMonth(unit.prices[0]!, replicas),
    underDemand: Array.from({ length: input.months }, (_, i) => ({
      month: i + 1,
      outcome: simulateStaticFleet(unit, scaleToMonth(input, i + 1), replicas, input.surroundings),
    })),
  }
}
