/** Warms an engine up before it is ready, so that first requests do not include one-time work. */
import type { EngineInfo, Tensors } from '../engine.ts'

/**
 * Runs a batch of zeros through the model for a tenth of a second, at least once: weights are
 * packed, memory is allocated, code is compiled. Does nothing for a model with dynamic dimensions
 * other than the batch: only its user knows valid sizes.
 */
export async function warmUp(
  specs: EngineInfo['inputs'],
  items: number,
  infer: (inputs: Tensors) => Promise<Tensors>,
): Promise<void> {
  if (items === 0 || !specs.every(({ shape }) => shape.every((d, axis) => axis === 0 || d > 0)))
    return
  const inputs = Object.fromEntries(
    specs.map(({ name, datatype, shape }) => {
      const whole = shape.map((d, axis) => (axis === 0 ? items : d))
      const size = whole.reduce((a, b) => a * b, 1)
      return [
        name,
        {
          datatype,
          shape: whole,
          data: datatype === 'INT32' ? new Int32Array(size) : new Float32Array(size),
        },
      ]
    }),
  )
  const startedAt = performance.now()
  do await infer(inputs)
  while (performance.now() - startedAt < 100)
}
