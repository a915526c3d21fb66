/**
 * The GPUs that the environment leaves to what is started in it: a scheduler or a user may have
 * given the others to somebody else.
 */
import type { GpuFacts, GpuListing } from './nvidia-smi.ts'

type Environment = Readonly<Record<string, string | undefined>>

export const visibilityVariables = [
  'CUDA_VISIBLE_DEVICES',
  'ROCR_VISIBLE_DEVICES',
  'HIP_VISIBLE_DEVICES',
] as const

/**
 * By CUDA_VISIBLE_DEVICES (CUDA programming guide, "CUDA environment variables": indices, or the
 * beginnings of UUIDs; empty for none; what follows one that is not there is hidden),
 * ROCR_VISIBLE_DEVICES, and HIP_VISIBLE_DEVICES, which counts what the one before leaves (ROCm,
 * "GPU isolation techniques"). HIP takes an empty list for none given, and reads CUDA's then
 * (rocclr, rocdevice.cpp), which beside NVIDIA GPUs is taken to be meant for those.
 * @returns those that are left, in the order in which they are named, and which variable hides
 * others
 */
export function visibleGpus(gpus: readonly GpuFacts[], environment: Environment): GpuListing {
  const of = (vendor: GpuFacts['vendor']) => gpus.filter((gpu) => gpu.vendor === vendor)
  const nvidia = leftBy('CUDA_VISIBLE_DEVICES', of('nvidia'), environment)
  const counted = leftBy('ROCR_VISIBLE_DEVICES', of('amd'), environment)
  const renumbered =
    environment.ROCR_VISIBLE_DEVICES === undefined
      ? counted.gpus
      : counted.gpus.map((gpu, ordinal) => ({ ...gpu, ordinal }))
  const hip =
    environment.HIP_VISIBLE_DEVICES || of('nvidia').length > 0
      ? 'HIP_VISIBLE_DEVICES'
      : 'CUDA_VISIBLE_DEVICES'
  const amd = leftBy(hip, renumbered, { ...environment, [hip]: environment[hip] || undefined })
  const problem = [nvidia, counted, amd].flatMap((one) => one.problem ?? []).join('; ')
  return { gpus: [...nvidia.gpus, ...amd.gpus], ...(problem !== '' && { problem }) }
}

function leftBy(
  variable: (typeof visibilityVariables)[number],
  gpus: readonly GpuFacts[],
  environment: Environment,
): GpuListing {
  const value = environment[variable]
  if (value === undefined || gpus.length === 0) return { gpus }
  const left = new Map<string, GpuFacts>()
  const names = value === '' ? [] : value.split(',').map((name) => name.trim())
  const none = names.findIndex((name) => named(name, gpus) === undefined)
  for (const name of none < 0 ? names : names.slice(0, none)) {
    const { gpu, slice } = named(name, gpus)!
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
    ...(countsDifferently(variable, names, gpus, environment)
      ? [
          'GPUs are numbered as in nvidia-smi; CUDA numbers the fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID',
        ]
      : []),
  ]
  const count = (of: Iterable<GpuFacts>) =>
    [...of].reduce((sum, { migDevices }) => sum + Math.max(1, migDevices.length), 0)
  const [kept, all] = [count(left.values()), count(gpus)]
  const told = [`${variable}='${value}' leaves ${kept} of ${all} GPUs`, ...remarks].join('; ')
  return { gpus: [...left.values()], ...((kept < all || remarks.length > 0) && { problem: told }) }
}

/** A GPU by its place or UUID, or the one around a MIG slice. */
function named(
  name: string,
  gpus: readonly GpuFacts[],
): { gpu: GpuFacts; slice?: GpuFacts['migDevices'][number] } | undefined {
  if (/^\d+$/.test(name)) return gpus[Number(name)] && { gpu: gpus[Number(name)]! }
  const slices = gpus.flatMap((gpu) => gpu.migDevices.map((slice) => ({ gpu, slice })))
  const found = /^MIG-/.test(name)
    ? slices.filter(({ slice }) => slice.uuid.startsWith(name))
    : gpus.flatMap((gpu) => (isPartOf(name, gpu) ? [{ gpu }] : []))
  return found.length === 1 ? found[0] : undefined
}

/** AMD's in either case (ROCR-Runtime, amd_filter_device.cpp). */
const isPartOf = (name: string, { vendor, uuid, runtimeUuid = '' }: GpuFacts) =>
  /^GPU-./i.test(name) &&
  (vendor === 'nvidia'
    ? uuid.startsWith(name)
    : runtimeUuid.startsWith(name.toLowerCase().replace('gpu', 'GPU')))

/** Whether a place among GPUs of several models is not what it is to CUDA. */
const countsDifferently = (
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
