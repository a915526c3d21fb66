import { linearRegression, mean } from 'simple-statistics'
import { byMetric, type LatencyMetric } from '../model/latency-metrics.ts'
import {
  apart,
  countedRun,
  countWithin,
  keeps,
  limitsFor,
  type Slo,
  type SloLimit,
} from '../model/slo.ts'
import type { JointSummary, LatencySummary, LoadPoint, StreamSummary } from '../model/load-point.ts'
import type { LoadRun, MachineWait, StreamRun } from '../model/load-run.ts'
import { recordedLatencies } from './latency-record.ts'
import { summaryOfSorted } from './latency-summary.ts'
import { quantileInterval, quantileOfSorted } from '../statistics/percentile.ts'

/**
 * Summarises a run against an SLO. Failed requests count as infinitely slow in the SLO percentile,
 * and not at all in the latency summary.
 */
export function loadPointOf(played: LoadRun, slo: Slo): LoadPoint {
  const run = countedRun(played, slo)
  const n = run.latencyMs.length
  const answered = answeredSorted(run.latencyMs)
  const errors = n - answered.length
  // A closed loop sends when it is answered: what it did is what it finished within the window. An
  // open loop's answers all count, as all were asked for. Of a streamed answer what counts may be
  // over long before its end.
  const tookMs = run.stream?.latenciesMs.e2e ?? run.latencyMs
  const finished =
    run.load.kind === 'closed'
      ? run.latencyMs.filter((_, i) => run.sentMs[i]! + tookMs[i]! <= run.seconds * 1000)
      : answered
  const perSecond = (count: number) => (run.seconds > 0 ? count / run.seconds : 0)
  const { sloMs, sloCi95Ms } = percentileOfWorst(run, slo)
  // What keeps up with its load answers at the rate of the load, however long the last answers
  // take; else more was asked than is done by the window's end.
  const keptUp = run.load.kind === 'open' && keeps({ requests: n, errors, sloMs }, slo)
  return {
    ...summaryOfSorted(answered),
    requests: n,
    load: run.load,
    offeredRps: perSecond(run.load.kind === 'closed' ? finished.length + errors : run.planned),
    achievedRps: perSecond(finished.length),
    goodputRps: perSecond(countWithin(finished, slo.limitMs)),
    errors,
    errorKinds: run.errorKinds,
    sloMs,
    sloCi95Ms,
    generatorSaturated: generatorSaturated(run, slo),
    latenessP99Ms: run.latenessP99Ms,
    seconds: run.seconds,
    cut: run.cutMs !== undefined,
    latencies: recordedLatencies(run),
    ...(disturbedByMachine(run.machineWait ?? {}, slo) && { disturbed: true }),
    ...(run.stream && {
      stream: streamSummaryOf(run, run.stream, slo, keptUp ? run.seconds : run.elapsedS),
    }),
    ...(run.stream &&
      slo.limits &&
      n > 0 && { joint: jointSummaryOf(run.latencyMs, run.stream, slo, slo.limits) }),
  }
}

/**
 * The SLO's percentile and its interval over the requests that must keep it by themselves; of
 * several such, of those where each is highest.
 */
function percentileOfWorst(run: LoadRun, slo: Slo): Pick<LoadPoint, 'sloMs' | 'sloCi95Ms'> {
  const each = apart(run, slo).map(({ latencyMs }) => {
    const n = latencyMs.length
    const withFailures = new Float64Array(n).fill(Number.POSITIVE_INFINITY)
    withFailures.set(answeredSorted(latencyMs))
    return {
      sloMs: n === 0 ? Number.POSITIVE_INFINITY : quantileOfSorted(withFailures, slo.percentile),
      interval: quantileInterval(withFailures, slo.percentile, 0.95),
    }
  })
  const highest = (end: 0 | 1) => Math.max(...each.map(({ interval }) => interval[end]))
  return { sloMs: Math.max(...each.map(({ sloMs }) => sloMs)), sloCi95Ms: [highest(0), highest(1)] }
}

function jointSummaryOf(
  countedMs: Float64Array,
  stream: StreamRun,
  slo: Slo,
  limits: readonly SloLimit[],
): JointSummary {
  const metrics = [...new Set(limits.map(({ metric }) => metric))]
  const keptBy = (metric: LatencyMetric) =>
    stream.latenciesMs[metric].filter((ms, i) =>
      limitsFor(limits, stream.classes?.[i]).every((limit) =>
        limit.metric === metric ? ms <= limit.limitMs : !Number.isNaN(ms),
      ),
    ).length
  return {
    good: countWithin(countedMs, slo.limitMs) / countedMs.length,
    kept: Object.fromEntries(metrics.map((metric) => [metric, keptBy(metric) / countedMs.length])),
  }
}

function streamSummaryOf(
  { latencyMs }: LoadRun,
  stream: StreamRun,
  slo: Slo,
  overS: number,
): StreamSummary {
  const output = countedTokens(stream.tokens)
  const input = countedTokens(stream.inputTokens ?? new Float64Array(0))
  return {
    ...byMetric((metric) => summarise(stream.latenciesMs[metric])),
    interToken: summarise(stream.gapsMs),
    outputTokensPerSecond: overS > 0 ? output.sum / overS : 0,
    ...(output.answers > 0 && { outputTokens: output.sum / output.answers }),
    ...(input.answers > 0 && { inputTokens: input.sum / input.answers }),
    ...(stream.classes && { classes: classSummaries(latencyMs, stream, stream.classes, slo) }),
  }
}

/** @param countedMs latencies as the SLO counts them */
function classSummaries(
  countedMs: Float64Array,
  { latenciesMs }: StreamRun,
  classes: NonNullable<StreamRun['classes']>,
  { limitMs }: Slo,
): NonNullable<StreamSummary['classes']> {
  const names = [...new Set(classes)].filter((name) => name !== undefined).sort()
  return Object.fromEntries(
    names.map((name) => {
      const own = (ms: Float64Array) => ms.filter((_, i) => classes[i] === name)
      const [counted, wholeMs] = [own(countedMs), own(latenciesMs.e2e)]
      const [good, errors] = [
        countWithin(counted, limitMs) / counted.length,
        counted.filter((ms, i) => Number.isNaN(ms) && Number.isNaN(wholeMs[i]!)).length,
      ]
      return [name, { ...byMetric((metric) => summarise(own(latenciesMs[metric]))), good, errors }]
    }),
  )
}

function countedTokens(tokens: Float64Array): { readonly sum: number; readonly answers: number } {
  const known = tokens.filter((n) => !Number.isNaN(n))
  return { sum: known.reduce((sum, n) => sum + n, 0), answers: known.length }
}

/** Percentiles of answered requests, in ms. All NaN when there are none. */
export function summarise(latencyMs: Float64Array): LatencySummary {
  return summaryOfSorted(answeredSorted(latencyMs))
}

function answeredSorted(latencyMs: Float64Array): Float64Array {
  const answered = new Float64Array(latencyMs.length)
  let n = 0
  for (let i = 0; i < latencyMs.length; i++)
    if (!Number.isNaN(latencyMs[i]!)) answered[n++] = latencyMs[i]!
  return answered.subarray(0, n).sort()
}

/** Sends later than this (p99) spoil a window: latencies then measure the generator. */
const tolerableLatenessMs = (slo: Slo): number => Math.max(3, 0.05 * slo.limitMs)

/** Share of a window beyond which waiting for a core spoils it. */
const mostWait = 0.05

/**
 * Of the SLO's limit: a shorter mean wait of the generator moves no latency that matters, however
 * often it waits.
 */
const harmlessWait = 0.01

/**
 * Whether the server or the generator waited for a core for more than 5 % of a window, or its host
 * took so much of the machine's time. A server's waits are capacity that is lost; the generator's
 * are latency that is added, and count where they are long beside the SLO. (On a node of a cluster
 * others always run.)
 */
function disturbedByMachine(
  { server = 0, generator = 0, generatorMs = Number.POSITIVE_INFINITY, stolen = 0 }: MachineWait,
  slo: Slo,
): boolean {
  const ofGenerator = generatorMs > harmlessWait * slo.limitMs ? generator : 0
  return Math.max(server, ofGenerator, stolen) > mostWait
}

/**
 * Answers per second up to the last one: of requests that take longer than a window few are
 * finished in it, all that it sent are by then.
 */
export const untilLastRps = ({ latencyMs, elapsedS }: LoadRun): number =>
  elapsedS > 0
    ? latencyMs.reduce((count, ms) => (Number.isNaN(ms) ? count : count + 1), 0) / elapsedS
    : 0

/**
 * Answers per second of a closed loop while all its connections wait: the slope of the count of
 * answers over time, by least squares, from when each connection had one to the end of sending. A
 * window starts with an empty server and its first answers take as long as any: a short one of many
 * connections is mostly that. A batch is answered in one moment, and the slope over one is no rate:
 * no loop gets more than its connections over the mean of their latencies (Little's law).
 * @returns 0 where too few came since to tell
 */
export function allWaitingRps(
  { sentMs, latencyMs, stream, seconds }: LoadRun,
  connections: number,
): number {
  const tookMs = stream?.latenciesMs.e2e ?? latencyMs
  const answers = Array.from(tookMs, (ms, i) => ({ at: sentMs[i]! + ms, ms })).filter(
    ({ at }) => at <= 1000 * seconds,
  )
  const since = answers.sort((a, b) => a.at - b.at).slice(connections)
  if (since.length < connections) return 0
  const { m } = linearRegression(since.map(({ at }, i) => [at / 1000, i]))
  return Number.isFinite(m)
    ? Math.min(m, (1000 * connections) / mean(since.map(({ ms }) => ms)))
    : 0
}

/** Whether so many of the planned sends were left out (1 %) that the rate was not that rate. */
export const leftOut = (run: LoadRun): boolean => run.latencyMs.length < 0.99 * run.planned

function generatorSaturated(run: LoadRun, slo: Slo): boolean {
  if (run.load.kind === 'closed') return run.generatorCores > 0.9
  return leftOut(run) || run.latenessP99Ms > tolerableLatenessMs(slo)
}
