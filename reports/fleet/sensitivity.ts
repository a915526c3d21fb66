/**
 * What a fleet would cost if something were otherwise: more traffic, a kind of GPU that is sold
 * out, an SLO that is loosened.
 */
import { steadyNowMs } from '../../trials/clock.ts'
import { money, percent } from '../format.ts'
import { type Block, heading, paragraph, table } from '../report/document/blocks.ts'
import type { FleetPlan } from './fleet-plan.ts'
import { pack } from './pack.ts'
import { FleetError, type FleetModel, type GpuKind, type Packing, type Segment } from './packing.ts'

type Change =
  | { readonly kind: 'traffic'; readonly factor: number }
  | { readonly kind: 'soldOut'; readonly gpu: string }
  | { readonly kind: 'slo'; readonly model: string; readonly factor: number }

/** Of a change: the fleet that serves, or why none does. */
type Changed = { readonly change: Change } & (
  | { readonly packing: Packing }
  | { readonly unserved: string }
)

export interface Sensitivity {
  readonly changes: readonly Changed[]
  /** Models of which looser SLOs were looked at, and those for which there was no time. */
  readonly loosened: number
  readonly untried: number
}

/**
 * What a model's measurements say of it under an SLO so many times as long; undefined where they do
 * not tell, or nothing limits it.
 */
export type LoosenedOf = (model: string, factor: number) => Promise<readonly Segment[] | undefined>

const moreTraffic = 1.25
const looser = [1.25, 1.5, 2]

/**
 * At the peaks, under the fleet's own rules. Of the looser SLOs, one at a time, the one that saves
 * most is told.
 * @param seconds in all: half of them for traffic and kinds, half for SLOs, models that cost most
 * first
 * @param say what is being looked at
 */
export async function sensitivityOf(
  { atPeaks, hoursRps, rules }: FleetPlan,
  models: readonly FleetModel[],
  kinds: readonly GpuKind[],
  loosenedOf: LoosenedOf,
  seconds: number,
  say: (what: string) => void = () => {},
): Promise<Sensitivity> {
  const peaks = hoursRps.map((rates) => Math.max(...rates))
  const used = kinds.filter(({ name }) => atPeaks.gpus.some(({ kind }) => kind === name))
  const each = seconds / 2 / (1 + used.length)
  const more = peaks.map((rps) => rps * moreTraffic)
  const changes: Changed[] = []
  const look = async (change: Change, packed: () => Promise<Packing>) => {
    say(wordsOf(change))
    changes.push({ change, ...(await servedBy(packed)) })
  }
  await look({ kind: 'traffic', factor: moreTraffic }, () => pack(models, more, kinds, each, rules))
  for (const { name } of used) {
    const others = kinds.filter((kind) => kind.name !== name)
    await look({ kind: 'soldOut', gpu: name }, () => pack(models, peaks, others, each, rules))
  }
  const untilMs = steadyNowMs() + (seconds / 2) * 1000
  const most = models.length * looser.length
  const cost = (model: string) => moneyOf(model, atPeaks, kinds)
  let best: { readonly change: Change; readonly packing: Packing } | undefined
  let [loosened, untried] = [0, 0]
  for (const { name } of models
    .filter((_, i) => peaks[i]! > 0)
    .sort((a, b) => cost(b.name) - cost(a.name))) {
    if (steadyNowMs() > untilMs) {
      untried++
      continue
    }
    let known = false
    for (const factor of looser) {
      const segments = await loosenedOf(name, factor)
      if (segments === undefined) continue
      known = true
      const change: Change = { kind: 'slo', model: name, factor }
      say(wordsOf(change))
      const other = models.map((model) => (model.name === name ? { ...model, segments } : model))
      const packing = await pack(other, peaks, kinds, seconds / 2 / most, rules, atPeaks)
      const saves = packing.pricePerHour < atPeaks.pricePerHour * (1 - 1e-9)
      if (saves && packing.pricePerHour < (best?.packing.pricePerHour ?? Number.POSITIVE_INFINITY))
        best = { change, packing }
      if (saves) break
    }
    if (known) loosened++
  }
  return { changes: [...changes, ...(best ? [best] : [])], loosened, untried }
}

async function servedBy(
  packed: () => Promise<Packing>,
): Promise<{ readonly packing: Packing } | { readonly unserved: string }> {
  try {
    return { packing: await packed() }
  } catch (error) {
    if (error instanceof FleetError) return { unserved: error.message }
    throw error
  }
}

/** Its part of the GPUs' price, by slots. */
const moneyOf = (model: string, { gpus }: Packing, kinds: readonly GpuKind[]): number =>
  gpus.reduce((sum, { kind, slots }) => {
    const own = slots.filter((slot) => slot.model === model).length
    return sum + (own / slots.length) * kinds.find(({ name }) => name === kind)!.pricePerHour
  }, 0)

function wordsOf(change: Change): string {
  switch (change.kind) {
    case 'traffic':
      return `${percent(change.factor - 1)} more traffic`
    case 'soldOut':
      return `no ${change.gpu} to be had`
    case 'slo':
      return `the SLO of ${change.model} ${percent(change.factor - 1)} longer`
  }
}

/** A row for each, beside what the fleet costs as it is. */
export function sensitivityBlocks(
  { changes, loosened, untried }: Sensitivity,
  { atPeaks }: FleetPlan,
): Block[] {
  const rows = changes.map((changed) => {
    const what = wordsOf(changed.change)
    if ('unserved' in changed) return [what, '-', '-', `cannot be served: ${changed.unserved}`]
    const { gpus, pricePerHour } = changed.packing
    const more = atPeaks.pricePerHour > 0 ? pricePerHour / atPeaks.pricePerHour - 1 : 0
    return [
      what,
      String(gpus.length),
      money(pricePerHour),
      Math.abs(more) < 5e-4
        ? 'the same'
        : `${percent(Math.abs(more))} ${more > 0 ? 'dearer' : 'cheaper'}`,
    ]
  })
  const saved = changes.some(({ change }) => change.kind === 'slo')
  const slos = [
    ...(loosened > 0 && !saved
      ? [
          `No SLO alone saves anything by being up to ${percent(Math.max(...looser) - 1)} longer (${loosened} looked at).`,
        ]
      : []),
    ...(untried > 0
      ? [
          `There was no time to look at the SLOs of ${untried} more models: --solver-time gives more.`,
        ]
      : []),
  ]
  return [
    heading(2, 'If it were otherwise'),
    ...table(['if', 'GPUs', 'per hour', 'beside this fleet'], rows, [1, 2]),
    ...slos.map(paragraph),
  ]
}

/** For the fleet's JSON: prices, not packings. */
export const sensitivityJson = ({ changes, loosened, untried }: Sensitivity) => ({
  changes: changes.map(({ change, ...rest }) => ({
    ...change,
    ...('unserved' in rest
      ? rest
      : { gpus: rest.packing.gpus.length, pricePerHour: rest.packing.pricePerHour }),
  })),
  loosened,
  untried,
})
