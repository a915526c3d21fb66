/**
 * Why a predictor ended: out of memory, port taken, something missing on this machine, or a crash.
 */
import { readFileSync } from 'node:fs'
import type { Exit } from './local/process-group.ts'

export type Cause =
  | { readonly kind: 'out-of-memory'; readonly evidence: string }
  | { readonly kind: 'no-gpu'; readonly evidence: string }
  | { readonly kind: 'port-taken'; readonly evidence: string }
  | { readonly kind: 'missing'; readonly evidence: string }
  | { readonly kind: 'misconfigured'; readonly evidence: string }
  | { readonly kind: 'killed'; readonly evidence: string }
  | { readonly kind: 'crashed'; readonly evidence: string }

/**
 * Lines that servers, runtimes and drivers write when memory ends. Each was seen in the product
 * named.
 */
const outOfMemoryLines = [
  /CUDA out of memory/i, // PyTorch
  /CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation/, // TensorFlow, CUDA
  /cudaMalloc failed: out of memory|failed to allocate memory on (the )?device/i, // llama.cpp, Triton
  /OOM when allocating tensor|RESOURCE_EXHAUSTED.*(memory|allocat)/i, // TensorFlow, XLA
  /Failed to allocate memory for requested buffer/i, // onnxruntime
  /std::bad_alloc/,
  /^MemoryError\b|numpy.*_ArrayMemoryError/m,
  /JavaScript heap out of memory/,
  /java\.lang\.OutOfMemoryError/,
  /Cannot allocate memory|ENOMEM/,
  /\bout of memory\b/i,
]
/** Those of them, and of the emulated engine's, that can only be the GPU's. */
const gpuMemoryLines = [
  /(CUDA|HIP) out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|cudaMalloc failed: out of memory/i,
  /failed to allocate memory on (the )?device|OOM when allocating tensor.*GPU/i,
  /MiB of GPU memory/,
]

/**
 * What an end for want of memory says of itself tells that it was the GPU's; where it does not, it
 * may have been the machine's.
 */
export const lacksGpuMemory = (detail: string): boolean =>
  gpuMemoryLines.some((pattern) => pattern.test(detail))

const noGpuLines = [
  /no CUDA-capable device is detected/i,
  /CUDA_ERROR_NO_DEVICE/,
  /No CUDA GPUs are available/i,
  // Code that was built for other GPUs, or for a newer driver.
  /no kernel image is available for execution on the device|CUDA_ERROR_NO_BINARY_FOR_GPU/i,
  /PTX was compiled with an unsupported toolchain|UNSUPPORTED_PTX_VERSION|cudaErrorUnsupportedPtxVersion/i,
  /CUDA driver version is insufficient for CUDA runtime version|cudaErrorInsufficientDriver/i,
]
const portTakenLines = [/EADDRINUSE/, /address already in use/i, /Connection in use: \(/] // the last is gunicorn's
const missingLines = [
  /ModuleNotFoundError: .*/,
  /ImportError: .*/,
  /Cannot find (module|package) .*/,
  /error while loading shared libraries: .*/,
  /: command not found/,
]

/**
 * @param log the end of the predictor's output
 * @param known what the predictor's own exit codes mean
 * @param killedForMemory the kernel ended a process for want of memory meanwhile; undefined where
 * the kernel does not tell
 */
export const diagnose = (
  exit: Exit | undefined,
  log: string,
  killedForMemory: boolean | undefined,
  known: Readonly<Record<number, Cause['kind']>> = {},
): Cause => {
  const killed = exit !== undefined && (exit.signal === 'SIGKILL' || exit.code === 137)
  const how = exit ? describeExit(exit) : 'still running'
  const find = (patterns: readonly RegExp[], text = log) =>
    patterns.map((pattern) => lineWith(text, pattern)).find((line) => line !== undefined)
  const meant = known[exit?.code ?? 0]
  if (meant !== undefined) return { kind: meant, evidence: how }
  if (killed && killedForMemory)
    return {
      kind: 'out-of-memory',
      evidence: `${how}: the kernel killed it because memory ran out`,
    }
  const outOfMemory = find(outOfMemoryLines)
  if (outOfMemory !== undefined) return { kind: 'out-of-memory', evidence: outOfMemory }
  // A kernel that does not count its kills: most kills that nobody here sent are for memory.
  if (killed && killedForMemory === undefined)
    return { kind: 'out-of-memory', evidence: `${how}, which tune did not send` }
  const noGpu = find(noGpuLines)
  if (noGpu !== undefined) return { kind: 'no-gpu', evidence: noGpu }
  if (exit === undefined) return { kind: 'crashed', evidence: how }
  const portTaken = find(portTakenLines)
  if (portTaken !== undefined) return { kind: 'port-taken', evidence: portTaken }
  // Servers also say so of what they can do without: what ends them stands at the end.
  const missing = find(missingLines, lastLinesOf(log, 12))
  if (missing !== undefined || exit.code === 127 || exit.code === 126)
    return { kind: 'missing', evidence: missing ?? how }
  if (killed || exit.signal === 'SIGTERM')
    return { kind: 'killed', evidence: `${how}, sent by another program` }
  return { kind: 'crashed', evidence: how }
}

export const describeExit = ({ code, signal }: Exit): string => {
  if (signal !== null) return `ended by ${signal}`
  if (code === null) return 'never started'
  return code > 128 && code < 160 ? `exit code ${code} (signal ${code - 128})` : `exit code ${code}`
}

/**
 * Processes that the kernel ended for want of memory since boot, on the machine or in any control
 * group; undefined where it does not tell.
 */
export const memoryKills = (): number | undefined => {
  try {
    const count = /^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'utf8'))?.[1]
    return count === undefined ? undefined : Number(count)
  } catch {
    // No /proc: not Linux.
    return undefined
  }
}

const lastLinesOf = (log: string, lines: number) =>
  log.trimEnd().split('\n').slice(-lines).join('\n')

const lineWith = (log: string, pattern: RegExp): string | undefined =>
  log
    .split('\n')
    .find((line) => pattern.test(line))
    ?.trim()
    .slice(0, 300)

/**
 * The port is another server's, in the predictor's own words; it may still be running and trying.
 */
export const saysPortTaken = (log: string): boolean =>
  portTakenLines.some((pattern) => pattern.test(log))
