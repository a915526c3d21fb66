/** A fleet in words and tables, and as JSON. */
import { grouped } from '../../trials/grouped.ts'
import { money, percent, rate } from '../format.ts'
import { type Block, heading, list, paragraph, table } from '../report/document/blocks.ts'
import type { Compared } from './comparisons.ts'
import type { FleetPlan } from './fleet-plan.ts'
import { type BusyByHour, pictureBlocks } from './gpu-pictures.ts'
import { hourSpans, hoursSaid, type OverDay } from './over-day.ts'
import {
  type FleetModel,
  type PackedGpu,
  type Packing,
  placeOf,
  routedAt,
  type Segment,
} from './packing.ts'
import { type Placement, placementsOf } from './placements.ts'
import { mixBlocks, mixesJson } from './routing-blocks.ts'
import { inMemoryOver, poolOf } from './rules.ts'
import { sharesGpus, sharingBlocks } from './sharing-blocks.ts'
import { takesTurnsIn, turnBlocks, turnsJson, turnsOn } from './turn-blocks.ts'

const hoursPerMonth = 730

/** @param pictured draws every GPU */
export function fleetBlocks(
  plan: FleetPlan,
  fleet: readonly FleetModel[],
  headroom: number,
  pictured = false,
): Block[] {
  const models = fleet.map(({ name }) => name)
  const { atPeaks, byHour, compared, peaksRps, hoursRps, rules } = plan
  const ruled = rules.spared.size > 0 || rules.apart.length > 0
  const perHour = atPeaks.pricePerHour
  const beside = ([what, other]: readonly [string, Compared | undefined]) =>
    other === undefined
      ? [what, '-', '-', 'a model has no figure for all its requests there']
      : [
          what,
          String(other.gpus),
          money(other.pricePerHour),
          other.pricePerHour > 0 ? percent(1 - perHour / other.pricePerHour) : '-',
        ]
  return [
    heading(1, 'Fleet'),
    {
      kind: 'paragraph',
      strong: true,
      text: `${gpusOf(atPeaks)} for ${models.length} ${models.length === 1 ? 'model' : 'models'}: ${money(perHour)}/h, ${money(perHour * hoursPerMonth)} a month; ${boundOf(atPeaks)}`,
    },
    ...list([
      `every model at its highest rate at once${headroom > 0 ? `, ${percent(headroom)} of each replica kept free` : ''}: ${models.map((name, i) => `${name} ${rate(peaksRps[i]!)}`).join(', ')}`,
      `prices of GPUs alone; slices of MIG do not slow one another down${sharesGpus(atPeaks) ? '; models under MPS do, as is said below' : takesTurnsIn(atPeaks) ? '; models that take turns are there as is said below' : ', and nothing else shares a GPU'}`,
      ...fleet.flatMap(({ name, estimated }) =>
        estimated ? [`rates of ${name} are ${estimated}`] : [],
      ),
      ...ruleLines(plan, models),
    ]),
    heading(2, 'GPUs'),
    ...table(
      ['GPUs', 'kind', 'slices'],
      groupsOf(atPeaks.gpus).map(({ count, gpu }) => [String(count), gpu.kind, slotsOf(gpu)]),
      [0],
    ),
    ...(pictured
      ? pictureBlocks(atPeaks.gpus, models, headroom, busyByHour(plan, models, headroom))
      : []),
    heading(2, 'Models'),
    ...table(
      ['model', 'demand', 'replicas', 'carry', 'busy at the peak'],
      models.map((name, i) => modelRow(name, peaksRps[i]!, atPeaks)),
      [1, 2, 3, 4],
    ),
    ...sharingBlocks(atPeaks),
    ...turnBlocks(plan),
    ...mixBlocks(plan, fleet),
    heading(2, 'Beside it'),
    ...table(
      ['fleet', 'GPUs', 'per hour', 'saved by this one'],
      (
        [
          ['whole GPUs for each model', compared.aGpuEach],
          ['each model alone on GPUs cut for it', compared.eachAlone],
          [
            `the best slice of each, first fit decreasing${ruled ? ', nothing spare and none apart' : ''}`,
            compared.firstFit,
          ],
          ...(compared.unshared
            ? [['the same with none side by side under MPS', compared.unshared] as const]
            : []),
          ...(compared.unturned
            ? [['the same with every model in memory all day', compared.unturned] as const]
            : []),
          ...spareRows(plan),
        ] as const
      ).map(beside),
      [1, 2, 3],
    ),
    ...(byHour ? hourBlocks(byHour, perHour, takesTurnsIn(atPeaks)) : []),
    ...(byHour
      ? replicaBlocks(
          placementsOf(
            atPeaks.gpus,
            (model) => hoursRps[models.indexOf(model)]!,
            rules.spared,
          ).filter(({ inTurns }) => !inTurns),
          rules.spared,
        )
      : []),
  ]
}

function ruleLines(
  { rules: { spared, apart }, atPeaks }: FleetPlan,
  models: readonly string[],
): string[] {
  const kept = models.every((name) => spared.has(name))
    ? 'every model'
    : models.filter((name) => spared.has(name)).join(', ')
  return [
    spared.size === 0
      ? 'no GPU is spare: the loss of one loses what stood on it'
      : takesTurnsIn(atPeaks)
        ? `any one GPU may be lost at any hour, and what is left in memory carries what is asked of ${kept} then, nothing cut, moved or loaded for it; further losses are not borne`
        : `any one GPU may be lost, and what is left carries the demand of ${kept} at once, nothing cut or moved; further losses are not borne`,
    ...apart.map((group) => `on no GPU together: ${group.join(', ')}`),
  ]
}

/** What the loss of a GPU costs to bear, and another way to bear it. */
function spareRows({ spare }: FleetPlan): (readonly [string, Compared | undefined])[] {
  if (spare === undefined) return []
  const beside =
    'nothing spare, and a whole GPU of each kind beside it, cut anew for what is lost: SLOs are broken until it is cut and serves'
  return [
    ['the same with nothing spare', spare.without],
    ...(spare.beside === undefined ? [] : [[beside, spare.beside] as const]),
  ]
}

/** Asked for of what all replicas of a model carry, 0-1. */
function busyByHour(
  { atPeaks, hoursRps, turning = [] }: FleetPlan,
  models: readonly string[],
  headroom: number,
): BusyByHour {
  return (model, segment) => {
    const overDay = turning.find(({ name }) => name === model)?.overDay
    if (segment?.routed?.levels && overDay)
      return busyAtLevels(
        segment,
        model,
        overDay,
        hoursRps[models.indexOf(model)]!,
        atPeaks,
        headroom,
      )
    const carries = carriedByHour(model, atPeaks, segment?.routed && poolOf(segment))
    return hoursRps[models.indexOf(model)]!.map((rps, hour) =>
      rps === 0 ? 0 : (rps * (segment?.routed?.share ?? 1) * (1 - headroom)) / carries[hour]!,
    )
  }
}

/** Of a pool to which requests go that change over the day. */
function busyAtLevels(
  segment: Segment,
  model: string,
  { levels, askedAt }: OverDay,
  hourly: readonly number[],
  { gpus }: Packing,
  headroom: number,
): number[] {
  const there = inMemoryOver(gpus, model, () => 1, poolOf(segment))
  const most = Math.max(...hourly)
  const busy = askedAt.map((level, step) => {
    const { share, rateRps } = routedAt(segment, level)
    const asked =
      level === 0
        ? 0
        : share *
          Math.min(hourly[Math.floor((step * 24) / askedAt.length)]!, levels[level - 1]! * most)
    return asked > 0 ? (asked * (1 - headroom)) / (there[step]! * rateRps) : 0
  })
  return hourly.map((_, hour) =>
    Math.max(...busy.filter((__, step) => Math.floor((step * 24) / busy.length) === hour)),
  )
}

/** What is in memory of a model carries, the most in each hour of the day, requests per second. */
function carriedByHour(model: string, { gpus }: Packing, pool?: string): number[] {
  const carried = inMemoryOver(gpus, model, ({ rateRps }) => rateRps, pool)
  return Array.from({ length: 24 }, (_, hour) =>
    Math.max(...carried.filter((__, step) => Math.floor((step * 24) / carried.length) === hour)),
  )
}

export const fleetJson = (all: FleetPlan, fleet: readonly FleetModel[]): string => {
  const { atPeaks, byHour, hoursRps: _, turning: __, atRises, rules, mixes, ...plan } = all
  const { spared, apart } = rules
  return `${JSON.stringify({ schemaVersion: 1, ...packed(atPeaks), ...plan, ...(atRises.length > 0 && { atRises }), ...(mixes.length > 0 && { mixes: mixesJson(all, fleet) }), spared: [...spared], apart, ...(byHour && { byHour: byHour.map(packed) }) }, null, 2)}\n`
}

const packed = ({ gpus, pricePerHour, boundPerHour }: Packing) => ({
  pricePerHour,
  boundPerHour,
  gpus: gpus.map(({ kind, slots }) => ({
    kind,
    slices: slots.map(({ slice, model, segment, ...turns }) => ({
      slice,
      ...(segment && {
        model,
        configuration: segment.label,
        rateRps: segment.rateRps,
        ...(segment.beside && { beside: segment.beside }),
      }),
      ...turnsJson({ slice, ...turns }),
    })),
  })),
})

/** '3 A100-80GB and 1 L4'. */
function gpusOf({ gpus }: Packing): string {
  const kinds = [...new Set(gpus.map(({ kind }) => kind))]
  return (
    kinds
      .map((kind) => `${gpus.filter((gpu) => gpu.kind === kind).length} ${kind}`)
      .join(' and ') || 'no GPU'
  )
}

function boundOf({ pricePerHour, boundPerHour }: Packing): string {
  if (pricePerHour > 0 && !(boundPerHour > 0))
    return 'the solver had no time to say how far from the best possible: --solver-time gives more'
  const above = pricePerHour > 0 ? pricePerHour / boundPerHour - 1 : 0
  return above < 1e-4
    ? 'no packing of these costs less'
    : `within ${percent(above)} of the best possible`
}

const slotsOf = ({ slots }: PackedGpu): string =>
  counted(
    slots.map(({ slice, model, segment, ...turns }) => {
      const there =
        model === undefined
          ? (turnsOn({ slice, ...turns }) ?? 'free')
          : `${model}${segment?.label ? ` (${segment.label})` : ''}`
      return `${slice}: ${there}`
    }),
  ).join('; ')

/** '2 × a', 'b': those that are alike once. */
export const counted = (all: readonly string[]): string[] =>
  [...new Set(all)].map((one) => {
    const count = all.filter((other) => other === one).length
    return count === 1 ? one : `${count} × ${one}`
  })

function groupsOf(
  gpus: readonly PackedGpu[],
): { readonly count: number; readonly gpu: PackedGpu }[] {
  return [...grouped(gpus, (gpu) => `${gpu.kind} ${slotsOf(gpu)}`).values()].map((alike) => ({
    count: alike.length,
    gpu: alike[0]!,
  }))
}

/**
 * Replicas of a model, and what they carry together, requests per second; of those that come and go
 * the most at once. @param pool those alone
 */
function standingOf(
  name: string,
  { gpus }: Packing,
  pool?: string,
): { readonly replicas: number; readonly carries: number } {
  const most = (weigh: (replica: Segment) => number) =>
    Math.max(...inMemoryOver(gpus, name, weigh, pool))
  return { replicas: Math.round(most(() => 1)), carries: most(({ rateRps }) => rateRps) }
}

function modelRow(name: string, demandRps: number, packing: Packing): string[] {
  const { replicas, carries } = standingOf(name, packing)
  return [
    name,
    rate(demandRps),
    String(replicas),
    rate(carries),
    carries > 0 ? percent(demandRps / carries) : '-',
  ]
}

function hourBlocks(byHour: readonly Packing[], perHour: number, turns: boolean): Block[] {
  const day = byHour.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0)
  return [
    heading(2, 'By hour'),
    paragraph(
      `Cut anew each hour, and rented by it, the same would be ${money(day)} a day in place of ${money(24 * perHour)}; what cutting and moving costs is not in it${turns ? ', and no model takes turns within an hour' : ''}.`,
    ),
    ...table(
      ['hours', 'GPUs', 'per hour'],
      hourSpans(byHour, gpusOf).map(({ from, to, value }) => [
        `${from}-${to}`,
        gpusOf(value),
        money(value.pricePerHour),
      ]),
      [2],
    ),
  ]
}

/** Those that take turns are told by themselves. */
function replicaBlocks(placements: readonly Placement[], spared: ReadonlySet<string>): Block[] {
  if (placements.length === 0) return []
  return [
    paragraph(
      `On the GPUs of the peaks, cut as they are, so many replicas do in each hour; the slices of the others are free for other work.${placements.some(({ model }) => spared.has(model)) ? ' Models that bear the loss of a GPU keep all of theirs.' : ''}`,
    ),
    ...table(
      ['model', 'on', 'replicas by hours'],
      placements.map(({ model, segment, replicas, byHour = Array<number>(24).fill(replicas) }) => [
        model,
        placeOf(segment),
        hoursSaid(byHour),
      ]),
    ),
  ]
}
