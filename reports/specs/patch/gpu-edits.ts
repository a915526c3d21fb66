/**
 * Edits that let a pod find its GPU as in the trials: scheduler, annotations, tolerations and
 * nodes. Different settings of the user stay, and are reported.
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
import { type Edit, type Edits, joinEdits } from './edits.ts'
import type { ServerContainer } from './find-container.ts'
import { getValueAt, listAt, listEntriesAt, type Path, type YamlValue } from './yaml-values.ts'

export function listGpuEdits(target: ServerContainer, serving: Serving): Edits {
  const gpu = selectGpus(serving.resources, serving.gpuScheme, serving.dra)
  return joinEdits([
    listAnnotationEdits(target, gpu),
    listSchedulerEdits(target, gpu),
    listTolerationEdits(target, serving, gpu),
    listInstanceEdits(target, serving),
    listNodeEdits(target, serving, gpu),
  ])
}

const wrapEdits = (edits: readonly Edit[]): Edits => ({ edits, unplaced: [], remaining: [] })

/** Gets the path of the labels and annotations of the pods. */
function getMetadataPath({ object, podPath }: ServerContainer): Path {
  if (object.kind === 'LLMInferenceService') return ['spec']
  const hasOwn = podPath.at(-1) === 'spec' && !object.kind.endsWith('ServingRuntime')
  return hasOwn ? [...podPath.slice(0, -1), 'metadata'] : podPath
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
    unplaced: [],
    remaining: listEntriesAt(object.value, annotationsPath)
      .filter(([name]) => isGpuAnnotation(name) && !(name in annotations))
      .map(([name, value]) => `annotation ${name} = ${String(value)} of ${object.title}`),
  }
}

function listSchedulerEdits(
  { object, podPath }: ServerContainer,
  { schedulerName: wanted }: GpuSelection,
): Edits {
  const path = [...podPath, 'schedulerName']
  const present = getValueAt(object.value, path)
  if (wanted === undefined || present === wanted) return wrapEdits([])
  if (present === undefined) return wrapEdits([{ object, path, value: wanted }])
  return {
    ...wrapEdits([]),
    unplaced: [
      `schedulerName = ${wanted}: the manifest has ${String(present)}, and ${wanted} gives the share of the GPU`,
    ],
  }
}

function listTolerationEdits(
  { object, podPath }: ServerContainer,
  { resources }: Serving,
  gpu: GpuSelection,
): Edits {
  if (resources.gpu === undefined) return wrapEdits([])
  const path = [...podPath, 'tolerations']
  const present = listAt(object.value, path)
  const missing = createGpuTolerations(gpu).filter(
    ({ key }) =>
      !present.some((one) => [key, undefined].includes(getValueAt(one, ['key']) as string)),
  )
  return wrapEdits(
    missing.map((value, i) => ({ object, path: [...path, present.length + i], value })),
  )
}

/** The nodes that the price was for, where the manifest does not name others. */
function listInstanceEdits({ object, podPath }: ServerContainer, serving: Serving): Edits {
  const [selector] = Object.entries(buildNodeSelector(serving) ?? {})
  if (selector === undefined) return wrapEdits([])
  const [label, type] = selector
  const path = [...podPath, 'nodeSelector', label]
  const present = getValueAt(object.value, path)
  if (present === type) return wrapEdits([])
  if (present === undefined) return wrapEdits([{ object, path, value: type }])
  return {
    ...wrapEdits([]),
    unplaced: [
      `nodeSelector ${label} = ${type}, which the price is for: the manifest has ${String(present)}`,
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
 * Selects nodes with the GPU: in the user's nodeSelector if that names the GPU product, otherwise
 * by affinity if the manifest has none.
 */
function listNodeEdits(target: ServerContainer, serving: Serving, gpu: GpuSelection): Edits {
  const { object, podPath } = target
  const { gpu: wanted } = serving.resources
  const selector = listEntriesAt(object.value, [...podPath, 'nodeSelector'])
  const remaining = selector
    .filter(([label, value]) => {
      if (!gpuLabels.has(label) && !(label === productLabel && wanted === undefined)) return false
      return wanted === undefined || !matchesProduct(String(value), wanted)
    })
    .map(
      ([label, value]) =>
        `nodeSelector ${label} = ${String(value)} of ${object.title}: the tuned value is ${wanted ?? 'no GPU'}`,
    )
  const product = selector.find(([label]) => label === productLabel)?.[1]
  if (product !== undefined && wanted !== undefined) {
    const allowed = gpu.requirements.find(({ key }) => key === productLabel)?.values
    const fits = allowed?.includes(String(product)) ?? matchesProduct(String(product), wanted)
    const value = allowed?.[0] ?? listProducts(wanted)[0]!
    const path = [...podPath, 'nodeSelector', productLabel]
    return { edits: fits ? [] : [{ object, path, value }], unplaced: [], remaining }
  }
  return { ...listAffinityEdits(target, serving, gpu), remaining }
}

function listAffinityEdits(
  { object, podPath }: ServerContainer,
  { resources }: Serving,
  { requirements }: GpuSelection,
): Edits {
  if (requirements.length === 0) return wrapEdits([])
  const wanted = JSON.parse(JSON.stringify(requirements)) as YamlValue[]
  const path = [...podPath, 'affinity', 'nodeAffinity']
  const required = 'requiredDuringSchedulingIgnoredDuringExecution'
  const present = getValueAt(object.value, path)
  const terms = listAt(present, [required, 'nodeSelectorTerms'])
  if (present === undefined || present === null)
    return wrapEdits([
      {
        object,
        path,
        value: { [required]: { nodeSelectorTerms: [{ matchExpressions: wanted }] } },
      },
    ])
  const hasRequirements = (term: YamlValue) =>
    wanted.every((one) =>
      listAt(term, ['matchExpressions']).some((other) => isDeepStrictEqual(other, one)),
    )
  if (terms.length > 0 && terms.every(hasRequirements)) return wrapEdits([])
  const requirementTexts = requirements.map(
    ({ key, operator, values }) => `${key} ${operator}${values ? ` (${values.join(', ')})` : ''}`,
  )
  return {
    ...wrapEdits([]),
    unplaced: [
      `nodes with a ${resources.gpu} = ${requirementTexts.join(' and ')}: the manifest has a nodeAffinity of its own`,
    ],
  }
}
