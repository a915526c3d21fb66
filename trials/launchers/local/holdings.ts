/** Which cores and which GPU of this machine a trial holds. Trials that run at once never hold the same core or slice; a later one waits. */
import { findGpu } from '../../devices/catalogue.ts'
import { DeviceModelError } from '../../devices/device-model-error.ts'
import { formatCoreList, type MachineFacts } from '../../machine/machine-facts.ts'
import type { GpuFacts } from '../../machine/nvidia-smi.ts'
import type { Resources } from '../../resources.ts'
import { InfeasibleError, LaunchError } from '../../types.ts'

export interface Holding {
  /** The cores held, as taskset and cpusets write them: '0-1,4'. */
  readonly coreList: string
  /** CUDA_VISIBLE_DEVICES and its like. */
  readonly env: Readonly<Record<string, string>>
  /** UUID of the GPU or slice, for nvidia-smi; undefined: none that is real. */
  readonly gpuUuid?: string
  /** Of the GPU memory, 0-1: what a framework may be told to take. */
  readonly gpuMemoryFraction?: number
  /** 'core 1 (core 0 left to the load generator)' */
  readonly coresWords: string
  /** 'GPU T4 emulated, 25 %', '50 % of a A30 by MPS (memory and threads)' */
  readonly gpuWords?: string
  release(): void
}

interface Holdings {
  /**
   * Takes what a configuration asks for, waiting while other trials hold it.
   * @param gpuReal false: the GPU is emulated, nothing of this machine is taken for it.
   * @throws LaunchError when the machine never has as many cores, InfeasibleError('no-such-gpu'), or the signal's reason
   */
  take(asked: Resources, gpuReal: boolean, signal: AbortSignal): Promise<Holding>
}

interface GpuGrant {
  readonly env: Readonly<Record<string, string>>
  readonly uuid: string
  readonly fraction: number
  readonly words: string
  /** Held part by uuid of GPU or slice. */
  readonly parts: readonly { readonly uuid: string; readonly part: number }[]
}

export const createHoldings = (machine: MachineFacts): Holdings => {
  const heldCores = new Set<number>()
  const heldParts = new Map<string, number>()
  let waiting: (() => void)[] = []

  const tryTake = (asked: Resources, gpuReal: boolean): Holding | undefined => {
    const cores = pickCores(machine, asked.cpuCores, heldCores)
    const wantsGpu = gpuReal && asked.gpu !== undefined
    const gpu = wantsGpu ? pickGpu(machine, asked, heldParts) : undefined
    if (cores === undefined || (wantsGpu && gpu === undefined)) return undefined
    for (const core of cores) heldCores.add(core)
    for (const { uuid, part } of gpu?.parts ?? []) heldParts.set(uuid, (heldParts.get(uuid) ?? 0) + part)
    let released = false
    return {
      coreList: formatCoreList(cores),
      coresWords: describeCores(machine, cores),
      // Without a GPU of its own a predictor must not find the machine's.
      env: gpu?.env ?? (machine.gpus.length > 0 ? { CUDA_VISIBLE_DEVICES: '' } : {}),
      gpuUuid: gpu?.uuid,
      gpuMemoryFraction: gpu?.fraction,
      gpuWords: gpu?.words ?? (asked.gpu === undefined ? undefined : `GPU ${asked.gpu} emulated, ${percent(asked.gpuShare)}`),
      release: () => {
        if (released) return
        released = true
        for (const core of cores) heldCores.delete(core)
        for (const { uuid, part } of gpu?.parts ?? []) heldParts.set(uuid, heldParts.get(uuid)! - part)
        const woken = waiting
        waiting = []
        for (const wake of woken) wake()
      },
    }
  }

  return {
    take: async (asked, gpuReal, signal) => {
      for (;;) {
        signal.throwIfAborted()
        const holding = tryTake(asked, gpuReal)
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

/** From the highest number down: the first core stays with the load generator as long as it can. */
const pickCores = (machine: MachineFacts, asked: number, held: ReadonlySet<number>): number[] | undefined => {
  const count = Math.ceil(asked)
  if (count > machine.affinity.length) {
    throw new LaunchError(
      `${asked} cores asked for, and this process may use ${machine.affinity.length}`,
      `bound the search: --pin cpuCores=${machine.affinity.length}, or give a list up to that in the experiment's space`,
    )
  }
  const free = machine.affinity.filter((core) => !held.has(core))
  return free.length < count ? undefined : free.slice(free.length - count)
}

const describeCores = (machine: MachineFacts, cores: readonly number[]): string => {
  const others = machine.affinity.filter((core) => !cores.includes(core))
  const generator = others.length === 0 ? 'shared with the load generator' : `${words(others.slice(0, 1))} left to the load generator`
  return `${words(cores)} (${generator})`
}

const words = (cores: readonly number[]) => `${cores.length === 1 ? 'core' : 'cores'} ${formatCoreList(cores)}`

/** Undefined: there is one, and it is held by another trial just now. */
const pickGpu = (machine: MachineFacts, asked: Resources, held: ReadonlyMap<string, number>): GpuGrant | undefined => {
  const fitting = machine.gpus.filter((gpu) => catalogueName(gpu) === asked.gpu && gpu.computeMode !== 'Prohibited')
  if (fitting.length === 0) throw noSuchGpu(machine, `no ${asked.gpu} in this machine`)
  if (asked.gpus > 1) return pickSeveral(machine, asked, fitting, held)
  const sliced = fitting.filter((gpu) => gpu.migEnabled)
  if (asked.migProfile !== undefined || sliced.length === fitting.length) return pickSlice(machine, asked, sliced, held)
  return pickShare(
    machine,
    asked,
    fitting.filter((gpu) => !gpu.migEnabled),
    held,
  )
}

const pickSeveral = (
  machine: MachineFacts,
  asked: Resources,
  fitting: readonly GpuFacts[],
  held: ReadonlyMap<string, number>,
): GpuGrant | undefined => {
  const whole = fitting.filter((gpu) => !gpu.migEnabled)
  if (whole.length < asked.gpus) throw noSuchGpu(machine, `${asked.gpus} x ${asked.gpu} asked for, ${whole.length} whole ones here`)
  const free = whole.filter((gpu) => !held.get(gpu.uuid)).slice(0, asked.gpus)
  if (free.length < asked.gpus) return undefined
  return {
    env: { CUDA_VISIBLE_DEVICES: free.map((gpu) => gpu.uuid).join(',') },
    uuid: free[0]!.uuid,
    fraction: asked.gpuShare,
    words: `${asked.gpus} x ${asked.gpu}, each whole`,
    parts: free.map((gpu) => ({ uuid: gpu.uuid, part: 1 })),
  }
}

/** CUDA can allocate a little less of a slice than its name says, and the catalogue's memory is a little less than the GPU's. */
const sliceTolerance = 0.93

const pickSlice = (
  machine: MachineFacts,
  asked: Resources,
  gpus: readonly GpuFacts[],
  held: ReadonlyMap<string, number>,
): GpuGrant | undefined => {
  const needed = (asked.gpuMemoryMiB ?? 0) * sliceTolerance
  const slices = gpus
    .flatMap((gpu) => gpu.migDevices)
    .filter((slice) => (asked.migProfile === undefined ? slice.memoryMiB >= needed : slice.profile === asked.migProfile))
    .sort((a, b) => a.memoryMiB - b.memoryMiB)
  if (slices.length === 0) throw noSuchGpu(machine, `no MIG slice ${asked.migProfile ?? `of ${asked.gpuMemoryMiB} MiB`} on a ${asked.gpu}`)
  const slice = slices.find(({ uuid }) => !held.get(uuid))
  return (
    slice && {
      env: { CUDA_VISIBLE_DEVICES: slice.uuid },
      uuid: slice.uuid,
      fraction: 1,
      words: `${asked.gpu} slice ${slice.profile} (MIG)`,
      parts: [{ uuid: slice.uuid, part: 1 }],
    }
  )
}

const pickShare = (
  machine: MachineFacts,
  asked: Resources,
  gpus: readonly GpuFacts[],
  held: ReadonlyMap<string, number>,
): GpuGrant | undefined => {
  const gpu = gpus.find(({ uuid }) => (held.get(uuid) ?? 0) + asked.gpuShare <= 1 + 1e-9)
  if (gpu === undefined) return undefined
  const busy = gpu.usedMemoryMiB > 512 ? `, of which ${gpu.usedMemoryMiB} MiB were others' at the start` : ''
  const device = { uuid: gpu.uuid, fraction: asked.gpuShare, parts: [{ uuid: gpu.uuid, part: asked.gpuShare }] }
  if (asked.gpuShare === 1) return { ...device, env: { CUDA_VISIBLE_DEVICES: gpu.uuid }, words: `${asked.gpu} whole${busy}` }
  if (machine.mps) {
    return {
      ...device,
      // CUDA 11.5 on: <device>=<limit>; devices count from 0 after CUDA_VISIBLE_DEVICES (NVIDIA MPS guide, "Memory Protection").
      env: {
        CUDA_VISIBLE_DEVICES: gpu.uuid,
        CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: `0=${asked.gpuMemoryMiB}M`,
        CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: String(Math.round(asked.gpuShare * 100)),
      },
      words: `${percent(asked.gpuShare)} of a ${asked.gpu} by MPS (memory and threads)${busy}`,
    }
  }
  return {
    ...device,
    env: { CUDA_VISIBLE_DEVICES: gpu.uuid, XLA_PYTHON_CLIENT_MEM_FRACTION: String(asked.gpuShare) },
    words: `${percent(asked.gpuShare)} of a ${asked.gpu}: memory as the framework is told, not enforced (no MIG, no MPS daemon)${busy}`,
  }
}

/** The catalogue's name of a GPU that is here, or the driver's for one it does not know. */
export const catalogueName = (gpu: GpuFacts): string => {
  try {
    return findGpu(gpu.name).name
  } catch (error) {
    if (error instanceof DeviceModelError) return gpu.name
    throw error
  }
}

const noSuchGpu = (machine: MachineFacts, what: string) => {
  const here = machine.gpus.map(
    (gpu) => `${gpu.name}${gpu.migEnabled ? ` (MIG: ${gpu.migDevices.map((d) => d.profile).join(', ') || 'no slices'})` : ''}`,
  )
  return new InfeasibleError('no-such-gpu', `${what}; here: ${here.join(', ') || machine.gpuProblem || 'no GPU'}`)
}

const percent = (share: number) => `${Math.round(share * 100)} %`
