/** Launches predictors as pods of a cluster. */
import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { V1Pod } from '@kubernetes/client-node'
import type { PayloadSource, Protocol } from '../../../profiler/types.ts'
import type { Configuration } from '../../../search/types.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import { type Resources, resourcesOf } from '../../resources.ts'
import { InfeasibleError, LaunchError, type Launcher, type Predictor } from '../../types.ts'
import { lastLines, noGoodAnswer } from '../failure.ts'
import type { TunedParameter } from '../fill.ts'
import { Cleanup } from '../local/cleanup.ts'
import { metricsProbe } from '../local/device-probes.ts'
import { openLog, type PredictorLog } from '../local/log.ts'
import { NeverReadyError, untilServing } from '../readiness.ts'
import { type BuiltinTemplate, type CommandTemplate, defaultReadyTimeoutS } from '../template.ts'
import { type Api, ApiError } from './api.ts'
import { type ClusterGpu, schemeFor } from './cluster-facts.ts'
import { claimTemplate, type DeviceClaim, type DraOptions, type DraVersion } from './dra.ts'
import { causeOfEnd, describeEnd, launchEnd } from './failures.ts'
import { type GpuScheme, GpuSchemeError, type GpuSelection, gpuSelection } from './gpu-selection.ts'
import {
  builtinContainer,
  type Json,
  labelNames,
  labelsOf,
  type Owner,
  ownerReferences,
  type PodTemplate,
  runningEngine,
  trialPod,
} from './manifests.ts'
import { followLog } from './pod-log.ts'
import { podState } from './pod-state.ts'
import { kubeletLook, metricsServerLook, type PodPlace, samplePodUsage, type UsageSource } from './pod-usage.ts'
import { PodWatch } from './pod-watch.ts'
import { type Reach, wayTo } from './reach.ts'
import { defaultStartPatience, type StartPatience, untilRunning } from './start.ts'
import { type Kind, remove, removeObjects } from './sweep.ts'
import { createClaimTemplate, createOwner, createPod, removePod } from './trial-objects.ts'

export interface KubernetesLauncherOptions {
  readonly api: Api
  readonly experimentId: string
  readonly template: BuiltinTemplate | CommandTemplate
  /** With a command template: the user's pod. */
  readonly own?: PodTemplate
  /** With the built-in predictor: an image whose entry point is the `tune` command. */
  readonly image?: string
  readonly port: number
  readonly parameters: readonly TunedParameter[]
  readonly defaults?: Configuration
  readonly ownGpus?: readonly Gpu[]
  readonly protocol: Protocol
  readonly payload: PayloadSource
  /** Logs of trial n go to trials/n below it. */
  readonly runDirectory: string
  /** How this process gets through to the pods. */
  readonly reach: Reach
  /** How every GPU is asked for. Absent: as `offers` allow, or by what is tuned. */
  readonly gpuScheme?: GpuScheme
  /** What the nodes have, where one scheme may not fit every GPU of the search. */
  readonly offers?: readonly ClusterGpu[]
  readonly dra?: DraOptions
  /** Of the server. Default v1. */
  readonly draVersion?: DraVersion
  /** Where the pods' usage is read. Absent: it stays unknown. */
  readonly usageSource?: UsageSource
  /** After this long the cluster ends a trial's pod itself, whatever became of the tuner. Default an hour. */
  readonly podDeadlineS?: number
  readonly patience?: Partial<StartPatience>
}

export interface TrialObjects {
  readonly pod: Json
  /** With GPUs by DRA: what the pod claims, and the template that its claim is made from. */
  readonly claim?: DeviceClaim
  readonly claimTemplate?: Json
}

/** A predictor in a pod, and where the cluster has it. */
export interface PodPredictor extends Predictor {
  readonly pod: { readonly name: string; readonly ip: string; readonly port: number; readonly node: string; readonly trial: number }
}
export const isPodPredictor = (predictor: Predictor): predictor is PodPredictor => 'pod' in predictor

export interface KubernetesLauncher extends Launcher {
  launch(configuration: Configuration, trialNumber: number, signal: AbortSignal): Promise<PodPredictor>
  readonly api: Api
  readonly watch: PodWatch
  /** The ConfigMap that owns the experiment's objects, made when first asked for. */
  owner(signal: AbortSignal): Promise<Owner>
  /** What a configuration would be made of. @throws InfeasibleError, LaunchError as `launch` */
  objectsFor(configuration: Configuration, trialNumber: number, owner: Owner, name: string): TrialObjects
  /** Numbers of other trials whose predictors run on a node. */
  neighbours(node: string, trial: number): number[]
  /** Removes the experiment's last object and ends the watch. Idempotent. */
  close(): Promise<void>
}

export function createKubernetesLauncher(given: KubernetesLauncherOptions): KubernetesLauncher {
  const options = { ...given, runDirectory: resolve(given.runDirectory) }
  const { api, experimentId } = options
  const experimentSelector = `${labelNames.experiment}=${experimentId}`
  const watch = new PodWatch(api, experimentSelector)
  const live = new Set<string>()
  let owning: Promise<Owner> | undefined

  const owner = (signal: AbortSignal): Promise<Owner> => {
    owning ??= createOwner(api, experimentId, signal).catch((error) => {
      owning = undefined
      throw error
    })
    return owning
  }

  const objectsFor = (configuration: Configuration, trialNumber: number, itsOwner: Owner, name: string): TrialObjects => {
    const all = { ...options.defaults, ...configuration }
    const asked = resourcesAsked(all, options)
    const gpu = selectionFor(asked, options)
    const labels = labelsOf(experimentId, 'predictor', trialNumber)
    const deadlineS = options.podDeadlineS ?? 3600
    const pod = trialPod({ ...options, name, labels, owner: itsOwner, configuration: all, trialNumber, asked, gpu, deadlineS })
    if (gpu.claim === undefined) return { pod }
    const metadata = { name, labels, ownerReferences: ownerReferences(itsOwner) }
    return { pod, claim: gpu.claim, claimTemplate: claimTemplate(gpu.claim, metadata, options.draVersion) }
  }
  const kinds: readonly Kind[] = ['jobs', 'pods', ...(options.draVersion ? (['resourceclaimtemplates'] as const) : [])]

  const launch = async (configuration: Configuration, trialNumber: number, signal: AbortSignal): Promise<PodPredictor> => {
    const cleanup = new Cleanup()
    try {
      return await launchOnce({ options, watch, owner, objectsFor, live, neighbours }, configuration, trialNumber, cleanup, signal)
    } catch (error) {
      await cleanup.run()
      signal.throwIfAborted()
      throw error instanceof ApiError ? new LaunchError(error.message, error.hint) : error
    }
  }

  const neighbours = (node: string, trial: number): number[] => {
    const others = watch.all().filter(({ spec, metadata, status }) => {
      const labels = metadata?.labels ?? {}
      const its = Number(labels[labelNames.trial])
      return spec?.nodeName === node && labels[labelNames.role] === 'predictor' && its !== trial && status?.phase === 'Running'
    })
    return [...new Set(others.map(({ metadata }) => Number(metadata!.labels![labelNames.trial])))].sort((a, b) => a - b)
  }

  return {
    name: 'kubernetes',
    api,
    watch,
    owner,
    objectsFor,
    neighbours,
    launch,
    sweep: () => removeObjects(api, experimentSelector, { keep: live, kinds }),
    close: async () => {
      await watch.close()
      if (owning !== undefined) await removeObjects(api, experimentSelector, { keep: live, kinds: [...kinds, 'configmaps'] })
      owning = undefined
      api.close()
    },
  }
}

interface Parts extends Pick<KubernetesLauncher, 'watch' | 'owner' | 'objectsFor' | 'neighbours'> {
  readonly options: KubernetesLauncherOptions
  /** Pods of this launcher that a sweep leaves alone. */
  readonly live: Set<string>
}

async function launchOnce(
  { options, watch, owner, objectsFor, live, neighbours }: Parts,
  configuration: Configuration,
  trial: number,
  cleanup: Cleanup,
  signal: AbortSignal,
): Promise<PodPredictor> {
  const { api, template, protocol, payload, port } = options
  const builtin = template.kind === 'builtin'
  const container = options.own?.container ?? builtinContainer
  const startedMs = performance.now()
  signal.throwIfAborted()
  // One signal ends every trial, and each waits for several things.
  setMaxListeners(0, signal)
  const name = `tune-${options.experimentId}-${trial}-${randomBytes(3).toString('hex')}`
  const { pod: body, claim, claimTemplate } = objectsFor(configuration, trial, await owner(signal), name)

  const folder = join(options.runDirectory, 'trials', String(trial))
  mkdirSync(folder, { recursive: true })
  const log = openLog(folder, 8 * 2 ** 20)
  cleanup.add(log.close)
  live.add(name)
  cleanup.add(() => {
    live.delete(name)
  })
  if (claimTemplate) {
    cleanup.add(() => remove(api, { kind: 'resourceclaimtemplates', name }))
    await createClaimTemplate(api, claimTemplate, signal)
  }
  // Before it is made: an answer may be lost on its way.
  cleanup.add(() => removePod(api, watch, name))
  await createPod(api, watch, body, signal)

  const state = () => {
    const pod = watch.get(name)
    return pod ? podState(pod, container) : ({ kind: 'lost', what: 'the pod is gone: something outside removed it' } as const)
  }
  const follow = new AbortController()
  cleanup.add(() => follow.abort(new Error('stopped')))
  let following: Promise<void> | undefined
  /** Begins with the first sign of the container. */
  const readLog = () => {
    following ??= followLog(
      api,
      name,
      container,
      (chunk) => log.write(chunk, 'stdout'),
      () => ['ended', 'lost'].includes(state().kind),
      follow.signal,
    )
  }
  /** The state, when it is an end, as an error of the trial. */
  const endedAs = async (): Promise<Error> => {
    const now = state()
    if (now.kind === 'ended') {
      readLog()
      await Promise.race([following, new Promise((resolve) => setTimeout(resolve, 3_000).unref())])
      return launchEnd(now, log, builtin)
    }
    if (now.kind === 'broken') return new LaunchError(now.what, now.hint, log.path)
    if (now.kind === 'lost') return new LaunchError(now.what, 'it is tried again', log.path)
    return new LaunchError(`the pod went back to ${now.kind}`, undefined, log.path)
  }

  const ip = await untilRunning({
    api,
    watch,
    name,
    state,
    endedAs,
    requested: body,
    claim,
    patience: { ...defaultStartPatience, ...options.patience },
    signal,
  })
  readLog()
  const runningMs = performance.now()
  const way = await wayTo(api, options.reach, { name, ip, port })
  cleanup.add(way.close)
  const ended = new AbortController()
  const unlisten = watch.listen(() => {
    if (state().kind !== 'running') ended.abort(new Error('the pod no longer runs'))
  })
  cleanup.add(() => unlisten())
  let target: Awaited<ReturnType<typeof untilServing>>
  try {
    const endpoint = { protocol, url: way.url, model: template.model, payload }
    target = await untilServing(endpoint, (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000, AbortSignal.any([signal, ended.signal]))
  } catch (error) {
    signal.throwIfAborted()
    if (ended.signal.aborted) throw await endedAs()
    throw notServing(error, log)
  }
  const pod = watch.get(name)!
  const node = pod.spec?.nodeName ?? 'an unknown node'
  const launchSeconds = (performance.now() - startedMs) / 1000
  const asked = resourcesAsked({ ...options.defaults, ...configuration }, options)
  const probe = builtin ? metricsProbe(way.url, asked.gpu !== undefined) : undefined
  // The first reading is what later ones are counted from; one that fails is a reading less.
  await probe?.().catch(() => undefined)

  const sampler = samplerOf(options, { name, node, container }, startedAtMs(pod, container) - runningMs)
  cleanup.add(() => sampler?.stop())

  let stopped = false
  return {
    target,
    protocol: protocol.name,
    provenance: builtin && runningEngine(template) === 'emulated' ? 'emulated' : 'measured',
    isolation: isolationOf(body, pod, container, neighbours(node, trial)),
    logPath: log.path,
    logTail: () => log.tail(),
    usage: async () => {
      const [reading, used] = await Promise.all([probe?.().catch(() => undefined), sampler?.read()])
      return {
        launchSeconds,
        ...used,
        gpuMemoryMiB: reading?.memoryMiB,
        gpuUtilization: reading?.utilization,
        busiestGpuUtilization: reading?.utilization,
        realisedBatch: reading?.realisedBatch,
      }
    },
    restartUsage: () => sampler?.restart(),
    died: new Promise((tell) => {
      const look = () => {
        const now = state()
        if (stopped || now.kind === 'running') return
        unlistenDeath()
        if (now.kind !== 'ended') return tell({ what: 'what' in now ? now.what : `the pod is ${now.kind} again`, outOfMemory: false })
        void Promise.race([following, new Promise((resolve) => setTimeout(resolve, 3_000).unref())]).then(() => {
          const cause = causeOfEnd(now, log, builtin)
          tell({ what: `${describeEnd(now, cause)}${lastLines(log)}`, outOfMemory: cause.kind === 'out-of-memory' })
        })
      }
      const unlistenDeath = watch.listen(look)
      cleanup.add(() => unlistenDeath())
      look()
    }),
    pod: { name, ip, port, node, trial },
    stop: () => {
      stopped = true
      return cleanup.run()
    },
  }
}

function notServing(error: unknown, log: PredictorLog): unknown {
  if (error instanceof NeverReadyError) {
    return new InfeasibleError('never-ready', `${error.message}; raise readyTimeout if it only needs longer${lastLines(log)}`, log.path)
  }
  if (!(error instanceof Error) || error.name !== 'ProtocolError') return error
  return noGoodAnswer(error, log)
}

function resourcesAsked(configuration: Configuration, { ownGpus }: KubernetesLauncherOptions): Resources {
  try {
    return resourcesOf(configuration, {}, ownGpus)
  } catch (error) {
    throw new LaunchError(`configuration: ${(error as Error).message}`, 'correct the space of the experiment')
  }
}

const noGpu: GpuSelection = { limits: {}, requirements: [], annotations: {}, needs: [] }

function selectionFor(asked: Resources, { template, gpuScheme, offers, dra }: KubernetesLauncherOptions): GpuSelection {
  if (asked.gpu === undefined || (template.kind === 'builtin' && runningEngine(template) === 'emulated')) return noGpu
  try {
    if (gpuScheme !== undefined || offers === undefined) return gpuSelection(asked, gpuScheme, dra)
    const choice = schemeFor(offers, asked, dra)
    return gpuSelection(asked, choice.scheme, choice.dra)
  } catch (error) {
    if (error instanceof GpuSchemeError) throw new InfeasibleError('no-such-gpu', `${error.message}; ${error.hint}`)
    throw error
  }
}

/** @param nodeMs what the node's clock is ahead of `performance.now()` */
function samplerOf({ api, usageSource }: KubernetesLauncherOptions, place: PodPlace, nodeMs: number) {
  if (usageSource === undefined) return undefined
  const look = usageSource === 'kubelet' ? kubeletLook : metricsServerLook
  return samplePodUsage(look(api, place), () => nodeMs + performance.now())
}

/** By the clock of the node. */
const startedAtMs = ({ status }: V1Pod, container: string): number => {
  const running = status?.containerStatuses?.find(({ name }) => name === container)?.state?.running
  return new Date(running?.startedAt ?? Date.now()).getTime()
}

function isolationOf(body: Json, pod: V1Pod, container: string, neighbours: readonly number[]): string {
  const containers = (body.spec as { containers: { name: string; resources?: { limits?: Record<string, string> } }[] }).containers
  const limits = Object.entries(containers.find(({ name }) => name === container)?.resources?.limits ?? {})
  const held = limits.length > 0 ? limits.map(([name, amount]) => `${name} ${amount}`).join(', ') : 'no limits'
  const shared = neighbours.length > 0 ? `; shares the node with trial ${neighbours.join(', ')}` : ''
  return `pod ${pod.metadata!.name} on ${pod.spec?.nodeName}: ${held} (${pod.status?.qosClass ?? 'unknown'} class)${shared}`
}
