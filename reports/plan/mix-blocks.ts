/** The cheapest mix in words and a table. */
import { money, percent, significant } from '../format.ts'
import { type Block, heading, list, table } from '../report/document/blocks.ts'
import type { Split } from './mix.ts'
import type { MixPlan } from './mix-plan.ts'
import type { Plan } from './plan-capacity.ts'

type Row = MixPlan['rows'][number]

export function mixBlocks({ mix, units }: Plan): Block[] {
  if (!mix) return []
  const [first] = mix.rows
  const commits = mix.rows.some((row) => row.allCommittedPerMonth !== undefined)
  const rows = mix.rows.map((row) => [
    row.keeps,
    ...(commits ? [String(row.mix.committed)] : []),
    counts(row, (level) => level.onDemand),
    ...(mix.risk ? [counts(row, (level) => level.spot)] : []),
    money(row.perMonth.all),
    money(row.allOnDemandPerMonth),
    ...(commits
      ? [row.allCommittedPerMonth === undefined ? '' : money(row.allCommittedPerMonth)]
      : []),
  ])
  const headings = [
    'keeps',
    ...(commits ? ['committed'] : []),
    'on demand',
    ...(mix.risk ? ['spot'] : []),
    'per month',
    'all on demand',
    ...(commits ? ['all committed'] : []),
  ]
  return [
    heading(2, `The cheapest mix for ${units[0]!.unit.label}, month 1`),
    ...table(
      headings,
      rows,
      headings.slice(1).map((_, i) => i + 1),
    ),
    ...list([
      bought(first!),
      ...levelsText(first!),
      ...commitText(first!),
      ...spotTexts(mix, first!),
    ]),
  ]
}

/** '2', '0 to 5' */
function counts({ mix }: Row, of: (level: Split) => number): string {
  const all = mix.levels.map(of)
  const [least, most] = [Math.min(...all), Math.max(...all)]
  return least === most ? String(least) : `${least} to ${most}`
}

function bought({ offer, perMonth, mix }: Row): string {
  const what =
    offer.instance === undefined
      ? 'replicas by themselves'
      : `${offer.instance}, ${offer.replicasEach} replica${offer.replicasEach === 1 ? '' : 's'} on each`
  const prices = [
    `${money(offer.onDemandPerHour)}/h on demand`,
    ...(offer.committedPerHour === undefined
      ? []
      : [`${money(offer.committedPerHour)}/h committed`]),
    ...(offer.spotPerHour === undefined ? [] : [`${money(offer.spotPerHour)}/h spot`]),
  ]
  const parts = [
    ...(mix.committed > 0 ? [`${money(perMonth.committed)} committed`] : []),
    ...(perMonth.onDemand > 0 ? [`${money(perMonth.onDemand)} on demand`] : []),
    ...(perMonth.spot > 0 ? [`${money(perMonth.spot)} spot`] : []),
  ]
  return `of ${what} (${prices.join(', ')}): ${parts.join(', ')} a month`
}

/** Most levels that are listed one by one. */
const shown = 6

/** What serves when: '4 needed 33 % of the time: 2 committed, 1 on demand, 2 spot (1 to spare)'. */
function levelsText({ mix }: Row): string[] {
  const { levels } = mix
  const picked =
    levels.length <= shown
      ? levels
      : [levels[0]!, levels[Math.floor(levels.length / 2)]!, levels.at(-1)!]
  return picked.map(({ instances, share, committed, onDemand, spot, spotNeeded }) => {
    const spare = spot - spotNeeded
    const parts = [
      ...(committed > 0 ? [`${committed} committed`] : []),
      ...(onDemand > 0 ? [`${onDemand} on demand`] : []),
      ...(spot > 0 ? [`${spot} spot (${spare} to spare)`] : []),
    ]
    return `${instances} needed ${percent(share)} of the time: ${parts.join(', ') || 'none'}`
  })
}

function commitText({ offer: { committedPerHour, onDemandPerHour } }: Row): string[] {
  if (committedPerHour === undefined) return []
  return [
    `an instance is committed to where it is needed more than ${percent(committedPerHour / onDemandPerHour)} of the time, which is what committed costs of on demand, unless spot is cheaper; a commitment lasts longer than a month: look at the months after growth, too`,
  ]
}

function spotTexts({ risk, played }: MixPlan, { lostShare }: Row): string[] {
  if (!risk)
    return [
      'without spot: give --spot 35% (or $ an hour) and --interruptions 10% (of the instances in a month)',
    ]
  const every = 1 / risk.interruptionsPerHour
  const terms = `spot is taken once in ${significant(every)} h from each instance, at random, and its replacement serves ${significant(risk.outSeconds)} s later; spares keep the minutes lost within ${percent(risk.lostShare)}${risk.zones > 1 ? ` and stand the loss of all spot in one of ${risk.zones} zones` : ''}${risk.mostShare < 1 ? `; at most ${percent(risk.mostShare)} of what is needed is spot` : ''}`
  if (!played) return [`${terms}: on these terms none is worth it`]
  return [
    terms,
    `interruptions lose at most ${minutesShare(lostShare)} of the minutes by the model; played for ${significant(played.days)} days in virtual time, ${significant(played.interruptions)} interruptions lost ${played.lostMinutes} of ${significant(played.minutes)} minutes`,
  ]
}

const minutesShare = (share: number): string =>
  share >= 1e-5 ? `${significant(100 * share)} %` : '0.001 %'
