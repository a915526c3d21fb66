/**
 * Work of low priority, such as a batch job or a training: it stands on slices that no model of the
 * fleet needs at an hour, and yields them when one does. It takes no part in the packing, for it
 * costs nothing: the GPUs are there for the peaks.
 */
import { money, percent, significant } from '../format.ts'
import { type Block, heading, list, paragraph, table } from '../report/document/blocks.ts'
import type { FleetPlan } from './fleet-plan.ts'
import { hoursSaid, stepsOfDay } from './over-day.ts'
import { type GpuKind, type PackedGpu, placeOf, type Segment, whole } from './packing.ts'
import { placementsOf } from './placements.ts'

export interface BatchJob {
  readonly name: string
  readonly segments: readonly Segment[]
  /** Requests, or steps, that a day is to bring. */
  readonly perDay: number
}

/** Where a job stands. */
interface FilledPlace {
  readonly segment: Segment
  /** At the most. */
  readonly replicas: number
  /** Of them, as many as have a slice in each hour of the day. */
  readonly byHour: readonly number[]
}

export interface Filled extends Pick<BatchJob, 'name' | 'perDay'> {
  readonly places: readonly FilledPlace[]
  /** Of `perDay`, what the free slices bring, at the most. */
  readonly donePerDay: number
  /**
   * What whole GPUs of its own would cost that bring all of it; absent: nothing is known of it
   * there.
   */
  readonly alonePerHour?: number
}

const hoursOfDay = Array.from({ length: 24 }, (_, hour) => hour)

/**
 * Jobs in their order, each on the free slices that bring it most, until its day is done. @param
 * models names, as the plan has their hours
 */
export function fillValleys(
  jobs: readonly BatchJob[],
  plan: FleetPlan,
  models: readonly string[],
  kinds: readonly GpuKind[],
): Filled[] {
  const free = freeByHour(plan, models)
  return jobs.map(({ name, segments, perDay }): Filled => {
    const best = [...free.keys()].flatMap((key) => {
      const there = segments.filter(
        (one) => keyOf(one) === key && one.gpus === 1 && one.share === undefined,
      )
      const [segment] = there.sort((a, b) => b.rateRps - a.rateRps)
      return segment ? [{ key, segment }] : []
    })
    // The k-th slice of a kind is free in the hours in which k of them are.
    const slices = best.flatMap(({ key, segment }) =>
      Array.from({ length: Math.max(...free.get(key)!) }, (_, k) => ({
        ...{ key, segment },
        work: free.get(key)!.filter((count) => count > k).length * 3600 * segment.rateRps,
      })),
    )
    let done = 0
    const taken = new Map<string, number>()
    for (const { key, work } of slices.sort((a, b) => b.work - a.work)) {
      if (done >= perDay) break
      done += work
      taken.set(key, (taken.get(key) ?? 0) + 1)
    }
    const places = best.flatMap(({ key, segment }): FilledPlace[] => {
      const replicas = taken.get(key) ?? 0
      if (replicas === 0) return []
      const byHour = free.get(key)!.map((count) => Math.min(count, replicas))
      free.set(
        key,
        free.get(key)!.map((count, hour) => count - byHour[hour]!),
      )
      return [{ segment, replicas, byHour }]
    })
    const alonePerHour = aloneOf(segments, perDay, kinds)
    return {
      name,
      perDay,
      places,
      donePerDay: Math.min(done, perDay),
      ...(alonePerHour !== undefined && { alonePerHour }),
    }
  })
}

const keyOf = ({ gpu, slice }: Pick<Segment, 'gpu' | 'slice'>): string => `${gpu}\n${slice}`

/**
 * Slices that nobody needs in each hour; before an hour that needs them they are given back
 * already.
 */
function freeByHour(
  { atPeaks: { gpus }, hoursRps, rules }: FleetPlan,
  models: readonly string[],
): Map<string, number[]> {
  const free = new Map<string, number[]>()
  const add = (of: Pick<Segment, 'gpu' | 'slice'>, hours: readonly number[]) => {
    const known = free.get(keyOf(of)) ?? hours.map(() => 0)
    free.set(
      keyOf(of),
      known.map((count, hour) => count + Math.min(hours[hour]!, hours[(hour + 1) % hours.length]!)),
    )
  }
  for (const { kind, slots } of gpus)
    for (const slot of slots)
      if (slot.model === undefined && slot.waiting === undefined)
        add(
          { gpu: kind, slice: slot.slice },
          hoursOfDay.map((hour) => Number(isFreeAt(slot, hour))),
        )
  for (const { segment, replicas, byHour } of placementsOf(
    gpus,
    (model) => hoursRps[models.indexOf(model)]!,
    rules.spared,
  ))
    if (byHour && segment.share === undefined)
      add(
        segment,
        byHour.map((count) => (replicas - count) * segment.gpus),
      )
  return free
}

/** Of a slice that models have by the hours. */
function isFreeAt({ stays = [] }: PackedGpu['slots'][number], hour: number): boolean {
  const ofHour = stepsOfDay / hoursOfDay.length
  const steps = Array.from({ length: ofHour }, (_, step) => hour * ofHour + step)
  return stays.every(({ from, to }) =>
    steps.every((step) => (step < from || step >= to) && step + stepsOfDay >= to),
  )
}

function aloneOf(
  segments: readonly Segment[],
  perDay: number,
  kinds: readonly GpuKind[],
): number | undefined {
  const costs = segments.flatMap(({ gpu, slice, gpus, rateRps }) => {
    const kind = kinds.find(({ name }) => name === gpu)
    return slice === whole && kind
      ? [Math.ceil(perDay / 86_400 / rateRps) * gpus * kind.pricePerHour]
      : []
  })
  return costs.length > 0 ? Math.min(...costs) : undefined
}

export function lowPriorityBlocks(filled: readonly Filled[]): Block[] {
  if (filled.length === 0) return []
  return [
    heading(2, 'Of low priority'),
    paragraph(
      'On slices that no model needs at an hour, at no further cost. When a model wants its slice back the job is put out, and what it had under way is lost; the hour before counts as not there. What a start takes is not taken off.',
    ),
    ...table(
      ['job', 'on', 'slices by hours'],
      filled.flatMap(({ name, places }) =>
        places.map(({ segment, byHour }) => [name, placeOf(segment), hoursSaid(byHour)]),
      ),
    ),
    ...list(
      filled.map(({ name, perDay, donePerDay, alonePerHour }) => {
        const alone =
          alonePerHour === undefined
            ? ''
            : `; on whole GPUs of its own all of it would cost ${money(alonePerHour)}/h`
        return `${name}: ${significant(donePerDay)} of ${significant(perDay)} a day (${percent(donePerDay / perDay)})${alone}`
      }),
    ),
  ]
}

export const lowPriorityJson = (filled: readonly Filled[]) =>
  filled.map(({ places, ...job }) => ({
    ...job,
    places: places.map(({ segment: { gpu, slice, label, rateRps }, replicas, byHour }) => ({
      gpu,
      slice,
      configuration: label,
      rateRps,
      replicas,
      byHour,
    })),
  }))
