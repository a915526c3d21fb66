/**
 * Rows of a table by their numbers on the WebAssembly backend, as whole copies.
 *
 * The backend's own kernel computes the position of every element: 0.12 µs each, 12 ms for the
 * embeddings of one text in BERT-base.
 */
import type { BackendWasm } from '@tensorflow/tfjs-backend-wasm'
import {
  GatherV2,
  type GatherV2Attrs,
  getKernel,
  type KernelFunc,
  registerKernel,
  type TensorInfo,
  unregisterKernel,
} from '@tensorflow/tfjs-core'

interface Call {
  readonly inputs: { readonly x: TensorInfo; readonly indices: TensorInfo }
  readonly attrs: GatherV2Attrs
  readonly backend: BackendWasm
}

let registered = false

/** Replaces the backend's kernel. Idempotent. */
export function registerGatherRows(): void {
  if (registered) return
  registered = true
  const own = getKernel(GatherV2, 'wasm')
  unregisterKernel(GatherV2, 'wasm')
  registerKernel({
    ...own,
    kernelFunc: ((call: Call) =>
      gatherRows(call) ??
      own.kernelFunc(call as unknown as Parameters<KernelFunc>[0])) as unknown as KernelFunc,
  })
}

/** Undefined if the operation does not gather rows. */
function gatherRows({
  inputs: { x, indices },
  attrs: { axis, batchDims },
  backend,
}: Call): TensorInfo | undefined {
  if (
    x.shape.length !== 2 ||
    axis !== 0 ||
    batchDims !== 0 ||
    x.dtype === 'string' ||
    indices.dtype !== 'int32'
  )
    return undefined
  const [rows, width] = x.shape as [number, number]
  const out = backend.makeOutput([...indices.shape, width], x.dtype)
  // Views only now: making the output may have moved the memory.
  const table = backend.typedArrayFromHeap(x)
  const numbers = backend.typedArrayFromHeap(indices)
  const target = backend.typedArrayFromHeap(out)
  for (let i = 0; i < numbers.length; i++) {
    const row = numbers[i]!
    if (row < 0 || row >= rows) {
      backend.disposeData(out.dataId)
      throw new RangeError(`${row} is not one of the table's ${rows} rows`)
    }
    target.set(table.subarray(row * width, (row + 1) * width), i * width)
  }
  return out
}
