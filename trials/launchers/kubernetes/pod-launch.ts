/** One launch of a trial's predictor as a pod: made, running, serving. */
import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { join } from 'node:path'
import type { V1Pod } from '@kubernetes/client-node'
import { NeverReadyError, untilServing } from '../../../profiler/protocols/until-serving.ts'
import type { Configuration } from '../../../search/types.ts'
import { makePrivateFolder } from '../../private-files.ts'
import { InfeasibleError, type OnWaiting, type Predictor } from '../../types.ts'
import { lastLines, noGoodAnswer } from '../failure.ts'
import type { Cleanup } from '../cleanup.ts'
import { metricsProbe } from '../local/device-probes.ts'
import { openLog, type PredictorLog } from '../predictor-log.ts'
import { defaultReadyTimeoutS } from '../template.ts'
import { FollowedPod } from './followed-pod.ts'
import type { ExplainLoss } from './lost-pod.ts'
import type { Owner } from './manifests.ts'
import { builtinContainer, type Json, runningEngine } from './manifests.ts'
import {
  type KubernetesLauncherOptions,
  plannedObjects,
  resourcesAsked,
  type TrialObjects,
} from './planned-objects.ts'
import { kubeletLook, metricsServerLook, type PodPlace, samplePodUsage } from './pod-usage.ts'
import type { PodWatch } from './pod-watch.ts'
import { wayTo } from './reach.ts'
import { defaultStartPatience, untilRunning } from './start.ts'
import { remove } from './sweep.ts'
import {
  createClaimTemplate,
  createPod,
  createSecret,
  createService,
  removePod,
} from './trial-objects.ts'
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

/** One launch and what undoes it. */
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
  // What a quota has it wait for is no part of a start, and neither is a node that is added first.
  const madeMs = performance.now()
  const { ip, unplacedMs } = await untilItRuns(launch, followed, objects)
  const runningMs = performance.now()
  const { way, target } = await untilItServes(launch, followed, ip)
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
  if (objects.claimTemplate) {
    cleanup.add(() => remove(api, { kind: 'resourceclaimtemplates', name }))
    await createClaimTemplate(api, objects.claimTemplate, signal)
  }
  if (objects.secret) {
    cleanup.add(() => remove(api, { kind: 'secrets', name }))
    await createSecret(api, objects.secret, signal)
  }
  if (objects.service) {
    cleanup.add(() => remove(api, { kind: 'services', name }))
    await createService(api, objects.service, signal)
  }
  // Before it is made: an answer may be lost on its way.
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

async function untilItRuns(
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

async function untilItServes(
  { shared: { options }, cleanup, signal, onWaiting }: Launch,
  followed: FollowedPod,
  ip: string,
) {
  const { api, template, protocol, payload, port } = options
  const way = await wayTo(api, options.reach, { name: followed.name, ip, port })
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
      target: await untilServing(endpoint, timeoutMs, AbortSignal.any([signal, notRunning])),
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
  const asked = resourcesAsked({ ...options.defaults, ...configuration }, options)
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
  if (error instanceof NeverReadyError) {
    return new InfeasibleError(
      'never-ready',
      `${error.message}; raise readyTimeout if it only needs more time${lastLines(log)}`,
      log.path,
    )
  }
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
