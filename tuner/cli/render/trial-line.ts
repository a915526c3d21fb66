/** Formats a finished trial or a load step as one line. */

import { isImported } from '../../../profiler/capacity/rederive/imported-loads.ts'
import { interpolatePercentile } from '../../../profiler/capacity/rederive/load-curve.ts'
import type { Phase } from '../../../profiler/model/load.ts'
import type { LoadPoint, StreamSummary } from '../../../profiler/model/load-point.ts'
import { limitTitle, resolveLimits, type Slo, selectLimits } from '../../../profiler/model/slo.ts'
import { formatMetric } from '../../../profiler/prometheus.ts'
import {
  latency,
  money,
  percent,
  rate,
  significant,
  sloFigure,
  sloName,
  sloValue,
} from '../../../reports/format.ts'
import {
  type CompleteTrial,
  readConfirmation,
} from '../../../reports/recommendation/confirmation-result.ts'
import { rankCandidates } from '../../../reports/recommendation/ranking.ts'
import { findLowestViolation, judgeWindows } from '../../../reports/recommendation/windows.ts'
import {
  estimateText,
  formatCapacity,
  formatLowestViolation,
} from '../../../reports/recommendation/words.ts'
import type { TuneEvent } from '../../loop/events.ts'
import { formatDuration } from './columns.ts'
import { glyph, type Paint, type Style } from './glyphs.ts'
import type { Row } from './progress.ts'

interface Line {
  readonly mark: string
  readonly paint?: Paint
  readonly text: string
}

/** Capacity with interval and price, or why there is none. */
export function formatTrial(
  { trial, label, pricePerHour, attempt }: Omit<Row, 'turnSeconds'>,
  style: Style,
): Line {
  const head = `#${trial.number} ${label}`
  switch (trial.state) {
    case 'complete':
      return trial.purpose === 'confirmation'
        ? formatConfirmation(trial, head, style)
        : formatMeasurement(trial, head, pricePerHour, attempt, style)
    case 'infeasible':
      return {
        mark: glyph('infeasible', style),
        paint: 'yellow',
        text: `${head}: cannot serve, ${trial.reason}: ${takeFirstLine(trial.detail)}`,
      }
    case 'failed':
      return {
        mark: glyph('failed', style),
        paint: 'red',
        text: `${head}: failed, ${takeFirstLine(trial.error)}`,
      }
  }
}

/** Safe capacity and estimate of a measurement. */
function formatMeasurement(
  trial: CompleteTrial,
  head: string,
  pricePerHour: number,
  attempt: number,
  style: Style,
): Line {
  const { measurement, seconds } = trial
  const { slo, unloaded, detail, capacityRps, capacityCi90Rps: ci, bounds } = measurement
  const took = isImported(measurement) ? (detail ?? 'imported') : formatDuration(seconds)
  if (bounds === 'none') {
    const why =
      measurement.outcome === 'host-interference'
        ? `machine busy, attempt ${attempt}`
        : `inconclusive (${detail ?? measurement.outcome})`
    return { mark: glyph('failed', style), paint: 'yellow', text: `${head}: ${why}` }
  }
  const violation = findLowestViolation(judgeWindows(measurement, slo))
  if (bounds === 'upper' && capacityRps === 0 && violation !== undefined)
    return {
      mark: glyph('bullet', style),
      text: `${head}: ${formatLowestViolation(slo, violation)}, ${took}`,
    }
  if (bounds === 'upper' || (capacityRps > 0 && ci[0] === 0)) {
    const why = detail === undefined ? '' : ` (${detail})`
    return { mark: glyph('bullet', style), text: `${head}: at most ${rate(ci[1])}${why}, ${took}` }
  }
  if (capacityRps <= 0) {
    const alone = `${sloName({ ...slo, percentile: 0.99 })} ${sloValue(slo, unloaded.p99Ms)} unloaded`
    return {
      mark: glyph('infeasible', style),
      paint: 'yellow',
      text: `${head}: ${isImported(measurement) ? 'no load met the SLO' : 'violates the SLO'} (${detail ?? alone})`,
    }
  }
  const [judged] = rankCandidates([trial], {
    slo,
    objective: { kind: 'price-per-request' },
    pricePerHour: () => pricePerHour,
    label: () => head,
  })
  const { candidate } = judged!
  const estimate =
    candidate.estimateRps === undefined ? '' : ` (estimate ${estimateText(candidate)})`
  return {
    mark: glyph('done', style),
    paint: 'green',
    text: `${head}: ${formatCapacity(candidate)}${estimate}, ${money(candidate.pricePerMillionRequests)} per million${formatMetrics(measurement)}, ${took}`,
  }
}

function formatConfirmation(trial: CompleteTrial, head: string, style: Style): Line {
  const { slo } = trial.measurement
  const second = readConfirmation(trial, slo)
  const took = formatDuration(trial.seconds)
  if (!second)
    return {
      mark: glyph('failed', style),
      paint: 'yellow',
      text: `${head}: second load test inconclusive (${trial.measurement.detail ?? 'host interference'}), ${took}`,
    }
  const at = `${rate(second.rateRps)}, ${sloFigure(slo, second.sloMs)}`
  return second.met
    ? {
        mark: glyph('done', style),
        paint: 'green',
        text: `${head}: second load test met the SLO at ${at}, ${took}`,
      }
    : {
        mark: glyph('infeasible', style),
        paint: 'yellow',
        text: `${head}: second load test violated the SLO at ${at}, ${took}`,
      }
}

/** Text for each phase of a measurement. */
const phaseNames: Readonly<Record<Phase, string>> = {
  'warm-up': 'warming up',
  unloaded: 'measuring unloaded latency',
  saturation: 'finding saturation',
  search: 'searching capacity',
  curve: 'measuring the load curve',
  confirm: 'confirming',
}

/** 'searching capacity: 120 req/s: p99 43 ms of 50 ms'. */
export function formatStep(point: LoadPoint, slo: Slo | undefined, phase: Phase): string {
  const name = slo ? sloName(slo) : 'p99'
  const limit = slo && !slo.limits ? ` of ${latency(slo.limitMs)}` : ''
  const errors = point.errors > 0 ? `, ${point.errors} errors` : ''
  const good = point.joint ? ` (${percent(point.joint.good)} good)` : ''
  const load =
    point.load.kind === 'closed'
      ? formatClosedLoop(point.load.connections, point)
      : rate(point.offeredRps)
  return `${phaseNames[phase]}: ${load}: ${name} ${slo ? sloValue(slo, point.sloMs) : latency(point.sloMs)}${limit}${good}${formatStreamLatencies(point, slo)}${errors}${point.generatorSaturated ? ' (generator saturated)' : ''}`
}

/** '2 at a time, 120 req/s'; without a rate if no answer arrived during the loop. */
const formatClosedLoop = (
  connections: number,
  { achievedRps, errors, requests }: LoadPoint,
): string =>
  achievedRps === 0 && errors < requests
    ? `${connections} at a time`
    : `${connections} at a time, ${rate(achievedRps)}`

/**
 * ', TTFT 198 of 300 ms, TPOT 14 of 30 ms, 8,040 tokens/s': latencies of a joint SLO at its
 * percentile, and the token rate.
 */
function formatStreamLatencies({ stream }: LoadPoint, slo: Slo | undefined): string {
  if (stream === undefined || stream.e2e.requests === 0) return ''
  const words =
    slo === undefined
      ? []
      : findTightestLimits(stream, slo).map(
          ({ title, ms, limitMs }) => `${title} ${significant(ms)} of ${significant(limitMs)} ms`,
        )
  return [...words, `${significant(stream.outputTokensPerSecond)} tokens/s`]
    .map((each) => `, ${each}`)
    .join('')
}

/** Latencies and limits of a joint SLO; with classes, those of the class nearest to its limits. */
function findTightestLimits(
  stream: StreamSummary,
  slo: Slo,
): { readonly title: string; readonly ms: number; readonly limitMs: number }[] {
  if (slo.limits === undefined && slo.classes === undefined) return []
  const each = (slo.classes?.filter((name) => stream.classes?.[name]) ?? [undefined]).map(
    (requestClass) =>
      selectLimits(resolveLimits(slo), requestClass).map(({ metric, limitMs }) => ({
        title: limitTitle({ metric, ...(requestClass !== undefined && { requestClass }) }),
        ms: interpolatePercentile(
          (requestClass === undefined ? stream : stream.classes![requestClass]!)[metric],
          slo.percentile,
        ),
        limitMs,
      })),
  )
  const greatest = (parts: (typeof each)[number]) =>
    Math.max(...parts.map(({ ms, limitMs }) => ms / limitMs))
  return each.reduce((a, b) => (greatest(b) > greatest(a) ? b : a), [])
}

const takeFirstLine = (text: string) => text.split('\n')[0] ?? ''

/** Formats how long a predictor took to become ready. */
export function formatReady({
  seconds,
  prepared,
  ahead,
}: Extract<TuneEvent, { type: 'predictor-ready' }>): string {
  const notes = [
    ...(prepared ? [formatPreparation(prepared)] : []),
    ...(ahead ? ['started during the previous trial'] : []),
  ]
  return `after ${formatDuration(seconds)}${notes.length > 0 ? ` (${notes.join('; ')})` : ''}`
}

/** Duration of the `prepare` step. */
export const formatPreparation = ({
  seconds,
  reused,
}: {
  readonly seconds: number
  readonly reused: boolean
}): string => (reused ? 'prepared before' : `${formatDuration(seconds)} of it for preparation`)

/** Metrics of the server at its capacity, with their bounds. */
const formatMetrics = ({ metrics = [] }: CompleteTrial['measurement']): string =>
  metrics
    .map(
      (one) =>
        `, ${formatMetric(one)} ${significant(one.value)}${one.max === undefined ? '' : ` of ${significant(one.max)}`}`,
    )
    .join('')

/** Why a trial runs: 'expected improvement 12 %', 'expected improvement 12 %, attempt 2'. */
export const formatReason = (why: string, attempt: number): string =>
  attempt === 1 ? why : `${why}, attempt ${attempt}`
