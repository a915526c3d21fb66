/** The Job that runs a trial's load generator in the cluster. */
import {
  awayFromTrials,
  createOwnerReferences,
  createOwnImageSpec,
  graceSeconds,
  type Json,
  loadContainer,
  type Owner,
} from './manifests.ts'
import { mergeOverlay, type PodOverlay } from './pod-policy.ts'

export interface LoadJobOptions {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly owner: Owner
  /** An image whose entry point is the `tune` command. */
  readonly image: string
  readonly imagePullSecrets?: unknown
  /** The user's overlay of its pod. */
  readonly overlay?: PodOverlay
  /** The task of `tune load`, as text. Absent: it prints its version and exits. */
  readonly task?: string
  /** A ConfigMap with the payload's files, and the folder that the task refers to. */
  readonly payload?: { readonly configMap: string; readonly folder: string }
  /** The cluster ends the Job after this time. */
  readonly deadlineS: number
}

/**
 * Half a core is enough for most loads. The limit is two, because a throttled generator measures
 * itself, and quotas require a limit.
 */
const resources = {
  requests: { cpu: '500m', memory: '256Mi' },
  limits: { cpu: '2', memory: '2Gi' },
}

/** Creates a Job whose pod loads the predictor, prints its measurements, and exits. */
export function createLoadJob({
  name,
  labels,
  owner,
  image,
  imagePullSecrets,
  overlay,
  task,
  payload,
  deadlineS,
}: LoadJobOptions): Json {
  const container: Json = {
    name: loadContainer,
    image,
    ...(task === undefined
      ? { args: ['--version'] }
      : { args: ['load'], env: [{ name: 'TUNE_LOAD', value: task }] }),
    ...(payload && {
      volumeMounts: [{ name: 'payload', mountPath: payload.folder, readOnly: true }],
    }),
    resources,
  }
  const spec: Json = {
    restartPolicy: 'Never',
    enableServiceLinks: false,
    terminationGracePeriodSeconds: graceSeconds,
    ...(imagePullSecrets !== undefined && { imagePullSecrets }),
    affinity: {
      podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [awayFromTrials] },
    },
    ...(payload && { volumes: [{ name: 'payload', configMap: { name: payload.configMap } }] }),
    containers: [container],
  }
  const { labels: more, annotations } = overlay?.metadata ?? {}
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name, labels, ownerReferences: createOwnerReferences(owner) },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: deadlineS,
      ttlSecondsAfterFinished: 300,
      template: {
        metadata: { labels: { ...more, ...labels }, ...(annotations && { annotations }) },
        spec: mergeOverlay(mergeOverlay(createOwnImageSpec(loadContainer), spec), overlay?.spec),
      },
    },
  }
}
