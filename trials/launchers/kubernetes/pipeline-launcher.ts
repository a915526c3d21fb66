/**
 * Launches pipelines as pods of a cluster. The steps of a launch:
 *
 * 1. Create a Service for each called stage, whose address its callers receive.
 * 2. Launch the stages one after the other, the called ones before their callers: all replicas of a
 *    stage at once, each as a single predictor (`launch/pod-launch.ts`) with its own log.
 * 3. Wait until the replicas of a called stage are ready for their Service.
 * 4. Return a predictor whose load goes to the pods of the entry.
 *
 * The launch ends when a stage that serves already dies. All objects belong to the lease of the
 * experiment, as those of a single predictor do.
 */
import { resolve } from 'node:path'
import type { Configuration } from '../../../search/types.ts'
import type { Pipeline } from '../../pipeline/pipeline.ts'
import { addStageToError } from '../../pipeline/stage-error.ts'
import { readResources } from '../../resources.ts'
import {
  InfeasibleError,
  LaunchError,
  type PredictorDeath,
  type StageUsage,
  type Usage,
} from '../../types.ts'
import { Cleanup } from '../cleanup.ts'
import {
  computeBusyShare,
  describeStageDeath,
  joinStages,
  nameReplicaFolder,
  readUsages,
  requireStage,
  type StagePredictors,
  type StageUsages,
  sumUsages,
} from '../stage-predictors.ts'
import { defaultReadyTimeoutS } from '../template.ts'
import { removeObject } from './cleanup/sweep.ts'
import { createLauncherOfPods, type KubernetesLauncher } from './kubernetes-launcher.ts'
import {
  createObjectName,
  type KubernetesLauncherOptions,
  planObjects,
  planService,
  type TrialObjects,
} from './launch/planned-objects.ts'
import {
  convertApiError,
  type LauncherContext,
  type LaunchRequest,
  launchPod,
  type PodPredictor,
} from './launch/pod-launch.ts'
import { createObject } from './launch/trial-objects.ts'
import type { Owner } from './manifests/manifests.ts'
import { formatServiceUrl } from './manifests/trial-service.ts'

interface KubernetesPipelineOptions {
  readonly pipeline: Pipeline
  /**
   * How each stage is launched, by name. With `usesService` of the entry, load goes through its
   * Service.
   */
  readonly stages: ReadonlyMap<string, Omit<KubernetesLauncherOptions, 'stage'>>
}

export function createKubernetesPipelineLauncher({
  pipeline,
  stages,
}: KubernetesPipelineOptions): KubernetesLauncher {
  const options: KubernetesPipelineOptions = {
    pipeline,
    stages: new Map(
      [...stages].map(([name, one]) => [name, { ...one, runDirectory: resolve(one.runDirectory) }]),
    ),
  }
  const all = [...options.stages.values()]
  const entry = options.stages.get(pipeline.stages[0]!.name)!
  const draVersion = all.find((one) => one.draVersion !== undefined)?.draVersion
  return createLauncherOfPods(
    { ...entry, draVersion },
    {
      launch: (shared, request) => launchPipeline(options, shared, request),
      planObjects: (...planned) => planStages(options, ...planned),
    },
  )
}

/** Plans the objects of every replica of every stage; the first replica has the Service. */
function planStages(
  options: KubernetesPipelineOptions,
  configuration: Configuration,
  trial: number,
  owner: Owner,
  name: string,
): TrialObjects[] {
  return options.pipeline.stages.flatMap(({ name: stageName, calls }) => {
    const stage = resolveStage(options, stageName, configuration)
    const urls = new Map(calls.map((call) => [call.stage, 'http://tune-check']))
    return Array.from({ length: stage.replicas }, (_, i) => {
      const replica = createReplicaOptions(stage, i + 1, urls)
      return {
        ...planObjects(replica, stage.configuration, trial, owner, name),
        ...(i === 0 && stage.hasService && { service: planService(replica, trial, owner, name) }),
      }
    })
  })
}

interface ResolvedStage {
  readonly name: string
  readonly options: Omit<KubernetesLauncherOptions, 'stage'>
  readonly replicas: number
  readonly configuration: Configuration
  readonly hasService: boolean
}

function resolveStage(
  { pipeline, stages }: KubernetesPipelineOptions,
  name: string,
  configuration: Configuration,
): ResolvedStage {
  const options = stages.get(name)!
  const found = requireStage(configuration, name)
  const isEntry = name === pipeline.stages[0]!.name
  return {
    name,
    options,
    replicas: found.replicas,
    configuration: found.configuration,
    hasService: !isEntry || options.usesService === true,
  }
}

/** @param number from 1 */
const createReplicaOptions = (
  { name, options, replicas }: ResolvedStage,
  number: number,
  urls: ReadonlyMap<string, string>,
): KubernetesLauncherOptions => ({
  ...options,
  // The stage has one Service for all of its replicas.
  usesService: undefined,
  stage: { name, folder: nameReplicaFolder(name, replicas, number), urls },
})

/** A stage that serves. */
interface ServingStage extends StagePredictors, Pick<ResolvedStage, 'options' | 'configuration'> {
  readonly replicas: readonly PodPredictor[]
  /** URL of its Service, if it has one. */
  readonly serviceUrl?: string
}

interface PipelineLaunch extends LaunchRequest {
  readonly options: KubernetesPipelineOptions
  readonly shared: LauncherContext
  /** What it has created so far. */
  readonly pods: PodPredictor[]
  readonly services: string[]
  /** Ends the launch with its reason. */
  readonly failure: AbortController
}

async function launchPipeline(
  options: KubernetesPipelineOptions,
  shared: LauncherContext,
  request: LaunchRequest,
): Promise<PodPredictor> {
  const { signal, trial } = request
  const { trialsWaitingForPods } = shared.watch
  const failure = new AbortController()
  const launch: PipelineLaunch = {
    ...request,
    options,
    shared,
    pods: [],
    services: [],
    failure,
    signal: AbortSignal.any([signal, failure.signal]),
  }
  const cleanup = createCleanup(launch)
  const serving: ServingStage[] = []
  trialsWaitingForPods.add(trial)
  try {
    for (const { name } of options.pipeline.stages.toReversed())
      serving.unshift(await launchStage(launch, name, serving))
  } catch (error) {
    await cleanup.run()
    signal.throwIfAborted()
    throw convertApiError(error)
  } finally {
    trialsWaitingForPods.delete(trial)
  }
  return createPredictor(serving, trial, cleanup)
}

/** All pods end at once, and then their Services. */
function createCleanup({ options, pods, services }: PipelineLaunch): Cleanup {
  const { api } = options.stages.get(options.pipeline.stages[0]!.name)!
  const cleanup = new Cleanup()
  cleanup.add(() =>
    waitForAll(services.map((name) => removeObject(api, { kind: 'services', name }))),
  )
  cleanup.add(() => waitForAll(pods.map((pod) => pod.stop())))
  return cleanup
}

/** @throws the first error, after all have ended */
async function waitForAll(steps: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(steps)
  const failed = results.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
}

/** @param callable the stages that serve already */
async function launchStage(
  launch: PipelineLaunch,
  name: string,
  callable: readonly ServingStage[],
): Promise<ServingStage> {
  const { options, configuration, failure, signal } = launch
  const stage = resolveStage(options, name, configuration)
  const urls = new Map(callable.map((one) => [one.name, one.serviceUrl!]))
  try {
    const serviceUrl = stage.hasService ? await createService(launch, stage) : undefined
    const replicas = await launchReplicas(launch, stage, urls)
    if (stage.hasService) await waitForService(launch, stage, replicas)
    for (const replica of replicas)
      void describeStageDeath(name, replica).then((death) =>
        failure.abort(createDeathError(death, replica.logPath)),
      )
    return { ...stage, replicas, serviceUrl }
  } catch (error) {
    signal.throwIfAborted()
    throw addStageToError(convertApiError(error), name)
  }
}

/** @returns its URL */
async function createService(
  { shared, trial, services, signal }: PipelineLaunch,
  { name: stage, options }: ResolvedStage,
): Promise<string> {
  const { api, experimentId, port } = options
  const name = createObjectName(experimentId, trial)
  const stageOptions = { ...options, stage: { name: stage, folder: stage, urls: new Map() } }
  const body = planService(stageOptions, trial, await shared.owner(signal), name)
  // Register before the creation: its answer may be lost.
  services.push(name)
  await createObject(api, 'services', body, signal)
  return formatServiceUrl(name, api.namespace, port)
}

/** Launches all replicas at once. When one fails, the others are ended. */
async function launchReplicas(
  { shared, trial, onWaiting, pods, ...launch }: PipelineLaunch,
  stage: ResolvedStage,
  urls: ReadonlyMap<string, string>,
): Promise<PodPredictor[]> {
  const failed = new AbortController()
  const signal = AbortSignal.any([launch.signal, failed.signal])
  const { configuration } = stage
  const launched = await Promise.all(
    Array.from({ length: stage.replicas }, (_, i) =>
      launchPod(shared, createReplicaOptions(stage, i + 1, urls), {
        configuration,
        trial,
        signal,
        onWaiting,
      }).catch((error: unknown) => {
        failed.abort(error)
        return undefined
      }),
    ),
  )
  const serving = launched.filter((one) => one !== undefined)
  pods.push(...serving)
  signal.throwIfAborted()
  return serving
}

/**
 * Waits until the readiness probes of all replicas succeed: before that, their Service does not
 * reach them.
 */
async function waitForService(
  { shared: { watch }, signal }: PipelineLaunch,
  { options: { template } }: ResolvedStage,
  replicas: readonly PodPredictor[],
): Promise<void> {
  const isReady = ({ pod }: PodPredictor): boolean =>
    watch
      .get(pod.name)
      ?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ??
    false
  const seconds = template.readyTimeoutS ?? defaultReadyTimeoutS
  const timeout = AbortSignal.timeout(seconds * 1000)
  try {
    await watch.until(
      () => (replicas.every(isReady) ? true : undefined),
      AbortSignal.any([signal, timeout]),
    )
  } catch (error) {
    signal.throwIfAborted()
    if (!timeout.aborted) throw error
    throw new LaunchError(
      `the server answers, but its pod is not ready after ${seconds} s, so that no other stage reaches it`,
      'correct the readinessProbe of kubernetes.pod',
      replicas[0]!.logPath,
      'configuration',
    )
  }
}

/** The error of a launch during which a stage that served has ended. */
const createDeathError = (
  { what, outOfMemory }: PredictorDeath,
  logPath: string | undefined,
): Error =>
  outOfMemory
    ? new InfeasibleError('out-of-memory', what, logPath)
    : new LaunchError(what, undefined, logPath)

function createPredictor(
  stages: readonly ServingStage[],
  trial: number,
  cleanup: Cleanup,
): PodPredictor {
  const { replicas, serviceUrl } = stages[0]!
  const all = stages.flatMap((stage) => stage.replicas)
  return {
    ...joinStages(stages),
    usage: async () => joinUsages(stages, await readUsages(stages)),
    restartUsage: () => {
      for (const one of all) one.restartUsage?.()
    },
    pod: {
      name: replicas[0]!.pod.name,
      urls: replicas.flatMap(({ pod }) => pod.urls),
      nodes: [...new Set(all.flatMap(({ pod }) => pod.nodes))],
      trial,
      ...(serviceUrl !== undefined && { serviceUrl }),
    },
    stop: () => cleanup.run(),
  }
}

/** Stages start one after the other, the replicas of a stage at once. */
function joinUsages(stages: readonly ServingStage[], usages: StageUsages): Usage {
  const sumOfSlowest = (read: (usage: Usage) => number | undefined): number =>
    [...usages.values()].reduce(
      (total, replicas) => total + Math.max(...replicas.map((usage) => read(usage) ?? 0)),
      0,
    )
  const nodeWaitSeconds = sumOfSlowest((usage) => usage.nodeWaitSeconds)
  const stageUsages = stages.flatMap((stage) => computeStageUsage(stage, usages.get(stage.name)!))
  return {
    ...sumUsages(usages),
    launchSeconds: sumOfSlowest((usage) => usage.launchSeconds),
    ...(nodeWaitSeconds > 0 && { nodeWaitSeconds }),
    ...(stageUsages.length > 0 && { stages: stageUsages }),
  }
}

/** Empty if the use or the limit of its cores is unknown. Visits are not counted on a cluster. */
function computeStageUsage(
  { name, options, configuration }: ServingStage,
  usages: readonly Usage[],
): StageUsage[] {
  const complete = { ...options.defaults, ...configuration }
  if (!('cpuCores' in complete) || usages.some(({ cpuCores }) => cpuCores === undefined)) return []
  const resources = readResources(complete, {}, options.ownGpus)
  return [{ stage: name, ...computeBusyShare(usages, resources) }]
}
