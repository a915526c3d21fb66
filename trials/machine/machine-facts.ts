/**
 * What this machine can do for local trials: cores, memory, control groups, GPUs, optional
 * packages.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus, homedir, totalmem } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { readAllowedCores } from '../../profiler/load/cpu-affinity.ts'
import { plainCi } from '../predictor/llm/gguf/gguf-knobs.ts'
import { type CgroupFacts, inspectCgroups } from './cgroups.ts'
import { type GpuFacts, listNvidiaGpus } from './nvidia-smi.ts'
import { programIn } from './programs.ts'
import { listAmdGpus } from './rocm-smi.ts'
import { visibleGpus } from './visible-gpus.ts'

export interface MachineFacts {
  readonly platform: NodeJS.Platform
  readonly cpuModel: string
  /** Cores (hardware threads) that are online. */
  readonly cores: number
  /** Those this process may run on, by number, ascending. */
  readonly affinity: readonly number[]
  readonly memoryMiB: number
  readonly availableMemoryMiB: number
  readonly cgroups: CgroupFacts
  /** Path of taskset(1), which holds a predictor to its cores; undefined: not installed. */
  readonly taskset?: string
  readonly gpus: readonly GpuFacts[]
  /**
   * Why a GPU that is there is not among them: the words of nvidia-smi or rocm-smi, that neither
   * tells of a card on the bus, or the variable that hides it.
   */
  readonly gpuProblem?: string
  /** A CUDA MPS control daemon runs: processes may share a GPU with limits. */
  readonly mps: boolean
  readonly packages: readonly PackageFacts[]
  /**
   * Where a cluster's address was found: KUBECONFIG, ~/.kube/config or the pod we run in. Not
   * whether it answers.
   */
  readonly cluster?: string
}

/** An optional package: absent, importable, or there and broken. */
type PackageFacts = { readonly name: string; readonly gives: string } & (
  | { readonly state: 'absent' }
  | {
      readonly state: 'ok'
      readonly version: string /** Why it cannot use an NVIDIA GPU; absent: it can. */
      readonly gpuProblem?: string
    }
  | { readonly state: 'broken'; readonly version: string; readonly problem: string }
)

const optionalPackages = [
  { name: '@tensorflow/tfjs-node-gpu', gives: 'models on an NVIDIA GPU' },
  { name: 'onnxruntime-node', gives: 'ONNX models' },
  { name: 'node-llama-cpp', gives: 'GGUF language models' },
]

/**
 * Looks at the machine. Takes milliseconds; with GPUs or optional packages a second or two. Never
 * throws for something that is missing.
 */
export const inspectMachine = async (): Promise<MachineFacts> => {
  const [{ gpus, gpuProblem }, packages] = await Promise.all([
    gpusOrProblem(),
    Promise.all(optionalPackages.map(inspectPackage)),
  ])
  return {
    platform: process.platform,
    cpuModel: cpus()[0]?.model.trim() || 'unknown CPU',
    cores: cpus().length,
    affinity: affinity(),
    memoryMiB: Math.round(totalmem() / 2 ** 20),
    availableMemoryMiB: availableMemoryMiB(),
    cgroups: inspectCgroups(),
    taskset: onPath('taskset'),
    gpus,
    gpuProblem,
    mps: existsSync(join(process.env.CUDA_MPS_PIPE_DIRECTORY ?? '/tmp/nvidia-mps', 'control')),
    packages,
    cluster: cluster(),
  }
}

const affinity = (): number[] => {
  const allowed = readAllowedCores(process.pid)
  return allowed.length > 0
    ? allowed
    : Array.from({ length: availableParallelism() }, (_, core) => core)
}

const availableMemoryMiB = (): number =>
  Math.round((process.availableMemory?.() ?? totalmem()) / 2 ** 20)

const gpusOrProblem = async (): Promise<Pick<MachineFacts, 'gpus' | 'gpuProblem'>> => {
  const asked = await Promise.allSettled([listNvidiaGpus(), listAmdGpus()])
  const found = asked.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value.gpus : []))
  const { gpus, problem: hidden } = visibleGpus(found, process.env)
  const told = asked.flatMap((answer) =>
    answer.status === 'rejected' ? (answer.reason as Error).message : (answer.value.problem ?? []),
  )
  const problem =
    [...told, ...(hidden === undefined ? [] : [hidden])].join('; ') ||
    (found.length === 0 ? cardsWithoutTool() : undefined)
  return problem === undefined ? { gpus } : { gpus, gpuProblem: problem }
}

/**
 * PCI classes: 0x03 displays (0x0302 3D, 0x0380 other), 0x12 processing accelerators. AMD's 0x0300
 * are graphics beside a CPU, mostly.
 */
const cardMakers: Readonly<Record<string, { readonly classes: RegExp; readonly missing: string }>> =
  {
    '0x10de': {
      classes: /^0x(03|12)/,
      missing:
        'an NVIDIA card is installed, but nvidia-smi does not report it: install the NVIDIA driver',
    },
    '0x1002': {
      classes: /^0x(0380|12)/,
      missing: 'an AMD card is installed, but rocm-smi does not report it: install ROCm',
    },
  }

/**
 * What is missing for cards on the bus that no tool told of.
 * @param root of PCI devices
 */
export const cardsWithoutTool = (root = '/sys/bus/pci/devices'): string | undefined => {
  if (!existsSync(root)) return undefined
  const read = (device: string, file: string) => {
    const path = join(root, device, file)
    return existsSync(path) ? readFileSync(path, 'utf8').trim() : ''
  }
  const missing = readdirSync(root).flatMap((device) => {
    const maker = cardMakers[read(device, 'vendor')]
    return maker?.classes.test(read(device, 'class')) ? [maker.missing] : []
  })
  return missing.length === 0 ? undefined : [...new Set(missing)].join('; ')
}

/**
 * Imports the package in a process of its own: native parts fail at import, and some take seconds
 * or end the process.
 */
const inspectPackage = async ({
  name,
  gives,
}: (typeof optionalPackages)[number]): Promise<PackageFacts> => {
  const manifest = packageManifest(name)
  if (manifest === undefined) return { name, gives, state: 'absent' }
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  try {
    const folder = dirname(fileURLToPath(import.meta.url))
    const script = `await import(${JSON.stringify(name)})`
    await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: folder,
      env: { ...process.env, CI: plainCi(process.env.CI) },
      timeout: 30_000,
      killSignal: 'SIGKILL',
    })
    return {
      name,
      gives,
      state: 'ok',
      version,
      ...(name === 'onnxruntime-node' && onnxGpuProblem(dirname(manifest))),
    }
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string }
    const lines = (stderr || message).split('\n')
    // An excerpt of the source that threw stands above what it said.
    const problem =
      lines.find((line) => /^\w*Error\b.*:/.test(line)) ??
      lines.find((line) => /Error|error:/.test(line)) ??
      message
    return { name, gives, state: 'broken', version, problem: problem.trim() }
  }
}

/**
 * The CUDA provider is no part of the package: its install script fetches it where it finds a CUDA
 * toolkit, or is told to.
 */
const onnxGpuProblem = (folder: string): { gpuProblem?: string } =>
  existsSync(
    join(
      folder,
      'bin',
      'napi-v6',
      process.platform,
      process.arch,
      'libonnxruntime_providers_cuda.so',
    ),
  )
    ? {}
    : { gpuProblem: 'its CUDA provider is not installed' }

const packageManifest = (name: string): string | undefined =>
  createRequire(import.meta.url)
    .resolve.paths(name)
    ?.map((folder) => join(folder, name, 'package.json'))
    .find(existsSync)

const onPath = (program: string): string | undefined =>
  programIn(
    (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== ''),
    program,
  )

const cluster = (): string | undefined => {
  const named = process.env.KUBECONFIG?.split(delimiter).find(existsSync)
  if (named !== undefined) return `KUBECONFIG=${named}`
  const home = join(homedir(), '.kube', 'config')
  if (existsSync(home)) return home
  return process.env.KUBERNETES_SERVICE_HOST === undefined
    ? undefined
    : 'this pod’s service account'
}
