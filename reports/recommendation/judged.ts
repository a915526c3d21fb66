/** Trials seen through an SLO, an objective and prices. */

import { type CapacityUnder, type CurveKnot, capacityUnder, loadCurve, percentileOf } from '../../profiler/capacity/capacity-under.ts'
import { seenUnder } from '../../profiler/capacity/stream-view.ts'
import { countsTheSame } from '../../profiler/slo.ts'
import type { Measurement, Slo } from '../../profiler/types.ts'
import { cost, demandOf, isTooDear, priceBoundOf, replicasFor, wordsOf } from '../../search/objective.ts'
import { configurationKey } from '../../search/space.ts'
import type { Configuration, Objective } from '../../search/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { money, sloLimit, sloName, sloValue } from '../format.ts'
import type { Candidate } from './types.ts'

/** What candidates are ranked by. */
export interface View {
  readonly slo: Slo
  readonly objective: Objective
  /** $ per hour of one replica. */
  readonly pricePerHour: (configuration: Configuration) => number
  /** '2 cores, 1/4 T4 (4 GiB), batch 8' */
  readonly label: (configuration: Configuration) => string
  /** Of the model variant; undefined where there are none. */
  readonly quality?: (configuration: Configuration) => number | undefined
  /** Variants of less quality are not good enough. */
  readonly minQuality?: number
  /** Load curves, for callers that remember them from one ranking to the next; absent: made anew. */
  readonly curve?: (measurement: Measurement, slo: Slo) => readonly CurveKnot[]
}

/** A candidate with what it was made of. */
export interface Judged {
  readonly candidate: Candidate
  /** The trial that stands for the configuration. */
  readonly trial: FinishedTrial
  readonly confirmation?: FinishedTrial
  readonly measurement?: Measurement
  readonly curve?: readonly CurveKnot[]
}

/**
 * One candidate per configuration: its last complete or infeasible trial; a failed one only where there is nothing better. A finished confirmation
 * replaces the capacity, and a confirmation that could not serve makes the configuration infeasible.
 * Best first, then the infeasible ones.
 */
export function judge(trials: readonly FinishedTrial[], view: View): Judged[] {
  const standing = new Map<string, { trial: FinishedTrial; confirmation?: FinishedTrial }>()
  for (const trial of trials) {
    const key = configurationKey(trial.configuration)
    const known = standing.get(key)
    if (trial.purpose === 'confirmation' && known) {
      if (decides(trial)) standing.set(key, { ...known, confirmation: trial })
    } else if (!known || trial.state !== 'failed' || known.trial.state === 'failed') {
      standing.set(key, { ...known, trial })
    }
  }
  return [...standing.values()].map((s) => judged(s.trial, s.confirmation, view)).sort((a, b) => byRank(a.candidate, b.candidate))
}

/** A confirmation that failed, or whose load the generator could not hold, says nothing of the server. */
const decides = (confirmation: FinishedTrial): boolean =>
  confirmation.state === 'infeasible' ||
  (confirmation.state === 'complete' &&
    !(confirmation.measurement.outcome === 'generator-limit' && confirmation.measurement.capacityRps === 0))

function judged(trial: FinishedTrial, confirmation: FinishedTrial | undefined, view: View): Judged {
  const of = { trial, confirmation }
  if (trial.state !== 'complete') return { ...of, candidate: unserved(trial, reasonOf(trial), view) }
  if (confirmation?.state === 'infeasible') {
    return { ...of, candidate: unserved(trial, `served once, but not when confirmed: ${reasonOf(confirmation)}`, view) }
  }
  const measurement = confirmation?.state === 'complete' ? merged(trial.measurement, confirmation.measurement) : trial.measurement
  const curve = (view.curve ?? loadCurve)(measurement, view.slo)
  return { ...of, measurement, curve, candidate: candidateAt(trial, measurement, capacityUnder(measurement, view.slo, curve), view) }
}

/** The confirmation's capacity, on the load curves of both. A confirmation bounds from below alone: above, the first measurement's bound stays. */
const merged = (first: Measurement, second: Measurement): Measurement => ({
  ...first,
  ...second,
  capacityCi90Rps: [second.capacityCi90Rps[0], Math.max(second.capacityRps, Math.min(first.capacityCi90Rps[1], second.capacityCi90Rps[1]))],
  idle: first.idle.requests >= second.idle.requests ? first.idle : second.idle,
  saturationRps: Math.max(first.saturationRps, second.saturationRps),
  points: [...first.points, ...second.points],
})

/** A measured configuration at a capacity. */
export function candidateAt(trial: FinishedTrial, measurement: Measurement, capacity: CapacityUnder, view: View): Candidate {
  const { configuration } = trial
  const pricePerHour = view.pricePerHour(configuration)
  const { capacityRps } = capacity
  const { idle } = countsTheSame(measurement.slo, view.slo) ? measurement : seenUnder(measurement, view.slo)
  const idleMs = percentileOf(idle, view.slo.percentile)
  const { objective } = view
  const demand = demandOf(objective)
  const replicas = demand && replicasFor(demand, capacityRps)
  const perMillion = capacityRps > 0 ? (pricePerHour / (capacityRps * 3600)) * 1e6 : Number.POSITIVE_INFINITY
  const candidate = {
    trial: trial.number,
    configuration,
    label: view.label(configuration),
    capacityRps,
    capacityCi90Rps: capacity.capacityCi90Rps,
    sloMsAtCapacity: capacity.sloMs,
    ...(Number.isFinite(idleMs) ? { idleMs } : {}),
    ...(capacity.derived ? { derived: true } : {}),
    ...boundOf(capacity),
    ...qualityIn(configuration, view),
    pricePerHour,
    pricePerMillionRequests: perMillion,
    ...(replicas === undefined ? {} : { replicas, totalPricePerHour: replicas * pricePerHour }),
  }
  const costs = cost(objective, { ...candidate, usage: trial.usage })
  const reason =
    tooPoor(configuration, view) ??
    whyInfeasible(measurement, capacity, pricePerHour, view) ??
    (Number.isFinite(costs) || !Number.isFinite(pricePerHour)
      ? undefined
      : `what the objective ranks by (${wordsOf(objective.kind).unit}) was not measured`)
  return reason === undefined
    ? { ...candidate, cost: costs, feasible: true }
    : { ...candidate, cost: Number.POSITIVE_INFINITY, feasible: false, reason }
}

const boundOf = ({ known }: CapacityUnder): Pick<Candidate, 'bound'> =>
  known === 'bound below' ? { bound: 'lower' } : known === 'bound above' ? { bound: 'upper' } : {}

function qualityIn(configuration: Configuration, { quality }: View): Pick<Candidate, 'quality'> {
  const known = quality?.(configuration)
  return known === undefined ? {} : { quality: known }
}

function tooPoor(configuration: Configuration, { quality, minQuality }: View): string | undefined {
  const known = quality?.(configuration)
  return known !== undefined && minQuality !== undefined && known < minQuality
    ? `its quality is ${known}, less than ${minQuality}`
    : undefined
}

function whyInfeasible(measurement: Measurement, capacity: CapacityUnder, pricePerHour: number, view: View): string | undefined {
  const { slo, objective } = view
  if (!(capacity.capacityRps > 0)) {
    if (measurement.outcome === 'errors') return measurement.detail ?? 'fails requests at any load'
    if (measurement.outcome === 'server-died') return measurement.detail ?? 'died under load'
    if (capacity.sloMs <= slo.limitMs)
      return `kept the SLO at no rate that was tried, though one request at a time takes ${sloValue(slo, capacity.sloMs)}`
    const idle = Number.isFinite(capacity.sloMs)
      ? `one request at a time takes ${sloValue(slo, capacity.sloMs)}`
      : 'no request was answered'
    return `misses the SLO at any rate: ${idle} at ${sloName(slo)} against ${sloLimit(slo)}`
  }
  return isTooDear(objective, pricePerHour)
    ? `costs ${money(pricePerHour)} per hour, more than ${money(priceBoundOf(objective)!)}`
    : undefined
}

const words = {
  'out-of-memory': 'out of memory',
  'never-ready': 'never got ready',
  'no-such-gpu': 'no such GPU',
  crashed: 'crashed',
  'slo-unattainable': 'misses the SLO at any rate',
} as const

function reasonOf(trial: FinishedTrial): string {
  if (trial.state === 'failed') return `not measured: ${trial.error}`
  if (trial.state === 'infeasible') return trial.detail ? `${words[trial.reason]}: ${trial.detail}` : words[trial.reason]
  return ''
}

function unserved(trial: FinishedTrial, reason: string, view: View): Candidate {
  return {
    trial: trial.number,
    configuration: trial.configuration,
    label: view.label(trial.configuration),
    capacityRps: 0,
    capacityCi90Rps: [0, 0],
    sloMsAtCapacity: Number.POSITIVE_INFINITY,
    ...qualityIn(trial.configuration, view),
    pricePerHour: view.pricePerHour(trial.configuration),
    pricePerMillionRequests: Number.POSITIVE_INFINITY,
    cost: Number.POSITIVE_INFINITY,
    feasible: false,
    reason,
  }
}

/** Feasible before infeasible, lower cost first; equal cost: the higher capacity, then the earlier trial. */
function byRank(a: Candidate, b: Candidate): number {
  if (a.feasible !== b.feasible) return a.feasible ? -1 : 1
  if (a.cost !== b.cost) return a.cost - b.cost
  return b.capacityRps - a.capacityRps || a.trial - b.trial
}
