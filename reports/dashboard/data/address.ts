/**
 * Encodes the state of the page in its address: experiment, SLO, objective, demand, prices, the
 * open trial, compared trials and experiments. Values of the experiment itself are left out, so
 * that an address shows only what was changed. Pure.
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
import { pickOwnQuestion, type WhatIf } from './ranking.ts'

/** State in an address besides the experiment. */
interface PageAddress {
  readonly whatIf: WhatIf
  /** Demand to plan for, if the objective has none. */
  readonly planning?: Demand
  readonly trial?: number
  /** Trials that are compared with each other. */
  readonly sideBySide?: readonly number[]
  /** Ids of the experiments that this one is compared with. */
  readonly compared?: readonly string[]
}

/** '?experiment=bert-7f3a&slo=30&price.L4=0.8'. */
export function formatAddress(
  { whatIf, planning, trial, sideBySide = [], compared = [] }: PageAddress,
  experiment: DashboardExperiment,
): string {
  const own = pickOwnQuestion(experiment)
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
  for (const [name, perHour] of listPrices(whatIf.prices))
    if (perHour !== listPrices(own.prices).get(name)) say(`price.${name}`, perHour)
  say('trial', trial)
  if (sideBySide.length > 0) say('trials', sideBySide.join())
  for (const id of compared) words.append('compare', id)
  return `?${words.toString()}`
}

/**
 * Decodes an address for an experiment. `refused` lists invalid parts, which keep the experiment's
 * own values.
 */
export function parseAddress(
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
  const own = pickOwnQuestion(experiment)
  const slo = read('slo', (text) => replaceLimits(own.slo, text.split(',').map(Number))) ?? own.slo
  const percentile = read('percentile', parseWithin(0, 1)) ?? slo.percentile
  const demandRps = read('demand', parseWithin(0, Number.POSITIVE_INFINITY))
  const headroom = read('headroom', (text) => (Number(text) === 0 ? 0 : parseWithin(0, 1)(text)))
  const maxPricePerHour = read('max-price', parseWithin(0, Number.POSITIVE_INFINITY))
  const metric = read('metric', (text) => text || undefined)
  const objective = read('objective', (text) =>
    parseObjective(text, own.objective, { demandRps, headroom, maxPricePerHour, metric }),
  )
  const minQuality =
    words.get('quality') === 'any' ? undefined : (read('quality', parseFinite) ?? own.minQuality)
  const trial = read('trial', parseTrialNumber)
  const sideBySide = read('trials', (text) => {
    const numbers = text.split(',').map(parseTrialNumber)
    return numbers.every((number) => number !== undefined)
      ? [...new Set(numbers)].slice(0, maxSideBySide)
      : undefined
  })
  const compared = [...new Set(words.getAll('compare'))]
    .filter((id) => id !== '')
    .slice(0, maxCompared)
  const planning =
    demandRps !== undefined && !(objective && getDemand(objective))
      ? { demandRps, headroom: headroom ?? experiment.headroom }
      : undefined
  return {
    whatIf: {
      slo: { ...slo, percentile },
      objective: objective ?? own.objective,
      prices: parsePrices(words, own.prices, refused),
      minQuality,
    },
    ...(planning && { planning }),
    ...(trial !== undefined && { trial }),
    ...(sideBySide !== undefined && { sideBySide }),
    ...(compared.length > 0 && { compared }),
    refused,
  }
}

/** The charts have this many colours and symbols. */
export const maxSideBySide = 7
export const maxCompared = maxSideBySide - 1

const parseTrialNumber = (text: string): number | undefined =>
  /^[1-9]\d*$/.test(text) ? Number(text) : undefined

const parseFinite = (text: string): number | undefined =>
  text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : undefined

/** Parser for a number in an open interval. */
const parseWithin =
  (least: number, most: number) =>
  (text: string): number | undefined => {
    const value = parseFinite(text)
    return value !== undefined && value > least && value < most ? value : undefined
  }

function replaceLimits(own: WhatIf['slo'], limits: readonly number[]): WhatIf['slo'] | undefined {
  if (
    limits.length !== resolveLimits(own).length ||
    !limits.every((ms) => ms > 0 && Number.isFinite(ms))
  )
    return undefined
  return limits.reduce((slo, ms, place) => replaceLimit(slo, place, ms), own)
}

function parseObjective(
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

/** Names of editable prices → $ per hour. */
export const listPrices = ({ vcpu, memoryGiB, gpus, instances }: PriceBook): Map<string, number> =>
  new Map([
    ['vCPU', vcpu.perHour],
    ['GiB', memoryGiB.perHour],
    ...(instances?.map(({ name, perHour }) => [name, perHour] as const) ??
      Object.entries(gpus).map(([gpu, { perHour }]) => [gpu, perHour] as const)),
  ])

function parsePrices(words: URLSearchParams, own: PriceBook, refused: string[]): PriceBook {
  let prices = own
  for (const [key, text] of words) {
    if (!key.startsWith('price.')) continue
    const name = key.slice('price.'.length)
    const perHour = parseFinite(text)
    if (perHour === undefined || perHour < 0 || !listPrices(own).has(name))
      refused.push(`${key}=${text}`)
    else prices = editPrice(prices, name, perHour)
  }
  return prices
}

/**
 * A price book with one edited price: 'vCPU', 'GiB' of memory, a GPU, or an instance if GPUs are
 * sold as instances.
 */
export function editPrice(prices: PriceBook, name: string, perHour: number): PriceBook {
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
