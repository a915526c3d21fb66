/**
 * Summarises a run under an SLO: the load point that is stored, printed and judged. The validity of
 * the window is judged in window-validity.ts, the throughput of closed loops in throughput.ts.
 */
import { type LatencyMetric, mapMetrics } from '../model/latency-metrics.ts'
import type { JointSummary, LatencySummary, LoadPoint, StreamSummary } from '../model/load-point.ts'
import type { LoadRun, StreamRun } from '../model/load-run.ts'
import {
  countWithin,
  meetsSlo,
  type Slo,
  type SloLimit,
  selectLimits,
  selectSloLatencies,
  splitByClass,
} from '../model/slo.ts'
import { computeQuantileInterval, selectQuantile } from '../statistics/percentile.ts'
import { recordLatencies } from './latency-record.ts'
import { summariseSorted } from './latency-summary.ts'
import { hasHostInterference, isGeneratorSaturated } from './window-validity.ts'

/**
 * Summarises a run under an SLO. Failed requests count as infinitely slow in the SLO percentile,
 * and are left out of the latency summary.
 */
export function summariseRun(played: LoadRun, slo: Slo): LoadPoint {
  const run = selectSloLatencies(played, slo)
  const n = run.latencyMs.length
  const answeredMs = sortAnswered(run.latencyMs)
  const errors = n - answeredMs.length
  // In a closed loop, answers after the end of the window do not count as throughput; in an open
  // loop all answers count. `latencyMs` may be the time to the first token, so the end of a
  // streamed answer is taken from its end-to-end latency.
  const wholeAnswerMs = run.stream?.latenciesMs.e2e ?? run.latencyMs
  const finishedMs =
    run.load.kind === 'closed'
      ? run.latencyMs.filter((_, i) => run.sentMs[i]! + wholeAnswerMs[i]! <= run.seconds * 1000)
      : answeredMs
  const computePerSecond = (count: number) => (run.seconds > 0 ? count / run.seconds : 0)
  const { sloMs, sloCi95Ms } = computeWorstPercentile(run, slo)
  // A server that meets the SLO keeps up with the load, so its token rate is taken over the window.
  // Otherwise it still answers the backlog after the window, and the time until the last answer
  // counts.
  const isSustained = run.load.kind === 'open' && meetsSlo({ requests: n, errors, sloMs }, slo)
  return {
    ...summariseSorted(answeredMs),
    requests: n,
    load: run.load,
    offeredRps: computePerSecond(
      run.load.kind === 'closed' ? finishedMs.length + errors : run.planned,
    ),
    achievedRps: computePerSecond(finishedMs.length),
    goodputRps: computePerSecond(countWithin(finishedMs, slo.limitMs)),
    errors,
    errorKinds: run.errorKinds,
    sloMs,
    sloCi95Ms,
    generatorSaturated: isGeneratorSaturated(run, slo),
    latenessP99Ms: run.latenessP99Ms,
    seconds: run.seconds,
    cut: run.cutMs !== undefined,
    latencies: recordLatencies(run),
    ...(hasHostInterference(run.machineWait ?? {}, slo) && { invalid: true }),
    ...(run.stream && {
      stream: summariseStream(run, run.stream, slo, isSustained ? run.seconds : run.elapsedS),
    }),
    ...(run.stream &&
      slo.limits &&
      n > 0 && { joint: summariseJoint(run.latencyMs, run.stream, slo, slo.limits) }),
  }
}

/** Computes the SLO percentile and its 95 % interval; with classes of requests, of the worst. */
function computeWorstPercentile(run: LoadRun, slo: Slo): Pick<LoadPoint, 'sloMs' | 'sloCi95Ms'> {
  const perClass = splitByClass(run, slo).map(({ latencyMs }) => {
    const n = latencyMs.length
    const withFailures = new Float64Array(n).fill(Number.POSITIVE_INFINITY)
    withFailures.set(sortAnswered(latencyMs))
    return {
      sloMs: n === 0 ? Number.POSITIVE_INFINITY : selectQuantile(withFailures, slo.percentile),
      interval: computeQuantileInterval(withFailures, slo.percentile, 0.95),
    }
  })
  const findHighest = (end: 0 | 1) => Math.max(...perClass.map(({ interval }) => interval[end]))
  return {
    sloMs: Math.max(...perClass.map(({ sloMs }) => sloMs)),
    sloCi95Ms: [findHighest(0), findHighest(1)],
  }
}

/**
 * Computes the shares of requests that meet a joint SLO, which limits several latencies of each
 * answer. `good` requests meet all limits, `met[metric]` those of one metric, which shows the limit
 * that fails.
 * @param countedMs latencies normalised to the SLO by `selectSloLatencies`: at most `slo.limitMs`
 * where all limits are met
 */
function summariseJoint(
  countedMs: Float64Array,
  stream: StreamRun,
  slo: Slo,
  limits: readonly SloLimit[],
): JointSummary {
  const metrics = [...new Set(limits.map(({ metric }) => metric))]
  // Limits of other metrics still require an answer: a failed request meets none.
  const countWithinLimits = (metric: LatencyMetric) =>
    stream.latenciesMs[metric].filter((ms, i) =>
      selectLimits(limits, stream.classes?.[i]).every((limit) =>
        limit.metric === metric ? ms <= limit.limitMs : !Number.isNaN(ms),
      ),
    ).length
  return {
    good: countWithin(countedMs, slo.limitMs) / countedMs.length,
    met: Object.fromEntries(
      metrics.map((metric) => [metric, countWithinLimits(metric) / countedMs.length]),
    ),
  }
}

/**
 * Summarises streamed answers.
 * @param rateTimeS time over which the token rate is computed, seconds
 */
function summariseStream(
  { latencyMs }: LoadRun,
  stream: StreamRun,
  slo: Slo,
  rateTimeS: number,
): StreamSummary {
  const output = sumTokens(stream.tokens)
  const input = sumTokens(stream.inputTokens ?? new Float64Array(0))
  return {
    ...mapMetrics((metric) => summarise(stream.latenciesMs[metric])),
    interToken: summarise(stream.gapsMs),
    outputTokensPerSecond: rateTimeS > 0 ? output.sum / rateTimeS : 0,
    ...(output.answers > 0 && { outputTokens: output.sum / output.answers }),
    ...(input.answers > 0 && { inputTokens: input.sum / input.answers }),
    ...(stream.classes && { classes: summariseClasses(latencyMs, stream, stream.classes, slo) }),
  }
}

/**
 * Summarises each class of requests. A request failed when it has neither a counted latency nor an
 * end-to-end latency.
 * @param countedMs latencies that the SLO constrains
 */
function summariseClasses(
  countedMs: Float64Array,
  { latenciesMs }: StreamRun,
  classes: NonNullable<StreamRun['classes']>,
  { limitMs }: Slo,
): NonNullable<StreamSummary['classes']> {
  const names = [...new Set(classes)].filter((name) => name !== undefined).sort()
  return Object.fromEntries(
    names.map((name) => {
      const selectClass = (ms: Float64Array) => ms.filter((_, i) => classes[i] === name)
      const classMs = selectClass(countedMs)
      const e2eMs = selectClass(latenciesMs.e2e)
      const good = countWithin(classMs, limitMs) / classMs.length
      const errors = classMs.filter((ms, i) => Number.isNaN(ms) && Number.isNaN(e2eMs[i]!)).length
      const latencies = mapMetrics((metric) => summarise(selectClass(latenciesMs[metric])))
      return [name, { ...latencies, good, errors }]
    }),
  )
}

/** Sums the token counts of the answers that report one. */
function sumTokens(tokens: Float64Array): { readonly sum: number; readonly answers: number } {
  const countedTokens = tokens.filter((n) => !Number.isNaN(n))
  return { sum: countedTokens.reduce((sum, n) => sum + n, 0), answers: countedTokens.length }
}

/** Summarises the latencies of answered requests, ms; all figures are NaN without one. */
export function summarise(latencyMs: Float64Array): LatencySummary {
  return summariseSorted(sortAnswered(latencyMs))
}

/** Sorts the latencies of the answered requests; NaN marks a failed one. */
function sortAnswered(latencyMs: Float64Array): Float64Array {
  const answeredMs = new Float64Array(latencyMs.length)
  let n = 0
  for (let i = 0; i < latencyMs.length; i++)
    if (!Number.isNaN(latencyMs[i]!)) answeredMs[n++] = latencyMs[i]!
  return answeredMs.subarray(0, n).sort()
}
