/**
 * Launches predictors as pods of a cluster. The steps of a launch, in the order of `launchPod`
 * (`pod-launch.ts`):
 *
 * 1. Take the experiment's lease, or renew it; its Job owns every object made below (`lease.ts`).
 * 2. Plan the objects: the pod (`manifests.ts`) with its GPUs (`gpu-selection.ts`, `dra.ts`), its
 *    Secret (`pod-secrets.ts`), claim template and Service (`planned-objects.ts`).
 * 3. Create them, the pod last, waiting while other trials use up the quota (`trial-objects.ts`).
 * 4. Wait until the container runs: a node, an added node, the image, the volumes (`start.ts`). The
 *    state of the pod is read from its status (`pod-state.ts`), which is watched (`pod-watch.ts`).
 * 5. Wait until it serves, at the pod's address or through a forwarded port (`reach.ts`).
 * 6. Sample the usage (`pod-usage.ts`), watch for the end of the pod (`followed-pod.ts`), and return
 *    the predictor.
 *
 * Every step adds what undoes it to a `Cleanup`, which runs newest first when a step throws and when
 * the predictor is stopped. What a killed tuner leaves is removed by the cluster once the lease's
 * Job expires. `failures.ts` and `lost-pod.ts` say what a failed step means for the trial.
 */
import { resolve } from 'node:path'
import type { Configuration } from '../../../search/types.ts'
import { LaunchError, type Launcher, type OnWaiting } from '../../types.ts'
import { builtinImage } from '../builtin-image.ts'
import { Cleanup } from '../cleanup.ts'
import { type Api, ApiError } from './api.ts'
import { namespaceGone } from './failures.ts'
import { ExperimentLease } from './lease.ts'
import { type ExplainLoss, explainLoss } from './lost-pod.ts'
import { type Json, labelNames, type Owner, ownerName } from './manifests.ts'
import { whyNeverPlaced } from './never-placed.ts'
import {
  type KubernetesLauncherOptions,
  plannedObjects,
  type TrialObjects,
} from './planned-objects.ts'
import { launchPod, type PodPredictor } from './pod-launch.ts'
import { PodWatch } from './pod-watch.ts'
import { type Kind, removeObjects } from './sweep.ts'

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
   * The Job that owns the experiment's objects; created by the first call, and again where it was
   * lost.
   * @throws LaunchError where another tuner runs the experiment
   */
  owner(signal: AbortSignal): Promise<Owner>
  /** The manifest of that Job. */
  ownerPlan(name: string): Json
  /** The objects of a configuration. @throws InfeasibleError, LaunchError as `launch` */
  objectsFor(
    configuration: Configuration,
    trialNumber: number,
    owner: Owner,
    name: string,
  ): TrialObjects
  /** Why a pod is gone that this tuner did not remove. */
  readonly explainLoss: ExplainLoss
  /**
   * Why a predictor's pod, with the pod of its load generator, can never be scheduled. Undefined: it
   * may be, now or later.
   */
  whyNeverPlaced(pod: Json, load?: Json): Promise<string | undefined>
  /** Numbers of other trials whose predictors run on a node. */
  neighbours(node: string, trial: number): number[]
  /** Removes the experiment's last objects, gives its lease back and ends the watch. Idempotent. */
  close(): Promise<void>
}

export function createKubernetesLauncher(given: KubernetesLauncherOptions): KubernetesLauncher {
  const options = { ...given, runDirectory: resolve(given.runDirectory) }
  const { api, experimentId } = options
  const experimentSelector = `${labelNames.experiment}=${experimentId}`
  const watch = new PodWatch(api, experimentSelector, `${ownerName(experimentId)}-`)
  const live = new Set<string>()
  const lease = new ExperimentLease({
    image: options.image ?? builtinImage,
    ...options.lease,
    api,
    experimentId,
  })
  const owner = (signal: AbortSignal): Promise<Owner> => lease.owner(signal)
  const explain = explainLoss(api, () => lease.whyLost())
  const kinds: readonly Kind[] = [
    'jobs',
    'pods',
    'configmaps',
    ...(options.draVersion ? (['resourceclaimtemplates'] as const) : []),
  ]

  const launch: KubernetesLauncher['launch'] = async (configuration, trial, signal, onWaiting) => {
    const cleanup = new Cleanup()
    try {
      return await launchPod(
        { options, watch, owner, live, neighbours, explainLoss: explain },
        { configuration, trial, cleanup, signal, onWaiting },
      )
    } catch (error) {
      await cleanup.run()
      signal.throwIfAborted()
      throw error instanceof ApiError
        ? (namespaceGone(error.message) ?? new LaunchError(error.message, error.hint))
        : error
    }
  }

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
    objectsFor: (...planned) => plannedObjects(options, ...planned),
    explainLoss: explain,
    // A user who waits for new nodes accepts any node.
    whyNeverPlaced: async (pod, load) =>
      options.patience?.waitsForScaleUp ? undefined : whyNeverPlaced(api, pod, load),
    neighbours,
    launch,
    // Only the holder of the lease sweeps: pods of another tuner stay.
    sweep: async (signal = new AbortController().signal) => {
      await owner(signal)
      await removeObjects(api, experimentSelector, {
        keep: new Set([...live, ...(await lease.names())]),
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
