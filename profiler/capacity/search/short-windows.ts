/** SLO violations and overload throughput of a short open window. */
import { max, mean, min, sampleVariance } from 'simple-statistics'
import type { LoadRun } from '../../model/load-run.ts'
import { exceedsErrorRate, type Slo, splitByClass } from '../../model/slo.ts'
import { computeViolationShare } from '../../statistics/dependence.ts'

/** Effective sample size of requests, and the share of them over the limit, 0 to 1. */
interface Violations {
  readonly nEff: number
  readonly violationShare: number
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
 * Summarises a window by its violations and its overload throughput. If its error rate exceeds the
 * SLO, all of its requests count as violations.
 * @param rampS time from the start in which the queue builds up. Requests of that time are excluded
 * if at least `minRequests` others remain.
 */
export function summariseWindow(run: LoadRun, slo: Slo, rampS: number): ObservedWindow {
  const { latencyMs, load } = run
  const rateRps = load.kind === 'open' ? load.rateRps : Number.NaN
  // At most a third of the window: a ramp as long as a slow answer must not exclude most of it.
  const rampMs = Math.min(1000 * rampS, (1000 * load.durationS) / 3)
  const exceedsErrors = exceedsErrorRate(
    { requests: latencyMs.length, errors: latencyMs.filter(Number.isNaN).length },
    slo,
  )
  const countViolations = (requests: Pick<LoadRun, 'sentMs' | 'latencyMs'>): Violations => {
    const afterRamp = requests.latencyMs.filter((_, i) => requests.sentMs[i]! >= rampMs)
    const { n, violations, nEff } = computeViolationShare(
      afterRamp.length >= minRequests ? afterRamp : requests.latencyMs,
      slo.limitMs,
    )
    return { nEff, violationShare: exceedsErrors ? 1 : n === 0 ? 0 : violations / n }
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
 * Minimum shortfall of the answers, in standard deviations of the Poisson arrival count (one-sided
 * p = 2 %).
 */
const minStandardErrors = 2
/**
 * Number of equal parts of the overload phase. The dispersion comes from the answers per part.
 * Assumed.
 */
const dispersionParts = 4
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
  const backlog = findBacklogSpan(arrivalsMs, departuresMs)
  if (backlog === undefined) return undefined
  // The span runs from one answer to another. Answers of a batch come together, so a span that
  // began or ended between two answers would not cover whole batch durations.
  const backlogDeparturesMs = departuresMs.filter(
    (atMs) => atMs > backlog.fromMs && atMs <= backlog.untilMs,
  )
  const beginMs = min([Number.POSITIVE_INFINITY, ...backlogDeparturesMs])
  const seconds = (max([beginMs, ...backlogDeparturesMs]) - beginMs) / 1000
  const sinceBeginMs = backlogDeparturesMs
    .filter((atMs) => atMs > beginMs)
    .map((atMs) => atMs - beginMs)
  const answers = sinceBeginMs.length
  if (
    answers < minRequests ||
    rateRps * seconds - answers <= minStandardErrors * Math.sqrt(rateRps * seconds)
  )
    return undefined
  const answersByPart = new Array<number>(dispersionParts).fill(0)
  for (const ms of sinceBeginMs) {
    const part = Math.ceil((dispersionParts * ms) / 1000 / seconds)
    answersByPart[Math.min(dispersionParts, part) - 1]!++
  }
  return {
    answers,
    seconds,
    dispersion: Math.max(minDispersion, sampleVariance(answersByPart) / mean(answersByPart)),
  }
}

/** Finds the span from the first to the last large backlog; undefined without requests. */
function findBacklogSpan(
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
