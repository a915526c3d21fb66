/**
 * The page's address is its question: experiment, SLO, objective, demand, prices, the trial that is
 * open, trials side by side and the experiments beside it. What is the experiment's own is left
 * out, so that an address stays short and says what was changed. Pure.
 */
import { replaceLimit, resolveLimits } from '../../../profiler/model/slo.ts'
import {
  createObjective,
  type Demand,
  getDemand,
  getMetric,
  getPriceBound,
  getRequiredInput,
  type ObjectiveKind,
  objectiveKinds,
} from '../../../search/objective.ts'
import type { Objective } from '../../../search/types.ts'
import { applyCheapestInstances, type PriceBook } from '../../../trials/prices/book.ts'
import type { DashboardExperiment } from './page-data.ts'
import { asMeasured, type WhatIf } from './ranking.ts'

/** What an address says beside the experiment's name. */
interface PageAddress {
  readonly whatIf: WhatIf
  /** Demand to plan for, where the objective has none. */
  readonly planning?: Demand
  readonly trial?: number
  /** Trials that are compared with each other. */
  readonly sideBySide?: readonly number[]
  /** Ids of the experiments that this one is compared with. */
  readonly compared?: readonly string[]
}

/** '?experiment=bert-7f3a&slo=30&price.L4=0.8'. */
export function addressOf(
  { whatIf, planning, trial, sideBySide = [], compared = [] }: PageAddress,
  experiment: DashboardExperiment,
): string {
  const own = asMeasured(experiment)
  const words = new URLSearchParams({ experiment: experiment.id })
  const say = (name: string, value: number | string | undefined) =>
    value !== undefined && words.set(name, String(value))
  const limits = (of: WhatIf) => resolveLimits(of.slo).map(({ limitMs }) => limitMs)
  if (limits(whatIf).join() !== limits(own).join()) say('slo', limits(whatIf).join())
  if (whatIf.slo.percentile !== own.slo.percentile) say('percentile', whatIf.slo.percentile)
  const { objective } = whatIf
  const changed = JSON.stringify(objective) !== JSON.stringify(own.objective)
  if (changed) say('objective', objective.kind)
  const demand = getDemand(objective) ? (changed ? getDemand(objective) : undefined) : planning
  say('demand', demand?.demandRps)
  say('headroom', demand?.headroom)
  if (changed) say('max-price', getPriceBound(objective))
  if (changed) say('metric', getMetric(objective))
  if (whatIf.minQuality !== own.minQuality) say('quality', whatIf.minQuality ?? 'any')
  for (const [name, perHour] of rowsOf(whatIf.prices))
    if (perHour !== rowsOf(own.prices).get(name)) say(`price.${name}`, perHour)
  say('trial', trial)
  if (sideBySide.length > 0) say('trials', sideBySide.join())
  for (const id of compared) words.append('compare', id)
  return `?${words.toString()}`
}

/**
 * What an address asks of an experiment. `refused` names each part that it cannot be asked, which
 * is left as the experiment has it.
 */
export function askedBy(
  address: string,
  experiment: DashboardExperiment,
): PageAddress & { readonly refused: readonly string[] } {
  const words = new URLSearchParams(address)
  const refused: string[] = []
  const read = <T>(name: string, of: (text: string) => T | undefined): T | undefined => {
    const text = words.get(name)
    const value = text === null ? undefined : of(text)
    if (text !== null && value === undefined) refused.push(`${name}=${text}`)
    return value
  }
  const own = asMeasured(experiment)
  const slo = read('slo', (text) => withLimits(own.slo, text.split(',').map(Number))) ?? own.slo
  const percentile = read('percentile', within(0, 1)) ?? slo.percentile
  const demandRps = read('demand', within(0, Number.POSITIVE_INFINITY))
  const headroom = read('headroom', (text) => (Number(text) === 0 ? 0 : within(0, 1)(text)))
  const maxPricePerHour = read('max-price', within(0, Number.POSITIVE_INFINITY))
  const metric = read('metric', (text) => text || undefined)
  const objective = read('objective', (text) =>
    objectiveAsked(text, own.objective, { demandRps, headroom, maxPricePerHour, metric }),
  )
  const minQuality =
    words.get('quality') === 'any' ? undefined : (read('quality', finite) ?? own.minQuality)
  const trial = read('trial', trialNumber)
  const sideBySide = read('trials', (text) => {
    const numbers = text.split(',').map(trialNumber)
    return numbers.every((number) => number !== undefined)
      ? [...new Set(numbers)].slice(0, mostSideBySide)
      : undefined
  })
  const compared = [...new Set(words.getAll('compare'))]
    .filter((id) => id !== '')
    .slice(0, mostCompared)
  const planning =
    demandRps !== undefined && !(objective && getDemand(objective))
      ? { demandRps, headroom: headroom ?? experiment.headroom }
      : undefined
  return {
    whatIf: {
      slo: { ...slo, percentile },
      objective: objective ?? own.objective,
      prices: pricesAsked(words, own.prices, refused),
      minQuality,
    },
    ...(planning && { planning }),
    ...(trial !== undefined && { trial }),
    ...(sideBySide !== undefined && { sideBySide }),
    ...(compared.length > 0 && { compared }),
    refused,
  }
}

/** As many as the charts have colours and shapes for. */
export const mostSideBySide = 7
export const mostCompared = mostSideBySide - 1

const trialNumber = (text: string): number | undefined =>
  /^[1-9]\d*$/.test(text) ? Number(text) : undefined

const finite = (text: string): number | undefined =>
  text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined

/** A number between two, without them. */
const within =
  (least: number, most: number) =>
  (text: string): number | undefined => {
    const value = finite(text)
    return value !== undefined && value > least && value < most ? value : undefined
  }

function withLimits(own: WhatIf['slo'], limits: readonly number[]): WhatIf['slo'] | undefined {
  if (
    limits.length !== resolveLimits(own).length ||
    !limits.every((ms) => ms > 0 && Number.isFinite(ms))
  )
    return undefined
  return limits.reduce((slo, ms, place) => replaceLimit(slo, place, ms), own)
}

function objectiveAsked(
  text: string,
  own: Objective,
  given: { demandRps?: number; headroom?: number; maxPricePerHour?: number; metric?: string },
): Objective | undefined {
  const kind = objectiveKinds.find((name): name is ObjectiveKind => name === text)
  if (!kind) return undefined
  const demandRps = given.demandRps ?? getDemand(own)?.demandRps
  const maxPricePerHour = given.maxPricePerHour ?? getPriceBound(own)
  const metric = given.metric ?? getMetric(own)
  const missing = {
    nothing: false,
    demand: demandRps === undefined,
    'price bound': maxPricePerHour === undefined,
    metric: metric === undefined,
  }[getRequiredInput(kind)]
  if (missing) return undefined
  const headroom = given.headroom ?? getDemand(own)?.headroom ?? 0
  return createObjective(kind, {
    demandRps: demandRps ?? 0,
    headroom,
    maxPricePerHour: maxPricePerHour ?? 0,
    metric,
  })
}

/** Names of prices that can be edited → $ per hour. */
export const rowsOf = ({ vcpu, memoryGiB, gpus, instances }: PriceBook): Map<string, number> =>
  new Map([
    ['vCPU', vcpu.perHour],
    ['GiB', memoryGiB.perHour],
    ...(instances?.map(({ name, perHour }) => [name, perHour] as const) ??
      Object.entries(gpus).map(([gpu, { perHour }]) => [gpu, perHour] as const)),
  ])

function pricesAsked(words: URLSearchParams, own: PriceBook, refused: string[]): PriceBook {
  let prices = own
  for (const [key, text] of words) {
    if (!key.startsWith('price.')) continue
    const name = key.slice('price.'.length)
    const perHour = finite(text)
    if (perHour === undefined || perHour < 0 || !rowsOf(own).has(name))
      refused.push(`${key}=${text}`)
    else prices = withPrice(prices, name, perHour)
  }
  return prices
}

/**
 * A price book with one price edited: of 'vCPU', 'GiB' memory, a GPU, or an instance where GPUs are
 * sold as those.
 */
export function withPrice(prices: PriceBook, name: string, perHour: number): PriceBook {
  const edited = { perHour, source: 'edited in the dashboard' }
  if (name === 'vCPU') return { ...prices, vcpu: edited }
  if (name === 'GiB') return { ...prices, memoryGiB: edited }
  if (prices.instances !== undefined)
    return applyCheapestInstances(
      prices.instances.map((instance) =>
        instance.name === name ? { ...instance, ...edited } : instance,
      ),
      prices,
    )
  return { ...prices, gpus: { ...prices.gpus, [name]: edited } }
}
