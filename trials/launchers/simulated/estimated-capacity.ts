/**
 * Predicts the capacity under an SLO in closed form, within microseconds instead of a simulation.
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import type { CapacityPrediction } from '../../../profiler/model/virtual-server.ts'
import type { CpuStage } from './cpu-stage.ts'

/** A predictor as a queueing model. */
interface QueueingModel {
  readonly cpu: CpuStage
  readonly cpuCores: number
  readonly maxBatchSize: number
  readonly maxDelayMs: number
  readonly devices: number
  /** Device time of a batch of a whole size, ms. */
  readonly batchMs: (batch: number) => number
}

/** Capacity 0 where a single request violates the SLO. */
export interface PredictedCapacity extends CapacityPrediction {
  /** The stage that saturates first, or the SLO where it is violated before. */
  readonly binding: 'gpu' | 'cpu' | 'slo'
}

/** A predictor with tabulated device times. */
export interface TimedModel extends Omit<QueueingModel, 'batchMs'> {
  /** Ascending batch sizes from 1 to the largest batch, and the device time of each, ms. */
  readonly sizes: readonly number[]
  readonly times: ArrayLike<number>
}

/** Batch sizes of the table; between them the device time is nearly linear. */
const nodes = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]

export function tabulateDeviceTimes(model: QueueingModel): TimedModel {
  const sizes = [...nodes.filter((n) => n < model.maxBatchSize), model.maxBatchSize]
  return { ...model, sizes, times: sizes.map(model.batchMs) }
}

/** The last node at or below each whole size. */
const nodeBelow = Uint8Array.from({ length: 513 }, (_, size) =>
  Math.max(
    0,
    nodes.findLastIndex((n) => n <= size),
  ),
)

/** Device time of a fractional batch by linear interpolation. */
function interpolateTime({ sizes, times }: TimedModel, batch: number): number {
  const last = sizes.length - 1
  if (batch >= sizes[last]!) return times[last]!
  const i = Math.min(nodeBelow[Math.min(512, Math.floor(batch))]!, last - 1)
  return (
    times[i]! + ((batch - sizes[i]!) / (sizes[i + 1]! - sizes[i]!)) * (times[i + 1]! - times[i]!)
  )
}

/**
 * The batch of a slow request exceeds the mean by about this many standard deviations of the
 * arrivals during a batch.
 */
const batchSizeZScore = 1.6
/** Standard deviations for a batch that waits for the whole delay. */
const delayedBatchZScore = 2.6
/** Maximum number of iterations of the fixed point of the batch size. */
const maxBatchIterations = 6

/** Computes the `percentile` of an exponential tail that starts at probability p with this mean. */
const computeTail = (mean: number, p: number, percentile: number) =>
  mean > 0 && p > 0 ? Math.max(0, mean * Math.log(p / (1 - percentile))) : 0

/** Probability that all k servers are busy, each with this utilisation. */
const approximateAllBusy = (utilization: number, k: number) => utilization ** Math.sqrt((k + 1) / 2)

/**
 * Latency percentile at a rate, ms; Infinity beyond saturation. All devices take batches from one
 * queue (M/D/k, as the CPU stage). A sum of
 * - the CPU stage: M/D/k waiting, its tail exponential with mean s / (2 k (1 − ρ)) (Tijms 1994,
 *   section 4.1);
 * - filling: a request waits for the running batch, or up to the delay for further requests;
 * - queueing beyond one batch: the queue is a random walk with steps Poisson(λ t(B)) − B, its tail
 *   exponential with mean ρ / (2 (1 − ρ)) requests (Kingman's heavy-traffic limit for bulk
 *   service);
 * - its own batch.
 */
export function computeLatencyPercentileMs(
  model: TimedModel,
  rateRps: number,
  percentile: number,
): number {
  const { cpu, maxBatchSize: B, maxDelayMs } = model
  const perMs = rateRps / 1000
  const cpuMs = cpu.acceptMs + cpu.prepareMs
  const cpuUtilization = Math.max((perMs * cpuMs) / model.cpuCores, perMs * cpu.acceptMs)
  const { devices } = model
  const ratePerDevice = perMs / devices
  const fullMs = model.times[model.times.length - 1]!
  const deviceUtilization = (ratePerDevice * fullMs) / B
  if (cpuUtilization >= 1 || deviceUtilization >= 1) return Number.POSITIVE_INFINITY
  const cores = Math.max(1, Math.ceil(model.cpuCores))
  const cpuWait = computeTail(
    cpuMs / (2 * model.cpuCores * (1 - cpuUtilization)),
    approximateAllBusy(cpuUtilization, cores),
    percentile,
  )

  // The batch that forms while another is served and, unless the device stays busy, during the
  // delay.
  let batch = 1
  for (let i = 0; i < maxBatchIterations; i++) {
    const nextBatch = Math.min(
      B,
      Math.max(
        1,
        ratePerDevice * interpolateTime(model, batch),
        Math.min(1 + perMs * maxDelayMs, B),
      ),
    )
    if (nextBatch === batch) break
    batch = nextBatch
  }
  const formingMs = interpolateTime(model, batch)
  const arrivalsDuringBatch = ratePerDevice * formingMs
  const arrivalsDuringDelay = perMs * maxDelayMs
  const ownBatch = Math.min(
    B,
    Math.max(
      batch,
      1 + arrivalsDuringBatch + batchSizeZScore * Math.sqrt(arrivalsDuringBatch),
      1 + arrivalsDuringDelay + delayedBatchZScore * Math.sqrt(arrivalsDuringDelay),
    ),
  )
  const fillingMs = B === 1 ? 0 : Math.min(maxDelayMs, perMs > 0 ? (B - 1) / perMs : maxDelayMs)
  const allBusyProbability = approximateAllBusy(Math.min(1, arrivalsDuringBatch / batch), devices)
  const runningBatchMs =
    (formingMs / devices) * Math.max(0, 1 - (1 - percentile) / Math.max(allBusyProbability, 1e-9))
  const queueingMs =
    computeTail(
      deviceUtilization / (2 * (1 - deviceUtilization)),
      approximateAllBusy(deviceUtilization, devices),
      percentile,
    ) *
    (fullMs / B / devices)
  return (
    cpu.overheadMs +
    (cpu.isPartOfBatchTime ? 0 : cpuMs) +
    cpuWait +
    Math.max(fillingMs, runningBatchMs) +
    queueingMs +
    interpolateTime(model, ownBatch)
  )
}

/** Predicts the highest rate that meets the SLO. */
export const predictCapacity = (
  model: QueueingModel,
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
): PredictedCapacity => predictTimedCapacity(tabulateDeviceTimes(model), slo)

/**
 * From this share of the saturation rate on, a resource limits the capacity rather than the SLO.
 */
const saturatedShare = 0.8

/** Predicts the capacity like `predictCapacity`, with tabulated device times. */
export function predictTimedCapacity(
  model: TimedModel,
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
): PredictedCapacity {
  const { cpu, maxBatchSize: B, times } = model
  const cpuLimit = Math.min(
    (1000 * model.cpuCores) / (cpu.acceptMs + cpu.prepareMs),
    1000 / cpu.acceptMs,
  )
  const gpuLimit = (1000 * B * model.devices) / times[times.length - 1]!
  const saturationRps = Math.min(cpuLimit, gpuLimit)
  // A single request waits for the whole delay in its batch of one.
  const cpuStageMs = cpu.isPartOfBatchTime
    ? 0
    : cpu.acceptMs + cpu.prepareMs * Math.exp(2 * cpu.jitter)
  const unloadedMs = cpu.overheadMs + cpuStageMs + (B > 1 ? model.maxDelayMs : 0) + times[0]!
  if (unloadedMs > slo.limitMs) return { capacityRps: 0, saturationRps, unloadedMs, binding: 'slo' }
  const capacityRps = findMaxRate(model, slo, saturationRps)
  const binding =
    capacityRps < saturatedShare * saturationRps ? 'slo' : cpuLimit < gpuLimit ? 'cpu' : 'gpu'
  return { capacityRps, saturationRps, unloadedMs, binding }
}

/** Rate at which a configuration just violates the SLO, as a share of its saturation rate. */
const violatingRateShare = 0.02

/**
 * Returns the capacity, or a small rate that falls smoothly where the model predicts that the SLO
 * is violated even unloaded: the model may be wrong, and the search needs a slope.
 */
export const softenCapacity = (
  capacity: Pick<PredictedCapacity, 'capacityRps' | 'saturationRps' | 'unloadedMs'>,
  slo: Pick<Slo, 'percentile' | 'limitMs'>,
): number =>
  Math.max(
    capacity.capacityRps,
    violatingRateShare * capacity.saturationRps * Math.min(1, slo.limitMs / capacity.unloadedMs),
  )

/** Final ratio of the bracket around the highest rate. */
const precision = 1.0005

/**
 * Finds the root of limit / latency − 1 over ln(rate), by false position with the Illinois rule
 * (Dowell and Jarratt 1971).
 */
function findMaxRate(
  model: TimedModel,
  { percentile, limitMs }: Pick<Slo, 'percentile' | 'limitMs'>,
  saturationRps: number,
): number {
  const spare = (logRate: number) =>
    limitMs / computeLatencyPercentileMs(model, Math.exp(logRate), percentile) - 1
  let [low, high] = [Math.log(0.01 * saturationRps), Math.log(saturationRps)]
  let [atLow, atHigh] = [spare(low), -1]
  if (atLow < 0) {
    high = low
    atHigh = atLow
    low = Math.log(1e-6 * saturationRps)
    atLow = Math.max(0, spare(low))
  }
  let lastMovedEnd = 0
  for (let i = 0; high - low > Math.log(precision); i++) {
    // Bisect where false position converges slowly.
    const part = i % 4 === 3 ? 0.5 : Math.min(0.98, Math.max(0.02, atLow / (atLow - atHigh)))
    const middle = low + part * (high - low)
    const value = spare(middle)
    if (value >= 0) {
      ;[low, atLow] = [middle, value]
      if (lastMovedEnd > 0) atHigh /= 2
      lastMovedEnd = 1
    } else {
      ;[high, atHigh] = [middle, value]
      if (lastMovedEnd < 0) atLow /= 2
      lastMovedEnd = -1
    }
  }
  return Math.exp(low)
}
