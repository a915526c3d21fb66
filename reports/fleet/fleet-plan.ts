/** A fleet over a day: one packing for its peaks, and one for every hour where GPUs may be cut anew. */
import { type Demand, periodSeconds } from '../plan/demand.ts'
import { aGpuEach, type Compared, eachAlone, firstFitDecreasing, spareGpus, withoutMps } from './comparisons.ts'
import { type Mix, mixOf } from './mixes.ts'
import { pack } from './pack.ts'
import type { FleetModel, GpuKind, Packing } from './packing.ts'
import { noRules, type Rules } from './rules.ts'
import { sharesGpus } from './sharing-blocks.ts'

export interface FleetPlan {
  /** For the highest rate of each model at once. */
  readonly atPeaks: Packing
  /** What each hour of the day would take by itself; absent where all are alike. */
  readonly byHour?: readonly Packing[]
  readonly peaksRps: readonly number[]
  /** Of each model, what its replicas must carry in each hour of the day, what is kept free counted in. */
  readonly hoursRps: readonly (readonly number[])[]
  readonly rules: Rules
  /** Where the loss of a GPU is borne: what the fleet would be if none were lost, and with whole GPUs as spares. */
  readonly spare?: { readonly without: Compared; readonly beside?: Compared }
  readonly compared: {
    readonly aGpuEach?: Compared
    readonly eachAlone: Compared
    readonly firstFit?: Compared
    readonly unshared?: Compared
  }
  /** Of the models whose requests are told apart by size. */
  readonly mixes: readonly Mix[]
}

const hoursOfDay = 24

/**
 * @param headroom share of each replica's rate that is kept free
 * @param seconds for the solver, half of them for the peaks, the others for the hours that differ; a fleet with nothing spare to compare with takes half as much again
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
  const hours = models.map(({ demand }) => hourlyPeaks(demand, timezone).map((rps) => rps / (1 - headroom)))
  const peaks = hours.map((rates) => Math.max(...rates))
  // Comparisons have as many GPUs as they want.
  const endless = kinds.map(({ count: _, ...kind }) => kind)
  const alone = await eachAlone(models, peaks, endless, rules)
  const atPeaks = await pack(models, peaks, kinds, seconds / 2, rules, isWithin(alone, kinds) ? alone : undefined)
  const ratesOf = Array.from({ length: hoursOfDay }, (_, hour) => hours.map((rates) => rates[hour]!))
  const distinct = new Map(ratesOf.map((rates) => [rates.join(), rates]))
  const spare = rules.spared.size > 0 ? await spareGpus(models, peaks, kinds, rules, seconds / 2, atPeaks) : undefined
  const packed = new Map<string, Packing>()
  if (distinct.size > 1)
    for (const [key, rates] of distinct) packed.set(key, await pack(models, rates, kinds, seconds / 2 / distinct.size, rules, atPeaks))
  const mixes: Mix[] = []
  for (const [i, model] of models.entries()) if (model.buckets && peaks[i]! > 0) mixes.push(await mixOf(model, peaks[i]!, endless))
  const unshared = sharesGpus(atPeaks) ? await withoutMps(models, peaks, kinds, rules, seconds / 2) : undefined
  return {
    atPeaks,
    mixes,
    ...(packed.size > 0 && { byHour: ratesOf.map((rates) => packed.get(rates.join())!) }),
    peaksRps: hours.map((rates) => Math.max(...rates) * (1 - headroom)),
    hoursRps: hours,
    rules,
    ...(spare && { spare }),
    compared: {
      aGpuEach: aGpuEach(models, peaks, endless, rules),
      eachAlone: { gpus: alone.gpus.length, pricePerHour: alone.pricePerHour },
      firstFit: firstFitDecreasing(models, peaks, endless),
      ...(unshared && { unshared }),
    },
  }
}

const isWithin = ({ gpus }: Packing, kinds: readonly GpuKind[]): boolean =>
  kinds.every(({ name, count = Number.POSITIVE_INFINITY }) => gpus.filter(({ kind }) => kind === name).length <= count)

/** The highest rate in each hour of the day, over all days of the period. Length 24. */
export function hourlyPeaks(demand: Demand, timezone = 'UTC'): number[] {
  const peaks = new Array<number>(hoursOfDay).fill(0)
  const days = Math.max(1, Math.ceil(periodSeconds(demand) / 86_400 - 1e-9))
  const beginsS = demand.beginsAtS === undefined ? 0 : secondOfDay(demand.beginsAtS, timezone)
  let fromS = beginsS
  // A period shorter than a day begins anew within it.
  while (fromS < beginsS + days * 86_400) {
    for (const { rps, seconds } of demand.spans) {
      const last = Math.ceil((fromS + seconds) / 3600 - 1e-9)
      for (let hour = Math.floor(fromS / 3600 + 1e-9); hour < Math.min(last, beginsS / 3600 + days * hoursOfDay); hour++) {
        peaks[hour % hoursOfDay] = Math.max(peaks[hour % hoursOfDay]!, rps)
      }
      fromS += seconds
    }
  }
  return peaks
}

/** By the clock of a zone at that time. */
function secondOfDay(sinceEpochS: number, timeZone: string): number {
  const clock = new Intl.DateTimeFormat('en', { timeZone, hourCycle: 'h23', hour: 'numeric', minute: 'numeric', second: 'numeric' })
  const part = Object.fromEntries(clock.formatToParts(sinceEpochS * 1000).map(({ type, value }) => [type, Number(value)]))
  return part.hour! * 3600 + part.minute! * 60 + part.second!
}
