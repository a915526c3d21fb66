/** Traffic against what the deployed replicas carry: counted, hour by hour. */
import { countReplicas } from '../../search/objective.ts'
import { hourOf, hourS, type ProductionWindow } from './production-window.ts'

/** Hours by which a fleet is judged too large: a week, of which so many must have been seen. */
const weekHours = 168
const seenHours = 120

interface TrafficHour {
  readonly atS: number
  /** Of the busiest window, all replicas together, requests per second. */
  readonly mostRps: number
  /** The fewest that served; absent where nobody said. */
  readonly replicas?: number
}

/** The last week by hours, oldest first. Plain data, JSON-safe. */
export type Traffic = readonly TrafficHour[]

export function trafficAfter(
  before: Traffic,
  { fromS, rateRps }: ProductionWindow,
  replicas: number | undefined,
): Traffic {
  const atS = hourOf(fromS)
  const last = before.at(-1)
  const hour = { atS, mostRps: rateRps, ...(replicas !== undefined && { replicas }) }
  if (last?.atS !== atS) return [...before, hour].filter((one) => one.atS > atS - weekHours * hourS)
  const fewest = Math.min(
    last.replicas ?? Number.POSITIVE_INFINITY,
    replicas ?? Number.POSITIVE_INFINITY,
  )
  const joined = {
    atS,
    mostRps: Math.max(last.mostRps, rateRps),
    ...(Number.isFinite(fewest) && { replicas: fewest }),
  }
  return [...before.slice(0, -1), joined]
}

/** The busiest window of the last week, requests per second; 0 before there was one. */
export const peakRps = (traffic: Traffic): number =>
  traffic.reduce((most, hour) => Math.max(most, hour.mostRps), 0)

/** Whether most of a week was seen: before, a peak may be yet to come. */
export const weekSeen = (traffic: Traffic): boolean =>
  traffic.length >= seenHours && traffic.at(-1)!.atS - traffic[0]!.atS >= (weekHours - 2) * hourS

/**
 * More replicas than the busiest hour of a week needs in every hour of it; undefined while there
 * are none, or a week was not seen.
 */
export function idleReplicas(
  traffic: Traffic,
  { capacityRps, headroom }: { readonly capacityRps: number; readonly headroom: number },
): { readonly replicas: number; readonly needed: number; readonly peakRps: number } | undefined {
  if (!weekSeen(traffic)) return undefined
  const known = traffic.flatMap(({ replicas }) => (replicas === undefined ? [] : [replicas]))
  if (known.length < traffic.length) return undefined
  const peak = peakRps(traffic)
  const needed = peak === 0 ? 0 : countReplicas({ demandRps: peak, headroom }, capacityRps)
  const replicas = Math.min(...known)
  return replicas > Math.max(1, needed)
    ? { replicas, needed: Math.max(1, needed), peakRps: peak }
    : undefined
}
