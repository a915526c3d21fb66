/**
 * Models that take turns, in words and tables: who is in memory when, how long loads take, and what
 * waits for them.
 */
import { money, percent, significant } from '../format.ts'
import { type Block, heading, list, paragraph, table } from '../report/document/blocks.ts'
import type { FleetPlan } from './fleet-plan.ts'
import { clockAt, spanOf, stepSeconds, stepsOfDay } from './over-day.ts'
import { type FleetModel, type PackedGpu, type Packing, placeOf, type Waiting } from './packing.ts'
import { placementsOf } from './placements.ts'
import { takesTurns } from './turn-groups.ts'
import { handOverS } from './turning.ts'
import { partForLoads, type Waits } from './waits.ts'

export const takesTurnsIn = ({ gpus }: Packing): boolean =>
  gpus.some(({ slots }) =>
    slots.some(({ stays, waiting }) => stays !== undefined || waiting !== undefined),
  )

/**
 * What a slice has over the day: 'day 7:30-20:00, night 21:45-8:00'; undefined where nobody takes
 * turns there.
 */
export function turnsOn({
  stays,
  waiting,
  together,
}: PackedGpu['slots'][number]): string | undefined {
  if (waiting)
    return `${waiting.map(({ model }) => model).join(', ')} in turns, ${together?.most === waiting.length ? 'all in memory' : `loaded as requests come${together ? `, ${together.most} in memory` : ''}`}`
  return stays
    ?.map(
      (stay) =>
        `${stay.model}${stay.segment.label ? ` (${stay.segment.label})` : ''} ${spanOf(stay)}`,
    )
    .join(', ')
}

/** '6:45-20:00, 22:00-23:00' */
export const hoursOf = (there: readonly boolean[]): string =>
  spansOf(there.map(Number)).map(spanOf).join(', ')

const countsSaid = (counts: readonly number[]): string =>
  spansOf(counts)
    .map((span) => `${spanOf(span)}: ${span.count}`)
    .join(', ')

/** Spans of the day with the same number, 0 left out. */
function spansOf(
  counts: readonly number[],
): { readonly from: number; readonly to: number; readonly count: number }[] {
  const first = Math.max(
    0,
    counts.findIndex((count, step) => count !== counts.at(step - 1)),
  )
  const spans: { from: number; to: number; count: number }[] = []
  for (let step = first; step < first + counts.length; step++) {
    const count = counts[step % counts.length]!
    const last = spans.at(-1)
    if (last?.count === count) last.to = step + 1
    else spans.push({ from: step, to: step + 1, count })
  }
  return spans.filter(({ count }) => count > 0)
}

const seconds = (value: number): string => `${significant(value)} s`

export function turnBlocks(plan: FleetPlan): Block[] {
  const { atPeaks, atRises, compared, turning = [] } = plan
  if (turning.every((model) => model.turning === undefined)) return []
  const saved = compared.unturned && 1 - atPeaks.pricePerHour / compared.unturned.pricePerHour
  if (!takesTurnsIn(atPeaks))
    return [
      heading(2, 'In turns'),
      paragraph(`No model leaves memory: taking turns saves nothing here.${touching(plan)}`),
    ]
  const saves =
    compared.unturned === undefined
      ? 'With all of them in memory all day these GPUs do not carry it.'
      : `With all of them in memory all day it would be ${money(compared.unturned.pricePerHour)}/h: turns save ${percent(Math.max(0, saved!))}.`
  return [
    heading(2, 'In turns'),
    paragraph(`${saves}${touching(plan)}`),
    ...hourBlocks(atPeaks, turning, atRises),
    ...waitBlocks(atPeaks, turning),
  ]
}

/** Models that leave memory by the hours. */
function hourBlocks(
  atPeaks: Packing,
  turning: readonly FleetModel[],
  atRises: FleetPlan['atRises'],
): Block[] {
  const placements = placementsOf(atPeaks.gpus, () => []).filter(
    ({ inTurns }) => inTurns !== undefined,
  )
  if (placements.length === 0) return []
  const late = atRises.filter(({ model }) =>
    placements.some((placement) => placement.model === model),
  )
  const routed = new Map(
    placements.flatMap(({ model, segment }) =>
      segment.routed ? [[model, segment.routed.levels !== undefined] as const] : [],
    ),
  )
  const early = turning.filter(
    ({ name, overDay }) => overDay?.refused && placements.some(({ model }) => model === name),
  )
  return [
    ...table(
      ['model', 'on', 'replicas in memory', 'loads in', 'which is'],
      placements.map(({ model, segment, inTurns }) => {
        const { loadS, loadFrom } = turning.find(({ name }) => name === model)!.turning!
        return [model, placeOf(segment), countsSaid(inTurns!), seconds(loadS), loadFrom]
      }),
      [3],
    ),
    ...list([
      `a replica has its slice before it is asked for, by its load and the ${handOverS} s in which a slice changes hands (assumed), in whole quarters of an hour: ${late.length > 0 ? 'no request waits but of models that are named here' : 'no request waits'}`,
      'a model that is out of memory answers nothing: what comes in hours in which its demand says 0 is refused',
      ...[...routed].map(([model, changes]) =>
        changes
          ? `requests of ${model} go other ways at other hours, as is said below: who routes them knows the time`
          : `the same parts of the requests of ${model} go to each of its GPUs at all hours`,
      ),
      ...early.map(
        ({ name, turning: how, overDay }) =>
          `${name} leaves ${seconds(how!.endsEarlyS!)} before its hours end, as endsEarly: allows: ${percent(overDay!.refused!)} of its requests of a day are refused`,
      ),
      ...late.map(
        ({ model, waiting, late: missed, longestS }) =>
          `${model} is loaded only when its hours begin: ${percent(waiting)} of its requests of a day wait, ${seconds(longestS)} at the longest, and ${percent(missed)} miss the SLO for it, if something holds them until it serves; a plain Service refuses them`,
      ),
    ]),
  ]
}

/** Models that are loaded as requests come. */
function waitBlocks({ gpus }: Packing, turning: readonly FleetModel[]): Block[] {
  const rows = gpus.flatMap(({ kind, slots }, number) =>
    slots.flatMap(({ slice, waiting = [] }) =>
      waiting.map((one) => ({ on: `${placeOf({ gpu: kind, slice })}, GPU ${number + 1}`, ...one })),
    ),
  )
  if (rows.length === 0) return []
  const together = gpus.some(({ slots }) => slots.some((slot) => slot.together !== undefined))
  return [
    paragraph(
      `Loaded as requests come, ${together ? 'as many models of a slice in memory as it says there, whose SLO leaves most time to wait leaves first' : 'one model of a slice in memory at a time'}, in the order of their requests, once nobody asks for those that leave: played in virtual time as llama-swap does it, Poisson at the rates of the demand.${together ? ' Each of them is taken to be as many times as slow as there may be in memory.' : ''} Loads may take ${percent(partForLoads)} of the requests that an SLO's percentile lets go; models whose SLO would not survive that are not put here.`,
    ),
    ...table(
      [
        'model',
        'on',
        'loads in',
        'which is',
        'loads a day',
        'requests that wait',
        'at the longest',
        'miss the SLO for it, at most',
        'may',
      ],
      rows.map(({ model, on, waits }) => [
        model,
        on,
        ...loadOf(turning.find(({ name }) => name === model)!),
        ...waitsSaid(waits, turning, model),
      ]),
      [2, 4, 5, 6, 7, 8],
    ),
  ]
}

function loadOf({ turning }: FleetModel): string[] {
  const { loadS, loadFrom, onDemand } = turning!
  return onDemand?.wakeS === undefined
    ? [seconds(loadS), loadFrom]
    : [seconds(onDemand.wakeS), "as given, from the host's memory"]
}

const waitsSaid = (
  { loadsPerDay, waiting, longestS, late }: Waits,
  turning: readonly FleetModel[],
  model: string,
): string[] => [
  significant(loadsPerDay),
  percent(waiting),
  seconds(longestS),
  percent(late),
  percent(
    (1 - turning.find(({ name }) => name === model)!.turning!.onDemand!.percentile) * partForLoads,
  ),
]

/**
 * Models of which one is asked for from the very quarter on in which another is no longer: both are
 * there for the time of a load.
 */
function touching({ turning = [], rules, atRises }: FleetPlan): string {
  const days = turning.flatMap(({ name, overDay, buckets, turning: how }) => {
    const waits = atRises.some(({ model }) => model === name)
    return overDay && how && !waits && takesTurns(name, { overDay, buckets }, rules)
      ? [
          {
            name,
            levelAt: overDay.levelAt,
            ahead: Math.ceil((how.loadS + handOverS) / stepSeconds),
          },
        ]
      : []
  })
  const changes = (levelAt: readonly number[], into: boolean) =>
    levelAt.flatMap((level, step) =>
      level > 0 === into && levelAt.at(step - 1)! > 0 !== into ? [step] : [],
    )
  const pairs = days.flatMap((a) =>
    days.flatMap((b) =>
      changes(b.levelAt, true).some((step) =>
        changes(a.levelAt, false).includes((step + b.ahead) % stepsOfDay),
      )
        ? [`${a.name} and ${b.name}`]
        : [],
    ),
  )
  if (pairs.length === 0) return ''
  return ` Between the hours of ${pairs.slice(0, mostPairs).join(', ')}${pairs.length > mostPairs ? ' and others' : ''} there is no time to load: where the first may leave a quarter of an hour before its own end, and what comes then is refused, say so: endsEarly: 15m.`
}

/** Named at the most. */
const mostPairs = 6

/** For the fleet's JSON. */
export const turnsJson = ({ stays, waiting, together }: PackedGpu['slots'][number]) => ({
  ...(stays && {
    inTurns: stays.map(({ model, segment, from, to }) => ({
      ...{ model, configuration: segment.label, rateRps: segment.rateRps },
      ...{ from: clockAt(from), to: to % stepsOfDay === 0 ? '24:00' : clockAt(to) },
    })),
  }),
  ...(waiting && {
    onDemand: waiting.map(waitingJson),
    inMemoryAtOnce: together?.most ?? 1,
    ...(together && { together: together.sets, leaving: together.leaving }),
  }),
})

const waitingJson = ({ model, segment, waits }: Waiting) => ({
  model,
  configuration: segment.label,
  rateRps: segment.rateRps,
  waits,
})
