/**
 * Checks whether a recommendation still holds in production: windows in, findings with their evidence
 * out. No I/O.
 */
import type { Slo } from '../../profiler/model/slo.ts'
import { type Bundle, computeFleetPricePerHour } from '../../search/replica-price.ts'
import {
  type DriftSettings,
  type DriftState,
  type DriftSummary,
  initialDrift,
  summariseDrift,
  updateDrift,
} from './drift.ts'
import { getWindowEndS, type ProductionWindow } from './production-window.ts'
import type { MeasuredServer } from './slowness.ts'
import { findIdleReplicas, findPeakRps, type Traffic, updateTraffic } from './traffic.ts'

/** The recommended server and the conditions that it is checked against. */
export interface WatchTarget {
  readonly server: MeasuredServer
  readonly slo: Slo
  /** Share of the capacity that stays free when replicas are counted. */
  readonly headroom: number
  /** Deployed replicas, where the windows do not report them. */
  readonly replicas?: number
  /** The measured model version; absent: the first one observed. */
  readonly version?: string
  /** Price of one replica: when it was recommended, and by today's prices. */
  readonly pricePerHour: { readonly stored: number; readonly today: number }
  /** Whole instances that replicas must be rented in today; absent: replicas are rented singly. */
  readonly bundles?: readonly Bundle[]
  readonly drift: DriftSettings
  /** Ingress overhead that trials did not have, ms. */
  readonly ingressMs: number
}

interface WindowSummary {
  readonly fromS: number
  readonly rateRps: number
  readonly sloMs?: number
  readonly errorShare?: number
  /** Whether it violated the SLO; absent with too few requests, or without latencies. */
  readonly missed?: boolean
  /** Whether its rate exceeded the capacity of the replicas. */
  readonly over: boolean
}

export const watchSchema = 'tune.watch/v1'

/** State after all windows so far. JSON-serialisable. */
export interface WatchState {
  readonly schema: typeof watchSchema
  /** Trial of the watched configuration. */
  readonly trial: number
  /** End of the last window, seconds since 1970. */
  readonly untilS?: number
  readonly windows: number
  readonly drift: DriftState
  readonly traffic: Traffic
  /** Windows of the lookback, see `getLookbackS`. */
  readonly looks: readonly WindowSummary[]
  readonly firstVersion?: string
  readonly versions?: readonly string[]
  readonly last?: ProductionWindow
}

export const createWatchState = (trial: number): WatchState => ({
  schema: watchSchema,
  trial,
  windows: 0,
  drift: initialDrift,
  traffic: [],
  looks: [],
})

/** A reason why the recommendation no longer holds. */
export type Finding =
  | {
      readonly kind: 'slo'
      readonly windows: number
      readonly minutes: number
      readonly sloMs?: number
      readonly errorShare?: number
    }
  | {
      readonly kind: 'drift'
      readonly slowness: number
      readonly sinceS: number
      readonly establishedS: number
    }
  | {
      readonly kind: 'traffic-over'
      readonly minutes: number
      readonly ofMinutes: number
      readonly peakRps: number
      readonly carriesRps: number
      readonly replicas: number
    }
  | {
      readonly kind: 'traffic-under'
      readonly peakRps: number
      readonly replicas: number
      readonly needed: number
      readonly perHour: number
    }
  | { readonly kind: 'version'; readonly measured: string; readonly seen: readonly string[] }
  | { readonly kind: 'price-change'; readonly stored: number; readonly today: number }

export interface WatchReport {
  readonly state: WatchState
  readonly drift: DriftSummary
  readonly peakRps: number
  readonly replicas?: number
  readonly findings: readonly Finding[]
}

/** Windows before a finding: consecutive ones that violate the SLO, or any above the capacity. */
const minWindows = 3
/** Relative price change that counts as rounding. */
const priceTolerance = 0.01

/** Findings on traffic and SLO cover the last hour, or four windows if that is longer. */
const getLookbackS = ({ seconds }: Pick<ProductionWindow, 'seconds'>): number =>
  Math.max(3600, 4 * seconds)

/** @param window is ignored if it starts before the end of the last window */
export function recordWindow(
  previous: WatchState,
  window: ProductionWindow,
  target: WatchTarget,
): WatchState {
  if (previous.untilS !== undefined && window.fromS < previous.untilS) return previous
  const { slo, server } = target
  const sloMs =
    window.sloMs === undefined ? undefined : Math.max(0, window.sloMs - target.ingressMs)
  const replicas = window.replicas ?? target.replicas
  // With fewer than 3 requests expected above the percentile, it depends on the slowest few.
  const isConclusive = window.rateRps * window.seconds >= 3 / (1 - slo.percentile)
  const driftWindow =
    replicas === undefined || replicas === 0 || !isConclusive
      ? { ...window, sloMs: undefined }
      : { ...window, sloMs }
  const violatesSlo =
    (window.sloMs ?? 0) > slo.limitMs || (window.errorShare ?? 0) > slo.maxErrorRate
  const summary: WindowSummary = {
    fromS: window.fromS,
    rateRps: window.rateRps,
    ...(window.sloMs !== undefined && { sloMs: window.sloMs }),
    ...(window.errorShare !== undefined && { errorShare: window.errorShare }),
    ...(isConclusive && (violatesSlo || window.sloMs !== undefined) && { missed: violatesSlo }),
    over: replicas !== undefined && window.rateRps > replicas * server.capacityRps,
  }
  const firstVersion = previous.firstVersion ?? window.versions?.[0]
  const versions =
    window.versions && window.versions.length > 0 ? window.versions : previous.versions
  return {
    ...previous,
    untilS: getWindowEndS(window),
    windows: previous.windows + 1,
    drift: updateDrift(previous.drift, driftWindow, server, replicas || 1, target.drift),
    traffic: updateTraffic(previous.traffic, window, replicas),
    looks: [...previous.looks, summary].filter(
      (one) => one.fromS > window.fromS - getLookbackS(window),
    ),
    ...(firstVersion !== undefined && { firstVersion }),
    ...(versions !== undefined && { versions }),
    last: window,
  }
}

/** Evaluates the windows so far. */
export function evaluateWatch(state: WatchState, target: WatchTarget): WatchReport {
  const drift = summariseDrift(state.drift)
  const replicas = state.last?.replicas ?? target.replicas
  const slowness = drift.state === 'drifted' ? Math.max(1, drift.slowness ?? 1) : 1
  const possibleFindings = [
    findSloViolation(state),
    findDrift(drift),
    findTrafficOver(state, target, replicas),
    findTrafficUnder(state, target, slowness),
    findNewVersion(state, target),
    findPriceChange(state, target),
  ]
  return {
    state,
    drift,
    peakRps: findPeakRps(state.traffic),
    ...(replicas !== undefined && { replicas }),
    findings: possibleFindings.filter((finding) => finding !== undefined),
  }
}

/** Whether a finding may be answered by another configuration or number of replicas. */
export const needsReplanning = (kind: Finding['kind']): boolean => kind !== 'slo'

function findSloViolation({ looks, last }: WatchState): Finding | undefined {
  const conclusiveWindows = looks.filter(({ missed }) => missed !== undefined)
  const lastMet = conclusiveWindows.findLastIndex(({ missed }) => !missed)
  const violations = conclusiveWindows.slice(lastMet + 1)
  const latest = violations.at(-1)
  if (violations.length < minWindows || !latest || !last) return undefined
  const { sloMs, errorShare } = latest
  const figures = {
    ...(sloMs !== undefined && { sloMs }),
    ...(errorShare !== undefined && { errorShare }),
  }
  return {
    kind: 'slo',
    windows: violations.length,
    minutes: (violations.length * last.seconds) / 60,
    ...figures,
  }
}

const findDrift = ({ state, slowness, sinceS, establishedS }: DriftSummary): Finding | undefined =>
  state === 'drifted' && slowness !== undefined
    ? { kind: 'drift', slowness, sinceS: sinceS!, establishedS: establishedS! }
    : undefined

function findTrafficOver(
  { looks, last }: WatchState,
  { server }: WatchTarget,
  replicas: number | undefined,
): Finding | undefined {
  const overloadedWindows = looks.filter(({ over }) => over)
  if (overloadedWindows.length < minWindows || !last || replicas === undefined) return undefined
  const peakRps = Math.max(...overloadedWindows.map(({ rateRps }) => rateRps))
  const minutes = (overloadedWindows.length * last.seconds) / 60
  return {
    kind: 'traffic-over',
    minutes,
    ofMinutes: getLookbackS(last) / 60,
    peakRps,
    carriesRps: replicas * server.capacityRps,
    replicas,
  }
}

function findTrafficUnder(
  { traffic }: WatchState,
  { server, headroom, pricePerHour, bundles }: WatchTarget,
  slowness: number,
): Finding | undefined {
  const idle = findIdleReplicas(traffic, { capacityRps: server.capacityRps / slowness, headroom })
  const perHour = (replicas: number) =>
    computeFleetPricePerHour(
      { pricePerHour: pricePerHour.today, ...(bundles && { bundles }) },
      replicas,
    )
  const saved = idle && perHour(idle.replicas) - perHour(idle.needed)
  // Fewer replicas may need as many whole instances: then nothing is saved.
  if (idle === undefined || saved === undefined || (bundles && saved <= 0)) return undefined
  return { kind: 'traffic-under', ...idle, perHour: saved }
}

function findNewVersion(
  { firstVersion, versions = [] }: WatchState,
  { version }: WatchTarget,
): Finding | undefined {
  const measured = version ?? firstVersion
  const deployedVersions = versions.filter((one) => one !== measured)
  return measured === undefined || deployedVersions.length === 0
    ? undefined
    : { kind: 'version', measured, seen: deployedVersions }
}

/** A price reported by production takes precedence over the price book. */
function findPriceChange(
  { last }: WatchState,
  { pricePerHour: { stored, today: listed } }: WatchTarget,
): Finding | undefined {
  const today = last?.pricePerHour ?? listed
  return stored > 0 && Math.abs(today / stored - 1) > priceTolerance
    ? { kind: 'price-change', stored, today }
    : undefined
}
