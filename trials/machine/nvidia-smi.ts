/**
 * What nvidia-smi says of the GPUs of this machine. Parsing is apart from asking, and tested on
 * outputs of several GPUs.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** A slice of a GPU in Multi-Instance mode. */
interface MigDevice {
  readonly uuid: string
  /** '3g.20gb' */
  readonly profile: string
  /**
   * Memory of the slice, MiB, from the profile's name: nominal, a few per cent more than CUDA can
   * allocate.
   */
  readonly memoryMiB: number
}

export interface GpuFacts {
  readonly vendor: 'nvidia' | 'amd'
  /** By which the vendor's tools count it, and its runtimes unless `ordinal` says otherwise. */
  readonly index: number
  /** By which AMD's runtime counts it where ROCR_VISIBLE_DEVICES leaves it a part of the GPUs. */
  readonly ordinal?: number
  readonly uuid: string
  /**
   * By which AMD's runtimes name it: 'GPU-' and 16 hexadecimal digits, the same for the dies of one
   * package; undefined where it has none.
   */
  readonly runtimeUuid?: string
  /** As the driver calls it, e.g. 'Tesla T4', 'NVIDIA A100-SXM4-40GB'. */
  readonly name: string
  /**
   * Undefined: it has none of its own, or does not tell ('[N/A]' of a GB10, whose memory is the
   * machine's).
   */
  readonly memoryMiB?: number
  /** By everyone, at the start; 0 where it is not told. */
  readonly usedMemoryMiB: number
  readonly driver: string
  /** 'Default', 'Exclusive_Process' or 'Prohibited'; AMD's is always 'Default'. */
  readonly computeMode: string
  /** e.g. '7.5'; undefined for drivers before 510. */
  readonly computeCapability?: string
  /**
   * Uncorrected errors of its memory since the driver was loaded; undefined where it has no ECC, or
   * it is off.
   */
  readonly eccErrors?: number
  readonly migEnabled: boolean
  readonly migDevices: readonly MigDevice[]
}

/** What a vendor's tool tells of a machine. */
export interface GpuListing {
  readonly gpus: readonly GpuFacts[]
  /** Of GPUs that are there and cannot be used, in the tool's words. */
  readonly problem?: string
}

const fields = [
  'index',
  'uuid',
  'name',
  'memory.total',
  'memory.used',
  'driver_version',
  'compute_mode',
  'mig.mode.current',
]
const newerFields = ['compute_cap', 'ecc.errors.uncorrected.volatile.total']

const run = promisify(execFile)

/**
 * Asks nvidia-smi for every GPU; none when it is not installed. A GPU that fell off the bus is told
 * of beside those that are left.
 * @throws Error with nvidia-smi's own words when it is installed and fails (a driver that does not
 * match, say)
 */
export const listNvidiaGpus = async (program = 'nvidia-smi'): Promise<GpuListing> => {
  try {
    const list = await ask(program, ['-L'])
    return parseGpus(await query(program, list), list)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { gpus: [] }
    throw error
  }
}

/**
 * GPU memory of given processes, utilisation and power of an NVIDIA GPU (or of the GPU around a MIG
 * slice, where those two are not told).
 */
export const nvidiaUse = async (
  uuid: string,
  pids: readonly number[],
  program = 'nvidia-smi',
): Promise<{ memoryMiB?: number; utilization?: number; gpuWatts?: number }> => {
  const whole = uuid.startsWith('MIG-') ? [] : ['-i', uuid]
  const [apps, told] = await Promise.all([
    ask(program, ['--query-compute-apps=pid,used_gpu_memory', ...csv, ...whole]),
    whole.length > 0
      ? ask(program, ['--query-gpu=utilization.gpu,power.draw', ...csv, ...whole])
      : '',
  ])
  // '[N/A]' or '[Not Supported]' where the card does not tell.
  const [utilization, gpuWatts] = told.split(',').map((cell) => finite(Number.parseFloat(cell)))
  return {
    memoryMiB: parseMemoryOf(apps, pids),
    utilization: utilization === undefined ? undefined : utilization / 100,
    gpuWatts,
  }
}

/**
 * @param table `nvidia-smi
 * --query-gpu=index,uuid,name,memory.total,memory.used,driver_version,compute_mode,mig.mode.current[,compute_cap,ecc.errors.uncorrected.volatile.total]
 * --format=csv,noheader,nounits`
 * @param list `nvidia-smi -L`, for the MIG slices
 */
export const parseGpus = (table: string, list: string): GpuListing => {
  const slices = parseMigDevices(list)
  const told = rows(table)
  const gpus = told
    .filter(([, , , memory]) => !lost.test(memory!))
    .map(
      ([index, uuid, name, memory, used, driver, mode, mig, capability, ecc]): GpuFacts => ({
        vendor: 'nvidia',
        index: Number(index),
        uuid: isTold(uuid!) ? uuid! : index!,
        name: name!,
        memoryMiB: finite(Number.parseFloat(memory!)),
        usedMemoryMiB: finite(Number.parseFloat(used!)) ?? 0,
        driver: driver!,
        computeMode: isTold(mode!) ? mode! : 'Default',
        computeCapability: capability,
        eccErrors: finite(Number.parseFloat(ecc ?? '')),
        // '[N/A]' or '[Not Supported]' where the GPU knows no MIG.
        migEnabled: mig === 'Enabled',
        migDevices: slices.get(uuid!) ?? [],
      }),
    )
  const problems = [
    ...[table, list].flatMap(unreachable),
    ...told.flatMap(([index, , name, memory]) =>
      lost.test(memory!) ? [`GPU ${index} (${name}): ${memory}`] : [],
    ),
  ]
  return problems.length === 0 ? { gpus } : { gpus, problem: [...new Set(problems)].join('; ') }
}

/** What stands in the place of a figure that the GPU does not have: '[N/A]', '[Not Supported]'. */
const isTold = (cell: string) => !/^(\[.*\]|N\/A)$/.test(cell)

/** In the place of every figure of a GPU that no longer answers. */
const lost = /^\[?(GPU is lost|GPU requires reset|Unknown Error|ERR!)/i

/**
 * 'Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error', among what is told
 * of the other GPUs.
 */
const unreachable = (text: string): string[] =>
  text
    .split('\n')
    .flatMap((line) =>
      /Unable to determine the device handle/i.test(line)
        ? [line.trim().replace(/\bgpu\b/, 'GPU')]
        : [],
    )

/**
 * Sum over the given pids, MiB; undefined when none of them is listed (in a container nvidia-smi
 * sees other pids than we do).
 */
export const parseMemoryOf = (apps: string, pids: readonly number[]): number | undefined => {
  const own = rows(apps).filter(
    ([pid, memory]) => pids.includes(Number(pid)) && !Number.isNaN(Number(memory)),
  )
  return own.length === 0 ? undefined : own.reduce((sum, [, memory]) => sum + Number(memory), 0)
}

/** GPU uuid → its slices, from `nvidia-smi -L`. */
const parseMigDevices = (list: string): Map<string, MigDevice[]> => {
  const slices = new Map<string, MigDevice[]>()
  let current: MigDevice[] = []
  for (const line of list.split('\n')) {
    const gpu = /^GPU \d+: .*\(UUID: (GPU-[^)]+)\)/.exec(line)
    if (gpu) {
      current = []
      slices.set(gpu[1]!, current)
    }
    const slice = /^\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)/.exec(line)
    if (slice)
      current.push({ uuid: slice[2]!, profile: slice[1]!, memoryMiB: profileMemoryMiB(slice[1]!) })
  }
  return slices
}

/** '1g.5gb', '1c.3g.20gb', '1g.10gb+me' → MiB. */
const profileMemoryMiB = (profile: string): number =>
  Number(/(\d+)gb/.exec(profile)?.[1] ?? 0) * 1024

const finite = (value: number): number | undefined => (Number.isFinite(value) ? value : undefined)

const csv = ['--format=csv,noheader,nounits']

/** @param list of the GPUs that answer: where one does not, some drivers fail a query of all */
const query = async (program: string, list: string): Promise<string> => {
  const indices = [...list.matchAll(/^GPU (\d+): .*\(UUID: /gm)].map(([, index]) => index)
  const which = unreachable(list).length > 0 && indices.length > 0 ? ['-i', indices.join(',')] : []
  try {
    return await ask(program, [
      `--query-gpu=${[...fields, ...newerFields].join(',')}`,
      ...csv,
      ...which,
    ])
  } catch (error) {
    if (!/not a valid field/i.test((error as Error).message)) throw error
    return ask(program, [`--query-gpu=${fields.join(',')}`, ...csv, ...which])
  }
}

const ask = async (program: string, args: readonly string[]): Promise<string> => {
  try {
    const { stdout } = await run(program, args, { timeout: 20_000, killSignal: 'SIGKILL' })
    return stdout
  } catch (error) {
    const { stdout, code } = error as { stdout?: string; code?: string | number }
    if (code === 'ENOENT') throw error
    // It fails for the one GPU that does not answer, and tells of the others all the same.
    if (
      stdout !== undefined &&
      unreachable(stdout).length > 0 &&
      stdout.split('\n').some(tellsOfGpu)
    )
      return stdout
    // nvidia-smi explains itself on stdout.
    throw new Error(`nvidia-smi failed: ${stdout?.trim() || (error as Error).message}`)
  }
}

/** A row of a table, or a line of `-L`. */
const tellsOfGpu = (line: string) => /^\d+, |^GPU \d+: .*\(UUID: /.test(line)

const rows = (table: string): string[][] =>
  table
    .split('\n')
    .filter((line) => /^\s*\d+\s*,/.test(line))
    .map((line) => line.split(',').map((cell) => cell.trim()))
