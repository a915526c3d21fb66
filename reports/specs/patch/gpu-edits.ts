/**
 * Edits that schedule a pod onto the GPU of the trials: scheduler name, annotations, tolerations and
 * node selection. A conflicting setting of the user is kept and reported.
 */
import { isDeepStrictEqual } from 'node:util'
import {
  listProducts,
  matchesProduct,
} from '../../../trials/launchers/kubernetes/gpus/gpu-names.ts'
import {
  createGpuTolerations,
  type GpuSelection,
} from '../../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { buildNodeSelector, selectGpus } from '../scheduling.ts'
import type { Serving } from '../serving.ts'
import { type Edit, type Edits, joinEdits, noEdits } from './edits.ts'
import type { ServerContainer } from './find-container.ts'
import { getValueAt, listAt, listEntriesAt, type Path, type YamlValue } from './yaml-values.ts'

export function listGpuEdits(target: ServerContainer, serving: Serving): Edits {
  const gpu = selectGpus(serving.resources, serving.gpuScheme, serving.dra)
  return joinEdits([
    listAnnotationEdits(target, gpu),
    listSchedulerEdits(target, gpu),
    listTolerationEdits(target, serving, gpu),
    listInstanceTypeEdits(target, serving),
    listNodeEdits(target, serving, gpu),
  ])
}

const withoutConflicts = (edits: readonly Edit[]): Edits => ({ ...noEdits, edits })

/**
 * Gets the path of the labels and annotations of the pods. A pod template has `metadata` next to its
 * `spec`. ServingRuntimes and custom pod specs hold labels and annotations in the spec itself.
 */
function getMetadataPath({ object, podPath }: ServerContainer): Path {
  if (object.kind === 'LLMInferenceService') return ['spec']
  const hasOwnMetadata = podPath.at(-1) === 'spec' && !object.kind.endsWith('ServingRuntime')
  return hasOwnMetadata ? [...podPath.slice(0, -1), 'metadata'] : podPath
}

/**
 * Whether schedulers choose or share GPUs by this annotation: 'nvidia.com/use-gputype',
 * 'gpu-fraction', 'volcano.sh/vgpu-mode'.
 */
const isGpuAnnotation = (name: string): boolean =>
  /(use|nouse)-gpu(type|uuid)$|^gpu-(fraction|memory)$|vgpu/.test(name)

function listAnnotationEdits(target: ServerContainer, { annotations }: GpuSelection): Edits {
  const { object } = target
  const annotationsPath: Path = [...getMetadataPath(target), 'annotations']
  return {
    edits: Object.entries(annotations)
      .filter(([name, value]) => getValueAt(object.value, [...annotationsPath, name]) !== value)
      .map(([name, value]) => ({ object, path: [...annotationsPath, name], value })),
    unappliedValues: [],
    conflicts: listEntriesAt(object.value, annotationsPath)
      .filter(([name]) => isGpuAnnotation(name) && !(name in annotations))
      .map(([name, value]) => `annotation ${name} = ${String(value)} of ${object.title}`),
  }
}

function listSchedulerEdits(
  { object, podPath }: ServerContainer,
  { schedulerName: requestedName }: GpuSelection,
): Edits {
  const path = [...podPath, 'schedulerName']
  const currentName = getValueAt(object.value, path)
  if (requestedName === undefined || currentName === requestedName) return noEdits
  if (currentName === undefined) return withoutConflicts([{ object, path, value: requestedName }])
  return {
    ...noEdits,
    unappliedValues: [
      `schedulerName = ${requestedName}: the manifest uses ${String(currentName)}, but only ${requestedName} can allocate a share of a GPU`,
    ],
  }
}

function listTolerationEdits(
  { object, podPath }: ServerContainer,
  { resources }: Serving,
  gpu: GpuSelection,
): Edits {
  if (resources.gpu === undefined) return noEdits
  const path = [...podPath, 'tolerations']
  const currentTolerations = listAt(object.value, path)
  // A toleration without a key tolerates every taint.
  const missing = createGpuTolerations(gpu).filter(
    ({ key }) =>
      !currentTolerations.some((one) =>
        [key, undefined].includes(getValueAt(one, ['key']) as string),
      ),
  )
  return withoutConflicts(
    missing.map((value, i) => ({ object, path: [...path, currentTolerations.length + i], value })),
  )
}

/** Selects the instance type whose price was used, unless the manifest selects another. */
function listInstanceTypeEdits({ object, podPath }: ServerContainer, serving: Serving): Edits {
  const [selector] = Object.entries(buildNodeSelector(serving) ?? {})
  if (selector === undefined) return noEdits
  const [label, type] = selector
  const path = [...podPath, 'nodeSelector', label]
  const currentType = getValueAt(object.value, path)
  if (currentType === type) return noEdits
  if (currentType === undefined) return withoutConflicts([{ object, path, value: type }])
  return {
    ...noEdits,
    unappliedValues: [
      `nodeSelector ${label} = ${type} (instance type used for the price): the manifest has ${String(currentType)}`,
    ],
  }
}

const productLabel = 'nvidia.com/gpu.product'
/** Labels by which clouds and vendors name the GPU of a node. */
const gpuLabels: ReadonlySet<string> = new Set([
  'cloud.google.com/gke-accelerator',
  'cloud.google.com/gke-gpu-partition-size',
  'karpenter.k8s.aws/instance-gpu-name',
  'k8s.amazonaws.com/accelerator',
  'kubernetes.azure.com/accelerator',
  'amd.com/gpu.product-name',
  'gpu.intel.com/product',
  'nvidia.com/mig.config',
  'accelerator',
])

/**
 * Whether a label names a GPU other than the tuned one. `nvidia.com/gpu.product` is set separately,
 * unless no GPU is tuned.
 */
function contradictsGpu(
  [label, value]: readonly [string, unknown],
  tunedGpu: string | undefined,
): boolean {
  const isChecked = gpuLabels.has(label) || (label === productLabel && tunedGpu === undefined)
  return isChecked && (tunedGpu === undefined || !matchesProduct(String(value), tunedGpu))
}

/**
 * Selects nodes with the GPU: in the user's nodeSelector if that names the GPU product, otherwise
 * by affinity if the manifest has none.
 */
function listNodeEdits(target: ServerContainer, serving: Serving, gpu: GpuSelection): Edits {
  const { object, podPath } = target
  const { gpu: tunedGpu } = serving.resources
  const selector = listEntriesAt(object.value, [...podPath, 'nodeSelector'])
  const conflicts = selector
    .filter((entry) => contradictsGpu(entry, tunedGpu))
    .map(
      ([label, value]) =>
        `nodeSelector ${label} = ${String(value)} of ${object.title}: the tuned value is ${tunedGpu ?? 'no GPU'}`,
    )
  const product = selector.find(([label]) => label === productLabel)?.[1]
  if (product !== undefined && tunedGpu !== undefined) {
    const allowed = gpu.requirements.find(({ key }) => key === productLabel)?.values
    const fits = allowed?.includes(String(product)) ?? matchesProduct(String(product), tunedGpu)
    const value = allowed?.[0] ?? listProducts(tunedGpu)[0]!
    const path = [...podPath, 'nodeSelector', productLabel]
    return { edits: fits ? [] : [{ object, path, value }], unappliedValues: [], conflicts }
  }
  return { ...listAffinityEdits(target, serving, gpu), conflicts }
}

function listAffinityEdits(
  { object, podPath }: ServerContainer,
  { resources }: Serving,
  { requirements }: GpuSelection,
): Edits {
  if (requirements.length === 0) return noEdits
  const requestedExpressions = JSON.parse(JSON.stringify(requirements)) as YamlValue[]
  const path = [...podPath, 'affinity', 'nodeAffinity']
  const required = 'requiredDuringSchedulingIgnoredDuringExecution'
  const currentAffinity = getValueAt(object.value, path)
  const terms = listAt(currentAffinity, [required, 'nodeSelectorTerms'])
  if (currentAffinity === undefined || currentAffinity === null)
    return withoutConflicts([
      {
        object,
        path,
        value: { [required]: { nodeSelectorTerms: [{ matchExpressions: requestedExpressions }] } },
      },
    ])
  const hasRequirements = (term: YamlValue) =>
    requestedExpressions.every((one) =>
      listAt(term, ['matchExpressions']).some((other) => isDeepStrictEqual(other, one)),
    )
  if (terms.length > 0 && terms.every(hasRequirements)) return noEdits
  const requirementTexts = requirements.map(
    ({ key, operator, values }) => `${key} ${operator}${values ? ` (${values.join(', ')})` : ''}`,
  )
  return {
    ...noEdits,
    unappliedValues: [
      `node affinity for ${resources.gpu} (${requirementTexts.join(' and ')}): not added, because the manifest has a nodeAffinity of its own`,
    ],
  }
}
