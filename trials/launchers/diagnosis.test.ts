import { describe, expect, test } from 'vitest'
import { diagnose } from './diagnosis.ts'

const exit = (code: number | null, signal: NodeJS.Signals | null = null) => ({ code, signal })
const kindOf = (log: string, ended = exit(1), killed: boolean | undefined = false) =>
  diagnose(ended, log, killed).kind

describe('out of memory', () => {
  test.each([
    'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.58 GiB',
    'tensorflow/core/framework: OOM when allocating tensor with shape[64,512,768] on /GPU:0',
    'failed to allocate 2.20G (2363752448 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory',
    'ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory',
    'onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 1073741824',
    'jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.',
    "terminate called after throwing an instance of 'std::bad_alloc'",
    'MemoryError: Unable to allocate 30.0 GiB for an array with shape (4000000000,)',
    'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory',
    'java.lang.OutOfMemoryError: Java heap space',
    'OSError: [Errno 12] Cannot allocate memory',
  ])('%s', (line) => expect(kindOf(`loading\n${line}\nbye`)).toBe('out-of-memory'))

  test('killed by the kernel for it, whoever of the group was', () => {
    expect(kindOf('', exit(null, 'SIGKILL'), true)).toBe('out-of-memory')
    expect(kindOf('', exit(137), true)).toBe('out-of-memory')
  })
  test('a kill nobody here sent, where the kernel does not count', () => {
    expect(diagnose(exit(null, 'SIGKILL'), '', undefined).kind).toBe('out-of-memory')
  })
  test('but a crash while some other process was killed for it is a crash', () => {
    expect(kindOf('Segmentation fault', exit(null, 'SIGSEGV'), true)).toBe('crashed')
  })
})

test.each([
  ['Error: listen EADDRINUSE: address already in use 127.0.0.1:8000', 'port-taken'],
  ["[ERROR] Connection in use: ('127.0.0.1', 8000)", 'port-taken'],
  ["ModuleNotFoundError: No module named 'flask'", 'missing'],
  ["Error: Cannot find module 'express'", 'missing'],
  ['tritonserver: error while loading shared libraries: libdcgm.so.3', 'missing'],
  ['RuntimeError: No CUDA GPUs are available', 'no-gpu'],
  ['CUDA error: no kernel image is available for execution on the device', 'no-gpu'],
  ['CUDA error: the provided PTX was compiled with an unsupported toolchain.', 'no-gpu'],
  ['RuntimeError: CUDA driver version is insufficient for CUDA runtime version', 'no-gpu'],
  ['AssertionError: batch size must be positive', 'crashed'],
  ['', 'crashed'],
])('%s is %s', (log, kind) => expect(kindOf(log)).toBe(kind))

test('a kill with no want of memory came from outside', () =>
  expect(kindOf('', exit(null, 'SIGKILL'))).toBe('killed'))
test('a module that a server can do without is not what ended it', () => {
  const log = `ImportError: no accelerator, going on without\n${'loading\n'.repeat(20)}ValueError: batch size`
  expect(kindOf(log)).toBe('crashed')
})
test('a shell’s "not found"', () => expect(kindOf('', exit(127))).toBe('missing'))
test('a predictor’s own exit codes go first', () => {
  expect(diagnose(exit(12), 'address already in use', false, { 12: 'out-of-memory' }).kind).toBe(
    'out-of-memory',
  )
})
test('one that still runs has no exit, and may be out of memory', () => {
  expect(diagnose(undefined, 'CUDA out of memory', false).kind).toBe('out-of-memory')
  expect(diagnose(undefined, 'loading', false)).toEqual({
    kind: 'crashed',
    evidence: 'still running',
  })
})
