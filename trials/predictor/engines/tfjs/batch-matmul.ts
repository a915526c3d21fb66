/**
 * Batched matrix products on the WebAssembly backend, at XNNPACK's speed.
 *
 * The backend gives XNNPACK only a single pair of matrices and multiplies batches in a scalar loop:
 * 2 GFLOP/s where XNNPACK does 25. Attention needs one for each head of each item. This kernel
 * passes the pairs to XNNPACK one by one, as views into the batch.
 */
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm'
import {
  type BatchMatMulAttrs,
  getKernel,
  type KernelFunc,
  registerKernel,
  type TensorInfo,
  Transpose,
  unregisterKernel,
} from '@tensorflow/tfjs-core'

const kernelName = 'BatchMatMul'

type Product = (
  aId: number,
  aShape: Uint8Array,
  aRank: number,
  bId: number,
  bShape: Uint8Array,
  bRank: number,
  ...rest: number[]
) => void
interface WasmModule {
  cwrap(name: string, returns: null, takes: readonly string[]): Product
}
interface Call {
  readonly inputs: { readonly a: TensorInfo; readonly b: TensorInfo }
  readonly attrs: BatchMatMulAttrs
  readonly backend: BackendWasm
}

let registered = false

/** Replaces the backend's kernel, for backends that start from now on. Idempotent. */
export function registerBatchMatMul(): void {
  if (registered) return
  registered = true
  const own = getKernel(kernelName, 'wasm')
  let product: Product
  unregisterKernel(kernelName, 'wasm')
  registerKernel({
    ...own,
    setupFunc(backend) {
      own.setupFunc?.(backend)
      const types = [
        'number',
        'array',
        'number',
        'number',
        'array',
        'number',
        'number',
        'number',
        'number',
      ]
      product = (backend as unknown as { wasm: WasmModule }).wasm.cwrap(kernelName, null, types)
    },
    kernelFunc: ((call: Call) =>
      batchMatMul(call, product) ??
      own.kernelFunc(call as unknown as Parameters<KernelFunc>[0])) as unknown as KernelFunc,
  })
}

/**
 * a×b for each pair of a batch; undefined if the backend's own kernel is as good (a single pair)
 * or needed (a transposed, batches that broadcast).
 */
function batchMatMul(
  { inputs: { a, b }, attrs: { transposeA, transposeB }, backend }: Call,
  product: Product,
): TensorInfo | undefined {
  const outer = a.shape.slice(0, -2)
  const batch = countElements(outer)
  if (transposeA || batch < 2 || outer.join() !== b.shape.slice(0, -2).join()) return undefined
  if (transposeB) {
    const straight = transposeLastAxes(b, backend)
    const out = batchMatMul(
      { inputs: { a, b: straight }, attrs: { transposeA, transposeB: false }, backend },
      product,
    )
    backend.disposeData(straight.dataId)
    return out
  }
  const [m, k] = a.shape.slice(-2) as [number, number]
  const n = b.shape.at(-1)!
  if (k !== b.shape.at(-2))
    throw new Error(`matMul: inner dimensions differ, ${a.shape} × ${b.shape}`)
  const out = backend.makeOutput([...outer, m, n], 'float32')
  const aShape = encodeShape([1, m, k])
  const bShape = encodeShape([1, k, n])
  const at = (tensor: TensorInfo) => backend.dataIdMap.get(tensor.dataId).memoryOffset
  const [aAt, bAt, outAt] = [at(a), at(b), at(out)]
  const view = (shape: number[], address: number) => {
    const info = backend.makeOutput(shape, 'float32', address)
    return { info, id: backend.dataIdMap.get(info.dataId).id }
  }
  for (let i = 0; i < batch; i++) {
    const left = view([1, m, k], aAt + 4 * i * m * k)
    const right = view([1, k, n], bAt + 4 * i * k * n)
    const result = view([1, m, n], outAt + 4 * i * m * n)
    product(left.id, aShape, 3, right.id, bShape, 3, 0, 0, result.id)
    // Forgets the views and XNNPACK's operator for `right`; the memory belongs to the batch.
    for (const { info, id } of [left, right, result]) {
      backend.wasm.tfjs.disposeData(id)
      backend.dataIdMap.delete(info.dataId)
    }
  }
  return out
}

function transposeLastAxes(x: TensorInfo, backend: BackendWasm): TensorInfo {
  const perm = x.shape.map((_, axis) => axis)
  perm.push(...perm.splice(-2).reverse())
  return getKernel(Transpose, 'wasm').kernelFunc({
    inputs: { x },
    attrs: { perm },
    backend: backend as object,
  }) as TensorInfo
}

const countElements = (shape: number[]) => shape.reduce((size, d) => size * d, 1)
const encodeShape = (shape: number[]) => new Uint8Array(new Int32Array(shape).buffer)
