/** Which requests of a model go to which GPUs, in tables and in the words of a manifest. */
import { money, percent, rate } from '../format.ts'
import { type Block, heading, paragraph, table } from '../report/document/blocks.ts'
import type { FleetPlan } from './fleet-plan.ts'
import type { Mix } from './mixes.ts'
import type { OverDay } from './over-day.ts'
import {
  type Bucket,
  type FleetModel,
  type Packing,
  placeOf,
  routedAt,
  type Segment,
} from './packing.ts'
import { type Placement, placementsOf } from './placements.ts'
import { hoursOf } from './turn-blocks.ts'

/** Less than this of a bucket is the solver's rounding. */
const leastPart = 1e-6

/** Its pools, and how many replicas each has, the most at once. */
const poolsOf = (model: string, { gpus }: Packing): Placement[] =>
  placementsOf(gpus, () => []).filter((placement) => placement.model === model)

const poolPlace = (segment: Segment): string =>
  `${segment.gpus > 1 ? `${segment.gpus} × ` : ''}${placeOf(segment)}`

export function mixBlocks(plan: FleetPlan, models: readonly FleetModel[]): Block[] {
  return plan.mixes.flatMap((mix) => {
    const at = models.findIndex(({ name }) => name === mix.model)
    const { name, buckets = [], estimated } = models[at]!
    const pools = poolsOf(name, plan.atPeaks)
    const demand = plan.peaksRps[at]!
    return [
      heading(2, `Requests of ${name} by size`),
      paragraph(
        `Alone, ${name} would cost ${money(mix.alone.pricePerHour)}/h on a mix of kinds; ${besideOneKind(mix)}${estimated ? ` Rates are ${estimated}.` : ''} Each bucket keeps the SLO by itself. ${weighed(buckets, mix)}`,
      ),
      ...table(
        [
          'requests',
          'of all',
          'rate',
          ...pools.map(({ segment, replicas }) => `${replicas} on ${poolPlace(segment)}`),
        ],
        buckets.map((bucket, b) => [
          bucket.name,
          percent(bucket.share),
          rate(bucket.share * demand),
          ...pools.map(
            ({ segment }) =>
              `${percent(partOf(segment, b))}${segment.bucketRps![b]! > 0 ? `, ${rate(segment.bucketRps![b]!)} alone` : ', cannot'}`,
          ),
        ]),
        [1, 2, ...pools.map((_, i) => i + 3)],
      ),
      ...otherHours(plan, name, pools),
      ...table(
        ['on one kind alone', 'GPUs', 'per hour', 'the mix alone is'],
        [
          ...mix.kinds.map(({ kind, gpus, pricePerHour }) => [
            kind,
            String(gpus),
            money(pricePerHour),
            cheaper(mix.alone.pricePerHour, pricePerHour),
          ]),
          ...mix.unserved.map((kind) => [
            kind,
            '-',
            '-',
            'a bucket keeps no SLO there, or there is no room for its longest requests',
          ]),
        ],
        [1, 2],
      ),
    ]
  })
}

/** Where requests go other ways when fewer replicas are in memory. */
function otherHours(
  { turning = [] }: FleetPlan,
  model: string,
  pools: readonly Placement[],
): Block[] {
  const overDay = turning.find(({ name }) => name === model)?.overDay
  if (!overDay || pools.every(({ segment }) => segment.routed?.levels === undefined)) return []
  return [
    paragraph(
      'That is at its highest rate. Of all its requests there goes at each; of which kinds, fleet.json says:',
    ),
    ...table(
      ['in hours', 'of the highest rate', ...pools.map(({ segment }) => poolPlace(segment))],
      overDay.levels.map((level, i) => [
        hoursOf(overDay.askedAt.map((at) => at === i + 1)),
        percent(level),
        ...pools.map(({ segment }) => percent(routedAt(segment, i + 1).share)),
      ]),
      [1, ...pools.map((_, i) => i + 2)],
    ),
  ]
}

const partOf = ({ routed }: Segment, b: number): number => {
  const part = routed?.parts[b] ?? 0
  return part < leastPart ? 0 : part
}

const cheaper = (mine: number, other: number): string =>
  mine < other * (1 - 1e-9) ? `${percent(1 - mine / other)} cheaper` : 'no cheaper'

function besideOneKind({ alone, kinds: [best] }: Mix): string {
  if (best === undefined) return 'no one kind serves all of it.'
  return `the best single kind is ${best.kind}, ${money(best.pricePerHour)}/h: the mix is ${alone.pricePerHour < best.pricePerHour * (1 - 1e-9) ? `${percent(1 - alone.pricePerHour / best.pricePerHour)} cheaper than one kind` : 'no cheaper'}.`
}

function weighed(buckets: readonly Bucket[], { byInput }: Mix): string {
  if (!buckets.some(({ input }) => input !== undefined))
    return 'Who sends a request knows its class.'
  const known =
    'To route by output is to know beforehand how long an answer will be, or to foretell it'
  return byInput
    ? `${known}; by the length of the input alone it would cost ${money(byInput.pricePerHour)}/h.`
    : `${known}.`
}

/**
 * For who weighs a model's Services: what of each bucket goes to these replicas. Comment lines of a
 * manifest; empty where nothing is routed.
 */
export function routingComment(
  model: string,
  { routed }: Segment,
  buckets: readonly Bucket[] = [],
  overDay?: OverDay,
): string {
  if (routed === undefined) return ''
  const linesOf = (parts: readonly number[]) =>
    buckets.flatMap(({ name }, b) =>
      parts[b]! < leastPart ? [] : [`#   ${name}: ${percent(parts[b]!)} of them`],
    )
  const lines = routed.levels?.flatMap(({ parts }, i) => {
    const hours = `#  ${hoursOf(overDay?.askedAt.map((level) => level === i + 1) ?? [])}:`
    return linesOf(parts).length === 0 ? [`${hours} none`] : [hours, ...linesOf(parts)]
  })
  return `# Of the requests of ${model} these go to these replicas, and no others:\n${(lines ?? linesOf(routed.parts)).join('\n')}\n`
}

/** Of a model that takes turns, its levels by the hours. */
function levelsJson({ turning = [] }: FleetPlan, model: string) {
  const overDay = turning.find(({ name }) => name === model)?.overDay
  return (
    overDay && {
      levels: overDay.levels.map((level, i) => ({
        ofPeak: level,
        hours: hoursOf(overDay.askedAt.map((at) => at === i + 1)),
      })),
    }
  )
}

/** For the fleet's JSON. */
export const mixesJson = (plan: FleetPlan, models: readonly FleetModel[]) =>
  plan.mixes.map((mix) => {
    const { buckets = [], estimated } = models.find(({ name }) => name === mix.model)!
    return {
      ...mix,
      ...(estimated !== undefined && { estimated }),
      buckets: buckets.map(({ name, share }) => ({ name, share })),
      pools: poolsOf(mix.model, plan.atPeaks).map(({ segment, replicas }) => ({
        gpu: segment.gpu,
        slice: segment.slice,
        gpus: segment.gpus,
        replicas,
        configuration: segment.label,
        bucketRps: segment.bucketRps,
        parts: buckets.map((_, b) => partOf(segment, b)),
        ...(segment.routed?.levels && {
          atLevels: segment.routed.levels.map(({ parts, share }) => ({ parts, share })),
        }),
      })),
      ...levelsJson(plan, mix.model),
    }
  })
