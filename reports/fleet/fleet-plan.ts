/**
 * Plans a fleet for a day: the cheapest packing for the peaks of all models, and the cheapest
 * packing of each hour.
 */
import type { Demand } from '../plan/demand.ts'
import {
  type Comparison,
  compareFirstFitDecreasing,
  compareWholeGpus,
  packModelsApart,
  summarise,
} from './comparisons.ts'
import { hoursPerDay, listPeaksByHour } from './demand-by-hour.ts'
import { addMpsSlices } from './mps-shares.ts'
import { pack } from './pack.ts'
import { FleetError, type FleetModel, type GpuKind, type Packing } from './packing.ts'

export interface FleetPlan {
  /** Cheapest packing that serves the peak rates of all models at the same time. */
  readonly atPeaks: Packing
  /**
   * Cheapest packing of each hour of the day, planned independently; absent if the demand is
   * constant.
   */
  readonly byHour?: readonly Packing[]
  /** Peak demand of each model, without headroom. */
  readonly peaksRps: readonly number[]
  /** Rate that the replicas of each model must carry in each hour of the day, with headroom. */
  readonly hoursRps: readonly (readonly number[])[]
  /** Prices of simpler plans for the peaks. */
  readonly comparisons: {
    /** Each model on whole GPUs, of the type that serves it at the lowest price. */
    readonly wholeGpus?: Comparison
    /** Each model packed on its own GPUs. */
    readonly modelsApart: Comparison
    /** First-fit decreasing with the best slice of each model. */
    readonly firstFitDecreasing?: Comparison
    /** If GPUs are shared by MPS: the comparison without MPS. */
    readonly withoutMps?: Comparison
  }
}

/**
 * @param headroom share of each replica's capacity that is kept free, 0-1
 * @param maxSeconds time limit of the solver: half for the peaks, half for the hours. The
 * comparison without MPS may take another half.
 * @param timezone of the hours, IANA
 * @throws FleetError as `pack` does
 */
export async function planFleet(
  measuredModels: readonly (FleetModel & { readonly demand: Demand })[],
  measuredGpus: readonly GpuKind[],
  headroom = 0,
  maxSeconds = 40,
  timezone = 'UTC',
): Promise<FleetPlan> {
  // Shares of GPUs under MPS become slices like those of MIG.
  const { models, kinds } = addMpsSlices(measuredModels, measuredGpus)
  const hoursRps = models.map(({ demand }) =>
    listPeaksByHour(demand, timezone).map((rps) => rps / (1 - headroom)),
  )
  const peaks = hoursRps.map((rates) => Math.max(...rates))
  // Packing the models apart is a comparison, and the solver's start; it ignores how many GPUs there
  // are, and `pack` ignores a start that is not feasible.
  const unlimited = kinds.map(({ count: _, ...kind }) => kind)
  const modelsApart = await packModelsApart(models, peaks, unlimited)
  const halfSeconds = maxSeconds / 2
  const atPeaks = await pack(models, peaks, kinds, halfSeconds, modelsApart)
  const ratesByHour = Array.from({ length: hoursPerDay }, (_, hour) =>
    hoursRps.map((rates) => rates[hour]!),
  )
  // Hours with equal rates share a packing. The packing for the peaks serves every hour: a start.
  const distinctRates = new Map(ratesByHour.map((rates) => [rates.join(), rates]))
  const packingByRates = new Map<string, Packing>()
  if (distinctRates.size > 1)
    for (const [key, rates] of distinctRates)
      packingByRates.set(
        key,
        await pack(models, rates, kinds, halfSeconds / distinctRates.size, atPeaks),
      )
  const usesMps = atPeaks.gpus.some(({ slots }) => slots.some(({ segment }) => segment?.share))
  const withoutMps =
    usesMps && (await summariseIfAny(() => pack(measuredModels, peaks, measuredGpus, halfSeconds)))
  return {
    atPeaks,
    ...(packingByRates.size > 0 && {
      byHour: ratesByHour.map((rates) => packingByRates.get(rates.join())!),
    }),
    peaksRps: peaks.map((rps) => rps * (1 - headroom)),
    hoursRps,
    comparisons: {
      wholeGpus: compareWholeGpus(measuredModels, peaks, measuredGpus),
      modelsApart: summarise(modelsApart),
      firstFitDecreasing: compareFirstFitDecreasing(measuredModels, peaks, measuredGpus),
      ...(withoutMps && { withoutMps }),
    },
  }
}

/** Summarises a packing; undefined if there is none (FleetError). */
async function summariseIfAny(packing: () => Promise<Packing>): Promise<Comparison | undefined> {
  try {
    return summarise(await packing())
  } catch (error) {
    if (error instanceof FleetError) return undefined
    throw error
  }
}
