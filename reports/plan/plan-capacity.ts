/** Plans capacity: replicas, prices and SLO violations of each configuration, by month. Pure. */
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
  type SimulationEnvironment,
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
  /** Price of one replica, or of its share of an instance. */
  readonly perHour: number
  /** Instances, if the list has only whole instances. */
  readonly bundles?: readonly Bundle[]
}

/** A measured configuration to plan with: the model of one replica, and its prices. */
export interface PlanUnit extends FleetUnit {
  readonly trial: number
  /** How reliable its capacity is. */
  readonly status: Status
  readonly resources: Resources
  /** Prices of one replica; the first list decides. */
  readonly prices: readonly PriceList[]
  /**
   * Measured time from start to ready, from which a spec derives the scaling policies of the
   * autoscaler; absent: not measured.
   */
  readonly measuredLaunchSeconds?: number
  /** Token figures, for streamed answers. */
  readonly tokens?: TokenFigures
  /** Offers of instances for its resources. Absent: only the price list. */
  readonly offers?: readonly Offer[]
  /** For a share of a GPU: price per hour with the whole GPU. */
  readonly wholeGpuPerHour?: number
  /** Instances for that, if the list has only whole instances. */
  readonly wholeGpuBundles?: readonly Bundle[]
}

export interface PlanInput {
  /** Trial of the configuration to plan in detail. Absent: the cheapest. */
  readonly recommended?: number
  readonly units: readonly PlanUnit[]
  /** Provenance of the capacities. */
  readonly provenance: Provenance
  /** SLO that the capacities meet. */
  readonly slo: Slo
  readonly demand: Demand
  readonly headroom: number
  /** Growth of the demand: 0.05 = 5 % more each month. */
  readonly growthPerMonth: number
  readonly months: number
  readonly zones: number
  /** Client timeout, and delay of the autoscaler's rates. */
  readonly surroundings: SimulationEnvironment
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
  /** Fixed replicas that violate the SLO in no minute. */
  readonly replicas: number
  /** Fixed replicas that meet the SLO over all requests of the period, but not in every minute. */
  readonly replicasOverPeriod: number
  /** Mean demand over the capacity of the replicas, 0-1. */
  readonly utilisation: number
  /** SLO percentile of the static fleet at the month's peak, from the load curve, ms. */
  readonly sloMsAtPeak?: number
  readonly staticPerMonth: number
  readonly withSparePerMonth: number
  readonly autoscaled: FleetOutcome
  readonly autoscaledPerMonth: number
  /**
   * For streamed answers: the mean demand in tokens, and the price of a million output tokens on
   * the static fleet, idle hours included.
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
  /** Month 1: saving compared with whole GPUs, for a share of a GPU. */
  readonly sharingSavesPerMonth?: number
}

/** Autoscaler settings for the configuration that is planned in detail, month 1. */
interface AutoscalerPlan {
  /** Configured settings, with the scaling policies of a spec. */
  readonly given: ScaledFleet
  /** The same settings, if a gateway counts all requests, waiting ones included. */
  readonly countedBefore: ScaledFleet
  /** The cheapest settings without SLO violations; absent: none are cheaper than fixed replicas. */
  readonly lossless?: ScaledFleet & { readonly perMonth: number }
}

interface ExistingFleet {
  readonly label: string
  readonly replicas: number
  /** Capacity of the fleet with the headroom left free. */
  readonly carriesRps: number
  /** Capacity of the fleet. */
  readonly atMostRps: number
  /** Capacity of the fleet after the loss of one replica. */
  readonly withOneLostRps: number
  readonly perMonth: number
  /** Simulated outcome of each month. */
  readonly underDemand: readonly { readonly month: number; readonly outcome: FleetOutcome }[]
}

export interface Plan {
  readonly demand: Demand
  readonly input: PlanInput
  /** Cheapest static fleet in month 1 first. */
  readonly units: readonly UnitPlan[]
  readonly scaling: AutoscalerPlan
  /** For the configuration planned in detail, month 1; absent without committed prices. */
  readonly commitment?: Commitment
  readonly breakEven: readonly BreakEven[]
  readonly existing?: ExistingFleet
}

/**
 * Shorter periods are repeated up to this length. It exceeds the memory of autoscaler and nodes: up
 * to an hour of stabilisation, and the delay of the metrics.
 */
const minSimulatedSeconds = 7200
/** Maximum number of replicas of a plan. Bounds the work: each is considered for a commitment. */
const maxReplicas = 100_000
/** Break-even points are searched up to this multiple of the last month's peak. */
const breakEvenRange = 4

/** @throws RangeError for impossible shares, counts and capacities */
export function planCapacity(request: PlanInput): Plan {
  validateInput(request)
  const input = { ...request, demand: repeatPeriod(request.demand, minSimulatedSeconds) }
  // The recommended configuration first, the others by monthly cost.
  const rank = ({ unit, months }: UnitPlan) =>
    unit.trial === input.recommended ? 0 : months[0]!.staticPerMonth
  const units = input.units.map((unit) => planUnit(unit, input)).sort((a, b) => rank(a) - rank(b))
  const lastPeak = findPeakRps(input.demand) * (1 + input.growthPerMonth) ** (input.months - 1)
  const alternatives = input.units.map(({ label, capacityRps, prices: [first] }) => ({
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
    breakEven: findBreakEvens(alternatives, breakEvenRange * lastPeak, input.headroom),
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

/** Builds the configured settings of the autoscaler, with the scaling policies of a spec. */
function buildHpaSettings(unit: PlanUnit, { headroom, minReplicas }: PlanInput): HpaSettings {
  return {
    targetRps: unit.capacityRps * (1 - headroom),
    minReplicas,
    maxReplicas: Number.POSITIVE_INFINITY,
    behaviour: buildBehaviour(unit.measuredLaunchSeconds) ?? defaultBehaviour,
    countedRequests: minReplicas === 0 ? 'arrived' : 'answered',
  }
}

function planScaling({ unit, months: [first] }: UnitPlan, input: PlanInput): AutoscalerPlan {
  const settings = buildHpaSettings(unit, input)
  const gatewaySettings = { ...settings, countedRequests: 'arrived' } as const
  // A manifest without KEDA does not scale to zero, and its metric counts answered requests.
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
  { lossless }: AutoscalerPlan,
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
