/** The traffic of the last week by hours, and whether it needs all deployed replicas. */
import { countReplicas } from '../../search/objective.ts'
import { getHourStartS, hourS, type ProductionWindow } from './production-window.ts'

/** Hours of traffic that are stored. */
const weekHours = 168
/** A full week spans 167 hours from its first hour to its last. One may be missing. */
const minSpanHours = weekHours - 2
/** Hours of a week that must have been observed before a fleet can be called too large. */
const minObservedHours = 120

interface TrafficHour {
  readonly atS: number
  /** Highest rate of a window of this hour, over all replicas, requests per second. */
  readonly mostRps: number
  /** Lowest number of replicas that served; absent if it was not reported. */
  readonly replicas?: number
}

/** The last week by hours, oldest first. JSON-serialisable. */
export type Traffic = readonly TrafficHour[]

export function updateTraffic(
  previous: Traffic,
  { fromS, rateRps }: ProductionWindow,
  replicas: number | undefined,
): Traffic {
  const atS = getHourStartS(fromS)
  const last = previous.at(-1)
  const hour = { atS, mostRps: rateRps, ...(replicas !== undefined && { replicas }) }
  if (last?.atS !== atS)
    return [...previous, hour].filter((one) => one.atS > atS - weekHours * hourS)
  const minReplicas = Math.min(
    last.replicas ?? Number.POSITIVE_INFINITY,
    replicas ?? Number.POSITIVE_INFINITY,
  )
  const joined = {
    atS,
    mostRps: Math.max(last.mostRps, rateRps),
    ...(Number.isFinite(minReplicas) && { replicas: minReplicas }),
  }
  return [...previous.slice(0, -1), joined]
}

/** Finds the busiest window of the last week, requests per second; 0 before there was one. */
export const findPeakRps = (traffic: Traffic): number =>
  traffic.reduce((max, hour) => Math.max(max, hour.mostRps), 0)

/** Whether most of a week was observed; until then the weekly peak may be missing. */
export const coversWeek = (traffic: Traffic): boolean =>
  traffic.length >= minObservedHours &&
  traffic.at(-1)!.atS - traffic[0]!.atS >= minSpanHours * hourS

/**
 * Finds replicas that the busiest hour of a week does not need, though they ran in every hour of it.
 * @returns undefined without them, or before a week was observed
 */
export function findIdleReplicas(
  traffic: Traffic,
  { capacityRps, headroom }: { readonly capacityRps: number; readonly headroom: number },
): { readonly replicas: number; readonly needed: number; readonly peakRps: number } | undefined {
  if (!coversWeek(traffic)) return undefined
  const replicaCounts = traffic.flatMap(({ replicas }) =>
    replicas === undefined ? [] : [replicas],
  )
  if (replicaCounts.length < traffic.length) return undefined
  const peak = findPeakRps(traffic)
  const needed = peak === 0 ? 0 : countReplicas({ demandRps: peak, headroom }, capacityRps)
  const replicas = Math.min(...replicaCounts)
  return replicas > Math.max(1, needed)
    ? { replicas, needed: Math.max(1, needed), peakRps: peak }
    : undefined
}
