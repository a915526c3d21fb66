/** What a short open window shows: its violations, and its throughput if the server fell behind. */
import { max, mean, min, sampleVariance } from 'simple-statistics'
import type { LoadRun } from '../../model/load-run.ts'
import { exceedsErrorRate, type Slo, splitByClass } from '../../model/slo.ts'
import { computeOverShare } from '../../statistics/dependence.ts'

/** Effective sample size of requests, and the share of them over the limit, 0 to 1. */
interface Violations {
  readonly nEff: number
  readonly over: number
}

/** Violations among all requests of an open window, at its rate. */
export interface ObservedWindow extends Violations {
  readonly rateRps: number
  readonly seconds: number
  /** Violations of each class that has to meet the percentile on its own, by name. */
  readonly classes?: Readonly<Record<string, Violations>>
  /** Throughput while the server fell behind; undefined where it kept up. */
  readonly overload?: OverloadPhase
}

/** The span of a window in which the server was overloaded. */
interface OverloadPhase {
  readonly answers: number
  readonly seconds: number
  /** Index of dispersion of the answers: 1 for exponential services, 0 for constant ones. */
  readonly dispersion: number
}

/** Minimum number of requests to estimate a share or a throughput: a standard error of 22 %. */
const minRequests = 20

/**
 * Counts the violations of a window. Where its error rate exceeds the SLO, all of its requests
 * count as violations.
 * @param rampS time from the start in which the queue builds up; its requests are left out where
 * enough others remain
 */
export function observeWindow(run: LoadRun, slo: Slo, rampS: number): ObservedWindow {
  const { latencyMs, load } = run
  const rateRps = load.kind === 'open' ? load.rateRps : Number.NaN
  // A third of the window at most, so that a slow answer leaves most of it.
  const rampMs = Math.min(1000 * rampS, (1000 * load.durationS) / 3)
  const exceedsErrors = exceedsErrorRate(
    { requests: latencyMs.length, errors: latencyMs.filter(Number.isNaN).length },
    slo,
  )
  const countViolations = (requests: Pick<LoadRun, 'sentMs' | 'latencyMs'>): Violations => {
    const afterRamp = requests.latencyMs.filter((_, i) => requests.sentMs[i]! >= rampMs)
    const { n, over, nEff } = computeOverShare(
      afterRamp.length >= minRequests ? afterRamp : requests.latencyMs,
      slo.limitMs,
    )
    return { nEff, over: exceedsErrors ? 1 : n === 0 ? 0 : over / n }
  }
  const classes = splitByClass(run, slo).flatMap((classRun) =>
    classRun.requestClass === undefined
      ? []
      : [[classRun.requestClass, countViolations(classRun)] as const],
  )
  return {
    rateRps,
    seconds: load.durationS,
    ...countViolations(run),
    ...(classes.length > 0 && { classes: Object.fromEntries(classes) }),
    overload: findOverloadPhase(run, rateRps),
  }
}

/**
 * The server counts as overloaded from the first to the last time at which this share of the
 * maximum backlog was present. Assumed.
 */
const minBacklogShare = 0.5
/**
 * Standard deviations of Poisson arrivals by which the answers must fall short of the arrivals: 2 %
 * one-sided.
 */
const minStandardErrors = 2
/** Equal parts of the span, between which the variance of the answers is taken. Assumed. */
const partCount = 4
/** Lower bound of a dispersion estimated from so few parts. Assumed. */
const minDispersion = 0.1

/**
 * Finds the span in which the server was overloaded. Undefined where the answers did not fall
 * significantly short of the arrivals.
 */
function findOverloadPhase(
  { sentMs, latencyMs, stream }: LoadRun,
  rateRps: number,
): OverloadPhase | undefined {
  const sojournMs = stream?.latenciesMs.e2e ?? latencyMs
  const answered = [...sentMs.keys()].filter((i) => !Number.isNaN(sojournMs[i]!))
  const arrivalsMs = answered.map((i) => sentMs[i]!)
  const departuresMs = answered.map((i) => sentMs[i]! + sojournMs[i]!)
  const busy = findBusySpan(arrivalsMs, departuresMs)
  if (busy === undefined) return undefined
  // The span runs from one answer to another. Answers of a batch come together, so a span that
  // began or ended between two answers would not cover whole batch durations.
  const busyDeparturesMs = departuresMs.filter((atMs) => atMs > busy.fromMs && atMs <= busy.untilMs)
  const beginMs = min([Number.POSITIVE_INFINITY, ...busyDeparturesMs])
  const seconds = (max([beginMs, ...busyDeparturesMs]) - beginMs) / 1000
  const sinceBeginMs = busyDeparturesMs
    .filter((atMs) => atMs > beginMs)
    .map((atMs) => atMs - beginMs)
  const answers = sinceBeginMs.length
  if (
    answers < minRequests ||
    rateRps * seconds - answers <= minStandardErrors * Math.sqrt(rateRps * seconds)
  )
    return undefined
  const answersByPart = new Array<number>(partCount).fill(0)
  for (const ms of sinceBeginMs)
    answersByPart[Math.min(partCount, Math.ceil((partCount * ms) / 1000 / seconds)) - 1]!++
  return {
    answers,
    seconds,
    dispersion: Math.max(minDispersion, sampleVariance(answersByPart) / mean(answersByPart)),
  }
}

/** Span from the first to the last time at which a large backlog was present; undefined without. */
function findBusySpan(
  arrivalsMs: readonly number[],
  departuresMs: readonly number[],
): { readonly fromMs: number; readonly untilMs: number } | undefined {
  const events = [
    ...arrivalsMs.map((atMs) => ({ atMs, change: 1 })),
    ...departuresMs.map((atMs) => ({ atMs, change: -1 })),
  ].sort((a, b) => a.atMs - b.atMs)
  let inSystem = 0
  const counts = events.map(({ change }) => {
    inSystem += change
    return inSystem
  })
  const minBacklog = minBacklogShare * max([0, ...counts])
  const first = counts.findIndex((count) => count >= minBacklog)
  if (first < 0) return undefined
  const last = counts.findLastIndex((count) => count >= minBacklog)
  return { fromMs: events[first]!.atMs, untilMs: events[last]!.atMs }
}

/**
 * Estimates the throughput of the overloaded server over all windows, with its relative standard
 * error. Undefined where no window overloaded it.
 */
export function estimateOverloadThroughput(
  windows: readonly ObservedWindow[],
): { readonly rps: number; readonly relativeError: number } | undefined {
  const phases = windows.flatMap((window) => window.overload ?? [])
  if (phases.length === 0) return undefined
  const sumOver = (getValue: (phase: OverloadPhase) => number) =>
    phases.reduce((total, phase) => total + getValue(phase), 0)
  const answers = sumOver((phase) => phase.answers)
  return {
    rps: answers / sumOver(({ seconds }) => seconds),
    relativeError: Math.sqrt(sumOver((phase) => phase.answers * phase.dispersion)) / answers,
  }
}
