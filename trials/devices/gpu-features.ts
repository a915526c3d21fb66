/** Features of GPU models: the search predicts similar GPUs alike. */
import { findGpu, type Gpu } from './catalogue.ts'
import { DeviceModelError } from './device-model-error.ts'

/**
 * [ln bandwidth (GB/s), ln fp16 peak (TFLOP/s; fp32 where there is no fp16)] of each GPU.
 * Undefined if a name is no known GPU: the models are then categories without order.
 */
export function computeGpuFeatures(
  names: readonly string[],
  own: readonly Gpu[] = [],
): Readonly<Record<string, readonly number[]>> | undefined {
  try {
    return Object.fromEntries(
      names.map((name) => {
        const { bandwidthGBs, peakTflops } = findGpu(name, own)
        return [name, [Math.log(bandwidthGBs), Math.log(peakTflops.fp16 ?? peakTflops.fp32 ?? 1)]]
      }),
    )
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}
