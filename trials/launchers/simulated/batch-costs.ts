/** The costs of batches, from how time and latency of visits change with the rate. */
import { mean, sum } from 'simple-statistics'
import { configurationKey } from '../../../search/space/space.ts'
import type { Configuration } from '../../../search/types.ts'
import { grouped } from '../../grouped.ts'
import type { StageLoad } from '../../types.ts'
import { createStretchedSchedule } from './arrival-times.ts'
import { SimulatedServer } from './batch-server.ts'
import { createStageQueue, readCores, readMaxBatch, type StageDemand } from './stage-queue.ts'

/** A load of a replica with this configuration. */
interface ConfiguredLoad {
  readonly configuration: Configuration
  readonly load: StageLoad
}

type BatchCosts = Pick<StageDemand, 'fixedMs' | 'perItemMs'>

/** Loads of at least this share of the highest utilisation count for visits without batches: at low
 * rates processes wake up for each visit, which costs time. Assumed.
 */
const minUtilisationShare = 0.75
/** Loads of a configuration whose rates differ by less than this factor count as one. Assumed. */
const rateFactor = 1.2
/** Joined loads with fewer visits tell too little. Assumed. */
const minVisits = 50
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
  if (loads.every(({ configuration }) => readMaxBatch(configuration) === 1)) {
    const minUtilisation = minUtilisationShare * Math.max(...loads.map(computeUtilisation))
    const high = loads.filter((one) => computeUtilisation(one) >= minUtilisation)
    return { fixedMs: 0, perItemMs: readBusyMs(joinLoads(high)) }
  }
  const simulated = joinByRate(loads)
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
        computeError(
          simulated.map((one) => ({
            busyMs: readBusyMs(one),
            meanMs: one.load.isOpen ? one.load.meanMs : undefined,
            simulated: simulate(costs, usedBy, one),
          })),
        )
      if (best === undefined || error < best.error) best = { costs, error }
    }
  return best!.costs
}

interface VisitTimes {
  readonly busyMs: number
  readonly meanMs: number
}

function simulate(
  costs: BatchCosts,
  usedBy: StageDemand['usedBy'],
  { configuration, load }: ConfiguredLoad,
): VisitTimes {
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
  return {
    busyMs: (cpuBusyMs + deviceBusyMs * speed) / latencyMs.length,
    meanMs: mean([...latencyMs]),
  }
}

interface ComparedLoad {
  readonly busyMs: number
  /** Undefined under a closed load, whose arrivals follow the answers. */
  readonly meanMs: number | undefined
  readonly simulated: VisitTimes
}

/** Mean square deviation. What the lowest latency has beyond the simulated one is overhead. */
function computeError(loads: readonly ComparedLoad[]): number {
  const excessMs = loads.flatMap(({ meanMs, simulated }) =>
    meanMs === undefined ? [] : [meanMs - simulated.meanMs],
  )
  const overheadMs = excessMs.length === 0 ? 0 : Math.max(0, Math.min(...excessMs))
  return mean(
    loads.map(
      ({ busyMs, meanMs, simulated }) =>
        computeDeviation(simulated.busyMs, busyMs) ** 2 +
        (meanMs === undefined ? 0 : computeDeviation(simulated.meanMs + overheadMs, meanMs) ** 2),
    ),
  )
}

const computeDeviation = (simulatedMs: number, measuredMs: number): number =>
  measuredMs > 0 && simulatedMs > 0
    ? Math.max(-maxDeviation, Math.min(maxDeviation, Math.log(simulatedMs / measuredMs)))
    : 0

export const countVisits = ({ visitRps, seconds }: StageLoad): number => visitRps * seconds

/** Mean over all visits of the loads. */
export const computeVisitMean = (
  loads: readonly ConfiguredLoad[],
  read: (load: StageLoad) => number,
): number =>
  sum(loads.map(({ load }) => countVisits(load) * read(load))) /
  sum(loads.map(({ load }) => countVisits(load)))

/** Joins loads of similar rates: short ones tell little by themselves. */
function joinByRate(loads: readonly ConfiguredLoad[]): ConfiguredLoad[] {
  const groups = grouped(loads, ({ configuration, load }) =>
    [
      configurationKey(configuration),
      Math.floor(Math.log(load.visitRps) / Math.log(rateFactor)),
    ].join(),
  )
  const joined = [...groups.values()].map(joinLoads)
  const telling = joined.filter((one) => countVisits(one.load) >= minVisits)
  return telling.length > 0 ? telling : joined
}

/** Means weighted by visits; the latency is that of the open loads, if there are any. */
function joinLoads(loads: readonly ConfiguredLoad[]): ConfiguredLoad {
  const open = loads.filter(({ load }) => load.isOpen)
  const seconds = sum(loads.map(({ load }) => load.seconds))
  return {
    configuration: loads[0]!.configuration,
    load: {
      visitRps: sum(loads.map(({ load }) => countVisits(load))) / seconds,
      visits: computeVisitMean(loads, ({ visits }) => visits),
      meanMs: computeVisitMean(open.length > 0 ? open : loads, ({ meanMs }) => meanMs),
      cpuMs: computeVisitMean(loads, ({ cpuMs }) => cpuMs),
      gpuMs: computeVisitMean(loads, ({ gpuMs }) => gpuMs),
      isOpen: open.length > 0,
      seconds,
    },
  }
}
