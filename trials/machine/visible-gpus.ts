/**
 * Selects the GPUs that the environment makes visible: a scheduler or user may have assigned the
 * others elsewhere.
 */
import type { GpuFacts, GpuListing } from './nvidia-smi.ts'

type Environment = Readonly<Record<string, string | undefined>>

export const visibilityVariables = [
  'CUDA_VISIBLE_DEVICES',
  'ROCR_VISIBLE_DEVICES',
  'HIP_VISIBLE_DEVICES',
] as const

/**
 * Applies CUDA_VISIBLE_DEVICES (CUDA programming guide, "CUDA environment variables": indices or
 * UUID prefixes; empty for none; entries after an invalid one are ignored), ROCR_VISIBLE_DEVICES,
 * and HIP_VISIBLE_DEVICES, whose indices count the GPUs left by the former (ROCm, "GPU isolation
 * techniques"). HIP ignores an empty list, and then reads CUDA's (rocclr, rocdevice.cpp); next to
 * NVIDIA GPUs, CUDA's is assumed to apply to those only.
 * @returns visible GPUs in the listed order, and the variable that hides others
 */
export function selectVisibleGpus(gpus: readonly GpuFacts[], environment: Environment): GpuListing {
  const of = (vendor: GpuFacts['vendor']) => gpus.filter((gpu) => gpu.vendor === vendor)
  const nvidia = applySelection('CUDA_VISIBLE_DEVICES', of('nvidia'), environment)
  const counted = applySelection('ROCR_VISIBLE_DEVICES', of('amd'), environment)
  const renumbered =
    environment.ROCR_VISIBLE_DEVICES === undefined
      ? counted.gpus
      : counted.gpus.map((gpu, ordinal) => ({ ...gpu, ordinal }))
  const hip =
    environment.HIP_VISIBLE_DEVICES || of('nvidia').length > 0
      ? 'HIP_VISIBLE_DEVICES'
      : 'CUDA_VISIBLE_DEVICES'
  const amd = applySelection(hip, renumbered, {
    ...environment,
    [hip]: environment[hip] || undefined,
  })
  const problem = [nvidia, counted, amd].flatMap((one) => one.problem ?? []).join('; ')
  return { gpus: [...nvidia.gpus, ...amd.gpus], ...(problem !== '' && { problem }) }
}

function applySelection(
  variable: (typeof visibilityVariables)[number],
  gpus: readonly GpuFacts[],
  environment: Environment,
): GpuListing {
  const value = environment[variable]
  if (value === undefined || gpus.length === 0) return { gpus }
  const left = new Map<string, GpuFacts>()
  const names = value === '' ? [] : value.split(',').map((name) => name.trim())
  const none = names.findIndex((name) => findNamed(name, gpus) === undefined)
  for (const name of none < 0 ? names : names.slice(0, none)) {
    const { gpu, slice } = findNamed(name, gpus)!
    const known = left.get(gpu.uuid)?.migDevices ?? []
    left.set(
      gpu.uuid,
      slice === undefined ? gpu : { ...gpu, migDevices: [...new Set([...known, slice])] },
    )
  }
  const remarks = [
    ...(none < 0
      ? []
      : [`this machine has no '${names[none]}', and every GPU listed after it is hidden too`]),
    ...(hasAmbiguousOrder(variable, names, gpus, environment)
      ? [
          'GPUs are numbered as in nvidia-smi; CUDA numbers the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID',
        ]
      : []),
  ]
  const count = (of: Iterable<GpuFacts>) =>
    [...of].reduce((sum, { migDevices }) => sum + Math.max(1, migDevices.length), 0)
  const [kept, all] = [count(left.values()), count(gpus)]
  const outcome = [`${variable}='${value}' leaves ${kept} of ${all} GPUs`, ...remarks].join('; ')
  return {
    gpus: [...left.values()],
    ...((kept < all || remarks.length > 0) && { problem: outcome }),
  }
}

/** Finds a GPU by its place or UUID, or the one around a MIG slice. */
function findNamed(
  name: string,
  gpus: readonly GpuFacts[],
): { gpu: GpuFacts; slice?: GpuFacts['migDevices'][number] } | undefined {
  if (/^\d+$/.test(name)) return gpus[Number(name)] && { gpu: gpus[Number(name)]! }
  const slices = gpus.flatMap((gpu) => gpu.migDevices.map((slice) => ({ gpu, slice })))
  const found = /^MIG-/.test(name)
    ? slices.filter(({ slice }) => slice.uuid.startsWith(name))
    : gpus.flatMap((gpu) => (matchesUuid(name, gpu) ? [{ gpu }] : []))
  return found.length === 1 ? found[0] : undefined
}

/** AMD's in either case (ROCR-Runtime, amd_filter_device.cpp). */
const matchesUuid = (name: string, { vendor, uuid, runtimeUuid = '' }: GpuFacts) =>
  /^GPU-./i.test(name) &&
  (vendor === 'nvidia'
    ? uuid.startsWith(name)
    : runtimeUuid.startsWith(name.toLowerCase().replace('gpu', 'GPU')))

/** Whether CUDA may order GPUs of several models differently, so that an index is ambiguous. */
const hasAmbiguousOrder = (
  variable: string,
  names: readonly string[],
  gpus: readonly GpuFacts[],
  { CUDA_DEVICE_ORDER }: Environment,
): boolean =>
  variable === 'CUDA_VISIBLE_DEVICES' &&
  gpus.some(({ vendor }) => vendor === 'nvidia') &&
  CUDA_DEVICE_ORDER !== 'PCI_BUS_ID' &&
  names.some((name) => /^\d+$/.test(name)) &&
  new Set(gpus.map((gpu) => gpu.name)).size > 1
