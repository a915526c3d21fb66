/**
 * How far what is known of a configuration can be relied on, from its trials alone. Whatever shows,
 * ranks, recommends or deploys a configuration takes its status and its figures from here.
 */

import type { CurveKnot, DerivedCapacity } from '../../profiler/capacity/capacity-bounds.ts'
import { deriveCapacity } from '../../profiler/capacity/rederive/capacity-under-slo.ts'
import { isImported } from '../../profiler/capacity/rederive/imported-loads.ts'
import { buildLoadCurve } from '../../profiler/capacity/rederive/load-curve.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { areSameSlo, type Slo } from '../../profiler/model/slo.ts'
import { configurationKey } from '../../search/space/space.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import { type Complete, type SecondLook, secondLook } from './second-look.ts'
import { findWindowAt, type Window, windowsOf } from './windows.ts'

/** Each with what it means. */
export const statuses = {
  confirmed: 'a second, independent load test met the SLO and proves it',
  met: 'a second load test met the SLO, with too few requests to prove it',
  measured: 'measured once',
  imported: 'another tool measured it, not tune',
  bound: 'only a bound of its capacity is known',
  refuted: 'its second load test violated the SLO',
  inconclusive: 'inconclusive: other work on the machine disturbed its measurement',
  infeasible: 'cannot serve, or violates the SLO at any rate',
  failed: 'could not be measured',
} as const
export type Status = keyof typeof statuses
export const statusNames = Object.keys(statuses) as [Status, ...Status[]]

/** A second measurement held the SLO at the stated rate. */
export const isConfirmed = (status: Status): boolean => status === 'confirmed' || status === 'met'

/** Its requests fail even one at a time, or it dies of them. */
export const answersNothing = ({
  outcome,
  capacityRps,
}: Pick<Measurement, 'outcome' | 'capacityRps'>): boolean =>
  !(capacityRps > 0) && (outcome === 'errors' || outcome === 'server-died')

/** The trials of one configuration. */
export interface Standing {
  /**
   * The one that stands for it: the last that tells something; one that the machine spoilt, or that
   * failed, only where there is nothing better.
   */
  readonly trial: FinishedTrial
  /** Second measurements, in time order; those that failed are left out. */
  readonly confirmations: readonly FinishedTrial[]
}

export function standingsOf(trials: readonly FinishedTrial[]): Standing[] {
  const standings = new Map<string, Standing>()
  for (const trial of trials) {
    const key = configurationKey(trial.configuration)
    const known = standings.get(key)
    if (trial.purpose === 'confirmation' && known) {
      if (trial.state !== 'failed')
        standings.set(key, { ...known, confirmations: [...known.confirmations, trial] })
    } else if (!known || tells(trial) >= tells(known.trial)) {
      standings.set(key, { confirmations: known?.confirmations ?? [], trial })
    }
  }
  return [...standings.values()]
}

/** 2: of its configuration; 1: that it served; 0: nothing. */
const tells = (trial: FinishedTrial): number =>
  trial.state === 'failed'
    ? 0
    : trial.state === 'complete' && trial.measurement.bounds === 'none'
      ? 1
      : 2

/** Figures of a configuration that was measured. */
export interface Known extends DerivedCapacity {
  readonly status: Exclude<Status, 'infeasible' | 'failed'>
  /**
   * `measured`: in a window at that rate. `model`: the profiler's estimate of where the SLO is
   * reached, or read off the load curve. `idle`: one request at a time.
   */
  readonly sloMsFrom: 'measured' | 'model' | 'unloaded'
  /** Under the SLO; absent where there was none, or it says nothing. */
  readonly second?: SecondLook
  /** Everything measured, first and second. */
  readonly measurement: Measurement
  readonly curve: readonly CurveKnot[]
  readonly windows: readonly Window[]
}

/**
 * A confirmed configuration gives way to one measured once that is cheaper by more than this. The
 * lowest of several noisy costs is too low on average, and a window at the true capacity passes
 * half the time.
 */
export const confirmationMargin = 0.1

/**
 * What is known of a configuration under an SLO. `curve`: makes load curves, for callers that
 * remember them.
 */
export function knownOf(
  first: Complete,
  confirmations: readonly Complete[],
  slo: Slo,
  curve: (measurement: Measurement, slo: Slo) => readonly CurveKnot[] = buildLoadCurve,
): Known {
  const measurement = pooled(first.measurement, confirmations, slo)
  const drawn = curve(measurement, slo)
  const windows = [first, ...confirmations].flatMap((trial) => windowsOf(trial.measurement, slo))
  const estimate = estimateOf(first.measurement, measurement, slo, drawn)
  const look = confirmations
    .map((trial) => secondLook(trial, slo))
    .findLast((look) => look !== undefined)
  const second = look?.met ? { ...look, ...missedBeyond(windows, look.rateRps, slo) } : look
  const common = { measurement, curve: drawn, windows, ...(second && { second }) }
  if (
    second?.met &&
    (areSameSlo(first.measurement.slo, slo) ||
      estimate.capacityRps <= second.rateRps * (1 + confirmationMargin))
  ) {
    return {
      ...confirmedAt(second, estimate),
      ...common,
      status: second.proven ? 'confirmed' : 'met',
    }
  }
  if (second && !second.met && second.rateRps <= estimate.capacityRps) {
    return { ...whatHeld(windows, second.rateRps, estimate), ...common, status: 'refuted' }
  }
  return { ...onceMeasured(estimate, windows, isImported(first.measurement)), ...common }
}

/**
 * The first measurement's estimate, on the points of all: a window that missed below it takes it
 * off the load curve.
 */
function pooled(first: Measurement, confirmations: readonly Complete[], slo: Slo): Measurement {
  if (confirmations.length === 0) return first
  const all = [first, ...confirmations.map((trial) => trial.measurement)]
  const contradicted = confirmations.some(({ measurement }) =>
    windowsOf(measurement, first.slo).some(
      (w) => w.met === false && w.rateRps <= first.capacityRps,
    ),
  )
  return {
    ...first,
    ...(contradicted && { capacityRps: 0, capacityCi90Rps: [0, first.capacityCi90Rps[1]] }),
    unloaded: all.reduce((a, b) => (b.unloaded.requests > a.unloaded.requests ? b : a)).unloaded,
    saturationRps: Math.max(...all.map((m) => m.saturationRps)),
    points: all.flatMap((m) => m.points),
    requests: all.reduce((sum, m) => sum + m.requests, 0),
    // What a confirmation says of itself is about the SLO that it was made for.
    caveats: saidOnce(
      all.filter((m) => m === first || areSameSlo(m.slo, slo)).map(({ caveats }) => caveats),
    ),
  }
}

/**
 * The caveats of measurements, first to last; one that a later measurement has with figures of its
 * own is the later one's.
 */
function saidOnce(measured: readonly (readonly string[])[]): string[] {
  const wordsOf = (caveat: string) => caveat.replace(/[\d.,]+/g, '')
  const said = measured.flatMap((caveats, i) => {
    const later = new Set(measured.slice(i + 1).flatMap((more) => more.map(wordsOf)))
    return caveats.filter((caveat) => !later.has(wordsOf(caveat)))
  })
  return [...new Set(said)]
}

const estimateOf = (
  first: Measurement,
  all: Measurement,
  slo: Slo,
  curve: readonly CurveKnot[],
): DerivedCapacity =>
  areSameSlo(first.slo, slo)
    ? deriveCapacity({ ...all, ...capacityIn(first) }, slo, curve)
    : deriveCapacity(all, slo, curve)

const capacityIn = ({ capacityRps, capacityCi90Rps, bounds }: Measurement) => ({
  capacityRps,
  capacityCi90Rps,
  bounds,
})

/** A confirmation bounds from below; above, the first measurement's bound stays. */
function confirmedAt(
  second: SecondLook,
  { capacityCi90Rps: [, high] }: DerivedCapacity,
): DerivedCapacity & Pick<Known, 'sloMsFrom'> {
  const { rateRps, surelyRps } = second
  const upper = Math.max(rateRps, high)
  return {
    capacityRps: rateRps,
    capacityCi90Rps: [surelyRps, upper],
    bounds: Number.isFinite(upper) ? 'both' : 'lower',
    sloMs: second.sloMs,
    sloMsFrom: 'measured',
    derived: false,
  }
}

/** The lowest rate beyond one that held whose window missed the SLO for certain. */
function missedBeyond(
  windows: readonly Window[],
  provenRps: number,
  { limitMs }: Slo,
): Pick<SecondLook, 'violatedRps'> {
  const missed = windows
    .filter((w) => w.met === false && w.rateRps > provenRps && w.sloCi95Ms[0] > limitMs)
    .map((w) => w.rateRps)
  return missed.length > 0 ? { violatedRps: Math.min(...missed) } : {}
}

/** The highest rate below a refuted one whose window kept the SLO. */
function whatHeld(
  windows: readonly Window[],
  missedRps: number,
  estimate: DerivedCapacity,
): DerivedCapacity & Pick<Known, 'sloMsFrom'> {
  const held = windows.filter((w) => w.met === true && w.rateRps < missedRps)
  const best = held.reduce<Window | undefined>(
    (a, b) => (a && a.rateRps >= b.rateRps ? a : b),
    undefined,
  )
  return {
    capacityRps: best?.rateRps ?? 0,
    capacityCi90Rps: [best?.rateRps ?? 0, missedRps],
    bounds: best ? 'both' : 'upper',
    sloMs: best?.sloMs ?? estimate.sloMs,
    sloMsFrom: best ? 'measured' : estimate.capacityRps > 0 ? 'model' : 'unloaded',
    derived: false,
  }
}

function onceMeasured(
  estimate: DerivedCapacity,
  windows: readonly Window[],
  imported: boolean,
): DerivedCapacity & Pick<Known, 'status' | 'sloMsFrom'> {
  const { capacityRps, capacityCi90Rps, bounds } = estimate
  if (imported) return { ...estimate, status: 'imported', sloMsFrom: 'measured' }
  const status =
    bounds === 'none'
      ? 'inconclusive'
      : bounds === 'both' && !(capacityRps > 0 && capacityCi90Rps[0] === 0)
        ? 'measured'
        : 'bound'
  if (!(capacityRps > 0)) return { ...estimate, status, sloMsFrom: 'unloaded' }
  const there = findWindowAt(windows, capacityRps)
  const bounded = status === 'bound' && capacityCi90Rps[0] === 0 ? { bounds: 'upper' as const } : {}
  return {
    ...estimate,
    ...bounded,
    status,
    sloMs: there?.sloMs ?? estimate.sloMs,
    sloMsFrom: there ? 'measured' : 'model',
  }
}
