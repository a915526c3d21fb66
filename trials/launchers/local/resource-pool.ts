/**
 * Assigns cores and GPUs of this machine to trials. Concurrent trials never reserve the same core
 * or slice; a later one waits for a release. Only fractions of cores of one trial, the stages of a
 * pipeline, share a core.
 */

import { formatCoreList } from '../../../profiler/load/cpu-affinity.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import {
  findCatalogueName,
  findShareBound,
  getForeignMemoryMiB,
  type ShareBound,
} from '../../machine/gpu-offer.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import type { GpuFacts } from '../../machine/nvidia-smi.ts'
import type { Resources } from '../../resources.ts'
import { InfeasibleError, LaunchError } from '../../types.ts'
import { createMpsVariables } from '../mps-variables.ts'

export interface ResourceReservation {
  /** The cores, as taskset and cpusets write them: '0-1,4'. */
  readonly coreList: string
  /** CUDA_VISIBLE_DEVICES and its like. */
  readonly env: Readonly<Record<string, string>>
  /** The GPUs, or the slice, for the vendor's tool; none for an emulated GPU. */
  readonly devices: readonly ReservedDevice[]
  /** Share of the GPU memory, 0-1, that a framework may allocate. */
  readonly gpuMemoryFraction?: number
  /** 'core 1 (core 0 left to the load generator)' */
  readonly coresText: string
  /** 'GPU T4 emulated, 25 %', '50 % of a A30 by MPS (memory and threads)' */
  readonly gpuText?: string
  release(): void
}

export interface ReservedDevice {
  readonly vendor: GpuFacts['vendor']
  readonly index: number
  /** UUID of the GPU, or of its slice. */
  readonly uuid: string
}

/** How a predictor uses the GPU that its configuration names. */
export interface GpuUse {
  /** False: the GPU is emulated, and no GPU of this machine is needed. */
  readonly real: boolean
  /** The predictor itself enforces its share of GPU memory. */
  readonly boundsMemory: boolean
}

export interface ResourcePool {
  /**
   * Reserves the resources; waits while other trials use them.
   * @param sharer trial whose fractions of cores share cores; absent: cores are not shared
   * @throws LaunchError when the machine has too few cores, or nothing enforces the share;
   * InfeasibleError('no-such-gpu'), or the signal's reason
   */
  reserve(
    requested: Resources,
    use: GpuUse,
    signal: AbortSignal,
    sharer?: number,
  ): Promise<ResourceReservation>
}

/** A core in use. */
interface ReservedCore {
  /** 1: all of it. */
  readonly share: number
  /** Trial whose other fractions may use the rest. */
  readonly sharer: number | undefined
}

interface GpuGrant {
  readonly env: Readonly<Record<string, string>>
  readonly devices: readonly ReservedDevice[]
  readonly fraction: number
  readonly text: string
  /** Parts of GPUs or slices. */
  readonly parts: readonly { readonly uuid: string; readonly part: number }[]
}

/** @param ownGpus the user's own catalogue entries, which may name the machine's GPUs */
export const createResourcePool = (
  machine: MachineFacts,
  ownGpus: readonly Gpu[] = [],
): ResourcePool => {
  const reservedCores = new Map<number, ReservedCore>()
  const reservedParts = new Map<string, number>()
  let waiting: (() => void)[] = []

  const tryReserve = (
    requested: Resources,
    use: GpuUse,
    sharer: number | undefined,
  ): ResourceReservation | undefined => {
    const { cpuCores } = requested
    const cores = pickCores(machine, cpuCores, reservedCores, sharer)
    const share = sharer === undefined ? 1 : Math.min(1, cpuCores)
    const wantsGpu = use.real && requested.gpu !== undefined
    const gpu = wantsGpu
      ? pickGpu({ machine, ownGpus, requested, use, reserved: reservedParts })
      : undefined
    if (cores === undefined || (wantsGpu && gpu === undefined)) return undefined
    for (const core of cores)
      reservedCores.set(core, { share: (reservedCores.get(core)?.share ?? 0) + share, sharer })
    for (const { uuid, part } of gpu?.parts ?? [])
      reservedParts.set(uuid, (reservedParts.get(uuid) ?? 0) + part)
    let isReleased = false
    return {
      coreList: formatCoreList(cores),
      coresText: describeCores(machine, cores),
      // A predictor without a GPU must not find the machine's.
      env: gpu?.env ?? hideGpus(machine),
      devices: gpu?.devices ?? [],
      gpuMemoryFraction: gpu?.fraction,
      gpuText:
        gpu?.text ??
        (requested.gpu === undefined
          ? undefined
          : `GPU ${requested.gpu} emulated, ${formatPercent(requested.gpuShare)}`),
      release: () => {
        if (isReleased) return
        isReleased = true
        for (const core of cores) releaseShare(reservedCores, core, share)
        for (const { uuid, part } of gpu?.parts ?? [])
          reservedParts.set(uuid, reservedParts.get(uuid)! - part)
        const woken = waiting
        waiting = []
        for (const wake of woken) wake()
      },
    }
  }

  return {
    reserve: async (requested, use, signal, sharer) => {
      for (;;) {
        signal.throwIfAborted()
        const reservation = tryReserve(requested, use, sharer)
        if (reservation) return reservation
        await waitForRelease(signal, (wake) => waiting.push(wake))
      }
    },
  }
}

/** Resolves at the next release, or when the signal aborts. */
const waitForRelease = (signal: AbortSignal, register: (wake: () => void) => void): Promise<void> =>
  new Promise((resolve) => {
    const wake = () => {
      signal.removeEventListener('abort', wake)
      resolve()
    }
    signal.addEventListener('abort', wake, { once: true })
    register(wake)
  })

function releaseShare(reserved: Map<number, ReservedCore>, core: number, share: number): void {
  const { share: total, sharer } = reserved.get(core)!
  const rest = total - share
  if (rest > roundingError) reserved.set(core, { share: rest, sharer })
  else reserved.delete(core)
}

/** Tolerance for sums of shares. */
const roundingError = 1e-9

/**
 * Number of cores that the predictors of one trial reserve together: fractions of a core share cores,
 * in the order of the predictors.
 */
export function countCores(predictors: readonly number[]): number {
  const sharedCores: number[] = []
  let wholeCores = 0
  for (const cores of predictors) {
    const at = sharedCores.findIndex((share) => share + cores <= 1 + roundingError)
    if (cores >= 1) wholeCores += Math.ceil(cores)
    else if (at < 0) sharedCores.push(cores)
    else sharedCores[at]! += cores
  }
  return wholeCores + sharedCores.length
}

/**
 * Picks cores from the highest number down, so that the load generator keeps the first if possible.
 * A fraction goes to the first core with room that its trial shares.
 */
const pickCores = (
  machine: MachineFacts,
  requested: number,
  reserved: ReadonlyMap<number, ReservedCore>,
  sharer: number | undefined,
): number[] | undefined => {
  const [shared] = [...reserved].find(
    ([, core]) =>
      sharer !== undefined &&
      core.sharer === sharer &&
      requested < 1 &&
      core.share + requested <= 1 + roundingError,
  ) ?? [undefined]
  if (shared !== undefined) return [shared]
  const count = Math.ceil(requested)
  if (count > machine.affinity.length) {
    throw new LaunchError(
      `the configuration needs ${requested} cores, but this process may use only ${machine.affinity.length}`,
      `bound the search: --pin cpuCores=${machine.affinity.length}, or list smaller values in the search space`,
    )
  }
  const free = machine.affinity.filter((core) => !reserved.has(core))
  return free.length < count ? undefined : free.slice(free.length - count)
}

const describeCores = (machine: MachineFacts, cores: readonly number[]): string => {
  const others = machine.affinity.filter((core) => !cores.includes(core))
  const generator =
    others.length === 0
      ? 'shared with the load generator'
      : `${formatCores(others.slice(0, 1))} left to the load generator`
  return `${formatCores(cores)} (${generator})`
}

const formatCores = (cores: readonly number[]) =>
  `${cores.length === 1 ? 'core' : 'cores'} ${formatCoreList(cores)}`

/** Variables that select GPUs; for HIP an index that no GPU has selects none. */
const variables = {
  nvidia: { name: 'CUDA_VISIBLE_DEVICES', none: '' },
  amd: { name: 'HIP_VISIBLE_DEVICES', none: '-1' },
} as const

const hideGpus = ({ gpus }: MachineFacts): Record<string, string> =>
  Object.fromEntries(gpus.map(({ vendor }) => [variables[vendor].name, variables[vendor].none]))

/** Selects these GPUs, and none of another vendor. */
const selectVisibleGpus = (
  machine: MachineFacts,
  vendor: GpuFacts['vendor'],
  ids: readonly string[],
): Record<string, string> => ({
  ...hideGpus(machine),
  [variables[vendor].name]: ids.join(','),
})

/** NVIDIA's UUID where the runtime accepts it: a Jetson's has no prefix 'GPU-'. */
const getGpuId = ({ vendor, index, ordinal = index, uuid }: GpuFacts): string =>
  vendor === 'nvidia' && uuid.startsWith('GPU-') ? uuid : String(ordinal)

interface ReservationRequest {
  readonly machine: MachineFacts
  readonly ownGpus: readonly Gpu[]
  readonly requested: Resources
  readonly use: GpuUse
  readonly reserved: ReadonlyMap<string, number>
}

/** The GPUs for a trial; undefined while other trials use them. */
const pickGpu = (request: ReservationRequest): GpuGrant | undefined => {
  const { machine, ownGpus, requested } = request
  const fitting = machine.gpus.filter(
    (gpu) =>
      findCatalogueName(gpu.name, ownGpus) === requested.gpu && gpu.computeMode !== 'Prohibited',
  )
  if (fitting.length === 0)
    throw createMissingGpuError(machine, `this machine has no ${requested.gpu}`)
  if (requested.migProfile !== undefined) return pickSlice(request, fitting)
  // GPUs with the least memory in use by other processes come first.
  const wholeGpus = fitting
    .filter((gpu) => !gpu.migEnabled)
    .sort((a, b) => getForeignMemoryMiB(a) - getForeignMemoryMiB(b))
  if (wholeGpus.length < requested.gpus)
    throw createMissingGpuError(
      machine,
      `the configuration needs ${requested.gpus} x ${requested.gpu}, but this machine has ${wholeGpus.length} whole ones`,
    )
  return requested.gpuShare === 1 ? pickWhole(request, wholeGpus) : pickShare(request, wholeGpus)
}

const pickWhole = (
  { machine, requested, reserved }: ReservationRequest,
  wholeGpus: readonly GpuFacts[],
): GpuGrant | undefined => {
  const free = wholeGpus.filter((gpu) => !reserved.get(gpu.uuid)).slice(0, requested.gpus)
  const [first] = free
  if (first === undefined || free.length < requested.gpus) return undefined
  return {
    env: selectVisibleGpus(machine, first.vendor, free.map(getGpuId)),
    devices: free,
    fraction: 1,
    text:
      requested.gpus > 1
        ? `${requested.gpus} whole ${requested.gpu}`
        : `whole ${requested.gpu}${describeOtherUse(first)}`,
    parts: free.map((gpu) => ({ uuid: gpu.uuid, part: 1 })),
  }
}

const describeOtherUse = (gpu: GpuFacts): string => {
  const foreignMiB = getForeignMemoryMiB(gpu)
  return foreignMiB > 0 ? `, ${foreignMiB} MiB of it in use by other processes at the start` : ''
}

const pickSlice = (
  { machine, requested, reserved }: ReservationRequest,
  gpus: readonly GpuFacts[],
): GpuGrant | undefined => {
  const slices = gpus.flatMap((gpu) =>
    gpu.migEnabled
      ? gpu.migDevices
          .filter(({ profile }) => profile === requested.migProfile)
          .map((slice) => ({ ...gpu, uuid: slice.uuid }))
      : [],
  )
  if (slices.length === 0)
    throw createMissingGpuError(
      machine,
      `no ${requested.gpu} has a MIG slice ${requested.migProfile}`,
    )
  // A CUDA process enumerates a single MIG device, even if several are visible (MIG user guide,
  // "CUDA device enumeration").
  if (requested.gpus > 1)
    throw createMissingGpuError(
      machine,
      `the configuration needs ${requested.gpus} MIG slices, but a process can use only one`,
    )
  const slice = slices.find(({ uuid }) => !reserved.get(uuid))
  return (
    slice && {
      env: selectVisibleGpus(machine, slice.vendor, [slice.uuid]),
      devices: [slice],
      fraction: 1,
      text: `${requested.gpu} slice ${requested.migProfile} (MIG)`,
      parts: [{ uuid: slice.uuid, part: 1 }],
    }
  )
}

const pickShare = (
  { machine, requested, use, reserved }: ReservationRequest,
  wholeGpus: readonly GpuFacts[],
): GpuGrant | undefined => {
  const bound = findShareBound(wholeGpus, machine.mps, use.boundsMemory)
  if (bound === undefined)
    throw new LaunchError(
      `cannot assign ${formatPercent(requested.gpuShare)} of a ${requested.gpu}: nothing on this machine enforces a share`,
      'start an MPS daemon (nvidia-cuda-mps-control -d), pass ${gpuMemoryFraction} to the server, or use whole GPUs: gpuMemoryPercent 100',
    )
  const free = wholeGpus
    .filter(({ uuid }) => (reserved.get(uuid) ?? 0) + requested.gpuShare <= 1 + roundingError)
    .slice(0, requested.gpus)
  const [first] = free
  if (first === undefined || free.length < requested.gpus) return undefined
  return {
    env: {
      ...selectVisibleGpus(machine, first.vendor, free.map(getGpuId)),
      ...createBoundVariables[bound](requested),
    },
    devices: free,
    fraction: requested.gpuShare,
    text: `${formatPercent(requested.gpuShare)} of a ${requested.gpu} ${boundWords[bound]}${describeOtherUse(first)}`,
    parts: free.map(({ uuid }) => ({ uuid, part: requested.gpuShare })),
  }
}

/** Variables that set a bound. A server that bounds itself gets its share from its template. */
const createBoundVariables: Readonly<
  Record<ShareBound, (requested: Resources) => Record<string, string>>
> = {
  mps: ({ gpuMemoryMiB, gpuShare, gpus }) => createMpsVariables(gpuShare, gpuMemoryMiB, gpus),
  server: () => ({}),
}
const boundWords: Readonly<Record<ShareBound, string>> = {
  mps: 'by MPS (memory and threads)',
  server: 'by its own limit (memory only)',
}

const createMissingGpuError = (machine: MachineFacts, what: string) => {
  const foundGpus = machine.gpus.map(
    (gpu) =>
      `${gpu.name}${gpu.migEnabled ? ` (MIG: ${gpu.migDevices.map((d) => d.profile).join(', ') || 'no slices'})` : ''}`,
  )
  return new InfeasibleError(
    'no-such-gpu',
    `${what}; found: ${foundGpus.join(', ') || machine.gpuProblem || 'no GPU'}`,
  )
}

const formatPercent = (share: number) => `${Math.round(share * 100)} %`
