/**
 * Resources of this machine for local trials: cores, memory, control groups, GPUs, optional
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
import { normaliseCiVariable } from '../predictor/llm/gguf/gguf-knobs.ts'
import { type CgroupFacts, inspectCgroups } from './cgroups.ts'
import { type GpuFacts, listNvidiaGpus } from './nvidia-smi.ts'
import { findProgram } from './programs.ts'
import { listAmdGpus } from './rocm-smi.ts'
import { selectVisibleGpus } from './visible-gpus.ts'

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
  /** Path of taskset(1), which pins a predictor to its cores; undefined if not installed. */
  readonly taskset?: string
  readonly gpus: readonly GpuFacts[]
  /**
   * Why an existing GPU is missing: the error of nvidia-smi or rocm-smi, a card on the bus that
   * neither lists, or the variable that hides it.
   */
  readonly gpuProblem?: string
  /** A CUDA MPS control daemon runs: processes may share a GPU with limits. */
  readonly mps: boolean
  readonly packages: readonly PackageFacts[]
  /**
   * Source of a cluster's address: KUBECONFIG, ~/.kube/config or the pod we run in. The cluster may
   * not answer.
   */
  readonly cluster?: string
}

/** An optional package: absent, importable, or broken. */
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
    listGpusOrProblem(),
    Promise.all(optionalPackages.map(inspectPackage)),
  ])
  return {
    platform: process.platform,
    cpuModel: cpus()[0]?.model.trim() || 'unknown CPU',
    cores: cpus().length,
    affinity: readAffinity(),
    memoryMiB: Math.round(totalmem() / 2 ** 20),
    availableMemoryMiB: readAvailableMemoryMiB(),
    cgroups: inspectCgroups(),
    taskset: findOnPath('taskset'),
    gpus,
    gpuProblem,
    mps: existsSync(join(process.env.CUDA_MPS_PIPE_DIRECTORY ?? '/tmp/nvidia-mps', 'control')),
    packages,
    cluster: findCluster(),
  }
}

const readAffinity = (): number[] => {
  const allowed = readAllowedCores(process.pid)
  return allowed.length > 0
    ? allowed
    : Array.from({ length: availableParallelism() }, (_, core) => core)
}

const readAvailableMemoryMiB = (): number =>
  Math.round((process.availableMemory?.() ?? totalmem()) / 2 ** 20)

const listGpusOrProblem = async (): Promise<Pick<MachineFacts, 'gpus' | 'gpuProblem'>> => {
  const results = await Promise.allSettled([listNvidiaGpus(), listAmdGpus()])
  const found = results.flatMap((answer) =>
    answer.status === 'fulfilled' ? answer.value.gpus : [],
  )
  const { gpus, problem: hidden } = selectVisibleGpus(found, process.env)
  const told = results.flatMap((answer) =>
    answer.status === 'rejected' ? (answer.reason as Error).message : (answer.value.problem ?? []),
  )
  const problem =
    [...told, ...(hidden === undefined ? [] : [hidden])].join('; ') ||
    (found.length === 0 ? findCardsWithoutTool() : undefined)
  return problem === undefined ? { gpus } : { gpus, gpuProblem: problem }
}

/**
 * PCI classes: 0x03 displays (0x0302 3D, 0x0380 other), 0x12 processing accelerators. AMD's 0x0300
 * are mostly integrated graphics.
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
 * What is missing for cards on the bus that no tool lists.
 * @param root folder of PCI devices
 */
export const findCardsWithoutTool = (root = '/sys/bus/pci/devices'): string | undefined => {
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
 * Imports the package in a separate process: native parts fail at import, and some take seconds or
 * end the process.
 */
const inspectPackage = async ({
  name,
  gives,
}: (typeof optionalPackages)[number]): Promise<PackageFacts> => {
  const manifest = readPackageManifest(name)
  if (manifest === undefined) return { name, gives, state: 'absent' }
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }
  try {
    const folder = dirname(fileURLToPath(import.meta.url))
    const script = `await import(${JSON.stringify(name)})`
    await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: folder,
      env: { ...process.env, CI: normaliseCiVariable(process.env.CI) },
      timeout: 30_000,
      killSignal: 'SIGKILL',
    })
    return {
      name,
      gives,
      state: 'ok',
      version,
      ...(name === 'onnxruntime-node' && findOnnxGpuProblem(dirname(manifest))),
    }
  } catch (error) {
    const { stderr, message } = error as { stderr?: string; message: string }
    const lines = (stderr || message).split('\n')
    // Skip the source excerpt above the message.
    const problem =
      lines.find((line) => /^\w*Error\b.*:/.test(line)) ??
      lines.find((line) => /Error|error:/.test(line)) ??
      message
    return { name, gives, state: 'broken', version, problem: problem.trim() }
  }
}

/**
 * The CUDA provider is not in the package: its install script downloads it if it finds a CUDA
 * toolkit, or on request.
 */
const findOnnxGpuProblem = (folder: string): { gpuProblem?: string } =>
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

const readPackageManifest = (name: string): string | undefined =>
  createRequire(import.meta.url)
    .resolve.paths(name)
    ?.map((folder) => join(folder, name, 'package.json'))
    .find(existsSync)

const findOnPath = (program: string): string | undefined =>
  findProgram(
    (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== ''),
    program,
  )

const findCluster = (): string | undefined => {
  const named = process.env.KUBECONFIG?.split(delimiter).find(existsSync)
  if (named !== undefined) return `KUBECONFIG=${named}`
  const home = join(homedir(), '.kube', 'config')
  if (existsSync(home)) return home
  return process.env.KUBERNETES_SERVICE_HOST === undefined
    ? undefined
    : 'this pod’s service account'
}
