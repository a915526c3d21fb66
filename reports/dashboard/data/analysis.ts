/**
 * Figures for charts of the dashboard: knee of a load curve, history, capacity planning,
 * comparison. Pure.
 */

import type { CurveKnot } from '../../../profiler/capacity/capacity-bounds.ts'
import { countReplicas } from '../../../search/objective.ts'
import { computeFleetPricePerHour } from '../../../search/replica-price.ts'
import { configurationKey } from '../../../search/space/space.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { money, sloText } from '../../format.ts'
import { hoursPerMonth } from '../../plan/plan-costs.ts'
import type { Candidate } from '../../recommendation/types.ts'
import { listPrices } from './address.ts'
import type { DashboardExperiment } from './page-data.ts'

/**
 * Finds the knee of a load curve: the rate at which the latency is twice the unloaded latency.
 * Beyond it, waiting takes longer than service. Undefined if the curve stays below.
 */
export function findKnee(
  curve: readonly CurveKnot[],
): { readonly rateRps: number; readonly latencyMs: number } | undefined {
  const [idle] = curve
  if (!idle || !(idle.latencyMs > 0)) return undefined
  const latencyMs = 2 * idle.latencyMs
  const afterIndex = curve.findIndex((k) => k.latencyMs > latencyMs)
  const [after, before] = [curve[afterIndex], curve[afterIndex - 1]]
  if (!after || !before || !Number.isFinite(after.latencyMs)) return undefined
  const share =
    Math.log(latencyMs / before.latencyMs) / Math.log(after.latencyMs / before.latencyMs)
  return { rateRps: before.rateRps + share * (after.rateRps - before.rateRps), latencyMs }
}

export interface HistoryPoint {
  readonly trial: number
  /** Cumulative cost of all trials up to this one: price × time, $. */
  readonly spent: number
  /** Undefined for trials without a candidate: infeasible, failed, confirmations. */
  readonly cost?: number
  readonly best?: number
}

/**
 * Lists the cost of each trial, the best so far, and the money spent. `candidates` by trial number.
 */
export function listHistory(
  trials: readonly FinishedTrial[],
  candidates: ReadonlyMap<number, Candidate>,
  pricePerHour: (trial: FinishedTrial) => number,
): HistoryPoint[] {
  let best: number | undefined
  let spent = 0
  return trials.map((trial) => {
    spent += (pricePerHour(trial) * trial.seconds) / 3600
    const candidate = candidates.get(trial.number)
    const cost = candidate?.feasible ? candidate.cost : undefined
    if (cost !== undefined && (best === undefined || cost < best)) best = cost
    return { trial: trial.number, spent, cost, best }
  })
}

interface FleetRow {
  readonly demandRps: number
  readonly replicas: number
  /** Replicas that serve the demand with one of them lost (N+1). */
  readonly replicasWithSpare: number
  readonly pricePerMonth: number
  readonly withSparePerMonth: number
  /** Share of the measured capacity that the demand uses. */
  readonly utilisation: number
  /** Utilisation with one replica lost. */
  readonly utilisationOneLost: number
}

/**
 * Sizes a fleet of one configuration for a demand. Without a loss the headroom stays free; with one
 * replica lost the others may run at their capacity.
 */
export function planFleet(candidate: Candidate, demandRps: number, headroom: number): FleetRow {
  const replicas = countReplicas({ demandRps, headroom }, candidate.capacityRps)
  const replicasWithSpare = Math.max(
    replicas,
    countReplicas({ demandRps, headroom: 0 }, candidate.capacityRps) + 1,
  )
  const perMonth = (n: number) => computeFleetPricePerHour(candidate, n) * hoursPerMonth
  return {
    demandRps,
    replicas,
    replicasWithSpare,
    pricePerMonth: perMonth(replicas),
    withSparePerMonth: perMonth(replicasWithSpare),
    utilisation: demandRps / (replicas * candidate.capacityRps),
    utilisationOneLost:
      replicas > 1
        ? demandRps / ((replicas - 1) * candidate.capacityRps)
        : Number.POSITIVE_INFINITY,
  }
}

interface SensitivityRow {
  readonly scenario: string
  readonly replicas: number
  readonly pricePerMonth: number
}

/**
 * Sensitivity of the monthly price to capacity, demand and headroom. Each row changes one of them.
 */
export function listSensitivity(
  candidate: Candidate,
  demandRps: number,
  headroom: number,
): SensitivityRow[] {
  const createRow = (
    scenario: string,
    capacityRps: number,
    demand: number,
    free: number,
  ): SensitivityRow => {
    const { replicas, pricePerMonth } = planFleet({ ...candidate, capacityRps }, demand, free)
    return { scenario, replicas, pricePerMonth }
  }
  const { capacityRps, capacityCi90Rps } = candidate
  const [low, high] = capacityCi90Rps
  const rows = [
    createRow('as planned', capacityRps, demandRps, headroom),
    createRow('demand 25 % lower', capacityRps, demandRps * 0.75, headroom),
    createRow('demand 25 % higher', capacityRps, demandRps * 1.25, headroom),
    createRow('demand doubled', capacityRps, demandRps * 2, headroom),
    createRow('no headroom', capacityRps, demandRps, 0),
    createRow('headroom 40 %', capacityRps, demandRps, 0.4),
  ]
  if (low > 0 && low < capacityRps)
    rows.push(createRow('capacity at the low end of its interval', low, demandRps, headroom))
  if (Number.isFinite(high) && high > capacityRps)
    rows.push(createRow('capacity at the high end of its interval', high, demandRps, headroom))
  return rows
}

interface Pair {
  readonly label: string
  readonly left: Candidate
  readonly right: Candidate
  /** right / left capacity; NaN where either has none. */
  readonly ratio: number
  /** Whether the 90 % intervals overlap. */
  readonly overlap: boolean
}

/** Configurations that two experiments both measured, largest change first. */
export function pairCandidates(left: readonly Candidate[], right: readonly Candidate[]): Pair[] {
  const referenceRows = new Map(left.map((c) => [configurationKey(c.configuration), c]))
  const pairs = right.flatMap((r): Pair[] => {
    const l = referenceRows.get(configurationKey(r.configuration))
    if (!l) return []
    const ratio =
      l.capacityRps > 0 && r.capacityRps > 0 ? r.capacityRps / l.capacityRps : Number.NaN
    const overlap =
      l.capacityCi90Rps[0] <= r.capacityCi90Rps[1] && r.capacityCi90Rps[0] <= l.capacityCi90Rps[1]
    return [{ label: r.label, left: l, right: r, ratio, overlap }]
  })
  const size = ({ ratio }: Pair) => (Number.isFinite(ratio) ? Math.abs(Math.log(ratio)) : -1)
  return pairs.sort((a, b) => size(b) - size(a))
}

type DashboardQuestion = Pick<DashboardExperiment, 'slo' | 'prices'>

/**
 * Differences in SLO and prices between two experiments: 'p99 <= 20 ms instead of p99 <= 50 ms',
 * 'T4 $0.60 / h instead of $0.35'.
 */
export function describeDifferences(
  experiment: DashboardQuestion,
  reference: DashboardQuestion,
): string[] {
  const differences =
    sloText(experiment.slo) === sloText(reference.slo)
      ? []
      : [`${sloText(experiment.slo)} instead of ${sloText(reference.slo)}`]
  const [rows, referenceRows] = [listPrices(experiment.prices), listPrices(reference.prices)]
  const price = (perHour: number | undefined) =>
    perHour === undefined ? 'no price' : `${money(perHour)} / h`
  for (const name of new Set([...rows.keys(), ...referenceRows.keys()]))
    if (rows.get(name) !== referenceRows.get(name))
      differences.push(
        `${name} ${price(rows.get(name))} instead of ${price(referenceRows.get(name))}`,
      )
  return differences
}
