/**
 * Launches predictors as pods of a cluster; `pipeline-launcher.ts` launches several for one trial. The
 * steps of a launch, in the order of `launchPod`
 * (`launch/pod-launch.ts`):
 *
 * 1. Acquire or renew the experiment's lease; its Job owns every object below (`cleanup/lease.ts`).
 * 2. Plan the objects (`launch/planned-objects.ts`): the pod (`manifests/manifests.ts`) with its
 * GPUs (`gpus/gpu-selection.ts`, `gpus/dra.ts`), its Secret, claim template and Service.
 * 3. Create them, the pod last, and wait while other trials use up the quota
 * (`launch/trial-objects.ts`).
 * 4. Wait until the container runs: a node, an added node, the image, the volumes
 * (`launch/wait-until-running.ts`). The state comes from the pod's status (`watch/pod-state.ts`),
 * which is watched (`watch/pod-watch.ts`).
 * 5. Wait until it serves, at the pod's address or through a forwarded port
 * (`launch/pod-connection.ts`).
 * 6. Sample the usage (`watch/pod-usage.ts`), watch for the end of the pod
 * (`launch/followed-pod.ts`), and return the predictor.
 *
 * Every step registers its undo action with a `Cleanup`, which runs newest first when a step throws
 * and when the predictor is stopped. After a kill, the cluster removes all objects once the lease's
 * Job expires. `launch/failures.ts` and `launch/lost-pod.ts` classify failed steps.
 */
import { resolve } from 'node:path'
import type { Configuration } from '../../../search/types.ts'
import type { Launcher, OnWaiting } from '../../types.ts'
import { builtinImage } from '../builtin-image.ts'
import type { Api } from './api/api.ts'
import { ExperimentLease } from './cleanup/lease.ts'
import { type Kind, removeObjects } from './cleanup/sweep.ts'
import { createLossExplainer, type ExplainLoss } from './launch/lost-pod.ts'
import {
  type KubernetesLauncherOptions,
  planObjects,
  type TrialObjects,
} from './launch/planned-objects.ts'
import {
  type LauncherContext,
  type LaunchRequest,
  launchPod,
  type PodPredictor,
} from './launch/pod-launch.ts'
import { formatOwnerName, type Json, labelNames, type Owner } from './manifests/manifests.ts'
import { explainUnschedulable } from './scheduling/unschedulable.ts'
import { PodWatch } from './watch/pod-watch.ts'

export interface KubernetesLauncher extends Launcher {
  launch(
    configuration: Configuration,
    trialNumber: number,
    signal: AbortSignal,
    onWaiting?: OnWaiting,
  ): Promise<PodPredictor>
  readonly api: Api
  readonly watch: PodWatch
  /**
   * The Job that owns the experiment's objects; created by the first call, and again if it was
   * lost.
   * @throws LaunchError if another tuner runs the experiment
   */
  owner(signal: AbortSignal): Promise<Owner>
  /** The manifest of that Job. */
  ownerPlan(name: string): Json
  /**
   * The objects of each pod of a configuration.
   * @throws InfeasibleError, LaunchError as `launch`
   */
  objectsFor(
    configuration: Configuration,
    trialNumber: number,
    owner: Owner,
    name: string,
  ): readonly TrialObjects[]
  /** Why a pod is gone that this tuner did not remove. */
  readonly explainLoss: ExplainLoss
  /**
   * Why a predictor's pods, with the pod of its load generator, can never be scheduled; undefined if
   * they may.
   */
  explainUnschedulable(pods: readonly Json[], load?: Json): Promise<string | undefined>
  /** Numbers of other trials whose predictors run on a node. */
  neighbours(node: string, trial: number): number[]
  /** Removes the experiment's last objects, releases its lease and ends the watch. Idempotent. */
  close(): Promise<void>
}

export function createKubernetesLauncher(
  launcherOptions: KubernetesLauncherOptions,
): KubernetesLauncher {
  const options = { ...launcherOptions, runDirectory: resolve(launcherOptions.runDirectory) }
  return createLauncherOfPods(options, {
    launch: (shared, request) => launchPod(shared, options, request),
    planObjects: (...planned) => [planObjects(options, ...planned)],
  })
}

/** How the pods of one trial are planned and launched. */
interface TrialLaunch {
  readonly launch: (shared: LauncherContext, request: LaunchRequest) => Promise<PodPredictor>
  readonly planObjects: KubernetesLauncher['objectsFor']
}

/** @param options those that do not depend on the pod */
export function createLauncherOfPods(
  options: Pick<
    KubernetesLauncherOptions,
    'api' | 'experimentId' | 'image' | 'lease' | 'draVersion' | 'timeouts'
  >,
  { launch, planObjects }: TrialLaunch,
): KubernetesLauncher {
  const { api, experimentId } = options
  const experimentSelector = `${labelNames.experiment}=${experimentId}`
  const watch = new PodWatch(api, experimentSelector, `${formatOwnerName(experimentId)}-`)
  const live = new Set<string>()
  const lease = new ExperimentLease({
    image: options.image ?? builtinImage,
    ...options.lease,
    api,
    experimentId,
  })
  const owner = (signal: AbortSignal): Promise<Owner> => lease.acquireOwner(signal)
  const explain = createLossExplainer(api, () => lease.findLossReason())
  const kinds: readonly Kind[] = [
    'jobs',
    'pods',
    'configmaps',
    ...(options.draVersion ? (['resourceclaimtemplates'] as const) : []),
  ]

  const neighbours = (node: string, trial: number): number[] => {
    const others = watch.all().filter(({ spec, metadata, status }) => {
      const labels = metadata?.labels ?? {}
      const its = Number(labels[labelNames.trial])
      return (
        spec?.nodeName === node &&
        labels[labelNames.role] === 'predictor' &&
        its !== trial &&
        status?.phase === 'Running'
      )
    })
    return [
      ...new Set(others.map(({ metadata }) => Number(metadata!.labels![labelNames.trial]))),
    ].sort((a, b) => a - b)
  }

  return {
    name: 'kubernetes',
    api,
    watch,
    owner,
    ownerPlan: (name) => lease.plan(name),
    objectsFor: planObjects,
    explainLoss: explain,
    // A user who waits for new nodes accepts any node.
    explainUnschedulable: async (pods, load) =>
      options.timeouts?.waitsForScaleUp ? undefined : explainUnschedulable(api, pods, load),
    neighbours,
    launch: (configuration, trial, signal, onWaiting) =>
      launch(
        { watch, owner, live, neighbours, explainLoss: explain },
        { configuration, trial, signal, onWaiting },
      ),
    // Only the holder of the lease sweeps: pods of another tuner stay.
    sweep: async (signal = new AbortController().signal) => {
      await owner(signal)
      await removeObjects(api, experimentSelector, {
        keep: new Set([...live, ...(await lease.listNames())]),
        kinds,
        signal,
      })
    },
    close: async () => {
      await watch.close()
      if (await lease.end())
        await removeObjects(api, experimentSelector, { keep: live, kinds: [...kinds, 'leases'] })
      api.close()
    },
  }
}
