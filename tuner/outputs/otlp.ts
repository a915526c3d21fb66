/**
 * OTLP over HTTP, as JSON, by OpenTelemetry's own exporters. A run is a trace: the run a span, each
 * trial and confirmation a span below it. Its figures and load steps are gauges
 * (prometheus-series.ts), named so that Prometheus derives the documented names.
 */
import {
  type Attributes,
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  trace,
  ValueType,
} from '@opentelemetry/api'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics'
import { type ReadableSpan, TracerProvider } from '@opentelemetry/sdk-trace'
import { sloText } from '../../profiler/model/slo.ts'
import { stripControls } from '../../profiler/plain-text.ts'
import type { Configuration } from '../../search/types.ts'
import { redactSecrets } from '../../trials/secrets.ts'
import { addAuthorization } from '../backends/predictor-protocol.ts'
import type { OutputTarget } from '../config/values/output-target.ts'
import type { TuneEvent } from '../loop/events.ts'
import { BatchQueue, failurePauseMs, LossReport, resolveUrl } from './delivery.ts'
import type { Output } from './output.ts'
import { RunSeries, type Sample, seriesHelp } from './prometheus-series.ts'

const scope = { name: 'tune' }
const resource = resourceFromAttributes({ 'service.name': 'tune' })

/** Maximum time of a message with all retries, which bounds the wait at the end of a run. */
const timeoutMs = 5_000

/** @param warn called for lost messages */
export function createOtlpOutput(
  target: OutputTarget,
  warn: (message: string) => void,
  now: () => number,
): Output {
  const losses = new LossReport(target, warn)
  const options = (path: string) => ({
    url: resolveUrl(target.url, path),
    headers: addAuthorization(target.url, target.headers),
    timeoutMillis: timeoutMs,
    concurrencyLimit: 1,
  })
  // The exporters report partial success only through this logger.
  diag.setLogger(
    {
      ...silentLogger,
      warn: (message, ...more) => {
        if (/partial success/i.test(message)) losses.add(`${message} ${more.map(String).join(' ')}`)
      },
    },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  )
  const metricExporter = new OTLPMetricExporter(options('/v1/metrics'))
  const traceExporter = new OTLPTraceExporter(options('/v1/traces'))
  const sendMetrics = createSender<ResourceMetrics>(metricExporter, losses, now)
  const sendSpans = createSender<ReadableSpan[]>(traceExporter, losses, now, true)
  const samples = new BatchQueue<Sample>((batch) => sendMetrics(toResourceMetrics(batch)))
  const ended = new BatchQueue<ReadableSpan>((batch) => sendSpans([...batch]))
  const series = new RunSeries()
  const times = new TimestampSequencer()
  const spans = new RunSpans((span) => ended.add(span))
  return {
    handle(event: TuneEvent) {
      const finite = series.createSamples(event).filter(({ value }) => Number.isFinite(value))
      samples.add(...finite.map((sample) => times.sequence(sample)))
      spans.take(event)
    },
    async close() {
      spans.end(now())
      await Promise.all([samples.sent(), ended.sent()])
      await Promise.all([metricExporter.shutdown(), traceExporter.shutdown()])
      diag.disable()
      losses.report()
    },
  }
}

const silentLogger = { error() {}, warn() {}, info() {}, debug() {}, verbose() {} }

interface Exporter<Item> {
  export(
    item: Item,
    done: (result: { readonly code: number; readonly error?: Error }) => void,
  ): void
}

/**
 * Sends through an exporter, which retries itself. After a failure, messages are dropped for a
 * while. Never rejects.
 * @param isOptional whether a receiver may lack the path (404, as Prometheus for traces)
 */
function createSender<Item>(
  exporter: Exporter<Item>,
  losses: LossReport,
  now: () => number,
  isOptional = false,
): (item: Item) => Promise<void> {
  let restingUntilMs = 0
  let isWanted = true
  return async (item) => {
    if (!isWanted) return
    // The first loss was reported already: this one is only counted.
    if (now() < restingUntilMs) return losses.add('')
    const error = await new Promise<(Error & { code?: unknown; data?: string }) | undefined>(
      (resolve) => exporter.export(item, (result) => resolve(result.error)),
    )
    if (error === undefined) return
    const status = typeof error.code === 'number' ? error.code : undefined
    if (isOptional && status === 404) {
      isWanted = false
      return
    }
    if (status === undefined || status >= 500) restingUntilMs = now() + failurePauseMs
    const words = stripControls(
      redactSecrets((status === undefined ? error.message : error.data) ?? ''),
    )
      .trim()
      .slice(0, 200)
    losses.add(
      status === undefined
        ? `cannot be reached (${words})`
        : `status ${status}${words === '' ? '' : `: ${words}`}`,
    )
  }
}

/**
 * Prometheus rejects two samples of a series with the same time, which occur in virtual time. Later
 * ones are moved by a millisecond each.
 */
class TimestampSequencer {
  readonly #last = new Map<string, number>()

  sequence(sample: Sample): Sample {
    const key = JSON.stringify([sample.name, sample.labels])
    const atMs = Math.max(sample.atMs, (this.#last.get(key) ?? Number.NEGATIVE_INFINITY) + 1)
    this.#last.set(key, atMs)
    return { ...sample, atMs }
  }
}

/** Spans of a run, with the times of its events. */
class RunSpans {
  readonly #tracer
  #root: { readonly span: Span; readonly context: Context } | undefined
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
        this.#root = { span, context: trace.setSpan(ROOT_CONTEXT, span) }
        return
      }
      case 'trial-started':
        this.#begin(event.number, `trial ${event.number}`, atMs, event.suggestion.configuration, {
          'tune.why': event.suggestion.why,
          'tune.attempt': event.attempt,
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
        const attributes = { 'tune.state': trial.state, 'tune.price_per_hour': pricePerHour }
        const fault = trial.state === 'failed' ? trial.error : undefined
        const more = {
          ...(trial.state === 'complete' && { 'tune.estimate_rps': trial.measurement.capacityRps }),
          ...(trial.state === 'infeasible' && {
            'tune.reason': `${trial.reason}: ${trial.detail}`,
          }),
        }
        this.#ends(trial.number, atMs, { ...attributes, ...more }, fault)
        return
      }
      case 'confirmed':
        this.#ends(event.number, atMs, {
          'tune.met': event.met,
          'tune.confirmed_rps': event.rateRps,
        })
        return
      case 'warning':
        this.#root?.span.addEvent('warning', { message: event.message }, atMs)
        return
      case 'stopped':
        this.#root?.span.setAttributes({
          'tune.stopped': event.reason,
          'tune.stopped_because': event.detail,
        })
        if (event.reason === 'failed')
          this.#root?.span.setStatus({ code: SpanStatusCode.ERROR, message: event.detail })
        return
      case 'recommended': {
        const { verdict, conclusion } = event.recommendation
        this.#root?.span.setAttributes({ 'tune.verdict': verdict, 'tune.conclusion': conclusion })
      }
    }
  }

  /** Ends all spans after the last event; open ones were interrupted. */
  end(atMs: number): void {
    for (const number of [...this.#open.keys()]) this.#ends(number, atMs, {}, 'interrupted')
    this.#root?.span.end(atMs)
    this.#root = undefined
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
        this.#root?.context,
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

/**
 * [suffix of the documented name, suffix of the OpenTelemetry name, unit]. Prometheus derives
 * suffixes from units: `s` becomes `_seconds`, `/h` `_per_hour`, `1` `_ratio`; units in braces are
 * dropped.
 */
const units = [
  ['_requests_per_second', '_requests', '{request}/s'],
  ['_dollars_per_hour', '_dollars', '{USD}/h'],
  ['_seconds', '', 's'],
  ['_dollars', '_dollars', '{USD}'],
  ['_ratio', '', '1'],
  ['', '', ''],
] as const

/** tune_load_slo_latency_seconds: tune.load.slo_latency, in s. */
function toMetricName(series: Sample['name']): { name: string; unit: string } {
  const [ending, kept, unit] = units.find(([end]) => series.endsWith(end))!
  const name = `${series.slice(0, series.length - ending.length)}${kept}`
  return {
    name: name.replace(/^tune_(?:(load|trial|best)_)?/, (_, of) => `tune.${of ? `${of}.` : ''}`),
    unit,
  }
}

function toResourceMetrics(samples: readonly Sample[]): ResourceMetrics {
  const bySeries = new Map<Sample['name'], Sample[]>()
  for (const sample of samples)
    bySeries.set(sample.name, [...(bySeries.get(sample.name) ?? []), sample])
  const metrics = [...bySeries].map(
    ([series, all]): MetricData => ({
      descriptor: {
        ...toMetricName(series),
        description: seriesHelp[series].replaceAll('`', ''),
        valueType: ValueType.DOUBLE,
      },
      aggregationTemporality: AggregationTemporality.CUMULATIVE,
      dataPointType: DataPointType.GAUGE,
      dataPoints: all.map(({ labels, value, atMs }) => ({
        startTime: toHrTime(atMs),
        endTime: toHrTime(atMs),
        attributes: { ...labels },
        value,
      })),
    }),
  )
  return { resource, scopeMetrics: [{ scope, metrics }] }
}

/** Seconds and nanoseconds. */
const toHrTime = (ms: number): [number, number] => [
  Math.floor(ms / 1000),
  Math.round((ms % 1000) * 1e6),
]
