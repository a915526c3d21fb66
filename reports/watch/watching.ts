/**
 * Whether a recommendation still holds in production: windows in, findings with their evidence out.
 * Nothing is read here and nothing told.
 */
import type { Slo } from '../../profiler/model/slo.ts'
import { type Bundle, computeFleetPricePerHour } from '../../search/replica-price.ts'
import {
  type DriftQuestion,
  type DriftState,
  type DriftView,
  driftAfter,
  driftView,
  noDrift,
} from './drift.ts'
import { type ProductionWindow, untilS } from './production-window.ts'
import type { MeasuredServer } from './slowness.ts'
import { idleReplicas, peakRps, type Traffic, trafficAfter } from './traffic.ts'

/** What was recommended, and what is asked of it. */
export interface Watched {
  readonly server: MeasuredServer
  readonly slo: Slo
  /** Share of the capacity that is kept free when replicas are counted. */
  readonly headroom: number
  /** Deployed, where the windows do not say. */
  readonly replicas?: number
  /** The version that was measured; absent: the first that is seen. */
  readonly version?: string
  /** Of one replica, per hour: when it was recommended, and by today's prices. */
  readonly pricePerHour: { readonly stored: number; readonly today: number }
  /** Whole instances that replicas are sold in today; absent: each by itself. */
  readonly bundles?: readonly Bundle[]
  readonly drift: DriftQuestion
  /** What the way to the server adds, which trials did not have, ms. */
  readonly detourMs: number
}

interface Look {
  readonly fromS: number
  readonly rateRps: number
  readonly sloMs?: number
  readonly errorShare?: number
  /** Absent where its requests are too few to say, or nobody said how long they took. */
  readonly missed?: boolean
  readonly over: boolean
}

export const watchSchema = 'tune.watch/v1'

/** What is known after all windows so far. Plain data, JSON-safe. */
export interface WatchState {
  readonly schema: typeof watchSchema
  /** Of the configuration that is watched. */
  readonly trial: number
  /** Until when windows were read, seconds since 1970. */
  readonly untilS?: number
  readonly windows: number
  readonly drift: DriftState
  readonly traffic: Traffic
  /** The last hour or so. */
  readonly looks: readonly Look[]
  readonly firstVersion?: string
  readonly versions?: readonly string[]
  readonly last?: ProductionWindow
}

export const nothingSeen = (trial: number): WatchState => ({
  schema: watchSchema,
  trial,
  windows: 0,
  drift: noDrift,
  traffic: [],
  looks: [],
})

/** Something because of which the recommendation no longer holds. */
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
      readonly mostRps: number
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

export interface Watching {
  readonly state: WatchState
  readonly drift: DriftView
  readonly peakRps: number
  readonly replicas?: number
  readonly findings: readonly Finding[]
}

/**
 * Windows in a row that miss the SLO, and windows of the last hour or so over what the replicas
 * carry, before either is said.
 */
const inARow = 3
/** A price that moves less is rounding. */
const samePrice = 0.01

/**
 * What is told of the traffic and the SLO is told of the last hour, or of four windows if that is
 * longer.
 */
const spanS = ({ seconds }: Pick<ProductionWindow, 'seconds'>): number =>
  Math.max(3600, 4 * seconds)

/** @param window later than those before it; one that is not changes nothing */
export function windowSeen(
  before: WatchState,
  window: ProductionWindow,
  watched: Watched,
): WatchState {
  if (before.untilS !== undefined && window.fromS < before.untilS) return before
  const { slo, server } = watched
  const sloMs =
    window.sloMs === undefined ? undefined : Math.max(0, window.sloMs - watched.detourMs)
  const replicas = window.replicas ?? watched.replicas
  // Of fewer requests the percentile is one of the slowest few.
  const says = window.rateRps * window.seconds >= 3 / (1 - slo.percentile)
  const judged =
    replicas === undefined || replicas === 0 || !says
      ? { ...window, sloMs: undefined }
      : { ...window, sloMs }
  const missed = (window.sloMs ?? 0) > slo.limitMs || (window.errorShare ?? 0) > slo.maxErrorRate
  const look: Look = {
    fromS: window.fromS,
    rateRps: window.rateRps,
    ...(window.sloMs !== undefined && { sloMs: window.sloMs }),
    ...(window.errorShare !== undefined && { errorShare: window.errorShare }),
    ...(says && (missed || window.sloMs !== undefined) && { missed }),
    over: replicas !== undefined && window.rateRps > replicas * server.capacityRps,
  }
  const firstVersion = before.firstVersion ?? window.versions?.[0]
  const versions = window.versions && window.versions.length > 0 ? window.versions : before.versions
  return {
    ...before,
    untilS: untilS(window),
    windows: before.windows + 1,
    drift: driftAfter(before.drift, judged, server, replicas || 1, watched.drift),
    traffic: trafficAfter(before.traffic, window, replicas),
    looks: [...before.looks, look].filter((one) => one.fromS > window.fromS - spanS(window)),
    ...(firstVersion !== undefined && { firstVersion }),
    ...(versions !== undefined && { versions }),
    last: window,
  }
}

/** What holds and what does not, after the windows so far. */
export function watching(state: WatchState, watched: Watched): Watching {
  const drift = driftView(state.drift)
  const replicas = state.last?.replicas ?? watched.replicas
  const slower = drift.state === 'drifted' ? Math.max(1, drift.slowness ?? 1) : 1
  const found = [
    sloFinding(state),
    driftFinding(drift),
    overFinding(state, watched, replicas),
    underFinding(state, watched, slower),
    versionFinding(state, watched),
    priceFinding(state, watched),
  ]
  return {
    state,
    drift,
    peakRps: peakRps(state.traffic),
    ...(replicas !== undefined && { replicas }),
    findings: found.filter((finding) => finding !== undefined),
  }
}

/** Those whose answer may be another configuration, or other replicas. */
export const asksForAPlan = (kind: Finding['kind']): boolean => kind !== 'slo'

function sloFinding({ looks, last }: WatchState): Finding | undefined {
  const saying = looks.filter(({ missed }) => missed !== undefined)
  const row = saying.slice(saying.findLastIndex(({ missed }) => !missed) + 1)
  const worst = row.at(-1)
  if (row.length < inARow || !worst || !last) return undefined
  const { sloMs, errorShare } = worst
  const figures = {
    ...(sloMs !== undefined && { sloMs }),
    ...(errorShare !== undefined && { errorShare }),
  }
  return { kind: 'slo', windows: row.length, minutes: (row.length * last.seconds) / 60, ...figures }
}

const driftFinding = ({ state, slowness, sinceS, establishedS }: DriftView): Finding | undefined =>
  state === 'drifted' && slowness !== undefined
    ? { kind: 'drift', slowness, sinceS: sinceS!, establishedS: establishedS! }
    : undefined

function overFinding(
  { looks, last }: WatchState,
  { server }: Watched,
  replicas: number | undefined,
): Finding | undefined {
  const over = looks.filter((look) => look.over)
  if (over.length < inARow || !last || replicas === undefined) return undefined
  const mostRps = Math.max(...over.map(({ rateRps }) => rateRps))
  const minutes = (over.length * last.seconds) / 60
  return {
    kind: 'traffic-over',
    minutes,
    ofMinutes: spanS(last) / 60,
    mostRps,
    carriesRps: replicas * server.capacityRps,
    replicas,
  }
}

function underFinding(
  { traffic }: WatchState,
  { server, headroom, pricePerHour, bundles }: Watched,
  slower: number,
): Finding | undefined {
  const idle = idleReplicas(traffic, { capacityRps: server.capacityRps / slower, headroom })
  const perHour = (replicas: number) =>
    computeFleetPricePerHour(
      { pricePerHour: pricePerHour.today, ...(bundles && { bundles }) },
      replicas,
    )
  const saved = idle && perHour(idle.replicas) - perHour(idle.needed)
  // As many instances hold fewer: nothing is to be saved.
  if (idle === undefined || saved === undefined || (bundles && saved <= 0)) return undefined
  return { kind: 'traffic-under', ...idle, perHour: saved }
}

function versionFinding(
  { firstVersion, versions = [] }: WatchState,
  { version }: Watched,
): Finding | undefined {
  const measured = version ?? firstVersion
  const seen = versions.filter((one) => one !== measured)
  return measured === undefined || seen.length === 0
    ? undefined
    : { kind: 'version', measured, seen }
}

/** What production itself says of the price goes before the price book. */
function priceFinding(
  { last }: WatchState,
  { pricePerHour: { stored, today: listed } }: Watched,
): Finding | undefined {
  const today = last?.pricePerHour ?? listed
  return stored > 0 && Math.abs(today / stored - 1) > samePrice
    ? { kind: 'price-change', stored, today }
    : undefined
}
