/**
 * Reads the GPUs of this machine from nvidia-smi. Parsing is separate, and tested on outputs of
 * several GPUs.
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
  /** Index in the vendor's tools, and in its runtimes unless `ordinal` differs. */
  readonly index: number
  /** Index in AMD's runtime if ROCR_VISIBLE_DEVICES limits it to a part of the GPUs. */
  readonly ordinal?: number
  readonly uuid: string
  /**
   * Name in AMD's runtimes: 'GPU-' and 16 hexadecimal digits, the same for the dies of one
   * package; undefined if it has none.
   */
  readonly runtimeUuid?: string
  /** Name in the driver, e.g. 'Tesla T4', 'NVIDIA A100-SXM4-40GB'. */
  readonly name: string
  /** Undefined if not reported ('[N/A]' for a GB10, which shares the machine's memory). */
  readonly memoryMiB?: number
  /** Memory used by all processes at the start; 0 if not reported. */
  readonly usedMemoryMiB: number
  readonly driver: string
  /** 'Default', 'Exclusive_Process' or 'Prohibited'; AMD's is always 'Default'. */
  readonly computeMode: string
  /** e.g. '7.5'; undefined for drivers before 510. */
  readonly computeCapability?: string
  /**
   * Uncorrected errors of its memory since the driver was loaded; undefined if it has no ECC, or
   * it is off.
   */
  readonly eccErrors?: number
  readonly migEnabled: boolean
  readonly migDevices: readonly MigDevice[]
}

/** GPUs that a vendor's tool lists. */
export interface GpuListing {
  readonly gpus: readonly GpuFacts[]
  /** The tool's message about unusable GPUs. */
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
 * Lists every GPU by nvidia-smi; empty if it is not installed. A GPU that fell off the bus is
 * reported with the others.
 * @throws Error with nvidia-smi's message if it fails (for example for a driver mismatch)
 */
export const listNvidiaGpus = async (program = 'nvidia-smi'): Promise<GpuListing> => {
  try {
    const list = await runProgram(program, ['-L'])
    return parseGpus(await query(program, list), list)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { gpus: [] }
    throw error
  }
}

/**
 * GPU memory of given processes, utilisation and power of an NVIDIA GPU (for a MIG slice, of its
 * GPU, which reports neither).
 */
export const readNvidiaUse = async (
  uuid: string,
  pids: readonly number[],
  program = 'nvidia-smi',
): Promise<{ memoryMiB?: number; utilization?: number; gpuWatts?: number }> => {
  const whole = uuid.startsWith('MIG-') ? [] : ['-i', uuid]
  const [apps, told] = await Promise.all([
    runProgram(program, ['--query-compute-apps=pid,used_gpu_memory', ...csv, ...whole]),
    whole.length > 0
      ? runProgram(program, ['--query-gpu=utilization.gpu,power.draw', ...csv, ...whole])
      : '',
  ])
  // '[N/A]' or '[Not Supported]' if the card does not report it.
  const [utilization, gpuWatts] = told.split(',').map((cell) => keepFinite(Number.parseFloat(cell)))
  return {
    memoryMiB: parseProcessMemoryMiB(apps, pids),
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
  const told = parseRows(table)
  const gpus = told
    .filter(([, , , memory]) => !lost.test(memory!))
    .map(
      ([index, uuid, name, memory, used, driver, mode, mig, capability, ecc]): GpuFacts => ({
        vendor: 'nvidia',
        index: Number(index),
        uuid: isTold(uuid!) ? uuid! : index!,
        name: name!,
        memoryMiB: keepFinite(Number.parseFloat(memory!)),
        usedMemoryMiB: keepFinite(Number.parseFloat(used!)) ?? 0,
        driver: driver!,
        computeMode: isTold(mode!) ? mode! : 'Default',
        computeCapability: capability,
        eccErrors: keepFinite(Number.parseFloat(ecc ?? '')),
        // '[N/A]' or '[Not Supported]' where the GPU knows no MIG.
        migEnabled: mig === 'Enabled',
        migDevices: slices.get(uuid!) ?? [],
      }),
    )
  const problems = [
    ...[table, list].flatMap(listUnreachable),
    ...told.flatMap(([index, , name, memory]) =>
      lost.test(memory!) ? [`GPU ${index} (${name}): ${memory}`] : [],
    ),
  ]
  return problems.length === 0 ? { gpus } : { gpus, problem: [...new Set(problems)].join('; ') }
}

/** Placeholders for unsupported figures: '[N/A]', '[Not Supported]'. */
const isTold = (cell: string) => !/^(\[.*\]|N\/A)$/.test(cell)

/** Text in place of every figure of a GPU that no longer answers. */
const lost = /^\[?(GPU is lost|GPU requires reset|Unknown Error|ERR!)/i

/**
 * Errors such as 'Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error' within
 * the output for other GPUs.
 */
const listUnreachable = (text: string): string[] =>
  text
    .split('\n')
    .flatMap((line) =>
      /Unable to determine the device handle/i.test(line)
        ? [line.trim().replace(/\bgpu\b/, 'GPU')]
        : [],
    )

/**
 * Sum over the given pids, MiB; undefined if none is listed (in a container, nvidia-smi lists the
 * host's pids).
 */
export const parseProcessMemoryMiB = (
  apps: string,
  pids: readonly number[],
): number | undefined => {
  const own = parseRows(apps).filter(
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
      current.push({
        uuid: slice[2]!,
        profile: slice[1]!,
        memoryMiB: parseProfileMemoryMiB(slice[1]!),
      })
  }
  return slices
}

/** '1g.5gb', '1c.3g.20gb', '1g.10gb+me' → MiB. */
const parseProfileMemoryMiB = (profile: string): number =>
  Number(/(\d+)gb/.exec(profile)?.[1] ?? 0) * 1024

const keepFinite = (value: number): number | undefined =>
  Number.isFinite(value) ? value : undefined

const csv = ['--format=csv,noheader,nounits']

/** @param list of the GPUs that answer: where one does not, some drivers fail a query of all */
const query = async (program: string, list: string): Promise<string> => {
  const indices = [...list.matchAll(/^GPU (\d+): .*\(UUID: /gm)].map(([, index]) => index)
  const which =
    listUnreachable(list).length > 0 && indices.length > 0 ? ['-i', indices.join(',')] : []
  try {
    return await runProgram(program, [
      `--query-gpu=${[...fields, ...newerFields].join(',')}`,
      ...csv,
      ...which,
    ])
  } catch (error) {
    if (!/not a valid field/i.test((error as Error).message)) throw error
    return runProgram(program, [`--query-gpu=${fields.join(',')}`, ...csv, ...which])
  }
}

const runProgram = async (program: string, args: readonly string[]): Promise<string> => {
  try {
    const { stdout } = await run(program, args, { timeout: 20_000, killSignal: 'SIGKILL' })
    return stdout
  } catch (error) {
    const { stdout, code } = error as { stdout?: string; code?: string | number }
    if (code === 'ENOENT') throw error
    // It fails if one GPU does not answer, but still lists the others.
    if (
      stdout !== undefined &&
      listUnreachable(stdout).length > 0 &&
      stdout.split('\n').some(isGpuLine)
    )
      return stdout
    // nvidia-smi explains itself on stdout.
    throw new Error(`nvidia-smi failed: ${stdout?.trim() || (error as Error).message}`)
  }
}

/** A row of a table, or a line of `-L`. */
const isGpuLine = (line: string) => /^\d+, |^GPU \d+: .*\(UUID: /.test(line)

const parseRows = (table: string): string[][] =>
  table
    .split('\n')
    .filter((line) => /^\s*\d+\s*,/.test(line))
    .map((line) => line.split(',').map((cell) => cell.trim()))
