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
   * The Job that owns the experiment's objects, made when first asked for, and anew where it was
   * lost. @throws LaunchError where another tuner runs the experiment
   */
  owner(signal: AbortSignal): Promise<Owner>
  /** That Job, as it would be sent. */
  ownerPlan(name: string): Json
  /** What a configuration would be made of. @throws InfeasibleError, LaunchError as `launch` */
  objectsFor(
    configuration: Configuration,
    trialNumber: number,
    owner: Owner,
    name: string,
  ): TrialObjects
  /** Why a pod is gone that nobody here removed. */
  readonly explainLoss: ExplainLoss
  /**
   * Why a predictor's pod, and its load generator's beside it, can never have a place; undefined:
   * they may, or may come to have one.
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
    // Who waits for a node waits for any.
    whyNeverPlaced: async (pod, load) =>
      options.patience?.waitsForScaleUp ? undefined : whyNeverPlaced(api, pod, load),
    neighbours,
    launch,
    // Whose lease it is may sweep: what another tuner runs is left alone.
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
