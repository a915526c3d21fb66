/**
 * Models that may take turns: what of each is in memory when, and whether its requests may wait for
 * it.
 */
import type { Demand } from '../plan/demand.ts'
import { beginsAt, endedEarly, type OverDay, overDayOf, peaksOver, stepsOfDay } from './over-day.ts'
import { FleetError, type FleetModel, slackOf } from './packing.ts'
import { partForLoads, type Waits, waitsAtRises } from './waits.ts'

/** What waits of a model whose replicas begin to load when they are asked for, and not before. */
export interface AtRises extends Omit<Waits, 'requests'> {
  readonly model: string
}

/**
 * Levels of a day, at the most, and of each of so many models that the programme would get too
 * large.
 */
const [mostLevels, manyModels, mostOfMany] = [8, 16, 4]

/**
 * Seconds that a slice takes to change hands beside the load: the autoscaler looks, the last
 * requests are answered, the pod ends, the next is placed. Assumed.
 */
export const handOverS = 120

/**
 * @param headroom share of each replica's rate that is kept free
 * @returns all models, those that may take turns with their day; absent where there are none
 * @throws FleetError where a model leaves before it is asked for
 */
export function turningOver(
  models: readonly (FleetModel & { readonly demand: Demand })[],
  headroom: number,
  timezone: string,
): { readonly turning?: readonly FleetModel[]; readonly atRises: readonly AtRises[] } {
  if (models.every(({ turning }) => turning === undefined)) return { atRises: [] }
  const atRises: AtRises[] = []
  const levels =
    models.filter((model) => model.turning !== undefined).length > manyModels
      ? mostOfMany
      : mostLevels
  const turning = models.map((model): FleetModel => {
    if (model.turning === undefined) return model
    const { spans } = model.demand
    const asked = peaksOver(model.demand, stepsOfDay, timezone)
    const rates = endedEarly(asked, model.turning.endsEarlyS ?? 0)
    if (Math.max(...rates) === 0)
      throw new FleetError(
        `${model.name} is asked for in no hours that are longer than its endsEarly:`,
        'leave that out, or make it shorter',
      )
    const refused = 1 - sumOf(rates) / sumOf(asked)
    const aheadS = model.turning.loadS + handOverS
    const late = lateDay(model, rates, headroom, aheadS, levels)
    if (late) atRises.push({ model: model.name, ...late.waits })
    const carriedRps = Math.max(...asked) / (1 - headroom)
    return {
      ...model,
      overDay: {
        ...(late?.overDay ?? overDayOf(rates, aheadS, levels)),
        ...(refused > 0 && { refused }),
      },
      ...(model.turning.onDemand && {
        asked: { spans, beginsS: beginsAt(model.demand, timezone), carriedRps },
      }),
    }
  })
  return { turning, atRises }
}

const sumOf = (rates: readonly number[]): number => rates.reduce((sum, rps) => sum + rps, 0)

/**
 * Loaded only when it is asked for, where so few requests miss the SLO for that as its percentile
 * leaves to loads; undefined where more would, or none may wait.
 */
function lateDay(
  { turning, segments }: FleetModel,
  rates: readonly number[],
  headroom: number,
  aheadS: number,
  levels: number,
): { readonly overDay: OverDay; readonly waits: Omit<Waits, 'requests'> } | undefined {
  if (turning?.onDemand === undefined) return undefined
  const overDay = overDayOf(rates, 0, levels)
  const most = Math.max(...rates) / (1 - headroom)
  const carries = overDay.levelAt.map((level) =>
    level === 0 ? 0 : overDay.levels[level - 1]! * most,
  )
  const waits = waitsAtRises(rates, carries, aheadS, Math.min(...segments.map(slackOf)))
  return waits.loadsPerDay > 0 && waits.late <= (1 - turning.onDemand.percentile) * partForLoads
    ? { overDay, waits }
    : undefined
}
