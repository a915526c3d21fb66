/**
 * OpenTelemetry: OTLP over HTTP, as JSON (https://opentelemetry.io/docs/specs/otlp/). A run is a
 * trace: the run a span, each trial and confirmation a span below it. Its figures, load steps among
 * them, are the gauges that Prometheus is written (prometheus-series.ts), by OpenTelemetry's names.
 */
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  trace,
  ValueType,
} from '@opentelemetry/api'
import { JsonMetricsSerializer, JsonTraceSerializer } from '@opentelemetry/otlp-transformer'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { AggregationTemporality, DataPointType, type MetricData } from '@opentelemetry/sdk-metrics'
import { type ReadableSpan, TracerProvider } from '@opentelemetry/sdk-trace'
import { jsonFrom } from '../../profiler/bounded-reader.ts'
import { plainText } from '../../profiler/plain-text.ts'
import { sloText } from '../../profiler/slo.ts'
import type { Configuration } from '../../search/types.ts'
import { withoutSecrets } from '../../trials/secrets.ts'
import type { OutputTarget } from '../experiment/output-target.ts'
import type { TuneEvent } from '../loop/events.ts'
import { Batches } from './batches.ts'
import { Delivery } from './delivery.ts'
import type { Output } from './output.ts'
import { RunSeries, type Sample, seriesHelp } from './prometheus-series.ts'

const scope = { name: 'tune' }
const resource = resourceFromAttributes({ 'service.name': 'tune' })

/** @param warn told of what is lost */
export function openTelemetry(
  target: OutputTarget,
  warn: (message: string) => void,
  now: () => number,
): Output {
  const delivery = new Delivery(target, warn, now)
  const send = async (path: string, body: Uint8Array) => {
    const answer = await delivery.send({ path, contentType: 'application/json', body })
    const refused = answer === undefined ? undefined : refusedOf(answer)
    if (refused !== undefined) delivery.lost(`${path} took a part alone: ${refused}`)
  }
  const samples = new Batches<Sample>((batch) => send('/v1/metrics', metricsOf(batch)))
  const ended = new Batches<ReadableSpan>((batch) =>
    send('/v1/traces', JsonTraceSerializer.serializeRequest([...batch])!),
  )
  const series = new RunSeries()
  const spans = new RunSpans((span) => ended.add(span))
  return {
    handle(event: TuneEvent) {
      samples.add(...series.samplesOf(event).filter(({ value }) => Number.isFinite(value)))
      spans.take(event)
    },
    async close() {
      spans.end(now())
      await Promise.all([samples.sent(), ended.sent()])
      await delivery.close()
    },
  }
}

/** What a receiver says that it left out of a message which it took. */
function refusedOf(answer: string): string | undefined {
  try {
    const { partialSuccess } = jsonFrom(answer || '{}') as {
      partialSuccess?: { errorMessage?: unknown }
    }
    return partialSuccess?.errorMessage
      ? plainText(withoutSecrets(String(partialSuccess.errorMessage))).slice(0, 200)
      : undefined
  } catch {
    return undefined // Its state said that it took it.
  }
}

/** The spans of a run: begun and ended at the times of its events. */
class RunSpans {
  readonly #tracer
  #whole: { readonly span: Span; readonly context: Context } | undefined
  readonly #open = new Map<number, Span>()

  constructor(onEnd: (span: ReadableSpan) => void) {
    const keepNothing = async () => {}
    const processor = { onStart() {}, onEnd, forceFlush: keepNothing, shutdown: keepNothing }
    this.#tracer = new TracerProvider({ resource, spanProcessors: [processor] }).getTracer(
      scope.name,
    )
  }

  take(event: TuneEvent): void {
    const atMs = Date.parse(event.at)
    switch (event.type) {
      case 'experiment-started': {
        const { experimentId, name, provenance, seed, slo } = event
        const attributes = {
          'tune.experiment': experimentId,
          'tune.name': name,
          'tune.provenance': provenance,
          'tune.seed': seed,
        }
        const span = this.#tracer.startSpan(
          `tune ${name}`,
          { startTime: atMs, attributes: { ...attributes, 'tune.slo': sloText(slo) } },
          ROOT_CONTEXT,
        )
        this.#whole = { span, context: trace.setSpan(ROOT_CONTEXT, span) }
        return
      }
      case 'trial-started':
        this.#begin(event.number, `trial ${event.number}`, atMs, event.suggestion.configuration, {
          'tune.why': event.suggestion.why,
        })
        return
      case 'confirming':
        this.#begin(event.number, `confirmation ${event.number}`, atMs, event.configuration, {})
        return
      case 'predictor-ready':
        this.#open
          .get(event.number)
          ?.addEvent('predictor ready', { 'tune.isolation': event.isolation }, atMs)
        return
      case 'trial-finished': {
        const { trial, pricePerHour } = event
        const told = { 'tune.state': trial.state, 'tune.price_per_hour': pricePerHour }
        const fault = trial.state === 'failed' ? trial.error : undefined
        const more = {
          ...(trial.state === 'complete' && { 'tune.capacity_rps': trial.measurement.capacityRps }),
          ...(trial.state === 'infeasible' && {
            'tune.reason': `${trial.reason}: ${trial.detail}`,
          }),
        }
        this.#ends(trial.number, atMs, { ...told, ...more }, fault)
        return
      }
      case 'confirmed':
        this.#ends(event.number, atMs, {
          'tune.held': event.held,
          'tune.confirmed_rps': event.rateRps,
        })
        return
      case 'warning':
        this.#whole?.span.addEvent('warning', { message: event.message }, atMs)
        return
      case 'stopped':
        this.#whole?.span.setAttributes({
          'tune.stopped': event.reason,
          'tune.stopped_because': event.detail,
        })
        if (event.reason === 'failed')
          this.#whole?.span.setStatus({ code: SpanStatusCode.ERROR, message: event.detail })
        return
      case 'recommended': {
        const { verdict, conclusion } = event.recommendation
        this.#whole?.span.setAttributes({ 'tune.verdict': verdict, 'tune.conclusion': conclusion })
      }
    }
  }

  /** Nothing comes any more: what still runs was interrupted. */
  end(atMs: number): void {
    for (const number of [...this.#open.keys()]) this.#ends(number, atMs, {}, 'interrupted')
    this.#whole?.span.end(atMs)
    this.#whole = undefined
  }

  #begin(
    number: number,
    name: string,
    atMs: number,
    configuration: Configuration,
    attributes: Attributes,
  ): void {
    const tuned = Object.fromEntries(
      Object.entries(configuration).map(([parameter, value]) => [
        `tune.configuration.${parameter}`,
        value,
      ]),
    )
    this.#open.set(
      number,
      this.#tracer.startSpan(
        name,
        { startTime: atMs, attributes: { ...tuned, ...attributes } },
        this.#whole?.context,
      ),
    )
  }

  #ends(number: number, atMs: number, attributes: Attributes, fault?: string): void {
    const span = this.#open.get(number)
    this.#open.delete(number)
    span?.setAttributes(attributes)
    if (fault !== undefined) span?.setStatus({ code: SpanStatusCode.ERROR, message: fault })
    span?.end(atMs)
  }
}

/** Unit by the end of a Prometheus name, which says it in words. */
const units = [
  ['_requests_per_second', '{request}/s'],
  ['_dollars_per_hour', '{USD}/h'],
  ['_seconds', 's'],
  ['_dollars', '{USD}'],
  ['_ratio', '1'],
  ['', '1'],
] as const

/** tune_load_slo_latency_seconds: tune.load.slo_latency, in s. */
function nameOf(series: Sample['name']): { name: string; unit: string } {
  const [ending, unit] = units.find(([end]) => series.endsWith(end))!
  return {
    name: series
      .slice(0, series.length - ending.length)
      .replace(/^tune_(?:(load|trial|best)_)?/, (_, of) => `tune.${of ? `${of}.` : ''}`),
    unit,
  }
}

function metricsOf(samples: readonly Sample[]): Uint8Array {
  const bySeries = new Map<Sample['name'], Sample[]>()
  for (const sample of samples)
    bySeries.set(sample.name, [...(bySeries.get(sample.name) ?? []), sample])
  const metrics = [...bySeries].map(
    ([series, all]): MetricData => ({
      descriptor: {
        ...nameOf(series),
        description: seriesHelp[series].replaceAll('`', ''),
        valueType: ValueType.DOUBLE,
      },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
      dataPointType: DataPointType.GAUGE,
      dataPoints: all.map(({ labels, value, atMs }) => ({
        startTime: timeOf(atMs),
        endTime: timeOf(atMs),
        attributes: { ...labels },
        value,
      })),
    }),
  )
  return JsonMetricsSerializer.serializeRequest({ resource, scopeMetrics: [{ scope, metrics }] })!
}

/** Seconds and nanoseconds. */
const timeOf = (ms: number): [number, number] => [
  Math.floor(ms / 1000),
  Math.round((ms % 1000) * 1e6),
]
