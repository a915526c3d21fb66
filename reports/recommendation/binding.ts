/**
 * Identifies the bottleneck of a configuration (a resource, the engine's scheduler or the SLO),
 * with the evidence.
 */
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
 * From this utilisation on, a GPU or the CPU cores are the bottleneck: that of the busiest seconds,
 * or the mean over the trial, which includes its pauses. Assumed.
 */
const minBottleneckUtilisation = 0.8

/**
 * From this share of the saturation rate on, a resource limits the capacity rather than the SLO.
 * Assumed; the device model draws the same line.
 */
const minSaturatedShare = 0.8

/**
 * An unloaded latency above this share of the SLO's limit is reported as the bottleneck. Assumed.
 */
const maxUnloadedLatencyShare = 0.5

/**
 * Busy cores that suggest one saturated thread: its helper threads add a little. A Python server on
 * an H100 used 1.03 of 4 cores.
 */
const singleThreadCores = { min: 0.9, max: 1.2 } as const

type BindingEvidence = Recommendation['binding']

/**
 * Identifies the bottleneck of a candidate. The first that applies: a limit of the engine or a busy
 * resource; memory, if a configuration that differs in one parameter ran out of it; the SLO, if the
 * capacity is far below saturation or the unloaded latency is near the limit. For a pipeline: its
 * busiest stage.
 * @param stages of a pipeline
 */
export function findBinding(
  ranked: RankedCandidate,
  all: readonly RankedCandidate[],
  slo: Slo,
  stages?: readonly StageReport[],
): BindingEvidence {
  const { measurement, candidate } = ranked
  if (!measurement) return describeUnservedTrial(ranked)
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
  if (!(candidate.capacityRps > 0)) return describeUnattainableSlo(candidate, slo)
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

/** The SLO cannot be met: one request at a time violates it, or every tested rate did. */
function describeUnattainableSlo(candidate: Candidate, slo: Slo): BindingEvidence {
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

/**
 * Reads the utilisation in the confirmation, if there is one: the first measurement also overloads
 * the server, which raises utilisation.
 */
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

/**
 * Identifies a limit of the engine that was reached (KV cache, scheduler), else a busy GPU or busy
 * CPU cores; undefined if there is neither.
 */
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
  if (Math.max(gpuShare, cpuShare) < minBottleneckUtilisation) return undefined
  // `texts` ends with `cpuText`.
  if (gpuShare < cpuShare)
    return { what: 'cpu', evidence: [cpuText, ...texts.slice(0, -1)].join(', ') }
  // The GPU is busy: the engine's counts tell whether with arithmetic or with memory traffic.
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

/**
 * Identifies the SLO as the bottleneck: the capacity is far below saturation, or the unloaded
 * latency is near the limit.
 */
function findLatencyBinding(
  { unloadedMs = 0 }: Candidate,
  { saturationRps }: Measurement,
  slo: Slo,
  { usage, texts }: Utilisation,
  saturatedShare: number,
): BindingEvidence | undefined {
  const isFarBelowSaturation = saturatedShare < minSaturatedShare
  const isSlowUnloaded = unloadedMs / slo.limitMs > maxUnloadedLatencyShare
  if (!isFarBelowSaturation && !isSlowUnloaded) return undefined
  const unloaded = slo.limits
    ? `one request at a time takes ${sloValue(slo, unloadedMs)} at ${sloName(slo)}`
    : `one request at a time takes ${latency(unloadedMs)} of the ${sloLimit(slo)} allowed at ${sloName(slo)}`
  const evidence = [
    ...(isFarBelowSaturation
      ? [
          `saturates at ${rate(saturationRps)}, meets the SLO up to ${percent(saturatedShare)} of that`,
        ]
      : []),
    ...(isSlowUnloaded ? [unloaded] : []),
    ...texts,
    ...describePools(usage),
  ]
  return { what: 'slo', evidence: evidence.join(', ') }
}

/** Nothing measured is near its limit. About one busy core of several suggests a single thread. */
function describeIdle({ cores, busyCores, texts }: Utilisation): string {
  if (texts.length === 0) return 'usage was not measured'
  const isSingleThread =
    cores > 1 &&
    busyCores !== undefined &&
    busyCores >= singleThreadCores.min &&
    busyCores <= singleThreadCores.max
  const threadHint = isSingleThread
    ? '; about one core is busy: if a single thread does the work, it is the bottleneck'
    : ''
  return `nothing measured is near its limit: ${texts.join(', ')}${threadHint}`
}

function describeUnservedTrial({ trial, candidate }: RankedCandidate): BindingEvidence {
  const isOutOfMemory = trial.state === 'infeasible' && trial.reason === 'out-of-memory'
  return { what: isOutOfMemory ? 'memory' : 'unknown', evidence: candidate.reason ?? '' }
}

/**
 * Describes a configuration that ran out of memory and differs in one parameter only: 'batchSize 16
 * (trial 7)'.
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
