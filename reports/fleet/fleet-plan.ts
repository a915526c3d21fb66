/**
 * A fleet over a day: one packing for its peaks, and one for every hour where GPUs may be cut anew.
 */
import type { Demand } from '../plan/demand.ts'
import {
  aGpuEach,
  type Compared,
  comparedOf,
  eachAlone,
  firstFitDecreasing,
  packedIfAny,
  spareGpus,
  withoutMps,
} from './comparisons.ts'
import { type Mix, mixOf } from './mixes.ts'
import { peaksOver } from './over-day.ts'
import { pack } from './pack.ts'
import type { FleetModel, GpuKind, Packing } from './packing.ts'
import { noRules, type Rules } from './rules.ts'
import { sharesGpus } from './sharing-blocks.ts'
import { type AtRises, turningOver } from './turning.ts'

export interface FleetPlan {
  /** For the highest rate of each model at once. */
  readonly atPeaks: Packing
  /** What each hour of the day would take by itself; absent where all are alike. */
  readonly byHour?: readonly Packing[]
  readonly peaksRps: readonly number[]
  /**
   * Of each model, what its replicas must carry in each hour of the day, what is kept free counted
   * in.
   */
  readonly hoursRps: readonly (readonly number[])[]
  readonly rules: Rules
  /** As they were packed, where some may take turns: with what of them is in memory when. */
  readonly turning?: readonly FleetModel[]
  /** Of models that begin to load only when they are asked for, what waits. */
  readonly atRises: readonly AtRises[]
  /**
   * Where the loss of a GPU is borne: what the fleet would be if none were lost, and with whole
   * GPUs as spares.
   */
  readonly spare?: { readonly without: Compared; readonly beside?: Compared }
  readonly compared: {
    readonly aGpuEach?: Compared
    readonly eachAlone: Compared
    readonly firstFit?: Compared
    readonly unshared?: Compared
    /**
     * Every model in memory all day; `undefined` though models may take turns: these GPUs do not
     * carry that.
     */
    readonly unturned?: Compared
  }
  /** Of the models whose requests are told apart by size. */
  readonly mixes: readonly Mix[]
}

const hoursOfDay = 24

/**
 * @param headroom share of each replica's rate that is kept free
 * @param seconds for the solver, half of them for the peaks (with turns and without, where there
 * may be any), the others for the hours that differ; a fleet with nothing spare to compare with
 * takes half as much again
 * @param timezone of the hours, IANA
 * @throws FleetError as `pack` does
 */
export async function planFleet(
  models: readonly (FleetModel & { readonly demand: Demand })[],
  kinds: readonly GpuKind[],
  headroom = 0,
  seconds = 40,
  timezone = 'UTC',
  rules = noRules,
): Promise<FleetPlan> {
  const hours = models.map(({ demand }) =>
    peaksOver(demand, hoursOfDay, timezone).map((rps) => rps / (1 - headroom)),
  )
  const peaks = hours.map((rates) => Math.max(...rates))
  // Comparisons have as many GPUs as they want.
  const endless = kinds.map(({ count: _, ...kind }) => kind)
  const alone = await eachAlone(models, peaks, endless, rules)
  const { turning, atRises } = turningOver(models, headroom, timezone)
  const known = isWithin(alone, kinds) ? alone : undefined
  const always = turning
    ? await packedIfAny(() => pack(models, peaks, kinds, seconds / 4, rules, known))
    : undefined
  const atPeaks = await pack(
    turning ?? models,
    peaks,
    kinds,
    turning ? seconds / 4 : seconds / 2,
    rules,
    always ?? known,
  )
  const ratesOf = Array.from({ length: hoursOfDay }, (_, hour) =>
    hours.map((rates) => rates[hour]!),
  )
  const distinct = new Map(ratesOf.map((rates) => [rates.join(), rates]))
  const spare =
    rules.spared.size > 0
      ? await spareGpus(turning ?? models, peaks, kinds, rules, seconds / 2, atPeaks)
      : undefined
  // Each hour by itself has its models in memory throughout: of those that change within one there
  // may be too few GPUs for that.
  const byHour = turning && !always ? endless : kinds
  const packed = new Map<string, Packing>()
  if (distinct.size > 1)
    for (const [key, rates] of distinct)
      packed.set(
        key,
        await pack(
          models,
          rates,
          byHour,
          seconds / 2 / distinct.size,
          rules,
          always ?? (turning ? undefined : atPeaks),
        ),
      )
  const mixes: Mix[] = []
  for (const [i, model] of models.entries())
    if (model.buckets && peaks[i]! > 0) mixes.push(await mixOf(model, peaks[i]!, endless))
  const unshared = sharesGpus(atPeaks)
    ? await withoutMps(turning ?? models, peaks, kinds, rules, seconds / 2)
    : undefined
  return {
    atPeaks,
    mixes,
    ...(packed.size > 0 && { byHour: ratesOf.map((rates) => packed.get(rates.join())!) }),
    peaksRps: hours.map((rates) => Math.max(...rates) * (1 - headroom)),
    hoursRps: hours,
    rules,
    ...(turning && { turning }),
    atRises,
    ...(spare && { spare }),
    compared: {
      aGpuEach: aGpuEach(models, peaks, endless, rules),
      eachAlone: { gpus: alone.gpus.length, pricePerHour: alone.pricePerHour },
      firstFit: firstFitDecreasing(models, peaks, endless),
      ...(unshared && { unshared }),
      ...(always && { unturned: comparedOf(always) }),
    },
  }
}

const isWithin = ({ gpus }: Packing, kinds: readonly GpuKind[]): boolean =>
  kinds.every(
    ({ name, count = Number.POSITIVE_INFINITY }) =>
      gpus.filter(({ kind }) => kind === name).length <= count,
  )
