/** One launch of a trial's predictor as a pod; `kubernetes-launcher.ts` lists the steps. */
import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { join } from 'node:path'
import type { V1Pod } from '@kubernetes/client-node'
import { NeverReadyError, prepareOnceReady } from '../../../profiler/protocols/until-serving.ts'
import type { Configuration } from '../../../search/types.ts'
import { makePrivateFolder } from '../../private-files.ts'
import { readResources } from '../../resources.ts'
import type { OnWaiting, Predictor } from '../../types.ts'
import type { Cleanup } from '../cleanup.ts'
import { metricsProbe } from '../device-probe.ts'
import { neverReadyInTime, noGoodAnswer } from '../failure.ts'
import { openLog, type PredictorLog } from '../predictor-log.ts'
import { defaultReadyTimeoutS } from '../template.ts'
import { FollowedPod } from './followed-pod.ts'
import type { ExplainLoss } from './lost-pod.ts'
import type { Owner } from './manifests.ts'
import { builtinContainer, type Json, runningEngine } from './manifests.ts'
import {
  type KubernetesLauncherOptions,
  plannedObjects,
  type TrialObjects,
} from './planned-objects.ts'
import { kubeletLook, metricsServerLook, type PodPlace, samplePodUsage } from './pod-usage.ts'
import type { PodWatch } from './pod-watch.ts'
import { connectToPod } from './reach.ts'
import { defaultStartPatience, untilRunning } from './start.ts'
import { remove } from './sweep.ts'
import { createObject, createPod, removePod } from './trial-objects.ts'
import { otherTrialsEnd } from './trial-pods.ts'
import { serviceUrl } from './trial-service.ts'

/** A predictor in a pod, and where the cluster has it. */
export interface PodPredictor extends Predictor {
  readonly pod: {
    readonly name: string
    readonly ip: string
    readonly port: number
    readonly node: string
    readonly trial: number
    /** Of its Service, where load goes through one; absent: load goes to its own address. */
    readonly serviceUrl?: string
  }
}
export const isPodPredictor = (predictor: Predictor): predictor is PodPredictor =>
  'pod' in predictor

/** What a launcher's pods share. */
interface Shared {
  readonly options: KubernetesLauncherOptions
  readonly watch: PodWatch
  /** The Job that owns the experiment's objects. */
  readonly owner: (signal: AbortSignal) => Promise<Owner>
  /** Numbers of other trials whose predictors run on a node. */
  readonly neighbours: (node: string, trial: number) => number[]
  readonly explainLoss: ExplainLoss
  /** Pods of this launcher that a sweep leaves alone. */
  readonly live: Set<string>
}

/** One launch, with what undoes it. */
interface Launch {
  readonly shared: Shared
  readonly configuration: Configuration
  readonly trial: number
  readonly cleanup: Cleanup
  readonly signal: AbortSignal
  readonly onWaiting?: OnWaiting
}

/** @returns a predictor that serves. What was made goes into `cleanup`, also when it throws. @throws as a launcher */
export async function launchPod(
  shared: Shared,
  asked: Omit<Launch, 'shared'>,
): Promise<PodPredictor> {
  const { trial, cleanup, signal } = asked
  signal.throwIfAborted()
  // One signal ends every trial, and each waits for several things.
  setMaxListeners(0, signal)
  const launch: Launch = { shared, ...asked }
  const { followed, objects } = await makePod(launch)
  // A start begins once the pod is there: waiting for quota, or for a node to be added, is no part.
  const madeMs = performance.now()
  const { ip, unplacedMs } = await waitUntilRunning(launch, followed, objects)
  const runningMs = performance.now()
  const { way, target } = await waitUntilServing(launch, followed, ip)
  const launchSeconds = (performance.now() - madeMs - unplacedMs) / 1000
  const { node, usage, restartUsage } = await watchUsage(launch, followed, way.url, runningMs)
  const { options, neighbours } = shared
  const { template, protocol, port } = options
  return {
    target,
    protocol: protocol.name,
    provenance:
      template.kind === 'builtin' && runningEngine(template) === 'emulated'
        ? 'emulated'
        : 'measured',
    isolation: isolationOf(objects.pod, followed.pod!, followed.container, neighbours(node, trial)),
    logPath: followed.log.path,
    logTail: () => followed.log.tail(),
    usage: async () => ({
      launchSeconds,
      ...(unplacedMs > 0 && { nodeWaitSeconds: unplacedMs / 1000 }),
      ...(await usage()),
    }),
    restartUsage,
    died: followed.died(),
    pod: {
      name: followed.name,
      ip,
      port,
      node,
      trial,
      ...(options.throughService && {
        serviceUrl: serviceUrl(followed.name, options.api.namespace, port),
      }),
    },
    stop: () => {
      followed.stop()
      return cleanup.run()
    },
  }
}

/** Asks the cluster for the pod, and for the claim of its devices. */
async function makePod({
  shared,
  configuration,
  trial,
  cleanup,
  signal,
  onWaiting,
}: Launch): Promise<{ followed: FollowedPod; objects: TrialObjects }> {
  const { options, watch, owner, live } = shared
  const { api, template } = options
  const name = `tune-${options.experimentId}-${trial}-${randomBytes(3).toString('hex')}`
  const objects = plannedObjects(options, configuration, trial, await owner(signal), name)

  const log = openLog(makePrivateFolder(join(options.runDirectory, 'trials', String(trial))))
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
    cleanup.add(() => remove(api, { kind, name }))
    await createObject(api, kind, body, signal)
  }
  // Before its creation: the answer may be lost.
  cleanup.add(() => removePod(api, watch, name))
  await createPod(api, watch, objects.pod, {
    othersMs: { ...defaultStartPatience, ...options.patience }.unschedulableMs,
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

async function waitUntilRunning(
  { shared, trial, signal, onWaiting }: Launch,
  followed: FollowedPod,
  { pod, claim }: TrialObjects,
) {
  const { options, watch } = shared
  const { name, state, endedAs } = followed
  const patience = { ...defaultStartPatience, ...options.patience }
  const started = await untilRunning({
    api: options.api,
    watch,
    name,
    state,
    endedAs,
    requested: pod,
    claim,
    othersEnd: () => otherTrialsEnd(watch, trial),
    patience,
    signal,
    onWaiting,
  })
  followed.readLog()
  return started
}

async function waitUntilServing(
  { shared: { options }, cleanup, signal, onWaiting }: Launch,
  followed: FollowedPod,
  ip: string,
) {
  const { api, template, protocol, payload, port } = options
  const way = await connectToPod(api, options.reach, { name: followed.name, ip, port })
  cleanup.add(way.close)
  const notRunning = followed.notRunning()
  try {
    const endpoint = {
      protocol,
      url: way.url,
      model: template.model,
      payload,
      onReason: (reason: string) => onWaiting?.(reason, 'loading'),
    }
    const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
    return {
      way,
      target: await prepareOnceReady(endpoint, timeoutMs, AbortSignal.any([signal, notRunning])),
    }
  } catch (error) {
    signal.throwIfAborted()
    if (notRunning.aborted) throw await followed.endedAs()
    throw notServing(error, followed.log)
  }
}

/** @param runningMs when the container was first seen to run, by `performance.now()` */
async function watchUsage(
  { shared: { options }, configuration, cleanup }: Launch,
  followed: FollowedPod,
  url: string,
  runningMs: number,
) {
  const { name, container } = followed
  const pod = followed.pod!
  const node = pod.spec?.nodeName ?? 'an unknown node'
  const asked = readResources(configuration, options.defaults, options.ownGpus)
  const probe =
    options.template.kind === 'builtin' ? metricsProbe(url, asked.gpu !== undefined) : undefined
  // The first reading is what later ones are counted from; one that fails is a reading less.
  await probe?.().catch(() => undefined)
  const sampler = samplerOf(
    options,
    { name, node, container },
    startedAtMs(pod, container) - runningMs,
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

function notServing(error: unknown, log: PredictorLog): unknown {
  if (error instanceof NeverReadyError) return neverReadyInTime(error, log)
  if (!(error instanceof Error) || error.name !== 'ProtocolError') return error
  return noGoodAnswer(error, log)
}

/** @param nodeMs what the node's clock is ahead of `performance.now()` */
function samplerOf(
  { api, usageSource }: KubernetesLauncherOptions,
  place: PodPlace,
  nodeMs: number,
) {
  if (usageSource === undefined) return undefined
  const look = usageSource === 'kubelet' ? kubeletLook : metricsServerLook
  return samplePodUsage(look(api, place), () => nodeMs + performance.now())
}

/** By the clock of the node. */
const startedAtMs = ({ status }: V1Pod, container: string): number => {
  const running = status?.containerStatuses?.find(({ name }) => name === container)?.state?.running
  return new Date(running?.startedAt ?? Date.now()).getTime()
}

function isolationOf(
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
  const held =
    limits.length > 0 ? limits.map(([name, amount]) => `${name} ${amount}`).join(', ') : 'no limits'
  const shared =
    neighbours.length > 0 ? `; shares the node with trial ${neighbours.join(', ')}` : ''
  return `pod ${pod.metadata!.name} on ${pod.spec?.nodeName}: ${held} (${pod.status?.qosClass ?? 'unknown'} class)${shared}`
}
