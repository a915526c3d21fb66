/** One launch of a trial's predictor as a pod; `kubernetes-launcher.ts` lists the steps. */
import { setMaxListeners } from 'node:events'
import { join } from 'node:path'
import type { V1Pod } from '@kubernetes/client-node'
import { NeverReadyError, prepareOnceReady } from '../../../../profiler/protocols/until-serving.ts'
import type { Configuration } from '../../../../search/types.ts'
import { makePrivateFolder } from '../../../private-files.ts'
import { readResources } from '../../../resources.ts'
import { LaunchError, type OnWaiting, type Predictor } from '../../../types.ts'
import { Cleanup } from '../../cleanup.ts'
import { createMetricsProbe } from '../../device-probe.ts'
import { createBadAnswerError, createReadyTimeoutError } from '../../failure.ts'
import { openLog, type PredictorLog } from '../../predictor-log.ts'
import { defaultReadyTimeoutS } from '../../template.ts'
import { ApiError } from '../api/api.ts'
import { removeObject } from '../cleanup/sweep.ts'
import type { Owner } from '../manifests/manifests.ts'
import { builtinContainer, type Json, resolveEngine } from '../manifests/manifests.ts'
import { formatServiceUrl } from '../manifests/trial-service.ts'
import {
  type ContainerLocation,
  createKubeletReader,
  createMetricsServerReader,
  samplePodUsage,
} from '../watch/pod-usage.ts'
import type { PodWatch } from '../watch/pod-watch.ts'
import { listPlacedPredictors, willOtherTrialsEnd } from '../watch/trial-pods.ts'
import { findNamespaceError } from './failures.ts'
import { FollowedPod } from './followed-pod.ts'
import type { ExplainLoss } from './lost-pod.ts'
import {
  createObjectName,
  type KubernetesLauncherOptions,
  planObjects,
  type TrialObjects,
} from './planned-objects.ts'
import { connectToPod, formatPodUrl } from './pod-connection.ts'
import { createObject, createPod, removePod } from './trial-objects.ts'
import { defaultStartTimeouts, waitUntilRunning } from './wait-until-running.ts'

/** A predictor in a pod, or in several, with its location. */
export interface PodPredictor extends Predictor {
  readonly pod: {
    /** Name of the pod that receives the load, or of one of its replicas. */
    readonly name: string
    /** Addresses of the pods that receive the load, in the cluster. */
    readonly urls: readonly string[]
    /** Nodes of all its pods. */
    readonly nodes: readonly string[]
    readonly trial: number
    /** URL of its Service, if load goes through one; else load goes to the pods' addresses. */
    readonly serviceUrl?: string
  }
}
export const isPodPredictor = (predictor: Predictor): predictor is PodPredictor =>
  'pod' in predictor

/** Shared state of a launcher. */
export interface LauncherContext {
  readonly watch: PodWatch
  /** The Job that owns the experiment's objects. */
  readonly owner: (signal: AbortSignal) => Promise<Owner>
  /** Numbers of other trials whose predictors run on a node. */
  readonly neighbours: (node: string, trial: number) => number[]
  readonly explainLoss: ExplainLoss
  /** Pods of this launcher that a sweep leaves alone. */
  readonly live: Set<string>
}

/** A configuration to launch. */
export interface LaunchRequest {
  readonly configuration: Configuration
  readonly trial: number
  readonly signal: AbortSignal
  readonly onWaiting?: OnWaiting
}

/** One launch, with its cleanup. */
interface Launch extends LaunchRequest {
  readonly shared: LauncherContext
  readonly options: KubernetesLauncherOptions
  readonly cleanup: Cleanup
}

/**
 * @returns a predictor that serves
 * @throws as a launcher; created objects are then removed
 */
export async function launchPod(
  shared: LauncherContext,
  options: KubernetesLauncherOptions,
  request: LaunchRequest,
): Promise<PodPredictor> {
  const { signal } = request
  const cleanup = new Cleanup()
  try {
    signal.throwIfAborted()
    // One signal aborts every trial, and each trial has several listeners.
    setMaxListeners(0, signal)
    return await launchUntilServing({ shared, options, cleanup, ...request })
  } catch (error) {
    await cleanup.run()
    signal.throwIfAborted()
    throw convertApiError(error)
  }
}

/** A request that the API server rejects fails the trial. Other errors are unchanged. */
export const convertApiError = (error: unknown): unknown =>
  error instanceof ApiError
    ? (findNamespaceError(error.message) ?? new LaunchError(error.message, error.hint))
    : error

async function launchUntilServing(launch: Launch): Promise<PodPredictor> {
  const { shared, options, trial, cleanup } = launch
  const { followed, objects } = await requestPod(launch)
  // The launch time excludes waiting for quota or for a new node.
  const madeMs = performance.now()
  const { ip, unscheduledMs } = await waitForPod(launch, followed, objects)
  const runningMs = performance.now()
  const { connection, target } = await waitUntilServing(launch, followed, ip)
  const launchSeconds = (performance.now() - madeMs - unscheduledMs) / 1000
  const { node, usage, restartUsage } = await watchUsage(
    launch,
    followed,
    connection.url,
    runningMs,
  )
  const { template, protocol, port } = options
  return {
    target,
    protocol: protocol.name,
    provenance:
      template.kind === 'builtin' && resolveEngine(template) === 'emulated'
        ? 'emulated'
        : 'measured',
    isolation: describeIsolation(
      objects.pod,
      followed.pod!,
      followed.container,
      shared.neighbours(node, trial),
    ),
    logPath: followed.log.path,
    logTail: () => followed.log.tail(),
    usage: async () => ({
      launchSeconds,
      ...(unscheduledMs > 0 && { nodeWaitSeconds: unscheduledMs / 1000 }),
      ...(await usage()),
    }),
    restartUsage,
    died: followed.waitForDeath(),
    pod: {
      name: followed.name,
      urls: [formatPodUrl(ip, port)],
      nodes: [node],
      trial,
      ...(options.usesService && {
        serviceUrl: formatServiceUrl(followed.name, options.api.namespace, port),
      }),
    },
    stop: () => {
      followed.stop()
      return cleanup.run()
    },
  }
}

/** Creates the pod and its claim, Secret and Service. */
async function requestPod({
  shared,
  options,
  configuration,
  trial,
  cleanup,
  signal,
  onWaiting,
}: Launch): Promise<{ followed: FollowedPod; objects: TrialObjects }> {
  const { watch, owner, live } = shared
  const { api, template, experimentId, runDirectory, stage } = options
  const name = createObjectName(experimentId, trial)
  const objects = planObjects(options, configuration, trial, await owner(signal), name)

  const log = openLog(
    makePrivateFolder(join(runDirectory, 'trials', String(trial), stage?.folder ?? '')),
  )
  cleanup.add(log.close)
  live.add(name)
  cleanup.add(() => {
    live.delete(name)
  })
  const others = {
    resourceclaimtemplates: objects.claimTemplate,
    secrets: objects.secret,
    services: objects.service,
  }
  for (const kind of ['resourceclaimtemplates', 'secrets', 'services'] as const) {
    const body = others[kind]
    if (body === undefined) continue
    cleanup.add(() => removeObject(api, { kind, name }))
    await createObject(api, kind, body, signal)
  }
  // Register before the creation: its answer may be lost.
  cleanup.add(() => removePod(api, watch, name))
  await createPod(api, watch, objects.pod, {
    trial,
    maxForeignQuotaMs: { ...defaultStartTimeouts, ...options.timeouts }.unschedulableMs,
    signal,
    onWaiting,
  })
  const followed = new FollowedPod(
    api,
    watch,
    name,
    options.own?.container ?? builtinContainer,
    log,
    template.kind === 'builtin',
    shared.explainLoss,
  )
  cleanup.add(() => followed.stop())
  return { followed, objects }
}

async function waitForPod(
  { shared: { watch }, options, trial, signal, onWaiting }: Launch,
  followed: FollowedPod,
  { pod, claim }: TrialObjects,
) {
  const { name, state, explainEnd } = followed
  const timeouts = { ...defaultStartTimeouts, ...options.timeouts }
  const started = await waitUntilRunning({
    api: options.api,
    watch,
    name,
    state,
    explainEnd,
    requested: pod,
    claim,
    concurrentPods: () => listPlacedPredictors(watch, trial),
    willOthersEnd: () => willOtherTrialsEnd(watch, trial),
    timeouts,
    signal,
    onWaiting,
  })
  followed.readLog()
  return started
}

async function waitUntilServing(
  { options, cleanup, signal, onWaiting }: Launch,
  followed: FollowedPod,
  ip: string,
) {
  const { api, template, protocol, payload, port } = options
  const connection = await connectToPod(api, options.connectivity, {
    name: followed.name,
    ip,
    port,
  })
  cleanup.add(connection.close)
  const notRunning = followed.createEndSignal()
  try {
    const endpoint = {
      protocol,
      url: connection.url,
      model: template.model,
      payload,
      onReason: (reason: string) => onWaiting?.(reason, 'loading'),
    }
    const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
    return {
      connection,
      target: await prepareOnceReady(endpoint, timeoutMs, AbortSignal.any([signal, notRunning])),
    }
  } catch (error) {
    signal.throwIfAborted()
    if (notRunning.aborted) throw await followed.explainEnd()
    throw explainNotServing(error, followed.log)
  }
}

/** @param runningMs when the container was first observed running, by `performance.now()` */
async function watchUsage(
  { options, configuration, cleanup }: Launch,
  followed: FollowedPod,
  url: string,
  runningMs: number,
) {
  const { name, container } = followed
  const pod = followed.pod!
  const node = pod.spec?.nodeName ?? 'an unknown node'
  const requested = readResources(configuration, options.defaults, options.ownGpus)
  const probe =
    options.template.kind === 'builtin'
      ? createMetricsProbe(url, requested.gpu !== undefined)
      : undefined
  // The first reading is the baseline of later ones; ignore a failed one.
  await probe?.().catch(() => undefined)
  const sampler = createSampler(
    options,
    { name, node, container },
    readStartMs(pod, container) - runningMs,
  )
  cleanup.add(() => sampler?.stop())
  return {
    node,
    usage: async () => {
      const [reading, used] = await Promise.all([probe?.().catch(() => undefined), sampler?.read()])
      return {
        ...used,
        gpuMemoryMiB: reading?.memoryMiB,
        gpuUtilization: reading?.utilization,
        busiestGpuUtilization: reading?.utilization,
        realisedBatch: reading?.realisedBatch,
      }
    },
    restartUsage: () => sampler?.restart(),
  }
}

function explainNotServing(error: unknown, log: PredictorLog): unknown {
  if (error instanceof NeverReadyError) return createReadyTimeoutError(error, log)
  if (!(error instanceof Error) || error.name !== 'ProtocolError') return error
  return createBadAnswerError(error, log)
}

/** @param nodeMs offset of the node's clock to `performance.now()` */
function createSampler(
  { api, usageSource }: KubernetesLauncherOptions,
  place: ContainerLocation,
  nodeMs: number,
) {
  if (usageSource === undefined) return undefined
  const look = usageSource === 'kubelet' ? createKubeletReader : createMetricsServerReader
  return samplePodUsage(look(api, place), () => nodeMs + performance.now())
}

/** Start of the container by the node's clock. */
const readStartMs = ({ status }: V1Pod, container: string): number => {
  const running = status?.containerStatuses?.find(({ name }) => name === container)?.state?.running
  return new Date(running?.startedAt ?? Date.now()).getTime()
}

function describeIsolation(
  body: Json,
  pod: V1Pod,
  container: string,
  neighbours: readonly number[],
): string {
  const containers = (
    body.spec as { containers: { name: string; resources?: { limits?: Record<string, string> } }[] }
  ).containers
  const limits = Object.entries(
    containers.find(({ name }) => name === container)?.resources?.limits ?? {},
  )
  const limitsText =
    limits.length > 0 ? limits.map(([name, amount]) => `${name} ${amount}`).join(', ') : 'no limits'
  const shared =
    neighbours.length > 0 ? `; shares the node with trial ${neighbours.join(', ')}` : ''
  return `pod ${pod.metadata!.name} on ${pod.spec?.nodeName}: ${limitsText} (${pod.status?.qosClass ?? 'unknown'} class)${shared}`
}
