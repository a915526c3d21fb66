/**
 * What one replica requires beside GPUs: cores, memory, and the time to start and to end. The
 * figures come from measurements of what is deployed, and are never below what a real start needs.
 */

import { resolveLimits, type Slo } from '../../profiler/model/slo.ts'
import type { Configuration } from '../../search/types.ts'
import type { MeasuredWith } from '../../trials/measured-with.ts'
import type { Resources } from '../../trials/resources.ts'
import { Knobs } from '../../trials/servers/knobs.ts'
import { getMaxSequence } from '../../trials/servers/language-knobs.ts'
import { parseHubName } from '../../trials/servers/language-servers.ts'
import { isLanguageServer } from '../../trials/servers/server-kinds.ts'
import type { Deployed } from '../figures.ts'
import { latency, significant } from '../format.ts'

/** Resources, deadlines and grace period of one replica. */
export interface ReplicaRequirements {
  readonly cpuCores?: number
  readonly memoryMiB?: number
  /** Seconds until a replica must be ready. */
  readonly startupSeconds: number
  /** Seconds until a rollout has failed: scheduling, pulling, fetching and the start. */
  readonly progressSeconds: number
  /** Seconds from the start of termination until the kill, in which running requests finish. */
  readonly graceSeconds: number
  /** Shared memory of a server of language models, part of its memory. */
  readonly sharedMemoryMiB?: number
  /** Source of each figure. */
  readonly reasons: Readonly<Record<'cpu' | 'memory' | 'startup' | 'grace', string>>
}

/** Measurements of what one replica used. */
interface MeasuredUse {
  readonly measured: MeasuredWith
  readonly launchSeconds?: number
  readonly nodeWaitSeconds?: number
  readonly peakRssMiB?: number
  readonly slowestMs?: number
  readonly slo: Slo
}

/** Endpoints keep receiving requests for this long after termination begins. */
export const preStopSeconds = 5

/**
 * Factor on the measured peak, for the page cache, a longer life, and larger requests than the
 * payload's. Assumed.
 */
const memoryMargin = 1.5
/** Minimum memory request. Assumed. */
const minMemoryMiB = 256
/**
 * The built-in predictor on CPU, largest batch 8: bert-base 1,502 MiB, resnet50 1,170 MiB,
 * mobilenet 389 MiB, bert-tiny 246 MiB (VmHWM of all its processes, one core): at most 1 GiB and
 * three times the weights in 32 bits.
 */
const computeBuiltinMemoryMiB = (weightsMiB: number): number => 1024 + 3 * weightsMiB
/** Minimum number of cores of a server: with fewer, its start takes minutes even without load. */
const minCores = 0.5
/**
 * Least startup deadline, as a launch on a new node takes longer than one on a warm machine; the
 * time to read the weights is added. Assumed.
 */
const startFloorSeconds = 60
/** Startup deadline where no launch was measured. Assumed. */
const unmeasuredStartSeconds = 300
/** Rate at which a server reads its weights from a disk. Assumed. */
const weightsMiBPerSecond = 200
/** Rate at which weights are fetched over a network, from the Hub or a store. Assumed. */
const fetchMiBPerSecond = 50
/** Kubernetes' default limit of a rollout, for the node and the image alone. */
const rolloutSeconds = 600
/** Longest wait for a pod to end. */
const maxGraceSeconds = 3600
/**
 * Needs of a server of language models. languageMiB: Python, the API and the scheduler. workerMiB:
 * the worker of each GPU with its CUDA context and pinned buffers. Both are estimated with room to
 * spare; the weights, whose files pass through the page cache, are added. languageCores: two, and
 * one for each GPU, are the least that vLLM names.
 */
const [languageMiB, workerMiB, languageCores] = [2048, 4096, 2]
/**
 * Shared memory: 32 GiB for eight GPUs, as SGLang's own images are started. One GPU exchanges
 * nothing with others, so a smaller amount is assumed.
 */
const resolveSharedMiB = (gpus: number): number => (gpus > 1 ? 4096 * gpus : 2048)

/**
 * @param figuresHold whether the figures are those of what is deployed
 * @param modelUri where its weights come from
 */
export function computeRequirements(
  evidence: MeasuredUse,
  deployed: Deployed,
  figuresHold: boolean,
  resources: Resources,
  configuration: Configuration,
  modelUri?: string,
): ReplicaRequirements {
  const { measured, launchSeconds, nodeWaitSeconds } = evidence
  const isLanguage = isLanguageServer(deployed.server)
  const cpu = computeCores(measured, deployed, figuresHold, resources, configuration)
  const memory = computeMemory(evidence, deployed, figuresHold, resources, configuration)
  const fetchSeconds = Math.ceil((measured.weightsMiB ?? 0) / fetchMiBPerSecond)
  const serverDownloads =
    isLanguage && modelUri !== undefined && parseHubName(modelUri) !== undefined
  const startup = computeStartup(
    measured,
    figuresHold ? { launchSeconds, nodeWaitSeconds } : {},
    serverDownloads ? fetchSeconds : 0,
  )
  const grace = computeGrace(evidence, isLanguage, configuration)
  return {
    cpuCores: cpu.cores,
    memoryMiB: memory.mib,
    sharedMemoryMiB: isLanguage ? resolveSharedMiB(resources.gpus) : undefined,
    startupSeconds: startup.seconds,
    progressSeconds: rolloutSeconds + startup.seconds + (serverDownloads ? 0 : fetchSeconds),
    graceSeconds: grace.seconds,
    reasons: { cpu: cpu.from, memory: memory.from, startup: startup.from, grace: grace.from },
  }
}

function computeCores(
  { server }: MeasuredWith,
  deployed: Deployed,
  figuresHold: boolean,
  { cpuCores, gpus }: Resources,
  configuration: Configuration,
) {
  const isTuned = 'cpuCores' in configuration
  if (!isTuned && server === 'url')
    return { from: 'the cores of the server are unknown: set the request yourself' }
  const minRealCores = isLanguageServer(deployed.server) ? languageCores + gpus : minCores
  const cores = figuresHold ? cpuCores : Math.max(cpuCores, minRealCores)
  if (cores > cpuCores)
    return {
      cores,
      from: `${isTuned ? 'tuned' : 'every trial had'} ${cpuCores}, which the price is for; a real start needs ${minRealCores}`,
    }
  return { cores, from: isTuned ? 'tuned' : 'not tuned; as in every trial' }
}

function computeMemory(
  { measured, peakRssMiB }: MeasuredUse,
  deployed: Deployed,
  figuresHold: boolean,
  { memoryMiB, gpus }: Resources,
  configuration: Configuration,
) {
  const sharedMemoryMiB = isLanguageServer(deployed.server) ? resolveSharedMiB(gpus) : 0
  const floor = isLanguageServer(deployed.server)
    ? resolveLanguageFloor(measured, gpus)
    : resolveFloorMiB(measured, deployed)
  if ('memoryMiB' in configuration) {
    if (!figuresHold && floor !== undefined && floor > memoryMiB)
      return {
        mib: floor,
        from: `tuned ${memoryMiB} MiB; a real start needs about ${floor} MiB`,
      }
    return {
      mib: Math.ceil(memoryMiB),
      from: figuresHold ? 'tuned' : 'tuned with another server',
    }
  }
  if (figuresHold && peakRssMiB !== undefined && peakRssMiB > 0) {
    const mib =
      Math.max(minMemoryMiB, Math.ceil((memoryMargin * peakRssMiB) / 64) * 64) + sharedMemoryMiB
    const sharedText = sharedMemoryMiB > 0 ? `, plus ${sharedMemoryMiB} MiB of shared memory` : ''
    return {
      mib,
      from: `${memoryMargin} x the measured peak of ${significant(peakRssMiB)} MiB, at least ${minMemoryMiB} MiB${sharedText}`,
    }
  }
  if (sharedMemoryMiB === 0 || floor === undefined)
    return {
      from: 'neither tuned nor measured for this server: set the request yourself once it has run',
    }
  const weights = Math.ceil(measured.weightsMiB ?? 0)
  return {
    mib: floor,
    from: `estimated: weights ${weights} MiB, ${languageMiB} MiB and ${workerMiB} MiB per GPU for its processes, ${sharedMemoryMiB} MiB shared; adjust the request once it has run`,
  }
}

/** Minimum memory of any other server, MiB. */
const resolveFloorMiB = ({ weightsMiB = 0 }: MeasuredWith, { server }: Deployed): number =>
  server === 'builtin' ? Math.ceil(computeBuiltinMemoryMiB(weightsMiB) / 64) * 64 : minMemoryMiB

/** Least memory of a server of language models, MiB in whole GiB; undefined: unknown weights. */
const resolveLanguageFloor = ({ weightsMiB }: MeasuredWith, gpus: number): number | undefined =>
  weightsMiB === undefined
    ? undefined
    : Math.ceil(
        (weightsMiB + languageMiB + workerMiB * Math.max(1, gpus) + resolveSharedMiB(gpus)) / 1024,
      ) * 1024

/**
 * @param downloadSeconds time to fetch the weights, where the server itself does so: trials found
 * them on their machine
 */
function computeStartup(
  { weightsMiB = 0 }: MeasuredWith,
  { launchSeconds, nodeWaitSeconds = 0 }: Pick<MeasuredUse, 'launchSeconds' | 'nodeWaitSeconds'>,
  downloadSeconds: number,
) {
  const readSeconds = Math.ceil(weightsMiB / weightsMiBPerSecond)
  const readText = readSeconds > 0 ? ` + ${readSeconds} s to read the weights` : ''
  const downloadText = downloadSeconds > 0 ? ` + ${downloadSeconds} s to download them` : ''
  if (launchSeconds === undefined || !(launchSeconds > 0))
    return {
      seconds: unmeasuredStartSeconds + readSeconds + downloadSeconds,
      from: `the launch of this server was not measured: ${unmeasuredStartSeconds} s${readText}${downloadText}`,
    }
  const floor = startFloorSeconds + readSeconds
  // The startup probe begins on the node, so the wait for it is not part of the deadline.
  const nodeWaitText =
    nodeWaitSeconds < 1
      ? ''
      : `; the ${significant(nodeWaitSeconds)} s that its pod waited for a node are not included`
  return {
    seconds: Math.max(floor, Math.ceil(3 * launchSeconds)) + downloadSeconds,
    from: `three times the measured launch of ${significant(launchSeconds)} s, at least ${startFloorSeconds} s${readText}${downloadText}${nodeWaitText}`,
  }
}

/**
 * Time in which requests under way are answered before the kill. It is the largest of: twice the
 * slowest answer that was measured; the longest answer that a server of language models accepts, at
 * the pace of the SLO; and Kubernetes' own half minute.
 */
function computeGrace(
  { measured, slo, slowestMs = 0 }: MeasuredUse,
  isLanguage: boolean,
  configuration: Configuration,
) {
  const measuredSeconds = Math.ceil((2 * slowestMs) / 1000)
  const limits = resolveLimits(slo)
  // The longest limit of all classes of requests.
  const [tpot, ttft] = (['tpot', 'ttft'] as const).map((metric) =>
    limits.reduce<number | undefined>(
      (highest, limit) =>
        limit.metric === metric ? Math.max(highest ?? 0, limit.limitMs) : highest,
      undefined,
    ),
  )
  const tokens = getMaxSequence(new Knobs(configuration)) ?? measured.maxModelLen
  const longestSeconds =
    isLanguage && tpot !== undefined && tokens !== undefined
      ? Math.ceil(((ttft ?? 0) + tokens * tpot) / 1000)
      : 0
  const seconds = Math.max(
    30,
    2 * preStopSeconds + Math.max(measuredSeconds, Math.min(longestSeconds, maxGraceSeconds)),
  )
  if (longestSeconds > measuredSeconds)
    return {
      seconds,
      from: `an answer of ${tokens} tokens at the latency limits of the SLO, at most an hour`,
    }
  return {
    seconds,
    from:
      slowestMs > 0
        ? `twice the slowest response of ${latency(slowestMs)}, at least 30 s`
        : 'no response time was measured',
  }
}
