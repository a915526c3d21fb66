/** What keeps a configuration from doing better, with the evidence. */
import type { Slo } from '../../profiler/model/slo.ts'
import { latency, percent, rate, significant, sloLimit, sloName, sloValue } from '../format.ts'
import { engineBinding, poolWords } from './engine-binding.ts'
import type { Judged } from './judged.ts'
import { answersNothing } from './status.ts'
import type { Recommendation } from './types.ts'

/**
 * A device this busy (in its busiest seconds, else on the mean of the trial, its pauses included)
 * is taken to be the limit.
 */
const busy = 0.8

/** Cores' worth of computing that one thread does, with what the others do beside it. */
const oneThread = [0.9, 1.2] as const

/**
 * Names the scarcest resource of a candidate by its usage, its neighbours out of memory, and where
 * its capacity stands between idle and saturation.
 */
export function bindingOf(
  judged: Judged,
  all: readonly Judged[],
  slo: Slo,
): Recommendation['binding'] {
  const { trial, second, measurement, candidate } = judged
  if (!measurement) return unservedBinding(judged)
  if (measurement.outcome === 'generator-limit') {
    return {
      what: 'generator',
      evidence:
        'the load generator reached its limit before the predictor did: the capacity is a lower bound',
    }
  }
  if (
    candidate.status === 'inconclusive' ||
    answersNothing({ ...measurement, capacityRps: candidate.capacityRps })
  )
    return { what: 'unknown', evidence: candidate.reason ?? '' }
  const { limitMs } = slo
  const allowed = sloLimit(slo)
  if (!(candidate.capacityRps > 0)) {
    if (!(candidate.sloMsAtCapacity > limitMs))
      return { what: 'slo', evidence: candidate.reason ?? '' }
    return {
      what: 'slo',
      evidence: `one request at a time takes ${sloValue(slo, candidate.sloMsAtCapacity)} at ${sloName(slo)}${slo.limits ? '; the SLO is' : ', over'} ${allowed}`,
    }
  }
  const usage = second?.trial.usage ?? trial.usage ?? {}
  const cores = Number(trial.configuration.cpuCores)
  const gpuUtilization = usage.busiestGpuUtilization ?? usage.gpuUtilization
  const coresBusy = usage.busiestCpuCores ?? usage.cpuCores
  const gpuShare = gpuUtilization ?? 0
  const cpuShare = coresBusy !== undefined && cores > 0 ? coresBusy / cores : 0
  const gpu = `GPU busy ${percent(gpuShare)} of the time`
  const cpu = `${significant(cores)} ${cores === 1 ? 'core' : 'cores'} ${percent(cpuShare)} busy`
  const used = [...(gpuUtilization === undefined ? [] : [gpu]), ...(cpuShare > 0 ? [cpu] : [])]
  const ofSaturation =
    measurement.saturationRps > 0
      ? (candidate.estimateRps ?? candidate.capacityRps) / measurement.saturationRps
      : 1
  const engine = engineBinding(usage, trial.configuration)
  // The first measurement also overloads it: what was full then binds only where the capacity is
  // near.
  const near = second !== undefined || ofSaturation >= busy
  if (engine?.full && near)
    return { what: engine.what, evidence: [engine.evidence, ...used].join(', ') }
  if (Math.max(gpuShare, cpuShare) >= busy) {
    return gpuShare >= cpuShare
      ? engine !== undefined && !engine.full
        ? { what: engine.what, evidence: [...used, engine.evidence].join(', ') }
        : { what: 'gpu', evidence: used.join(', ') }
      : { what: 'cpu', evidence: [cpu, ...used.slice(0, -1)].join(', ') }
  }
  const neighbour = outOfMemoryNeighbour(judged, all)
  if (neighbour)
    return { what: 'memory', evidence: [`${neighbour} is out of memory`, ...used].join(', ') }
  const ofLimit = (candidate.unloadedMs ?? 0) / limitMs
  if (ofSaturation < busy || ofLimit > 0.5) {
    const saturated =
      ofSaturation < busy
        ? [
            `saturates at ${rate(measurement.saturationRps)}, of which ${percent(ofSaturation)} meet the SLO`,
          ]
        : []
    const idle =
      ofLimit > 0.5
        ? [
            slo.limits
              ? `one request at a time takes ${sloValue(slo, candidate.unloadedMs ?? 0)} at ${sloName(slo)}`
              : `one request at a time takes ${latency(candidate.unloadedMs ?? 0)} of the ${allowed} allowed at ${sloName(slo)}`,
          ]
        : []
    return {
      what: 'slo',
      evidence: [...saturated, ...idle, ...used, ...poolWords(usage)].join(', '),
    }
  }
  const [least, most] = oneThread
  const alone = cores > 1 && coresBusy !== undefined && coresBusy >= least && coresBusy <= most
  const thread = alone
    ? "; about one core's worth of computing: if a single thread does it, that thread is the limit"
    : ''
  return {
    what: 'unknown',
    evidence:
      used.length > 0
        ? `nothing measured is near its limit: ${used.join(', ')}${thread}`
        : 'usage was not measured',
  }
}

function unservedBinding({ trial, candidate }: Judged): Recommendation['binding'] {
  const memory = trial.state === 'infeasible' && trial.reason === 'out-of-memory'
  return { what: memory ? 'memory' : 'unknown', evidence: candidate.reason ?? '' }
}

/**
 * A configuration that differs in one parameter only and is out of memory: 'batchSize 16 (trial
 * 7)'.
 */
function outOfMemoryNeighbour({ trial }: Judged, all: readonly Judged[]): string | undefined {
  const own = trial.configuration
  for (const other of all) {
    if (other.trial.state !== 'infeasible' || other.trial.reason !== 'out-of-memory') continue
    const changed = Object.keys(own).filter((name) => own[name] !== other.trial.configuration[name])
    const [name] = changed
    if (name !== undefined && changed.length === 1)
      return `${name} ${other.trial.configuration[name]} (trial ${other.trial.number})`
  }
  return undefined
}
