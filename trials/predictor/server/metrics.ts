/**
 * Prometheus metrics of the predictor at /metrics, in seconds and bytes, as Prometheus recommends.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Utilization } from '../engine.ts'

const latencyBucketsS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]
const batchSizeBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256]

/** Records the events of one served version. Times in ms. */
export interface ModelMetrics {
  answered(ms: number): void
  refused(status: number): void
  preprocessed(ms: number): void
  computed(items: number, computeMs: number): void
  queued(ms: number): void
}

export class PredictorMetrics {
  readonly registry = new Registry()
  readonly #labels = ['model', 'version'] as const
  readonly #requests = this.#createCounter(
    'predictor_requests_total',
    'Requests answered, by HTTP status',
    ['model', 'version', 'status'],
  )
  readonly #rejected = this.#createCounter(
    'predictor_rejected_total',
    'Requests refused because the queue was full or the predictor was stopping',
  )
  readonly #items = this.#createCounter('predictor_items_total', 'Items inferred')
  readonly #batches = this.#createCounter(
    'predictor_batches_total',
    'Batches inferred; items / batches is the mean realised batch',
  )
  readonly #latency = this.#createHistogram(
    'predictor_request_seconds',
    'Time from the fully read request to the written reply',
    latencyBucketsS,
  )
  readonly #preprocess = this.#createHistogram(
    'predictor_preprocess_seconds',
    'CPU worker time to decode and prepare a request',
    latencyBucketsS,
  )
  readonly #queue = this.#createHistogram(
    'predictor_queue_seconds',
    'Time that a request waits in the batcher',
    latencyBucketsS,
  )
  readonly #compute = this.#createHistogram(
    'predictor_compute_seconds',
    'Compute time of a batch on its engine',
    latencyBucketsS,
  )
  readonly #batch = this.#createHistogram(
    'predictor_batch_items',
    'Realised batch sizes',
    batchSizeBuckets,
  )

  constructor() {
    const registers = [this.registry]
    new Counter({
      name: 'process_cpu_seconds_total',
      help: 'CPU time of the predictor process and its threads, without engine processes',
      registers,
      collect() {
        const { user, system } = process.cpuUsage()
        this.reset()
        this.inc((user + system) / 1e6)
      },
    })
    new Gauge({
      name: 'process_resident_memory_bytes',
      help: 'Resident memory of the predictor process',
      registers,
      collect() {
        this.set(process.memoryUsage.rss())
      },
    })
  }

  /** Creates the recorder of one model version. Its labels are model and version. */
  of(model: string, version: string): ModelMetrics {
    const labels = { model, version }
    const [items, batches, rejected] = [
      this.#items.labels(labels),
      this.#batches.labels(labels),
      this.#rejected.labels(labels),
    ]
    const [latency, preprocess] = [this.#latency.labels(labels), this.#preprocess.labels(labels)]
    const [queue, compute, batch] = [
      this.#queue.labels(labels),
      this.#compute.labels(labels),
      this.#batch.labels(labels),
    ]
    const ok = this.#requests.labels({ ...labels, status: '200' })
    // Initialised, so that rates are defined from the start.
    for (const counter of [items, batches, rejected, ok]) counter.inc(0)
    return {
      answered(ms) {
        ok.inc()
        latency.observe(ms / 1000)
      },
      refused: (status) => {
        this.#requests.labels({ ...labels, status: String(status) }).inc()
        if (status === 429 || status === 503) rejected.inc()
      },
      preprocessed: (ms) => preprocess.observe(ms / 1000),
      queued: (ms) => queue.observe(ms / 1000),
      computed(count, ms) {
        items.inc(count)
        batches.inc()
        batch.observe(count)
        compute.observe(ms / 1000)
      },
    }
  }

  /**
   * Registers the device figures, which are read at each scrape. Instances that share a device
   * count as one.
   */
  watchDevices(utilization: () => Utilization | undefined, devices: number): void {
    const registers = [this.registry]
    const since = performance.now()
    new Counter({
      name: 'predictor_device_busy_seconds_total',
      help: 'Busy time of the devices; its rate divided by predictor_devices is the utilisation',
      registers,
      collect() {
        this.reset()
        this.inc((utilization()?.busyMs ?? 0) / 1000)
      },
    })
    new Gauge({
      name: 'predictor_device_memory_bytes',
      help: 'Device memory in use',
      registers,
      collect() {
        this.set((utilization()?.memoryMiB ?? 0) * 2 ** 20)
      },
    })
    new Gauge({
      name: 'predictor_ready_seconds',
      help: 'Time since the predictor became ready',
      registers,
      collect() {
        this.set((performance.now() - since) / 1000)
      },
    })
    new Gauge({
      name: 'predictor_devices',
      help: 'Devices: one GPU, or one CPU engine per instance',
      registers,
    }).set(devices)
  }

  watchQueue(items: () => number): void {
    new Gauge({
      name: 'predictor_queue_items',
      help: 'Items waiting for a batch',
      registers: [this.registry],
      collect() {
        this.set(items())
      },
    })
  }

  #createCounter(name: string, help: string, labelNames: readonly string[] = this.#labels) {
    return new Counter({ name, help, labelNames, registers: [this.registry] })
  }
  #createHistogram(name: string, help: string, buckets: number[]) {
    return new Histogram({
      name,
      help,
      buckets,
      labelNames: this.#labels,
      registers: [this.registry],
    })
  }
}
