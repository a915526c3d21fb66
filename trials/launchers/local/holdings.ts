/**
 * Assigns cores and GPUs of this machine to trials. Concurrent trials never hold the same core or
 * slice; a later one waits until another releases what it needs.
 */

import { formatCoreList } from '../../../profiler/load/cpu-affinity.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import {
  catalogueName,
  heldByOthersMiB,
  type ShareBound,
  shareBound,
} from '../../machine/gpu-offer.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import type { GpuFacts } from '../../machine/nvidia-smi.ts'
import type { Resources } from '../../resources.ts'
import { InfeasibleError, LaunchError } from '../../types.ts'
import { mpsVariables } from '../mps-variables.ts'

export interface Holding {
  /** The cores, as taskset and cpusets write them: '0-1,4'. */
  readonly coreList: string
  /** CUDA_VISIBLE_DEVICES and its like. */
  readonly env: Readonly<Record<string, string>>
  /** The GPUs, or the slice, for the vendor's tool; none for an emulated GPU. */
  readonly devices: readonly HeldDevice[]
  /** Share of the GPU memory, 0-1, that a framework may allocate. */
  readonly gpuMemoryFraction?: number
  /** 'core 1 (core 0 left to the load generator)' */
  readonly coresWords: string
  /** 'GPU T4 emulated, 25 %', '50 % of a A30 by MPS (memory and threads)' */
  readonly gpuWords?: string
  release(): void
}

export interface HeldDevice {
  readonly vendor: GpuFacts['vendor']
  readonly index: number
  /** UUID of the GPU, or of its slice. */
  readonly uuid: string
}

/** How a predictor uses the GPU that its configuration names. */
export interface GpuUse {
  /** False: the GPU is emulated, and no GPU of this machine is needed. */
  readonly real: boolean
  /** The predictor itself keeps to its share of the memory. */
  readonly boundsMemory: boolean
}

interface Holdings {
  /**
   * Takes the resources, waiting while other trials hold them.
   * @throws LaunchError when the machine has too few cores, or nothing enforces the share; InfeasibleError('no-such-gpu'), or the signal's reason
   */
  take(asked: Resources, use: GpuUse, signal: AbortSignal): Promise<Holding>
}

interface GpuGrant {
  readonly env: Readonly<Record<string, string>>
  readonly devices: readonly HeldDevice[]
  readonly fraction: number
  readonly words: string
  /** Parts of GPUs or slices. */
  readonly parts: readonly { readonly uuid: string; readonly part: number }[]
}

/** @param ownGpus the user's own catalogue entries, which may name the machine's GPUs */
export const createHoldings = (machine: MachineFacts, ownGpus: readonly Gpu[] = []): Holdings => {
  const heldCores = new Set<number>()
  const heldParts = new Map<string, number>()
  let waiting: (() => void)[] = []

  const tryTake = (asked: Resources, use: GpuUse): Holding | undefined => {
    const cores = pickCores(machine, asked.cpuCores, heldCores)
    const wantsGpu = use.real && asked.gpu !== undefined
    const gpu = wantsGpu ? pickGpu({ machine, ownGpus, asked, use, held: heldParts }) : undefined
    if (cores === undefined || (wantsGpu && gpu === undefined)) return undefined
    for (const core of cores) heldCores.add(core)
    for (const { uuid, part } of gpu?.parts ?? [])
      heldParts.set(uuid, (heldParts.get(uuid) ?? 0) + part)
    let released = false
    return {
      coreList: formatCoreList(cores),
      coresWords: describeCores(machine, cores),
      // A predictor without a GPU must not find the machine's.
      env: gpu?.env ?? hidden(machine),
      devices: gpu?.devices ?? [],
      gpuMemoryFraction: gpu?.fraction,
      gpuWords:
        gpu?.words ??
        (asked.gpu === undefined
          ? undefined
          : `GPU ${asked.gpu} emulated, ${percent(asked.gpuShare)}`),
      release: () => {
        if (released) return
        released = true
        for (const core of cores) heldCores.delete(core)
        for (const { uuid, part } of gpu?.parts ?? [])
          heldParts.set(uuid, heldParts.get(uuid)! - part)
        const woken = waiting
        waiting = []
        for (const wake of woken) wake()
      },
    }
  }

  return {
    take: async (asked, use, signal) => {
      for (;;) {
        signal.throwIfAborted()
        const holding = tryTake(asked, use)
        if (holding) return holding
        await released(signal, (wake) => waiting.push(wake))
      }
    },
  }
}

/** Resolves at the next release, or when the signal aborts. */
const released = (signal: AbortSignal, register: (wake: () => void) => void): Promise<void> =>
  new Promise((resolve) => {
    const wake = () => {
      signal.removeEventListener('abort', wake)
      resolve()
    }
    signal.addEventListener('abort', wake, { once: true })
    register(wake)
  })

/** From the highest number down, so that the load generator keeps the first core if possible. */
const pickCores = (
  machine: MachineFacts,
  asked: number,
  held: ReadonlySet<number>,
): number[] | undefined => {
  const count = Math.ceil(asked)
  if (count > machine.affinity.length) {
    throw new LaunchError(
      `the configuration needs ${asked} cores, but this process may use only ${machine.affinity.length}`,
      `bound the search: --pin cpuCores=${machine.affinity.length}, or list smaller values in the search space`,
    )
  }
  const free = machine.affinity.filter((core) => !held.has(core))
  return free.length < count ? undefined : free.slice(free.length - count)
}

const describeCores = (machine: MachineFacts, cores: readonly number[]): string => {
  const others = machine.affinity.filter((core) => !cores.includes(core))
  const generator =
    others.length === 0
      ? 'shared with the load generator'
      : `${words(others.slice(0, 1))} left to the load generator`
  return `${words(cores)} (${generator})`
}

const words = (cores: readonly number[]) =>
  `${cores.length === 1 ? 'core' : 'cores'} ${formatCoreList(cores)}`

/** Variables that select GPUs; for HIP an index that no GPU has selects none. */
const variables = {
  nvidia: { name: 'CUDA_VISIBLE_DEVICES', none: '' },
  amd: { name: 'HIP_VISIBLE_DEVICES', none: '-1' },
} as const

const hidden = ({ gpus }: MachineFacts): Record<string, string> =>
  Object.fromEntries(gpus.map(({ vendor }) => [variables[vendor].name, variables[vendor].none]))

/** Selects these GPUs, and none of another vendor. */
const visible = (
  machine: MachineFacts,
  vendor: GpuFacts['vendor'],
  ids: readonly string[],
): Record<string, string> => ({
  ...hidden(machine),
  [variables[vendor].name]: ids.join(','),
})

/** NVIDIA's UUID where the runtime accepts it: a Jetson's has no prefix 'GPU-'. */
const idOf = ({ vendor, index, ordinal = index, uuid }: GpuFacts): string =>
  vendor === 'nvidia' && uuid.startsWith('GPU-') ? uuid : String(ordinal)

interface Asked {
  readonly machine: MachineFacts
  readonly ownGpus: readonly Gpu[]
  readonly asked: Resources
  readonly use: GpuUse
  readonly held: ReadonlyMap<string, number>
}

/** Undefined: other trials hold what it needs. */
const pickGpu = (want: Asked): GpuGrant | undefined => {
  const { machine, ownGpus, asked } = want
  const fitting = machine.gpus.filter(
    (gpu) => catalogueName(gpu.name, ownGpus) === asked.gpu && gpu.computeMode !== 'Prohibited',
  )
  if (fitting.length === 0) throw noSuchGpu(machine, `this machine has no ${asked.gpu}`)
  if (asked.migProfile !== undefined) return pickSlice(want, fitting)
  // Least memory in use by other processes first.
  const wholes = fitting
    .filter((gpu) => !gpu.migEnabled)
    .sort((a, b) => heldByOthersMiB(a) - heldByOthersMiB(b))
  if (wholes.length < asked.gpus)
    throw noSuchGpu(
      machine,
      `the configuration needs ${asked.gpus} x ${asked.gpu}, but this machine has ${wholes.length} whole ones`,
    )
  return asked.gpuShare === 1 ? pickWhole(want, wholes) : pickShare(want, wholes)
}

const pickWhole = (
  { machine, asked, held }: Asked,
  wholes: readonly GpuFacts[],
): GpuGrant | undefined => {
  const free = wholes.filter((gpu) => !held.get(gpu.uuid)).slice(0, asked.gpus)
  const [first] = free
  if (first === undefined || free.length < asked.gpus) return undefined
  return {
    env: visible(machine, first.vendor, free.map(idOf)),
    devices: free,
    fraction: 1,
    words:
      asked.gpus > 1
        ? `${asked.gpus} whole ${asked.gpu}`
        : `whole ${asked.gpu}${besideOthers(first)}`,
    parts: free.map((gpu) => ({ uuid: gpu.uuid, part: 1 })),
  }
}

const besideOthers = (gpu: GpuFacts): string => {
  const others = heldByOthersMiB(gpu)
  return others > 0 ? `, ${others} MiB of it in use by other processes at the start` : ''
}

const pickSlice = (
  { machine, asked, held }: Asked,
  gpus: readonly GpuFacts[],
): GpuGrant | undefined => {
  const slices = gpus.flatMap((gpu) =>
    gpu.migEnabled
      ? gpu.migDevices
          .filter(({ profile }) => profile === asked.migProfile)
          .map((slice) => ({ ...gpu, uuid: slice.uuid }))
      : [],
  )
  if (slices.length === 0)
    throw noSuchGpu(machine, `no ${asked.gpu} has a MIG slice ${asked.migProfile}`)
  // A CUDA process enumerates a single MIG device, however many it is told of (MIG user guide,
  // "CUDA device enumeration").
  if (asked.gpus > 1)
    throw noSuchGpu(
      machine,
      `the configuration needs ${asked.gpus} MIG slices, but a process can use only one`,
    )
  const slice = slices.find(({ uuid }) => !held.get(uuid))
  return (
    slice && {
      env: visible(machine, slice.vendor, [slice.uuid]),
      devices: [slice],
      fraction: 1,
      words: `${asked.gpu} slice ${asked.migProfile} (MIG)`,
      parts: [{ uuid: slice.uuid, part: 1 }],
    }
  )
}

const pickShare = (
  { machine, asked, use, held }: Asked,
  wholes: readonly GpuFacts[],
): GpuGrant | undefined => {
  const bound = shareBound(wholes, machine.mps, use.boundsMemory)
  if (bound === undefined)
    throw new LaunchError(
      `cannot assign ${percent(asked.gpuShare)} of a ${asked.gpu}: nothing on this machine enforces a share`,
      'start an MPS daemon (nvidia-cuda-mps-control -d), pass ${gpuMemoryFraction} to the server, or use whole GPUs: gpuMemoryPercent 100',
    )
  const free = wholes
    .filter(({ uuid }) => (held.get(uuid) ?? 0) + asked.gpuShare <= 1 + 1e-9)
    .slice(0, asked.gpus)
  const [first] = free
  if (first === undefined || free.length < asked.gpus) return undefined
  return {
    env: { ...visible(machine, first.vendor, free.map(idOf)), ...limits[bound](asked) },
    devices: free,
    fraction: asked.gpuShare,
    words: `${percent(asked.gpuShare)} of a ${asked.gpu} ${boundWords[bound]}${besideOthers(first)}`,
    parts: free.map(({ uuid }) => ({ uuid, part: asked.gpuShare })),
  }
}

/** Variables that set a bound. A server that bounds itself gets its share from its template. */
const limits: Readonly<Record<ShareBound, (asked: Resources) => Record<string, string>>> = {
  mps: ({ gpuMemoryMiB, gpuShare, gpus }) => mpsVariables(gpuShare, gpuMemoryMiB, gpus),
  server: () => ({}),
}
const boundWords: Readonly<Record<ShareBound, string>> = {
  mps: 'by MPS (memory and threads)',
  server: 'by its own limit (memory only)',
}

const noSuchGpu = (machine: MachineFacts, what: string) => {
  const here = machine.gpus.map(
    (gpu) =>
      `${gpu.name}${gpu.migEnabled ? ` (MIG: ${gpu.migDevices.map((d) => d.profile).join(', ') || 'no slices'})` : ''}`,
  )
  return new InfeasibleError(
    'no-such-gpu',
    `${what}; found: ${here.join(', ') || machine.gpuProblem || 'no GPU'}`,
  )
}

const percent = (share: number) => `${Math.round(share * 100)} %`
