/**
 * Which GPUs of this machine trials may use, with warnings. The only place that decides whether a
 * share of a GPU can be enforced.
 */
import { findGpu, type Gpu, gpuCatalogue } from '../devices/catalogue.ts'
import { DeviceModelError } from '../devices/device-model-error.ts'
import { listMigProfiles } from '../devices/mig.ts'
import type { GpuFacts } from './nvidia-smi.ts'

/** 'Exclusive_Process', and the 'Exclusive_Thread' of drivers before it. */
const isExclusive = ({ computeMode }: GpuFacts): boolean => computeMode.startsWith('Exclusive')

/** Whether a process may use the whole GPU. */
export const isWhole = ({ migEnabled, computeMode }: GpuFacts): boolean =>
  !migEnabled && computeMode !== 'Prohibited'

/**
 * Finds the catalogue's (or the user's own) name of a GPU as the driver calls it; the driver's for
 * one that neither knows.
 */
export const findCatalogueName = (driverName: string, ownGpus: readonly Gpu[] = []): string => {
  try {
    return findGpu(driverName, ownGpus).name
  } catch (error) {
    if (error instanceof DeviceModelError) return driverName
    throw error
  }
}

/**
 * What limits a process to a share of a GPU: an MPS daemon, or the server's own memory limit. MIG
 * slices are not shares.
 */
export type ShareBound = 'mps' | 'server'

/**
 * What enforces a share; undefined if nothing does, so that shares are unavailable.
 * @param serverLimitsItself the predictor enforces its share
 */
export const findShareBound = (
  gpus: readonly GpuFacts[],
  mps: boolean,
  serverLimitsItself: boolean,
): ShareBound | undefined => {
  const usableGpus = gpus.filter(isWhole)
  if (usableGpus.length === 0) return undefined
  if (mps && usableGpus.every(({ vendor }) => vendor === 'nvidia')) return 'mps'
  // In exclusive mode no second process could have the rest.
  return serverLimitsItself && !usableGpus.some(isExclusive) ? 'server' : undefined
}

/** Usage below this is the driver's and a display's, not another process's. */
const idleUsageMiB = 512

/** MiB in use by other processes when tune started; 0 if no more than an idle GPU uses. */
export const getForeignMemoryMiB = ({ usedMemoryMiB }: GpuFacts): number =>
  usedMemoryMiB > idleUsageMiB ? usedMemoryMiB : 0

/**
 * Warnings about a GPU: it is unusable, other processes use its memory, or it is in exclusive mode.
 */
export const listGpuWarnings = (gpu: GpuFacts, mps: boolean): string[] => {
  const which = `${gpu.name} (GPU ${gpu.index})`
  if (gpu.computeMode === 'Prohibited')
    return [
      `${which} is in compute mode Prohibited: nothing can run on it (nvidia-smi -i ${gpu.index} -c DEFAULT)`,
    ]
  const foreignMiB = getForeignMemoryMiB(gpu)
  return [
    ...(gpu.migEnabled && gpu.migDevices.length === 0
      ? [
          `${which} is in MIG mode without a slice: nothing can run on it (create a slice: nvidia-smi mig -i ${gpu.index} -cgi ${getSmallestProfile(gpu)} -C; on existing GPU instances: nvidia-smi mig -i ${gpu.index} -cci; or leave MIG mode: nvidia-smi -i ${gpu.index} -mig 0)`,
        ]
      : []),
    ...(foreignMiB > 0
      ? [
          `${which}: ${foreignMiB} ${gpu.memoryMiB === undefined ? '' : `of ${gpu.memoryMiB} `}MiB are in use by other processes, which may distort measurements on it (${getSmiCommand(gpu)} lists them)`,
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

const getSmiCommand = ({ vendor }: GpuFacts) =>
  vendor === 'amd' ? 'rocm-smi --showpids' : 'nvidia-smi'

/** Gets the smallest MIG profile, for a hint. */
const getSmallestProfile = ({ name }: GpuFacts): string => {
  const known = findCatalogueName(name)
  return (
    gpuCatalogue.filter((gpu) => gpu.name === known).flatMap(listMigProfiles)[0]?.name ?? 'PROFILE'
  )
}
