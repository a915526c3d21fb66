/** Cores, memory and GPU of the server's container, in requests and limits alike. */
import { formatCpu, formatMemory } from '../pod.ts'
import { refuseClaim, selectGpus } from '../scheduling.ts'
import type { Serving } from '../serving.ts'
import type { Edit, Edits } from './edits.ts'
import type { ServerContainer } from './find-container.ts'
import { getValueAt, listAt, listEntriesAt, type Path, type YamlValue } from './yaml-values.ts'

export const tunesGpu = ({ configuration }: Serving): boolean =>
  ['gpu', 'gpus', 'gpuMemoryPercent', 'migProfile'].some((name) => name in configuration)

/**
 * Lists the edits that set requests and limits of the tuned resources. Others keep the values of
 * the manifest, except GPU resources of another scheme or profile, which are removed.
 */
export function listResourceEdits(target: ServerContainer, serving: Serving): Edits {
  const { configuration, requirements } = serving
  const tunedQuantities: Readonly<Record<string, string>> = {
    ...('cpuCores' in configuration &&
      requirements.cpuCores !== undefined && { cpu: formatCpu(requirements.cpuCores) }),
    ...('memoryMiB' in configuration &&
      requirements.memoryMiB !== undefined && { memory: formatMemory(requirements.memoryMiB) }),
  }
  const conflicts = describePodConflicts(target, Object.keys(tunedQuantities))
  const gpus = tunesGpu(serving) ? resolveGpuResources(target, serving) : undefined
  return {
    edits: [
      ...(['requests', 'limits'] as const).flatMap((field) =>
        listQuantityEdits(target, field, {
          ...tunedQuantities,
          ...(gpus && listWantedGpus(target, field, gpus.limits)),
        }),
      ),
      // Last, so that no block is empty in between.
      ...(gpus ? listRemovedGpus(target, gpus.limits) : []),
    ],
    unappliedValues: gpus?.unappliedValues ?? [],
    conflicts: [...conflicts, ...(gpus?.conflicts ?? [])],
  }
}

function listQuantityEdits(
  { object, path }: ServerContainer,
  field: 'requests' | 'limits',
  requestedQuantities: Readonly<Record<string, string>>,
): Edit[] {
  return Object.entries(requestedQuantities).flatMap(([name, value]) => {
    const quantityPath: Path = [...path, 'resources', field, name]
    return isSameQuantity(getValueAt(object.value, quantityPath), value)
      ? []
      : [{ object, path: quantityPath, value }]
  })
}

/** Whether two quantities are equal: 2, '2' and '2000m' are. */
function isSameQuantity(current: YamlValue | undefined, requested: string): boolean {
  if (current === undefined || current === null) return false
  return String(current) === requested || parseAmount(String(current)) === parseAmount(requested)
}

const units: Readonly<Record<string, number>> = {
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}
/** Parses the value of a quantity ('2000m' → 2); the text itself if it is no quantity. */
function parseAmount(text: string): number | string {
  const [, number, unit = ''] = /^([\d.]+)([a-zA-Z]*)$/.exec(text) ?? []
  const factor = units[unit]
  return number === undefined || factor === undefined ? text : Number(number) * factor
}

interface GpuResources {
  readonly limits: Readonly<Record<string, string>>
  readonly unappliedValues: readonly string[]
  readonly conflicts: readonly string[]
}

function resolveGpuResources(target: ServerContainer, serving: Serving): GpuResources | undefined {
  const gpu = selectGpus(serving.resources, serving.gpuScheme, serving.dra)
  refuseClaim(gpu, 'a patch writes')
  const pods = countPodsPerReplica(target)
  const requestedLimits = Object.entries(gpu.limits).map(([name, value]) => `${name} = ${value}`)
  const claims = listAt(target.value, ['resources', 'claims']).map((one) =>
    String(getValueAt(one, ['name'])),
  )
  const conflicts = claims.map(
    (name) =>
      `resources.claims ${name} of ${target.label}: it claims a device in addition to the tuned GPU`,
  )
  // Several pods to a replica: the tuned GPUs are those of the replica, so the manifest's stay.
  if (pods > 1)
    return {
      limits: listPresentGpus(target),
      unappliedValues: requestedLimits.map(
        (one) => `${one}: ${target.object.title} spreads each replica over ${pods} pods`,
      ),
      conflicts,
    }
  return { limits: gpu.limits, unappliedValues: [], conflicts }
}

/** Number of pods that make up one replica. */
export const countPodsPerReplica = ({ object }: ServerContainer): number =>
  object.kind === 'LeaderWorkerSet'
    ? Number(getValueAt(object.value, ['spec', 'leaderWorkerTemplate', 'size']) ?? 1)
    : 1

/**
 * Whether a resource is a GPU, a part of one, or another accelerator, of any vendor and scheduler:
 * 'nvidia.com/gpu', 'nvidia.com/mig-1g.5gb', 'google.com/tpu'; not 'nvidia.com/hostdev' or
 * 'nvidia.com/rdma_shared'.
 */
const isGpuResource = (name: string): boolean =>
  name.includes('/') &&
  (/^nvidia\.com\/(?!hostdev|.*(rdma|roce|nic))/.test(name) ||
    /gpu|\/mig-|vcuda|neuron|\/tpu|gaudi|ascend|\/mlu|\/npu|\/dcu/i.test(name))

const listGpusIn = ({ object, path }: ServerContainer, field: 'requests' | 'limits') =>
  listEntriesAt(object.value, [...path, 'resources', field]).filter(([name]) => isGpuResource(name))

const listPresentGpus = (target: ServerContainer): Record<string, string> =>
  Object.fromEntries(
    [...listGpusIn(target, 'requests'), ...listGpusIn(target, 'limits')].map(([name, value]) => [
      name,
      String(value),
    ]),
  )

/**
 * GPU resources to write: limits always; requests only if the manifest has them, as both must
 * agree.
 */
function listWantedGpus(
  target: ServerContainer,
  field: 'requests' | 'limits',
  limits: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  if (field === 'limits') return limits
  const requested = listGpusIn(target, 'requests').map(([name]) => name)
  return Object.fromEntries(Object.entries(limits).filter(([name]) => requested.includes(name)))
}

const listRemovedGpus = (
  target: ServerContainer,
  limits: Readonly<Record<string, string>>,
): Edit[] =>
  (['requests', 'limits'] as const).flatMap((field) =>
    listGpusIn(target, field)
      .filter(([name]) => !(name in limits))
      .map(([name]) => ({
        object: target.object,
        path: [...target.path, 'resources', field, name],
      })),
  )

/**
 * Describes tuned resources that the manifest also sets for the whole pod: those limits bound all
 * its containers.
 */
const describePodConflicts = (
  { object, podPath, label }: ServerContainer,
  names: readonly string[],
): string[] =>
  (['requests', 'limits'] as const).flatMap((field) =>
    listEntriesAt(object.value, [...podPath, 'resources', field])
      .filter(([name]) => names.includes(name))
      .map(
        ([name, value]) =>
          `${[...podPath, 'resources', field, name].join('.')} = ${String(value)}: it applies to the whole pod of ${label}`,
      ),
  )
