/**
 * Why a predictor ended: out of memory, port taken, something missing on this machine, or a crash.
 */
import { readFileSync } from 'node:fs'

/** End of the first process of a predictor. */
export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export type Cause =
  | { readonly kind: 'out-of-memory'; readonly evidence: string }
  | { readonly kind: 'no-gpu'; readonly evidence: string }
  | { readonly kind: 'port-taken'; readonly evidence: string }
  | { readonly kind: 'missing'; readonly evidence: string }
  | { readonly kind: 'misconfigured'; readonly evidence: string }
  | { readonly kind: 'killed'; readonly evidence: string }
  | { readonly kind: 'crashed'; readonly evidence: string }

/**
 * Lines that servers, runtimes and drivers print when memory runs out, observed in these products.
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
/** The lines among them that can only mean GPU memory, and those of the emulated engine. */
const gpuMemoryLines = [
  /(CUDA|HIP) out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|cudaMalloc failed: out of memory/i,
  /failed to allocate memory on (the )?device|OOM when allocating tensor.*GPU/i,
  /MiB of GPU memory/,
]

/** Whether the evidence of an out-of-memory end names GPU memory; if not, it may be either. */
export const isGpuOutOfMemory = (detail: string): boolean =>
  gpuMemoryLines.some((pattern) => pattern.test(detail))

const noGpuLines = [
  /no CUDA-capable device is detected/i,
  /CUDA_ERROR_NO_DEVICE/,
  /No CUDA GPUs are available/i,
  // Built for other GPUs, or for a newer driver.
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
 * @param causesByCode meanings of the predictor's own exit codes
 * @param killedForMemory whether the kernel ended a process because memory ran out; undefined if
 * the kernel does not report it
 */
export const diagnose = (
  exit: Exit | undefined,
  log: string,
  killedForMemory: boolean | undefined,
  causesByCode: Readonly<Record<number, Cause['kind']>> = {},
): Cause => {
  const killed = exit !== undefined && (exit.signal === 'SIGKILL' || exit.code === 137)
  const how = exit ? describeExit(exit) : 'still running'
  const find = (patterns: readonly RegExp[], text = log) =>
    patterns.map((pattern) => findLine(text, pattern)).find((line) => line !== undefined)
  const meant = causesByCode[exit?.code ?? 0]
  if (meant !== undefined) return { kind: meant, evidence: how }
  if (killed && killedForMemory)
    return {
      kind: 'out-of-memory',
      evidence: `${how}: the kernel killed it because memory ran out`,
    }
  const outOfMemory = find(outOfMemoryLines)
  if (outOfMemory !== undefined) return { kind: 'out-of-memory', evidence: outOfMemory }
  // A kernel that does not count its kills: most kills that tune did not send are for memory.
  if (killed && killedForMemory === undefined)
    return { kind: 'out-of-memory', evidence: `${how}, which tune did not send` }
  const noGpu = find(noGpuLines)
  if (noGpu !== undefined) return { kind: 'no-gpu', evidence: noGpu }
  if (exit === undefined) return { kind: 'crashed', evidence: how }
  const portTaken = find(portTakenLines)
  if (portTaken !== undefined) return { kind: 'port-taken', evidence: portTaken }
  // Servers also report optional modules as missing; the fatal one is at the end.
  const missing = find(missingLines, getLastLines(log, 12))
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
 * Watches, from now on, whether the kernel ends processes because memory ran out, on the machine or
 * in any control group. The result returns undefined if the kernel does not report it.
 */
export const watchMemoryKills = (): (() => boolean | undefined) => {
  const before = countMemoryKills()
  return () => {
    const now = countMemoryKills()
    return now === undefined || before === undefined ? undefined : now > before
  }
}

/** Since boot. */
const countMemoryKills = (): number | undefined => {
  try {
    const count = /^oom_kill (\d+)$/m.exec(readFileSync('/proc/vmstat', 'utf8'))?.[1]
    return count === undefined ? undefined : Number(count)
  } catch {
    // No /proc: not Linux.
    return undefined
  }
}

const getLastLines = (log: string, lines: number) =>
  log.trimEnd().split('\n').slice(-lines).join('\n')

const findLine = (log: string, pattern: RegExp): string | undefined =>
  log
    .split('\n')
    .find((line) => pattern.test(line))
    ?.trim()
    .slice(0, 300)

/** Whether the log reports that the port is in use; the predictor may still run and retry. */
export const reportsTakenPort = (log: string): boolean =>
  portTakenLines.some((pattern) => pattern.test(log))
