/**
 * Which models may share one slice in turns as their requests come: sets of them that were played,
 * and whose SLOs survived the loads.
 */
import {
  type FleetModel,
  type GpuKind,
  type Segment,
  slackOf,
  type Together,
  type Waiting,
  type Wanted,
} from './packing.ts'
import type { Rules } from './rules.ts'
import {
  DrawnRequests,
  keepingOf,
  mostTogether,
  partForLoads,
  playTurns,
  type TakingTurns,
} from './waits.ts'

/** On a slice of a kind; each of them is carried there with all its requests. */
export interface TurnGroup {
  readonly kind: GpuKind
  readonly slice: string
  readonly waiting: readonly Waiting[]
  /** Absent: one of them is in memory at a time. */
  readonly together?: Together
}

/**
 * Of a replica's rate, what a model in turns is planned for at the most: at its capacity the SLO
 * has nothing left for loads.
 */
const mostOfRate = 0.8
const mostOnSlice = 4
/** So many sets are played, and so many are found, at the most. */
const [mostPlayed, mostGroups] = [4000, 1500]

interface Turner {
  readonly model: string
  readonly segment: Segment
  readonly turns: TakingTurns
}

/**
 * Pairs first, then sets of which every part was found: a set is no better than its parts. Models
 * that bear the loss of a GPU, stay apart or are routed by size take no turns.
 */
export function turnGroupsOf(
  wanted: readonly Wanted[],
  kinds: readonly GpuKind[],
  rules: Rules,
): TurnGroup[] {
  const may = wanted.filter(
    (of) => of.asked !== undefined && takesTurns(of.model, of, rules) && !isRuled(of.model, rules),
  )
  const found: TurnGroup[] = []
  const came = new DrawnRequests()
  let played = 0
  for (const kind of kinds)
    for (const slice of new Set(kind.partitions.flat())) {
      const turners = may.flatMap((of) => turnerOn(of, kind.name, slice))
      let sets: readonly Turner[][] = turners.map((one) => [one])
      const known = new Set<string>()
      for (let size = 2; size <= mostOnSlice; size++) {
        const larger: Turner[][] = []
        for (const set of sets)
          for (const next of turners.slice(turners.indexOf(set.at(-1)!) + 1)) {
            const joined = [...set, next]
            if (size > 2 && !partsOf(joined).every((part) => known.has(namesOf(part)))) continue
            if (busyOf(joined) > 1 || played >= mostPlayed || found.length >= mostGroups) continue
            played++
            const group = playedOn(kind, slice, joined, came)
            if (group === undefined) continue
            larger.push(joined)
            known.add(namesOf(joined))
            found.push(group)
          }
        sets = larger
      }
    }
  return found
}

/**
 * With as many in memory as fit, else one at a time; undefined where their SLOs survive neither.
 */
function playedOn(
  kind: GpuKind,
  slice: string,
  set: readonly Turner[],
  came: DrawnRequests,
): TurnGroup | undefined {
  const turns = set.map((one) => one.turns)
  const roomMiB = kind.memoryMiB?.[slice]
  const { sets, leaving } = keepingOf(turns, roomMiB)
  const most = mostTogether({ sets })
  const beside = most > 1 ? playTurns(turns, came, roomMiB) : undefined
  const waits = beside ?? playTurns(turns, came)
  if (waits === undefined) return undefined
  const names = (of: readonly number[]) => of.map((i) => set[i]!.model)
  const together = beside && { most, sets: sets.map(names), leaving: names(leaving) }
  return {
    kind,
    slice,
    ...(together && { together }),
    waiting: set.map(({ model, segment }, i) => ({ model, segment, waits: waits[i]! })),
  }
}

/**
 * Whether it may be put out of memory at all: where requests are routed by size, what the loss of a
 * GPU or a group apart asks for is known of what stays.
 */
export const takesTurns = (
  model: string,
  { overDay, buckets }: Pick<FleetModel, 'overDay' | 'buckets'>,
  rules: Rules,
): boolean => overDay !== undefined && (buckets === undefined || !isRuled(model, rules))

const isRuled = (model: string, { spared, apart }: Rules): boolean =>
  spared.has(model) || apart.some((group) => group.includes(model))

const namesOf = (set: readonly Turner[]): string => set.map(({ model }) => model).join('\n')
const partsOf = (set: readonly Turner[]): Turner[][] => set.map((_, i) => set.toSpliced(i, 1))

/** Parts of the time in which its requests keep the slice busy, at their means. */
const busyOf = (set: readonly Turner[]): number =>
  set.reduce((sum, { turns: { asked, factor, rateRps } }) => {
    const [requests, seconds] = asked.spans.reduce(
      ([all, time], span) => [all + span.rps * span.seconds, time + span.seconds],
      [0, 0],
    )
    return sum + (factor * requests) / seconds / rateRps
  }, 0)

function turnerOn(
  { model, best, demandRps, asked, turning }: Wanted,
  gpu: string,
  slice: string,
): Turner[] {
  const segment = best
    .filter((one) => one.gpu === gpu && one.slice === slice && one.gpus === 1)
    .sort((a, b) => b.rateRps - a.rateRps)[0]
  if (segment === undefined || asked === undefined || turning?.onDemand === undefined) return []
  const { rateRps, limitMs, latencyMs, memoryMiB } = segment
  if (limitMs === undefined || demandRps > mostOfRate * rateRps) return []
  const { percentile, wakeS } = turning.onDemand
  const turns: TakingTurns = {
    asked,
    factor: demandRps / asked.carriedRps,
    rateRps,
    loadS: wakeS ?? turning.loadS,
    memoryMiB,
    answerS: (latencyMs ?? limitMs) / 1000,
    slackS: slackOf(segment),
    mayBeLate: (1 - percentile) * partForLoads,
  }
  return [{ model, segment, turns }]
}
