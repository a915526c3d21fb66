/** Capacity under an SLO in closed form: what the simulation would find, in microseconds instead of milliseconds. */
import type { Slo } from '../../profiler/types.ts'
import type { CpuStage } from './cpu-stage.ts'

/** A predictor as queueing theory sees it. */
export interface QueueingModel {
  readonly cpu: CpuStage
  readonly cpuCores: number
  readonly maxBatchSize: number
  readonly maxDelayMs: number
  readonly devices: number
  /** Device time of a batch, ms; asked at whole sizes only. */
  readonly batchMs: (batch: number) => number
}

export interface PredictedCapacity {
  /** Highest rate whose SLO percentile keeps the SLO; 0 when even a lone request misses it. */
  readonly capacityRps: number
  /** Rate at which the busiest stage is busy all the time. */
  readonly saturationRps: number
  /** SLO percentile of requests that come one at a time, ms. */
  readonly idleMs: number
  /** The stage that saturates first, or the SLO where it does not let any saturate. */
  readonly binding: 'gpu' | 'cpu' | 'slo'
}

/** Batch sizes at which the device time is asked; between them it is nearly straight. */
const nodes = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]

/** Device time of a fractional batch by straight lines between whole sizes. */
export function interpolated(batchMs: (batch: number) => number, maxBatchSize: number): (batch: number) => number {
  const sizes = [...nodes.filter((n) => n < maxBatchSize), maxBatchSize]
  const times: number[] = []
  const at = (i: number) => {
    times[i] ??= batchMs(sizes[i]!)
    return times[i]!
  }
  return (batch) => {
    let i = 0
    while (i < sizes.length - 2 && sizes[i + 1]! < batch) i++
    if (sizes.length === 1 || batch <= sizes[i]!) return at(i)
    const part = Math.min(1, (batch - sizes[i]!) / (sizes[i + 1]! - sizes[i]!))
    return at(i) + part * (at(i + 1) - at(i))
  }
}

/** A batch that a slow request travels in is larger than the mean by about this many standard deviations of the arrivals meanwhile. */
const spread = 1.6

/** The `percentile` of an exponential tail that starts at probability p with this mean. */
const tail = (mean: number, p: number, percentile: number) => Math.max(0, mean * Math.log(p / (1 - percentile)))

/**
 * Latency percentile at a rate, ms; Infinity beyond saturation. A sum of
 * - the CPU stage: M/D/k waiting, its tail exponential with mean s / (2 k (1 − ρ)) (Tijms 1994, section 4.1);
 * - filling: a request waits for the batch under way, or for company up to the delay;
 * - queueing beyond one batch: the queue is a random walk with steps Poisson(λ t(B)) − B, its tail exponential with mean ρ / (2 (1 − ρ)) requests
 *   (Kingman's heavy-traffic limit for bulk service);
 * - its own batch.
 */
export function latencyPercentileMs(model: QueueingModel, time: (batch: number) => number, rateRps: number, percentile: number): number {
  const { cpu, maxBatchSize: B, maxDelayMs } = model
  const perMs = rateRps / 1000
  const cpuMs = cpu.acceptMs + cpu.prepareMs
  const busyCpu = Math.max((perMs * cpuMs) / model.cpuCores, perMs * cpu.acceptMs)
  const rate = perMs / model.devices
  const busy = (rate * time(B)) / B
  if (busyCpu >= 1 || busy >= 1) return Number.POSITIVE_INFINITY
  const cores = Math.max(1, Math.ceil(model.cpuCores))
  const cpuWait = tail(cpuMs / (2 * model.cpuCores * (1 - busyCpu)), busyCpu ** Math.sqrt((cores + 1) / 2), percentile)

  // The batch that forms while one is served and, unless the device stays busy, while the delay runs.
  let batch = 1
  for (let i = 0; i < 6; i++) batch = Math.min(B, Math.max(1, rate * time(batch), Math.min(1 + rate * maxDelayMs, B)))
  const meanwhile = rate * time(batch)
  const own = Math.min(B, Math.max(batch, 1 + meanwhile + spread * Math.sqrt(meanwhile)))
  const company = B === 1 ? 0 : Math.min(maxDelayMs, rate > 0 ? (B - 1) / rate : maxDelayMs)
  const busyNow = Math.min(1, meanwhile / batch)
  const underWay = time(batch) * Math.max(0, 1 - (1 - percentile) / Math.max(busyNow, 1e-9))
  const queued = tail(busy / (2 * (1 - busy)), busy, percentile) * (time(B) / B)
  return cpu.overheadMs + cpuMs + cpuWait + Math.max(company, underWay) + queued + time(own)
}

/** The highest rate that keeps the SLO, by bisection on its logarithm. */
export function predictCapacity(model: QueueingModel, slo: Pick<Slo, 'percentile' | 'limitMs'>): PredictedCapacity {
  const { cpu, maxBatchSize: B } = model
  const time = interpolated(model.batchMs, B)
  const cpuLimit = Math.min((1000 * model.cpuCores) / (cpu.acceptMs + cpu.prepareMs), 1000 / cpu.acceptMs)
  const gpuLimit = (1000 * B * model.devices) / time(B)
  const saturationRps = Math.min(cpuLimit, gpuLimit)
  // A lone request waits out the delay of its batch of one.
  const idleMs = cpu.overheadMs + cpu.acceptMs + cpu.prepareMs * Math.exp(2 * cpu.jitter) + (B > 1 ? model.maxDelayMs : 0) + time(1)
  if (idleMs > slo.limitMs) return { capacityRps: 0, saturationRps, idleMs, binding: 'slo' }
  const keeps = (rate: number) => latencyPercentileMs(model, time, rate, slo.percentile) <= slo.limitMs
  let [low, high] = keeps(0.01 * saturationRps) ? [0.01 * saturationRps, saturationRps] : [1e-6 * saturationRps, 0.01 * saturationRps]
  while (high / low > 1.002) {
    const middle = Math.sqrt(low * high)
    if (keeps(middle)) low = middle
    else high = middle
  }
  const binding = low < 0.8 * saturationRps ? 'slo' : cpuLimit < gpuLimit ? 'cpu' : 'gpu'
  return { capacityRps: low, saturationRps, idleMs, binding }
}
