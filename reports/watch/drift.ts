/**
 * Whether a server has become slower than it was measured: windows into hours, hours into evidence.
 */
import { median } from 'simple-statistics'
import { interpolateLatency } from '../../profiler/capacity/rederive/load-curve.ts'
import { afterHour, type Evidence, hoursOf, noEvidence } from './e-detector.ts'
import { hourOf, hourS, type ProductionWindow, untilS } from './production-window.ts'
import { type MeasuredServer, slownessOf } from './slowness.ts'

export interface DriftQuestion {
  /** Less is no drift, e.g. 0.07: hours that are slower than this by their median count. */
  readonly tolerance: number
  /**
   * A server that has not changed is called slow once in so many days on average, or more rarely.
   */
  readonly falseAlarmDays: number
}

/**
 * How far a server may be from what its curve allows: by the way to it, and by requests that are
 * not quite those of the trials.
 */
const allowance = Math.log(1.1)
/** A step of how busy a replica is. */
const step = 1.25
/** Windows of a step before it has an offset of its own. */
const leastOfStep = 24
/**
 * Hours of production by which the curve is set right, within the allowance, before any is judged.
 */
export const settlingHours = 72
/** Hours that are remembered, for the size of a drift and for its end. */
const rememberedHours = 48
const endHours = 12

interface Hour {
  /** Its beginning, seconds since 1970. */
  readonly atS: number
  /** ln of the median slowness. */
  readonly ln: number
}

/** What is known after so many windows. Plain data, JSON-safe. */
export interface DriftState {
  /** ln of slowness in the hour that is not over. */
  readonly open?: { readonly atS: number; readonly windows: readonly Seen[] }
  /** While the curve is set right. */
  readonly settling?: { readonly hours: number; readonly windows: readonly Seen[] }
  /** ln by which production differs from the curve, by how busy a replica is. */
  readonly offsets?: Readonly<Record<string, number>>
  readonly evidence: Evidence
  /** Since when the evidence has been more than nothing, seconds since 1970. */
  readonly risingS?: number
  readonly hours: readonly Hour[]
  /** A drift that was established and has not ended. */
  readonly established?: { readonly atS: number; readonly sinceS: number }
}

/** [how busy: a step of 25 %, ln of slowness] */
type Seen = readonly [busy: number, ln: number]

export const noDrift: DriftState = {
  settling: { hours: 0, windows: [] },
  evidence: noEvidence,
  hours: [],
}

export interface DriftView {
  readonly state: 'settling' | 'quiet' | 'drifted'
  /** Hours judged, or so far settled. */
  readonly hours: number
  /**
   * Days: a server that has not changed looks like this once in so many, on average, or more
   * rarely.
   */
  readonly evidenceDays: number
  /**
   * By what factor the server takes longer than measured, of the last hours; absent before there is
   * one.
   */
  readonly slowness?: number
  readonly establishedS?: number
  readonly sinceS?: number
}

/** @param window one with fewer requests than say anything of the percentile is passed over */
export function driftAfter(
  before: DriftState,
  window: ProductionWindow,
  server: MeasuredServer,
  replicas: number,
  question: DriftQuestion,
): DriftState {
  const atS = hourOf(window.fromS)
  const closed =
    before.open && atS > before.open.atS
      ? hourClosed(before, server, question, window.seconds)
      : before
  const perReplica = window.rateRps / replicas
  const ln =
    window.sloMs === undefined ? Number.NaN : Math.log(slownessOf(server, perReplica, window.sloMs))
  if (!Number.isFinite(ln)) return closed
  const seen: Seen = [
    Math.round(Math.log(perReplica / server.capacityRps) / Math.log(step)),
    Number(ln.toFixed(4)),
  ]
  return { ...closed, open: { atS, windows: [...(closed.open?.windows ?? []), seen] } }
}

export function driftView({
  settling,
  evidence,
  hours,
  established,
  risingS,
}: DriftState): DriftView {
  const since = established?.sinceS ?? risingS
  const known = hours
    .filter(({ atS }) => since === undefined || atS >= since)
    .slice(-rememberedHours / 2)
  return {
    state: settling ? 'settling' : established ? 'drifted' : 'quiet',
    hours: settling?.hours ?? hours.length,
    evidenceDays: hoursOf(evidence) / 24,
    ...(known.length > 0 && { slowness: Math.exp(median(known.map(({ ln }) => ln))) }),
    ...(established && { establishedS: established.atS, sinceS: established.sinceS }),
  }
}

/** An hour counts when half of its windows said something. */
function hourClosed(
  { open, ...before }: DriftState,
  server: MeasuredServer,
  question: DriftQuestion,
  windowSeconds: number,
): DriftState {
  if (!open || open.windows.length * windowSeconds < hourS / 2) return before
  if (before.settling)
    return settled(
      before,
      server,
      [...before.settling.windows, ...open.windows],
      before.settling.hours + 1,
    )
  const ln = median(
    open.windows.map(([busy, value]) => value - offsetAt(before.offsets ?? {}, busy)),
  )
  return judged(before, { atS: open.atS, ln: Number(ln.toFixed(4)) }, question)
}

function settled(
  before: DriftState,
  server: MeasuredServer,
  windows: readonly Seen[],
  hours: number,
): DriftState {
  if (hours < settlingHours) return { ...before, settling: { hours, windows } }
  const { settling: _, ...rest } = before
  const byBusy = new Map<number, number[]>()
  for (const [busy, ln] of windows) byBusy.set(busy, [...(byBusy.get(busy) ?? []), ln])
  const offsets = [...byBusy]
    .filter(([, values]) => values.length >= leastOfStep)
    .map(([busy, values]) => [String(busy), within(values, busy, server)] as const)
  const middle = median(windows.map(([busy]) => busy))
  const all = within(
    windows.map(([, ln]) => ln),
    middle,
    server,
  )
  return { ...rest, offsets: Object.fromEntries([...offsets, ['all', all]]) }
}

/**
 * The median, as far as the curve may be wrong there: more load is never faster, so it lies between
 * the windows on both sides, each within its interval.
 */
function within(
  values: readonly number[],
  busy: number,
  { capacityRps, curve }: MeasuredServer,
): number {
  const rateRps = capacityRps * step ** busy
  const drawn = interpolateLatency(curve, rateRps)
  const below = curve.findLast((knot) => knot.rateRps <= rateRps)?.lowMs ?? drawn
  const above = curve.find((knot) => knot.rateRps >= rateRps)?.highMs ?? drawn
  return Math.max(
    Math.log(below / drawn) - allowance,
    Math.min(Math.log(above / drawn) + allowance, median([...values])),
  )
}

/** Of the nearest step that was seen often enough. */
function offsetAt(offsets: Readonly<Record<string, number>>, busy: number): number {
  const known = Object.keys(offsets).filter((key) => key !== 'all')
  const nearest = known.sort((a, b) => Math.abs(Number(a) - busy) - Math.abs(Number(b) - busy))[0]
  return offsets[nearest ?? 'all'] ?? 0
}

function judged(
  before: DriftState,
  hour: Hour,
  { tolerance, falseAlarmDays }: DriftQuestion,
): DriftState {
  const slow = (one: Hour) => one.ln > Math.log1p(tolerance)
  const hours = [...before.hours, hour].slice(-rememberedHours)
  if (before.established) {
    const last = hours.filter(({ atS }) => atS >= before.established!.atS).slice(-endHours)
    const over = last.length === endHours && last.filter(slow).length <= endHours / 4
    const { established: _, ...rest } = before
    return over ? { ...rest, evidence: noEvidence, hours } : { ...before, hours }
  }
  const evidence = afterHour(before.evidence, slow(hour))
  const { risingS: rising, ...rest } = before
  const risingS = hoursOf(evidence) > 2 ? (rising ?? hour.atS) : undefined
  if (hoursOf(evidence) < falseAlarmDays * 24)
    return { ...rest, evidence, hours, ...(risingS !== undefined && { risingS }) }
  const atS = untilS({ fromS: hour.atS, seconds: hourS })
  return { ...rest, evidence, hours, established: { atS, sinceS: risingS ?? hour.atS } }
}
