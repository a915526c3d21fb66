/** Finds what limits the capacity of a configuration, with the evidence. */
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import type { Usage } from '../../trials/types.ts'
import { latency, percent, rate, significant, sloLimit, sloName, sloValue } from '../format.ts'
import { describePools, findEngineBinding } from './engine-binding.ts'
import type { RankedCandidate } from './ranked-candidate.ts'
import { findStageBinding } from './stages.ts'
import { failsAllRequests } from './status.ts'
import type { Candidate, Recommendation, StageReport } from './types.ts'

/**
 * Busy share from which a device is taken to be the limit: of its busiest seconds, else the mean of
 * the trial, pauses included.
 */
const minBusyShare = 0.8

/** A capacity from this share of the saturation on counts as saturated. */
const minSaturatedShare = 0.8

/** An unloaded latency above this share of the limit is named as what binds. */
const maxUnloadedShare = 0.5

/** Cores that a process with one busy thread uses, its other threads included. */
const oneThreadCores = { min: 0.9, max: 1.2 } as const

type BindingEvidence = Recommendation['binding']

/**
 * Finds what limits a candidate: its scarcest resource, memory by its neighbours, or the SLO, by
 * where its capacity lies between unloaded and saturated. Of a pipeline, its busiest stage.
 * @param stages of a pipeline
 */
export function findBinding(
  ranked: RankedCandidate,
  all: readonly RankedCandidate[],
  slo: Slo,
  stages?: readonly StageReport[],
): BindingEvidence {
  const { measurement, candidate } = ranked
  if (!measurement) return findUnservedBinding(ranked)
  if (measurement.outcome === 'generator-limit') {
    return {
      what: 'generator',
      evidence:
        'the load generator reached its limit before the predictor did: the capacity is a lower bound',
    }
  }
  if (
    candidate.status === 'inconclusive' ||
    failsAllRequests({ ...measurement, capacityRps: candidate.capacityRps })
  )
    return { what: 'unknown', evidence: candidate.reason ?? '' }
  if (!(candidate.capacityRps > 0)) return describeUnattainable(candidate, slo)
  if (stages !== undefined)
    return (
      findStageBinding(ranked, stages) ?? {
        what: 'unknown',
        evidence: 'the usage of the stages was not measured',
      }
    )
  const utilisation = readUtilisation(ranked)
  const saturatedShare =
    measurement.saturationRps > 0
      ? (candidate.estimateRps ?? candidate.capacityRps) / measurement.saturationRps
      : 1
  return (
    findBusyResource(ranked, utilisation, saturatedShare) ??
    findMemoryBinding(ranked, all, utilisation) ??
    findLatencyBinding(candidate, measurement, slo, utilisation, saturatedShare) ?? {
      what: 'unknown',
      evidence: describeIdle(utilisation),
    }
  )
}

/** One request at a time violates the SLO, or it was violated at every rate tried. */
function describeUnattainable(candidate: Candidate, slo: Slo): BindingEvidence {
  if (!(candidate.sloMsAtCapacity > slo.limitMs))
    return { what: 'slo', evidence: candidate.reason ?? '' }
  return {
    what: 'slo',
    evidence: `one request at a time takes ${sloValue(slo, candidate.sloMsAtCapacity)} at ${sloName(slo)}${slo.limits ? '; the SLO is' : ', over'} ${sloLimit(slo)}`,
  }
}

interface Utilisation {
  readonly usage: Usage
  /** CPU cores of the configuration. */
  readonly cores: number
  /** Absent if it was not measured. */
  readonly busyCores?: number
  /** Busy shares, 0-1; 0 where they were not measured. */
  readonly gpuShare: number
  readonly cpuShare: number
  readonly cpuText: string
  /** Descriptions of the measured values: 'GPU busy 93 % of the time', '2 cores 41 % busy'. */
  readonly texts: readonly string[]
}

/** Reads the usage of the confirmation, if any: the first measurement also overloads the server. */
function readUtilisation({ trial, confirmation }: RankedCandidate): Utilisation {
  const usage = confirmation?.trial.usage ?? trial.usage ?? {}
  const cores = Number(trial.configuration.cpuCores)
  const gpuUtilisation = usage.busiestGpuUtilization ?? usage.gpuUtilization
  const busyCores = usage.busiestCpuCores ?? usage.cpuCores
  const cpuShare = busyCores !== undefined && cores > 0 ? busyCores / cores : 0
  const cpuText = `${significant(cores)} ${cores === 1 ? 'core' : 'cores'} ${percent(cpuShare)} busy`
  return {
    usage,
    cores,
    ...(busyCores !== undefined && { busyCores }),
    gpuShare: gpuUtilisation ?? 0,
    cpuShare,
    cpuText,
    texts: [
      ...(gpuUtilisation === undefined ? [] : [`GPU busy ${percent(gpuUtilisation)} of the time`]),
      ...(cpuShare > 0 ? [cpuText] : []),
    ],
  }
}

/** Finds the engine's own limit, the GPU or the CPU cores; undefined if none is busy enough. */
function findBusyResource(
  { trial, confirmation }: RankedCandidate,
  { usage, gpuShare, cpuShare, cpuText, texts }: Utilisation,
  saturatedShare: number,
): BindingEvidence | undefined {
  const engine = findEngineBinding(usage, trial.configuration)
  // The first measurement overloads the server: a limit reached there binds only near saturation.
  const isNearSaturation = confirmation !== undefined || saturatedShare >= minSaturatedShare
  if (engine?.isLimitReached && isNearSaturation)
    return { what: engine.what, evidence: [engine.evidence, ...texts].join(', ') }
  if (Math.max(gpuShare, cpuShare) < minBusyShare) return undefined
  if (gpuShare < cpuShare)
    return { what: 'cpu', evidence: [cpuText, ...texts.slice(0, -1)].join(', ') }
  return engine !== undefined && !engine.isLimitReached
    ? { what: engine.what, evidence: [...texts, engine.evidence].join(', ') }
    : { what: 'gpu', evidence: texts.join(', ') }
}

function findMemoryBinding(
  ranked: RankedCandidate,
  all: readonly RankedCandidate[],
  { texts }: Utilisation,
): BindingEvidence | undefined {
  const neighbour = findNeighbourOutOfMemory(ranked, all)
  return neighbour === undefined
    ? undefined
    : { what: 'memory', evidence: [`${neighbour} is out of memory`, ...texts].join(', ') }
}

/** The SLO itself: far below saturation, or with an unloaded latency near the limit. */
function findLatencyBinding(
  { unloadedMs = 0 }: Candidate,
  { saturationRps }: Measurement,
  slo: Slo,
  { usage, texts }: Utilisation,
  saturatedShare: number,
): BindingEvidence | undefined {
  const isFarBelowSaturation = saturatedShare < minSaturatedShare
  const isSlowUnloaded = unloadedMs / slo.limitMs > maxUnloadedShare
  if (!isFarBelowSaturation && !isSlowUnloaded) return undefined
  const unloaded = slo.limits
    ? `one request at a time takes ${sloValue(slo, unloadedMs)} at ${sloName(slo)}`
    : `one request at a time takes ${latency(unloadedMs)} of the ${sloLimit(slo)} allowed at ${sloName(slo)}`
  const evidence = [
    ...(isFarBelowSaturation
      ? [`saturates at ${rate(saturationRps)}, of which ${percent(saturatedShare)} meet the SLO`]
      : []),
    ...(isSlowUnloaded ? [unloaded] : []),
    ...texts,
    ...describePools(usage),
  ]
  return { what: 'slo', evidence: evidence.join(', ') }
}

/** Nothing is busy; one core of several is a hint at a single thread. */
function describeIdle({ cores, busyCores, texts }: Utilisation): string {
  if (texts.length === 0) return 'usage was not measured'
  const isOneThread =
    cores > 1 &&
    busyCores !== undefined &&
    busyCores >= oneThreadCores.min &&
    busyCores <= oneThreadCores.max
  const thread = isOneThread
    ? "; about one core's worth of computing: if a single thread does it, that thread is the limit"
    : ''
  return `nothing measured is near its limit: ${texts.join(', ')}${thread}`
}

function findUnservedBinding({ trial, candidate }: RankedCandidate): Recommendation['binding'] {
  const memory = trial.state === 'infeasible' && trial.reason === 'out-of-memory'
  return { what: memory ? 'memory' : 'unknown', evidence: candidate.reason ?? '' }
}

/**
 * Finds a configuration out of memory that differs in one parameter only: 'batchSize 16 (trial 7)'.
 */
function findNeighbourOutOfMemory(
  { trial }: RankedCandidate,
  all: readonly RankedCandidate[],
): string | undefined {
  const configuration = trial.configuration
  for (const other of all) {
    if (other.trial.state !== 'infeasible' || other.trial.reason !== 'out-of-memory') continue
    const changed = Object.keys(configuration).filter(
      (name) => configuration[name] !== other.trial.configuration[name],
    )
    const [name] = changed
    if (name !== undefined && changed.length === 1)
      return `${name} ${other.trial.configuration[name]} (trial ${other.trial.number})`
  }
  return undefined
}
