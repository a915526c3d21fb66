/** Replicas of the workload, or the bounds of the autoscalers that scale it. */
import type { Serving } from '../serving.ts'
import { type Edits, joinEdits, noEdits } from './edits.ts'
import type { ServerContainer } from './find-container.ts'
import { isReferenceTo, type ManifestObject } from './manifest-objects.ts'
import { getValueAt, type Path } from './yaml-values.ts'

/**
 * Sets the replicas if a demand or the user determines their number. The bounds of an autoscaler
 * are set only if the user named them, or if the capacity was measured on what is deployed.
 * @param isMeasured whether the figures apply to the container of the manifest
 */
export function listReplicaEdits(
  objects: readonly ManifestObject[],
  target: ServerContainer,
  serving: Serving,
  isMeasured: boolean,
): Edits {
  const verticals = objects.filter(
    (one) =>
      one.kind === 'VerticalPodAutoscaler' &&
      isReferenceTo(getValueAt(one.value, ['spec', 'targetRef']), one, target.object),
  )
  const conflicts = verticals.map(
    ({ title }) => `${title}: it overrides cores and memory of ${target.object.title}`,
  )
  return { ...listSizeEdits(objects, target, serving, isMeasured), conflicts }
}

function listSizeEdits(
  objects: readonly ManifestObject[],
  target: ServerContainer,
  serving: Serving,
  isMeasured: boolean,
): Edits {
  if (!serving.isSized) return noEdits
  const owner = findRollout(objects, target.object) ?? target.object
  const scalers = objects.filter((one) => isScalerOf(one, target.object) || isScalerOf(one, owner))
  const isCapacityMeasured = isMeasured && serving.isScalable
  if (scalers.length > 0)
    return joinEdits(
      scalers.map((one) =>
        listBoundEdits(one, getBoundPaths(one.kind)!, serving, isCapacityMeasured),
      ),
    )
  if (owner.kind === 'InferenceService') {
    const names = ['minReplicas', 'maxReplicas'].map((name) => ['spec', 'predictor', name])
    return listBoundEdits(owner, names as [string[], string[]], serving, isCapacityMeasured)
  }
  const { replicas } = serving
  const hpaPath = [...target.podPath.slice(0, -1), 'hpaSpec']
  if (getValueAt(target.object.value, hpaPath) !== undefined)
    return {
      ...noEdits,
      unappliedValues: [`replicas = ${replicas}: ${hpaPath.join('.')} scales them`],
    }
  const path = findReplicasPath(owner, target)
  if (path === undefined)
    return replicas === 1
      ? noEdits
      : {
          ...noEdits,
          unappliedValues: [`replicas = ${replicas}: ${owner.title} has no field for them`],
        }
  if (getValueAt(owner.value, path) === replicas) return noEdits
  return { ...noEdits, edits: [{ object: owner, path, value: replicas }] }
}

/** Argo's Rollout that runs the pods of a Deployment in its place, if there is one. */
const findRollout = (
  objects: readonly ManifestObject[],
  workload: ManifestObject,
): ManifestObject | undefined =>
  objects.find(
    (one) =>
      one.kind === 'Rollout' &&
      isReferenceTo(getValueAt(one.value, ['spec', 'workloadRef']), one, workload),
  )

/** Paths of an autoscaler's bounds, the lower one first; undefined: not an autoscaler. */
function getBoundPaths(kind: string): [Path, Path] | undefined {
  const names = (
    {
      HorizontalPodAutoscaler: ['minReplicas', 'maxReplicas'],
      ScaledObject: ['minReplicaCount', 'maxReplicaCount'],
    } as Readonly<Record<string, [string, string]>>
  )[kind]
  return names?.map((name) => ['spec', name]) as [Path, Path] | undefined
}

function isScalerOf(scaler: ManifestObject, workload: ManifestObject): boolean {
  if (getBoundPaths(scaler.kind) === undefined) return false
  const reference = getValueAt(scaler.value, ['spec', 'scaleTargetRef'])
  // KServe makes a Deployment of its own for each predictor.
  const kserveDeployment = { ...workload, kind: 'Deployment' }
  const kserveNames = ['', '-default'].map((end) => `${workload.name}-predictor${end}`)
  return (
    isReferenceTo(reference, scaler, workload) ||
    (workload.kind === 'InferenceService' &&
      isReferenceTo(reference, scaler, kserveDeployment, kserveNames))
  )
}

function listBoundEdits(
  object: ManifestObject,
  paths: readonly [Path, Path],
  serving: Serving,
  isCapacityMeasured: boolean,
): Edits {
  const { requestedBounds, figures } = serving
  const computed = [serving.minReplicas, serving.maxReplicas]
  const requestedOrComputed = [requestedBounds.minReplicas, requestedBounds.maxReplicas].map(
    (requested, i) => requested ?? (isCapacityMeasured ? computed[i] : undefined),
  )
  const describeBound = (i: number, value: number | undefined) => `${paths[i]!.at(-1)} = ${value}`
  const currentValues = paths.map((path) => getValueAt(object.value, path))
  const [min = currentValues[0], max = currentValues[1]] = requestedOrComputed
  if (typeof min === 'number' && typeof max === 'number' && min > max)
    return {
      ...noEdits,
      unappliedValues: [
        `${describeBound(0, min)} of ${object.title}: ${describeBound(1, max)} is below it; give --min-replicas and --max-replicas`,
      ],
    }
  const edits = paths.flatMap((path, i) =>
    requestedOrComputed[i] === undefined || currentValues[i] === requestedOrComputed[i]
      ? []
      : [{ object, path, value: requestedOrComputed[i] }],
  )
  const why = figures.provenance === 'measured' ? 'from another server' : figures.provenance
  const unappliedValues = requestedOrComputed.flatMap((value, i) =>
    value !== undefined || currentValues[i] === computed[i]
      ? []
      : [
          `${describeBound(i, computed[i])} of ${object.title}: the figures are ${why}; give ${['--min-replicas', '--max-replicas'][i]} to set it`,
        ],
  )
  return { edits, unappliedValues, conflicts: [] }
}

/** Kinds with the field spec.replicas. */
const kindsWithReplicas: ReadonlySet<string> = new Set([
  'Deployment',
  'StatefulSet',
  'ReplicaSet',
  'ReplicationController',
  'DeploymentConfig',
  'Rollout',
  'CloneSet',
  'LeaderWorkerSet',
  'LLMInferenceService',
])

function findReplicasPath(owner: ManifestObject, { podPath }: ServerContainer): Path | undefined {
  if (kindsWithReplicas.has(owner.kind)) return ['spec', 'replicas']
  const hasPredictors = ['SeldonDeployment', 'Inference'].includes(owner.kind)
  return hasPredictors && podPath[1] === 'predictors'
    ? [...podPath.slice(0, 3), 'replicas']
    : undefined
}
