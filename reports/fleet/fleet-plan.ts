/** A fleet over a day: a packing for its peaks, and one for each hour by itself. */
import type { Demand } from '../plan/demand.ts'
import {
  type Comparison,
  compareFirstFitDecreasing,
  compareWholeGpus,
  packEachAlone,
  summarise,
} from './comparisons.ts'
import { hoursPerDay, listPeaksByHour } from './demand-by-hour.ts'
import { cutIntoShares } from './mps-shares.ts'
import { pack } from './pack.ts'
import { FleetError, type FleetModel, type GpuKind, type Packing } from './packing.ts'

export interface FleetPlan {
  /** For the highest rate of each model at once. */
  readonly atPeaks: Packing
  /** The cheapest packing of each hour of the day by itself; absent if all hours are alike. */
  readonly byHour?: readonly Packing[]
  readonly peaksRps: readonly number[]
  /** Rate that the replicas of each model must carry in each hour of the day, with headroom. */
  readonly hoursRps: readonly (readonly number[])[]
  readonly compared: {
    readonly wholeGpus?: Comparison
    readonly eachAlone: Comparison
    readonly firstFit?: Comparison
    /** If GPUs are shared by MPS: the comparison without MPS. */
    readonly withoutMps?: Comparison
  }
}

/**
 * @param headroom share of each replica's rate that stays free
 * @param maxSeconds for the solver: half for the peaks, half for the hours; the comparison
 * without MPS takes up to half as much again
 * @param timezone of the hours, IANA
 * @throws FleetError as `pack` does
 */
export async function planFleet(
  measured: readonly (FleetModel & { readonly demand: Demand })[],
  measuredKinds: readonly GpuKind[],
  headroom = 0,
  maxSeconds = 40,
  timezone = 'UTC',
): Promise<FleetPlan> {
  const { models, kinds } = cutIntoShares(measured, measuredKinds)
  const hoursRps = models.map(({ demand }) =>
    listPeaksByHour(demand, timezone).map((rps) => rps / (1 - headroom)),
  )
  const peaks = hoursRps.map((rates) => Math.max(...rates))
  // Comparisons have as many GPUs as they want.
  const unlimited = kinds.map(({ count: _, ...kind }) => kind)
  const eachAlone = await packEachAlone(models, peaks, unlimited)
  const halfSeconds = maxSeconds / 2
  const atPeaks = await pack(models, peaks, kinds, halfSeconds, eachAlone)
  const ratesByHour = Array.from({ length: hoursPerDay }, (_, hour) =>
    hoursRps.map((rates) => rates[hour]!),
  )
  const distinct = new Map(ratesByHour.map((rates) => [rates.join(), rates]))
  const packingByRates = new Map<string, Packing>()
  if (distinct.size > 1)
    for (const [key, rates] of distinct)
      packingByRates.set(
        key,
        await pack(models, rates, kinds, halfSeconds / distinct.size, atPeaks),
      )
  const isShared = atPeaks.gpus.some(({ slots }) => slots.some(({ segment }) => segment?.share))
  const withoutMps =
    isShared && (await summariseIfAny(() => pack(measured, peaks, measuredKinds, halfSeconds)))
  return {
    atPeaks,
    ...(packingByRates.size > 0 && {
      byHour: ratesByHour.map((rates) => packingByRates.get(rates.join())!),
    }),
    peaksRps: peaks.map((rps) => rps * (1 - headroom)),
    hoursRps,
    compared: {
      wholeGpus: compareWholeGpus(measured, peaks, measuredKinds),
      eachAlone: summarise(eachAlone),
      firstFit: compareFirstFitDecreasing(measured, peaks, measuredKinds),
      ...(withoutMps && { withoutMps }),
    },
  }
}

/** Undefined if no such packing exists. */
async function summariseIfAny(packing: () => Promise<Packing>): Promise<Comparison | undefined> {
  try {
    return summarise(await packing())
  } catch (error) {
    if (error instanceof FleetError) return undefined
    throw error
  }
}
