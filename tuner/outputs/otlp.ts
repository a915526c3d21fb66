/**
 * OTLP over HTTP, as JSON, by OpenTelemetry's own exporters. A run is a trace: the run a span, each
 * trial and confirmation a span below it. Its figures, load steps among them, are gauges
 * (prometheus-series.ts), named so that Prometheus' translation gives the documented names.
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
import { withAuthorization } from '../backends/predictor-protocol.ts'
import type { OutputTarget } from '../config/output-target.ts'
import type { TuneEvent } from '../loop/events.ts'
import { addressOf, Batches, Losses, restMs } from './delivery.ts'
import type { Output } from './output.ts'
import { RunSeries, type Sample, seriesHelp } from './prometheus-series.ts'

const scope = { name: 'tune' }
const resource = resourceFromAttributes({ 'service.name': 'tune' })

/** Of a message with all its tries, so that the end of a run waits no longer for a receiver. */
const timeoutMs = 5_000

/** @param warn told of what is lost */
export function otlp(
  target: OutputTarget,
  warn: (message: string) => void,
  now: () => number,
): Output {
  const losses = new Losses(target, warn)
  const options = (path: string) => ({
    url: addressOf(target.url, path),
    headers: withAuthorization(target.url, target.headers),
    timeoutMillis: timeoutMs,
    concurrencyLimit: 1,
  })
  // The exporters report there, and nowhere else, what a receiver left out of what it took.
  diag.setLogger(
    {
      ...silent,
      warn: (message, ...more) => {
        if (/partial success/i.test(message)) losses.add(`${message} ${more.map(String).join(' ')}`)
      },
    },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  )
  const metricExporter = new OTLPMetricExporter(options('/v1/metrics'))
  const traceExporter = new OTLPTraceExporter(options('/v1/traces'))
  const sendMetrics = sender<ResourceMetrics>(metricExporter, losses, now)
  const sendSpans = sender<ReadableSpan[]>(traceExporter, losses, now, true)
  const samples = new Batches<Sample>((batch) => sendMetrics(metricsOf(batch)))
  const ended = new Batches<ReadableSpan>((batch) => sendSpans([...batch]))
  const series = new RunSeries()
  const times = new IncreasingTimes()
  const spans = new RunSpans((span) => ended.add(span))
  return {
    handle(event: TuneEvent) {
      const finite = series.samplesOf(event).filter(({ value }) => Number.isFinite(value))
      samples.add(...finite.map((sample) => times.after(sample)))
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

const silent = { error() {}, warn() {}, info() {}, debug() {}, verbose() {} }

interface Exporter<Item> {
  export(
    item: Item,
    done: (result: { readonly code: number; readonly error?: Error }) => void,
  ): void
}

/**
 * Sends by an exporter, which tries again itself. Once a receiver is not to be had, messages are
 * lost without a try for a while: a run does not wait for it. Never rejects.
 * @param isOptional whether a receiver without such a path (404, as Prometheus for traces) is right
 */
function sender<Item>(
  exporter: Exporter<Item>,
  losses: Losses,
  now: () => number,
  isOptional = false,
): (item: Item) => Promise<void> {
  let restingUntilMs = 0
  let isWanted = true
  return async (item) => {
    if (!isWanted) return
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
    if (status === undefined || status >= 500) restingUntilMs = now() + restMs
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
 * Prometheus refuses two samples of a series at one time, as steps in virtual time have them: later
 * ones are moved on by a millisecond each.
 */
class IncreasingTimes {
  readonly #last = new Map<string, number>()

  after(sample: Sample): Sample {
    const key = JSON.stringify([sample.name, sample.labels])
    const atMs = Math.max(sample.atMs, (this.#last.get(key) ?? Number.NEGATIVE_INFINITY) + 1)
    this.#last.set(key, atMs)
    return { ...sample, atMs }
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
        const told = { 'tune.state': trial.state, 'tune.price_per_hour': pricePerHour }
        const fault = trial.state === 'failed' ? trial.error : undefined
        const more = {
          ...(trial.state === 'complete' && { 'tune.estimate_rps': trial.measurement.capacityRps }),
          ...(trial.state === 'infeasible' && {
            'tune.reason': `${trial.reason}: ${trial.detail}`,
          }),
        }
        this.#ends(trial.number, atMs, { ...told, ...more }, fault)
        return
      }
      case 'confirmed':
        this.#ends(event.number, atMs, {
          'tune.held': event.met,
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

/**
 * Ends of the documented names, what of them stays in OpenTelemetry's name, and the unit from which
 * Prometheus makes the rest: `s` becomes `_seconds`, `/h` `_per_hour`, `1` `_ratio`, and what
 * stands in braces nothing.
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
function nameOf(series: Sample['name']): { name: string; unit: string } {
  const [ending, kept, unit] = units.find(([end]) => series.endsWith(end))!
  const name = `${series.slice(0, series.length - ending.length)}${kept}`
  return {
    name: name.replace(/^tune_(?:(load|trial|best)_)?/, (_, of) => `tune.${of ? `${of}.` : ''}`),
    unit,
  }
}

function metricsOf(samples: readonly Sample[]): ResourceMetrics {
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
  return { resource, scopeMetrics: [{ scope, metrics }] }
}

/** Seconds and nanoseconds. */
const timeOf = (ms: number): [number, number] => [
  Math.floor(ms / 1000),
  Math.round((ms % 1000) * 1e6),
]
