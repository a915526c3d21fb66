/**
 * Backend of trials on a cluster: predictors are pods, loaded from inside the cluster or from here.
 */
import { join } from 'node:path'
import { sum } from 'simple-statistics'
import { computeMinSpanS } from '../../profiler/index.ts'
import type { SearchSpace } from '../../search/types.ts'
import { builtinImage, chooseBuiltinImage } from '../../trials/launchers/builtin-image.ts'
import type { Api } from '../../trials/launchers/kubernetes/api/api.ts'
import { connect } from '../../trials/launchers/kubernetes/api/connect.ts'
import {
  createKubernetesLauncher,
  type KubernetesLauncher,
} from '../../trials/launchers/kubernetes/kubernetes-launcher.ts'
import type { KubernetesLauncherOptions } from '../../trials/launchers/kubernetes/launch/planned-objects.ts'
import { defaultStartTimeouts } from '../../trials/launchers/kubernetes/launch/wait-until-running.ts'
import {
  createPayloadMap,
  payloadFolder,
} from '../../trials/launchers/kubernetes/manifests/payload-map.ts'
import { createKubernetesPipelineLauncher } from '../../trials/launchers/kubernetes/pipeline-launcher.ts'
import {
  findUsageSource,
  type UsageSource,
} from '../../trials/launchers/kubernetes/watch/pod-usage.ts'
import {
  type BuiltinTemplate,
  type CommandTemplate,
  defaultReadyTimeoutS,
  isStarted,
} from '../../trials/launchers/template.ts'
import { isUserPredictor } from '../config/kubernetes-settings.ts'
import type { LoadOrigin } from '../config/names.ts'
import type { Experiment, ExperimentStage } from '../config/types.ts'
import { exitCodes, UserError } from '../exit-codes.ts'
import type { Backend } from './backend.ts'
import { dryRunObjects } from './cluster-check.ts'
import { createClusterLoad, type JobBase } from './cluster-load.ts'
import { fitStagesToCluster, fitToCluster } from './cluster-space.ts'
import { addLoadJobCheck } from './load-job-check.ts'
import { createLocalLoad } from './local-load.ts'
import { addAnswerChecks, createProtocol } from './predictor-protocol.ts'

interface KubernetesBackend extends Backend {
  readonly launcher: KubernetesLauncher
}

const defaultPort = 8000

/** Time for a pod from being scheduled to its container running, s: image pull, volumes. */
const podStartTimeoutS = defaultStartTimeouts.startMs / 1000
/**
 * Deadline of a load Job, s: its start, three times its load time for repeated windows, and a
 * minute.
 */
const computeLoadDeadlineS = (loadSeconds: number) =>
  Math.ceil(podStartTimeoutS + 3 * loadSeconds + 60)

/**
 * Connects, restricts the space to what the cluster has, and has the API server check every object
 * of a trial.
 * @throws UserError for what cannot run on a cluster; ApiError, LaunchError for what the cluster
 * refuses
 */
export async function openKubernetes(
  experiment: Experiment,
  experimentId: string,
): Promise<KubernetesBackend> {
  const { kubernetes = {}, load, predictor, stages } = experiment
  const template = requirePodTemplate(experiment, stages?.[0]?.name)
  const form = predictor.kind === 'command' ? predictor.form : undefined
  const loadFrom = kubernetes.loadFrom ?? 'cluster'
  const files =
    loadFrom === 'cluster' ? await createPayloadMap(experimentId, load.payload, form) : undefined
  const api = await connect(kubernetes.namespace)
  const usageSource = await findUsageSource(api)
  const cluster = { api, usageSource, experimentId }
  const { pods, space, notices } =
    stages === undefined
      ? await openSinglePods(experiment, cluster)
      : await openPipelinePods(experiment, stages, cluster)
  const job: JobBase | undefined =
    loadFrom === 'cluster'
      ? {
          experimentId,
          image: experiment.kubernetes?.image ?? builtinImage,
          imagePullSecrets: findPullSecrets(experiment),
          overlay: kubernetes.job,
          payload: files && { configMap: files.name, folder: payloadFolder },
        }
      : undefined
  const launcher = addAnswerChecks(
    job ? addLoadJobCheck(pods, job) : pods,
    experiment,
    template,
    resolveRunDirectory(experiment, experimentId),
  )
  const localLoad = job ? undefined : createLocalLoad(experiment)
  const close = async () => {
    await launcher.close()
    await localLoad?.close()
  }
  try {
    await dryRunObjects(launcher, space, job, files)
  } catch (error) {
    await close()
    throw error
  }
  return {
    launcher,
    space,
    notices: [
      ...notices,
      ...(usageSource ? [] : [usageUnknownNotice]),
      ...(stages ? [visitsUnknownNotice] : []),
      `Cluster: ${api.server}, namespace ${api.namespace}; ${loadOriginTexts[loadFrom]}${kubernetes.through === 'service' ? ', through one Service per trial' : ''}`,
    ],
    ...(localLoad ??
      createClusterLoad(experiment, launcher, {
        job: job!,
        files,
        deadlineS: computeLoadDeadlineS,
      })),
    close,
  }
}

interface Cluster {
  readonly api: Api
  readonly usageSource: UsageSource | undefined
  readonly experimentId: string
}

/** How trials launch their pods, and what the cluster restricts. */
interface TrialPods {
  readonly pods: KubernetesLauncher
  readonly space: SearchSpace
  readonly notices: readonly string[]
}

async function openSinglePods(experiment: Experiment, cluster: Cluster): Promise<TrialPods> {
  const { space, notices, ...gpus } = await fitToCluster(cluster.api, experiment)
  const options = createLauncherOptions(experiment, cluster)
  return { pods: createKubernetesLauncher({ ...options, ...gpus }), space, notices }
}

async function openPipelinePods(
  experiment: Experiment,
  stages: readonly ExperimentStage[],
  cluster: Cluster,
): Promise<TrialPods> {
  const fits = await Promise.all(
    stages.map(async (stage) => ({
      stage,
      fit: await fitToCluster(cluster.api, stage.experiment),
      options: createLauncherOptions(stage.experiment, cluster, stage.name),
    })),
  )
  // A called stage runs while its callers start.
  const podDeadlineS = sum(fits.map(({ options }) => options.podDeadlineS))
  return {
    pods: createKubernetesPipelineLauncher({
      pipeline: { stages },
      stages: new Map(
        fits.map(({ stage, fit: { space: _, notices: __, ...gpus }, options }) => [
          stage.name,
          { ...options, ...gpus, podDeadlineS },
        ]),
      ),
    }),
    space: await fitStagesToCluster(
      cluster.api,
      experiment,
      new Map(fits.map(({ stage, fit }) => [stage.name, fit.space])),
    ),
    notices: fits.flatMap(({ stage, fit }) =>
      fit.notices.map((notice) => `Stage ${stage.name}: ${notice}`),
    ),
  }
}

/**
 * @param stage name of the stage, if it is one
 * @throws UserError if the predictor cannot run as a pod
 */
function requirePodTemplate(
  { predictor, kubernetes }: Experiment,
  stage?: string,
): BuiltinTemplate | CommandTemplate {
  if (!isStarted(predictor))
    throw new UserError(
      'a url predictor is already running: tune cannot start it in a pod',
      'use --backend local',
      exitCodes.usage,
    )
  if (predictor.kind === 'command' && !isUserPredictor(kubernetes?.pod))
    throw new UserError(
      `${stage === undefined ? '' : `stage ${stage}: `}on Kubernetes, a predictor needs an image`,
      `set kubernetes: {pod: {spec: {containers: [...]}}}${stage === undefined ? '' : ' in the stage'}`,
      exitCodes.usage,
    )
  return predictor
}

const resolveRunDirectory = ({ dbPath }: Experiment, experimentId: string): string =>
  join(dbPath, '..', experimentId)

/** Launcher options that follow from the experiment; the cluster's GPUs determine the others. */
function createLauncherOptions(
  experiment: Experiment,
  cluster: Cluster,
  stage?: string,
): KubernetesLauncherOptions & { readonly podDeadlineS: number } {
  const { kubernetes = {}, load, own, space } = experiment
  const template = requirePodTemplate(experiment, stage)
  const { pod } = kubernetes
  const inCluster = process.env.KUBERNETES_SERVICE_HOST !== undefined
  const readyS = Math.ceil(template.readyTimeoutS ?? defaultReadyTimeoutS)
  return {
    ...cluster,
    template,
    ...(isUserPredictor(kubernetes.pod)
      ? { own: { pod: pod!, container: kubernetes.container! } }
      : { overlay: pod }),
    ...resolveImages(experiment, template),
    port: kubernetes.port ?? defaultPort,
    parameters: space.parameters,
    protocol: createProtocol(experiment).protocol,
    payload: load.payload,
    runDirectory: resolveRunDirectory(experiment, cluster.experimentId),
    connectivity: kubernetes.loadFrom === 'here' || inCluster ? 'direct' : 'port-forward',
    ...(kubernetes.through === 'service' && { usesService: true as const }),
    lease: { image: kubernetes.image ?? builtinImage, overlay: kubernetes.job },
    podDeadlineS:
      podStartTimeoutS +
      readyS +
      computeLoadDeadlineS(Math.max(load.trialSeconds, computeMinSpanS(load.confirmSeconds))),
    ownGpus: own.gpus,
    ...(kubernetes.scaleUpTimeoutMs !== undefined && {
      timeouts: { scaleUpMs: kubernetes.scaleUpTimeoutMs, waitsForScaleUp: true },
    }),
  }
}

/**
 * Resolves the user's image, or the default images of the engine for CPU and GPU.
 * @throws UserError if no default image has the engine
 */
function resolveImages(
  { kubernetes, devicesUsed }: Experiment,
  template: BuiltinTemplate | CommandTemplate,
) {
  if (kubernetes?.image !== undefined || template.kind !== 'builtin')
    return { image: kubernetes?.image ?? builtinImage }
  const { engine } = template
  const image = chooseBuiltinImage({ engine, gpu: false })
  if (devicesUsed !== 'gpu') return { image }
  const gpuImage = chooseBuiltinImage({ engine, gpu: true })
  if (gpuImage !== undefined) return { image, gpuImage }
  const [what, from] =
    engine === 'gguf' ? ['llama.cpp', 'node-llama-cpp'] : ['ONNX Runtime', 'onnxruntime-node']
  throw new UserError(
    `the images of tune do not include ${what} for GPUs`,
    `build an image with CUDA and ${from}, and set kubernetes: {image: ...}`,
    exitCodes.usage,
  )
}

const findPullSecrets = ({ kubernetes }: Experiment): unknown =>
  (kubernetes?.pod?.spec as { imagePullSecrets?: unknown } | undefined)?.imagePullSecrets

const usageUnknownNotice =
  'CPU and memory use of trials will be unknown: the cluster has no metrics.k8s.io, and access to nodes/proxy is denied'

const visitsUnknownNotice =
  'Visits to the stages and their share of the time are unknown: nothing counts the calls between pods'

const loadOriginTexts: Readonly<Record<LoadOrigin, string>> = {
  cluster: 'load from a Job inside the cluster',
  'port-forward':
    'load from this machine through the API server, which adds latency and limits rates',
  here: 'load from this machine to the pod addresses',
}
