/** The Job that loads a trial's predictor from beside it. */
import {
  awayFromTrials,
  graceSeconds,
  type Json,
  loadContainer,
  type Owner,
  ownerReferences,
  ownSpec,
} from './manifests.ts'
import { overlaid, type PodOverlay } from './pod-policy.ts'

export interface LoadJob {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly owner: Owner
  /** An image whose entry point is the `tune` command. */
  readonly image: string
  readonly imagePullSecrets?: unknown
  /** What the user lays over its pod. */
  readonly overlay?: PodOverlay
  /** What `tune load` is to do, as text. Absent: it tells its version and goes. */
  readonly task?: string
  /** A ConfigMap with the payload's files, and where the task says that they are. */
  readonly payload?: { readonly configMap: string; readonly folder: string }
  /** The cluster ends the Job itself after so long. */
  readonly deadlineS: number
}

/**
 * Half a core is enough for most; it may have two, for a generator that is throttled measures
 * itself, and quotas want a limit.
 */
const resources = {
  requests: { cpu: '500m', memory: '256Mi' },
  limits: { cpu: '2', memory: '2Gi' },
}

/** A pod that loads the predictor from inside the cluster, prints what it measured, and goes. */
export function loadJob({
  name,
  labels,
  owner,
  image,
  imagePullSecrets,
  overlay,
  task,
  payload,
  deadlineS,
}: LoadJob): Json {
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
    metadata: { name, labels, ownerReferences: ownerReferences(owner) },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: deadlineS,
      ttlSecondsAfterFinished: 300,
      template: {
        metadata: { labels: { ...more, ...labels }, ...(annotations && { annotations }) },
        spec: overlaid(overlaid(ownSpec(loadContainer), spec), overlay?.spec),
      },
    },
  }
}
