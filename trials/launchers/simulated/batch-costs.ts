/** The costs of batches, from how time and latency of visits change with the rate. */
import { mean, sum } from 'simple-statistics'
import type { Configuration } from '../../../search/types.ts'
import type { StageLoad } from '../../types.ts'
import { createStretchedSchedule } from './arrival-times.ts'
import { SimulatedServer } from './batch-server.ts'
import { createStageQueue, readCores, readMaxBatch, type StageDemand } from './stage-queue.ts'

/** A load of a replica with this configuration. */
export interface ConfiguredLoad {
  readonly configuration: Configuration
  readonly load: StageLoad
}

type BatchCosts = Pick<StageDemand, 'fixedMs' | 'perItemMs'>

/** Loads of at least this share of the highest utilisation count for visits without batches: at low
 * rates processes wake up for each visit, which costs time. Assumed.
 */
const minUtilisationShare = 0.75
/** Loads that are simulated, of all utilisations. */
const maxSimulatedLoads = 8
const simulatedRequests = 1500
/** Costs that are tried: of a batch of one, relative to the highest observed; and the fixed share. */
const triedScales = [1, 0.92, 0.84, 0.76, 0.68, 0.6] as const
const triedFixedShares = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97] as const
/** Largest deviation of one load, in ln: overloads do not decide. */
const maxDeviation = 1
/** Weight of costs in the middle, which decides where no load tells. */
const priorWeight = 0.01
const schedule = createStretchedSchedule()

/**
 * Fits the costs by least squares in ln(busy time) and ln(latency), over a grid of simulations. The
 * busy time alone does not tell them: a busy server takes 1 / rate for each visit, whatever a batch
 * costs.
 */
export function fitBatchCosts(
  loads: readonly ConfiguredLoad[],
  usedBy: StageDemand['usedBy'],
): BatchCosts {
  const readBusyMs = ({ load }: ConfiguredLoad) => (usedBy === 'gpu' ? load.gpuMs : load.cpuMs)
  const computeUtilisation = (one: ConfiguredLoad) =>
    (one.load.visitRps * readBusyMs(one)) / (usedBy === 'gpu' ? 1 : readCores(one.configuration))
  const sorted = loads.toSorted((a, b) => computeUtilisation(a) - computeUtilisation(b))
  if (loads.every(({ configuration }) => readMaxBatch(configuration) === 1)) {
    const minUtilisation = minUtilisationShare * computeUtilisation(sorted.at(-1)!)
    const high = sorted.filter((one) => computeUtilisation(one) >= minUtilisation)
    const countVisits = ({ load }: ConfiguredLoad) => load.visitRps * load.seconds
    const totalMs = sum(high.map((one) => countVisits(one) * readBusyMs(one)))
    return { fixedMs: 0, perItemMs: totalMs / sum(high.map(countVisits)) }
  }
  const simulated = selectEvenly(sorted, maxSimulatedLoads)
  const highestMs = Math.max(...simulated.map(readBusyMs))
  let best: { readonly costs: BatchCosts; readonly error: number } | undefined
  for (const scale of triedScales)
    for (const share of triedFixedShares) {
      const costs = {
        fixedMs: share * scale * highestMs,
        perItemMs: (1 - share) * scale * highestMs,
      }
      const error =
        priorWeight * (share - 0.5) ** 2 +
        mean(simulated.map((one) => computeSquaredError(costs, usedBy, one, readBusyMs(one))))
      if (best === undefined || error < best.error) best = { costs, error }
    }
  return best!.costs
}

function computeSquaredError(
  costs: BatchCosts,
  usedBy: StageDemand['usedBy'],
  { configuration, load }: ConfiguredLoad,
  busyMs: number,
): number {
  const demand = { ...costs, usedBy, cpuMs: 0, overheadMs: 0 }
  const server = new SimulatedServer({ ...createStageQueue(demand, configuration), schedule })
  const { latencyMs } = server.play({
    kind: 'open',
    rateRps: load.visitRps,
    durationS: simulatedRequests / load.visitRps,
    arrivals: { kind: 'poisson' },
    seed: 1,
  })
  const { cpuBusyMs, deviceBusyMs } = server.usage
  const speed = usedBy === 'gpu' ? 1 : Math.max(1, readCores(configuration))
  const simulatedMs = (cpuBusyMs + deviceBusyMs * speed) / latencyMs.length
  return (
    computeDeviation(simulatedMs, busyMs) ** 2 +
    (load.isOpen ? computeDeviation(mean(latencyMs), load.meanMs) ** 2 : 0)
  )
}

const computeDeviation = (simulatedMs: number, measuredMs: number): number =>
  measuredMs > 0 && simulatedMs > 0
    ? Math.max(-maxDeviation, Math.min(maxDeviation, Math.log(simulatedMs / measuredMs)))
    : 0

const selectEvenly = <T>(all: readonly T[], count: number): readonly T[] =>
  all.length <= count
    ? all
    : Array.from(
        { length: count },
        (_, i) => all[Math.round((i * (all.length - 1)) / (count - 1))]!,
      )
