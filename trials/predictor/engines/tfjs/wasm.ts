/**
 * The WebAssembly backend of TensorFlow.js in Node, with threads.
 *
 * The package disables its threaded build in Node, because it starts workers from blob URLs, which
 * Node does not support (tensorflow/tfjs#3830). The build itself works: here its worker starts from
 * a data URL. XNNPACK's kernels (products of matrices, convolutions, element-wise arithmetic,
 * softmax) use the threads; the others stay on one. Threads synchronise after every kernel. Large
 * kernels on idle cores scale almost linearly; small ones become slower, especially on busy cores.
 */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { BackendWasm, setThreadsCount } from '@tensorflow/tfjs-backend-wasm'
import {
  findBackendFactory,
  fused,
  type Rank,
  registerBackend,
  removeBackend,
  setBackend,
  type Tensor,
  tidy,
  zeros,
} from '@tensorflow/tfjs-core'
import { OutOfMemoryError } from '../../engine.ts'
import type { Pack } from '../../models/weights.ts'
import { registerBatchMatMul } from './batch-matmul.ts'
import { registerGatherRows } from './gather-rows.ts'

const require = createRequire(import.meta.url)
const folder = '@tensorflow/tfjs-backend-wasm/wasm-out'

/** Threads the build can have: it makes this many workers at start. */
export const maxWasmThreads = 8

interface WasmModule {
  cwrap(
    name: string,
    returns: 'number' | null,
    takes: readonly string[],
  ): (...values: number[]) => number
  _malloc(bytes: number): number
  _free(address: number): void
  HEAPU8: Uint8Array
  PThread?: { readonly unusedWorkers: { terminate(): void }[] }
  tfjs?: unknown
}
interface FactoryConfig {
  locateFile?: (file: string, folder: string) => string | URL
  mainScriptUrlOrBlob?: string
  instantiateWasm: (
    imports: WasmImports,
    received: (instance: unknown, module: unknown) => void,
  ) => object
  print: (line: string) => void
  printErr: (line: string) => void
}
interface WasmImports {
  readonly env: Record<string, unknown>
}
/** The used part of Node's WebAssembly, whose types exist only in the browser library. */
const { instantiate: instantiateBinary } = (
  globalThis as unknown as {
    WebAssembly: {
      instantiate(
        bytes: Uint8Array,
        imports: WasmImports,
      ): Promise<{ instance: unknown; module: unknown }>
    }
  }
).WebAssembly
type Factory = (config: FactoryConfig) => Promise<WasmModule>

/** The running backend. */
export interface WasmBackend {
  readonly threads: number
  /**
   * Has XNNPACK make its rearranged copy of a dense layer's weights now, and frees the original:
   * half the memory of a large model.
   */
  readonly pack: Pack
  /**
   * @throws errors of kernels since the last call: kernels only print them, and leave invalid
   * outputs
   */
  check(): void
  close(): void
}

/**
 * Makes WebAssembly with SIMD the backend of this process.
 * @param threads 1 to `maxWasmThreads`
 */
export async function startWasm(threads: number): Promise<WasmBackend> {
  const complaints: string[] = []
  registerBatchMatMul()
  registerGatherRows()
  setThreadsCount(threads)
  if (findBackendFactory('wasm')) preserveListeners(() => removeBackend('wasm'))
  let workers = 1
  let free: (kernel: Tensor) => void = () => undefined
  registerBackend('wasm', async () => {
    const module = await instantiate(threads, (line) => complaints.push(line))
    guardMemory(module)
    const backend = new BackendWasm(module as unknown as BackendWasm['wasm'])
    workers = backend.wasm.tfjs.getThreadsCount()
    // The build makes eight workers, whatever it needs.
    for (const idle of module.PThread?.unusedWorkers.splice(0) ?? []) idle.terminate()
    free = (kernel) => freeValues(kernel, backend, module)
    return backend
  })
  if (!(await setBackend('wasm')))
    throw new Error('the WebAssembly backend of TensorFlow.js did not start')
  if (workers !== threads)
    throw new Error(`asked WebAssembly for ${threads} threads, got ${workers}`)
  return {
    threads,
    pack({ kernel, bias, activation }) {
      tidy(
        () =>
          void fused.matMul({
            a: zeros<Rank.R2>([1, kernel.shape[0]]),
            b: kernel,
            bias,
            activation,
          }),
      )
      free(kernel)
    },
    check() {
      const message = complaints.splice(0).join('; ')
      // XNNPACK's xnn_status_out_of_memory.
      if (/Got status 6/.test(message))
        throw new OutOfMemoryError(`out of memory in WebAssembly, which can use 4 GiB: ${message}`)
      if (/XNN status/.test(message)) throw new Error(`a kernel failed: ${message}`)
    },
    close: () => preserveListeners(() => removeBackend('wasm')),
  }
}

async function instantiate(threads: number, complain: (line: string) => void): Promise<WasmModule> {
  const build = require.resolve(
    threads > 1 ? `${folder}/tfjs-backend-wasm-threaded-simd.js` : `${folder}/tfjs-backend-wasm.js`,
  )
  const binary = require.resolve(
    `${folder}/tfjs-backend-wasm${threads > 1 ? '-threaded' : ''}-simd.wasm`,
  )
  const loaded = require(build) as Factory & { default?: Factory }
  const factory = loaded.default ?? loaded
  const bytes = await readFile(binary)
  const module = await new Promise<WasmModule>((resolve, reject) => {
    const config: FactoryConfig = {
      instantiateWasm(imports, received) {
        // The build uses half of the machine's cores as threads: report twice the configured
        // threads.
        imports.env.emscripten_num_logical_cores = () => 2 * threads
        instantiateBinary(bytes, imports).then(
          ({ instance, module }) => received(instance, module),
          reject,
        )
        return {}
      },
      print: complain,
      printErr: complain,
    }
    if (threads > 1) {
      config.mainScriptUrlOrBlob = build
      config.locateFile = () => createThreadScript()
    }
    preserveListeners(() => factory(config)).then(resolve, reject)
  })
  module.tfjs = {
    init: module.cwrap('init', null, []),
    initWithThreadsCount: module.cwrap('init_with_threads_count', null, ['number']),
    getThreadsCount: module.cwrap('get_threads_count', 'number', []),
    registerTensor: module.cwrap('register_tensor', null, ['number', 'number', 'number']),
    disposeData: module.cwrap('dispose_data', null, ['number']),
    dispose: module.cwrap('dispose', null, []),
  }
  return module
}

/**
 * Restores the process's listeners after a call: the module adds its own, and removes all at its
 * end.
 */
function preserveListeners<T>(call: () => T): T {
  const events = ['uncaughtException', 'unhandledRejection']
  const process: NodeJS.EventEmitter = globalThis.process
  const before = events.map(
    (event) => process.rawListeners(event) as ((...args: unknown[]) => void)[],
  )
  const result = call()
  for (const [i, event] of events.entries()) {
    process.removeAllListeners(event)
    for (const listener of before[i]!) process.on(event, listener)
  }
  return result
}

/** URL of the package's worker script, which it contains as a string. */
function createThreadScript(): URL {
  const path = require.resolve(`${folder}/tfjs-backend-wasm-threaded-simd.worker.js`)
  const code = `import { createRequire } from 'node:module'
const path = ${JSON.stringify(path)}
const require = createRequire(path)
const code = require(path).wasmWorkerContents.replace(/\\n/g, '\\\\n')
new Function('require', '__filename', code)(require, path)`
  return new URL(`data:text/javascript,${encodeURIComponent(code)}`)
}

/**
 * Frees a tensor's values but keeps the tensor, by whose id XNNPACK finds its packed copy. The
 * values must not be read again. Disposing of the tensor then frees address 0, a no-op, and the
 * copy.
 */
function freeValues(tensor: Tensor, backend: BackendWasm, module: WasmModule): void {
  const data = backend.dataIdMap.get(tensor.dataId)
  module._free(data.memoryOffset)
  data.memoryOffset = 0
}

/** The backend takes an address of 0, which means no memory, for a good one. */
function guardMemory(module: WasmModule): void {
  // The first call puts the real function in its own place; it must not take the guard's.
  module._free(module._malloc(1))
  const allocate = module._malloc
  module._malloc = (bytes) => {
    // Beyond 32 bits the number would wrap round.
    const address = bytes < 2 ** 32 ? allocate(bytes) : 0
    if (address === 0 && bytes > 0)
      throw new OutOfMemoryError(
        `out of memory: no room for ${Math.ceil(bytes / 2 ** 20)} MiB in addition to ${Math.ceil(module.HEAPU8.length / 2 ** 20)} MiB; WebAssembly can use 4096 MiB`,
      )
    return address
  }
}
