import { linearRegression, mean } from 'simple-statistics'
import { byMetric, type LatencyMetric } from '../model/latency-metrics.ts'
import type { JointSummary, LatencySummary, LoadPoint, StreamSummary } from '../model/load-point.ts'
import type { LoadRun, MachineWait, StreamRun } from '../model/load-run.ts'
import {
  countWithin,
  meetsSlo,
  type Slo,
  type SloLimit,
  selectLimits,
  selectSloLatencies,
  splitByClass,
} from '../model/slo.ts'
import { quantileInterval, quantileOfSorted } from '../statistics/percentile.ts'
import { recordLatencies } from './latency-record.ts'
import { summariseSorted } from './latency-summary.ts'

/**
 * Summarises a run against an SLO. Failed requests count as infinitely slow in the SLO percentile,
 * and are left out of the latency summary.
 */
export function summariseRun(played: LoadRun, slo: Slo): LoadPoint {
  const run = selectSloLatencies(played, slo)
  const n = run.latencyMs.length
  const answered = answeredSorted(run.latencyMs)
  const errors = n - answered.length
  // A closed loop sends after an answer, so its throughput is what it finished within the window.
  // In an open loop all answers count. The counted part of a streamed answer may end long before
  // the answer.
  const tookMs = run.stream?.latenciesMs.e2e ?? run.latencyMs
  const finished =
    run.load.kind === 'closed'
      ? run.latencyMs.filter((_, i) => run.sentMs[i]! + tookMs[i]! <= run.seconds * 1000)
      : answered
  const perSecond = (count: number) => (run.seconds > 0 ? count / run.seconds : 0)
  const { sloMs, sloCi95Ms } = computeWorstPercentile(run, slo)
  // A server that keeps up answers at the rate of the load, however long the last answers take.
  // Else the time until the last answer counts.
  const keptUp = run.load.kind === 'open' && meetsSlo({ requests: n, errors, sloMs }, slo)
  return {
    ...summariseSorted(answered),
    requests: n,
    load: run.load,
    offeredRps: perSecond(run.load.kind === 'closed' ? finished.length + errors : run.planned),
    achievedRps: perSecond(finished.length),
    goodputRps: perSecond(countWithin(finished, slo.limitMs)),
    errors,
    errorKinds: run.errorKinds,
    sloMs,
    sloCi95Ms,
    generatorSaturated: isGeneratorSaturated(run, slo),
    latenessP99Ms: run.latenessP99Ms,
    seconds: run.seconds,
    cut: run.cutMs !== undefined,
    latencies: recordLatencies(run),
    ...(isDisturbed(run.machineWait ?? {}, slo) && { disturbed: true }),
    ...(run.stream && {
      stream: summariseStream(run, run.stream, slo, keptUp ? run.seconds : run.elapsedS),
    }),
    ...(run.stream &&
      slo.limits &&
      n > 0 && { joint: summariseJoint(run.latencyMs, run.stream, slo, slo.limits) }),
  }
}

/** SLO percentile and its interval; with classes, the highest of each class. */
function computeWorstPercentile(run: LoadRun, slo: Slo): Pick<LoadPoint, 'sloMs' | 'sloCi95Ms'> {
  const each = splitByClass(run, slo).map(({ latencyMs }) => {
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

function summariseJoint(
  countedMs: Float64Array,
  stream: StreamRun,
  slo: Slo,
  limits: readonly SloLimit[],
): JointSummary {
  const metrics = [...new Set(limits.map(({ metric }) => metric))]
  const countWithinLimits = (metric: LatencyMetric) =>
    stream.latenciesMs[metric].filter((ms, i) =>
      selectLimits(limits, stream.classes?.[i]).every((limit) =>
        limit.metric === metric ? ms <= limit.limitMs : !Number.isNaN(ms),
      ),
    ).length
  return {
    good: countWithin(countedMs, slo.limitMs) / countedMs.length,
    kept: Object.fromEntries(
      metrics.map((metric) => [metric, countWithinLimits(metric) / countedMs.length]),
    ),
  }
}

function summariseStream(
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
    ...(stream.classes && { classes: summariseClasses(latencyMs, stream, stream.classes, slo) }),
  }
}

/** @param countedMs latencies that the SLO counts */
function summariseClasses(
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

/** Percentiles of answered requests, ms; all NaN without one. */
export function summarise(latencyMs: Float64Array): LatencySummary {
  return summariseSorted(answeredSorted(latencyMs))
}

function answeredSorted(latencyMs: Float64Array): Float64Array {
  const answered = new Float64Array(latencyMs.length)
  let n = 0
  for (let i = 0; i < latencyMs.length; i++)
    if (!Number.isNaN(latencyMs[i]!)) answered[n++] = latencyMs[i]!
  return answered.subarray(0, n).sort()
}

/** Largest p99 lateness of sends; beyond it latencies measure the generator. */
const maxLatenessMs = (slo: Slo): number => Math.max(3, 0.05 * slo.limitMs)

/** Share of a window beyond which waiting for a core makes it invalid. */
const maxWaitShare = 0.05

/**
 * Share of the SLO limit below which the mean wait of the generator does not matter, however often
 * it waits.
 */
const harmlessWaitShare = 0.01

/**
 * Whether the server or the generator waited for a core for more than 5 % of a window, or the
 * hypervisor withheld so much CPU time. Waits of the server are lost capacity. Waits of the
 * generator are added latency, and count only where they are long compared with the SLO, as other
 * processes always run on a cluster node.
 */
function isDisturbed(
  { server = 0, generator = 0, generatorMs = Number.POSITIVE_INFINITY, stolen = 0 }: MachineWait,
  slo: Slo,
): boolean {
  const ofGenerator = generatorMs > harmlessWaitShare * slo.limitMs ? generator : 0
  return Math.max(server, ofGenerator, stolen) > maxWaitShare
}

/**
 * Answers per second until the last one. Few requests longer than a window finish within it, but
 * all of them do by then.
 */
export const computeRateUntilLast = ({ latencyMs, elapsedS }: LoadRun): number =>
  elapsedS > 0
    ? latencyMs.reduce((count, ms) => (Number.isNaN(ms) ? count : count + 1), 0) / elapsedS
    : 0

/**
 * Throughput of a closed loop while all its connections wait: the least-squares slope of the answer
 * count over time, from when each connection had one answer to the end of sending. Before that, the
 * server fills, which makes up most of a short window with many connections. The slope over a
 * single batch is no rate, so it is bounded by Little's law: connections over their mean latency.
 * @returns 0 with too few answers
 */
export function computeRateWhileAllWait(
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

/**
 * Whether 1 % of the planned sends or more are missing, so that the rate was not the intended one.
 */
export const hasMissingSends = (run: LoadRun): boolean => run.latencyMs.length < 0.99 * run.planned

function isGeneratorSaturated(run: LoadRun, slo: Slo): boolean {
  if (run.load.kind === 'closed') return run.generatorCores > 0.9
  return hasMissingSends(run) || run.latenessP99Ms > maxLatenessMs(slo)
}
