/**
 * What of this machine's GPUs a trial may hold, and what a user should know of them. The one place
 * that decides whether a share of a GPU exists.
 */
import { findGpu, type Gpu, gpuCatalogue } from '../devices/catalogue.ts'
import { DeviceModelError } from '../devices/device-model-error.ts'
import { migProfilesOf } from '../devices/mig.ts'
import type { GpuFacts } from './nvidia-smi.ts'

/** 'Exclusive_Process', and the 'Exclusive_Thread' of drivers before it. */
const isExclusive = ({ computeMode }: GpuFacts): boolean => computeMode.startsWith('Exclusive')

/** Whether a process may hold it whole. */
export const isWhole = ({ migEnabled, computeMode }: GpuFacts): boolean =>
  !migEnabled && computeMode !== 'Prohibited'

/**
 * The catalogue's (or the user's own) name of a GPU as the driver calls it; the driver's for one
 * that neither knows.
 */
export const catalogueName = (driverName: string, ownGpus: readonly Gpu[] = []): string => {
  try {
    return findGpu(driverName, ownGpus).name
  } catch (error) {
    if (error instanceof DeviceModelError) return driverName
    throw error
  }
}

/**
 * What bounds a process to a part of a whole GPU: an MPS daemon, the server's own memory limit, or
 * nothing. MIG slices are no parts: they have names.
 */
export type ShareBound = 'mps' | 'server'

/**
 * Undefined: a share would be enforced by nothing, so that there is none.
 * @param serverBounds the predictor is told its share and keeps to it
 */
export const shareBound = (
  gpus: readonly GpuFacts[],
  mps: boolean,
  serverBounds: boolean,
): ShareBound | undefined => {
  const wholes = gpus.filter(isWhole)
  if (wholes.length === 0) return undefined
  if (mps && wholes.every(({ vendor }) => vendor === 'nvidia')) return 'mps'
  // In exclusive mode no second process could have the rest.
  return serverBounds && !wholes.some(isExclusive) ? 'server' : undefined
}

/** Of a GPU's memory at the start; more than a display and a driver take. */
const othersMiB = 512

/** MiB that others hold of a GPU before anything of ours runs; 0 for what an idle one shows. */
export const heldByOthersMiB = ({ usedMemoryMiB }: GpuFacts): number =>
  usedMemoryMiB > othersMiB ? usedMemoryMiB : 0

/**
 * What is wrong with a GPU, or must be known of it: that nothing can run on it, that others fill
 * it, that one process has it alone.
 */
export const gpuWarnings = (gpu: GpuFacts, mps: boolean): string[] => {
  const which = `${gpu.name} (GPU ${gpu.index})`
  if (gpu.computeMode === 'Prohibited')
    return [
      `${which} is in compute mode Prohibited: nothing can run on it (nvidia-smi -i ${gpu.index} -c DEFAULT)`,
    ]
  const held = heldByOthersMiB(gpu)
  return [
    ...(gpu.migEnabled && gpu.migDevices.length === 0
      ? [
          `${which} is in MIG mode without a slice: nothing can run on it (create a slice: nvidia-smi mig -i ${gpu.index} -cgi ${smallestProfile(gpu)} -C; on existing GPU instances: nvidia-smi mig -i ${gpu.index} -cci; or leave MIG mode: nvidia-smi -i ${gpu.index} -mig 0)`,
        ]
      : []),
    ...(held > 0
      ? [
          `${which}: ${held} ${gpu.memoryMiB === undefined ? '' : `of ${gpu.memoryMiB} `}MiB are in use by other processes, which may distort measurements on it (${smiOf(gpu)} lists them)`,
        ]
      : []),
    ...(gpu.eccErrors !== undefined && gpu.eccErrors > 0
      ? [
          `${which}: ${gpu.eccErrors} uncorrected memory error${gpu.eccErrors === 1 ? '' : 's'} since its driver was loaded: processes on it may crash or return wrong results (nvidia-smi -i ${gpu.index} -q -d ECC,ROW_REMAPPER)`,
        ]
      : []),
    ...(isExclusive(gpu) && !mps
      ? [
          `${which} is in exclusive mode: a server with several processes fails on it (allow more: nvidia-smi -i ${gpu.index} -c DEFAULT)`,
        ]
      : []),
  ]
}

const smiOf = ({ vendor }: GpuFacts) => (vendor === 'amd' ? 'rocm-smi --showpids' : 'nvidia-smi')

/** For the hint alone. */
const smallestProfile = ({ name }: GpuFacts): string => {
  const known = catalogueName(name)
  return (
    gpuCatalogue.filter((gpu) => gpu.name === known).flatMap(migProfilesOf)[0]?.name ?? 'PROFILE'
  )
}
