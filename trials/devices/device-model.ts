/**
 * The device model: latency and memory of a batch on a GPU, with their errors. A physical model
 * (`device-physics.ts`) has coefficients fitted to published tables (`coefficients.json`); a
 * Gaussian process over the tables corrects it (`residual.ts`).
 */
import { defaultSequenceLength, getInputKind } from './architecture.ts'
import { computeUsableMemoryMiB, resolvePrecision } from './catalogue.ts'
import { calibratedCoefficients } from './coefficients.ts'
import { estimateMemoryParts, type MemoryShape } from './device-memory.ts'
import { DeviceModelError } from './device-model-error.ts'
import { type DeviceCall, type DeviceLatency, predictLatency } from './predict.ts'

export type { CalibratedServer, DeviceCall, DeviceLatency } from './predict.ts'

/**
 * Time of one batch on the device, without queueing, network and pre-processing.
 * @throws DeviceModelError when the precision, the share or the shape is impossible.
 */
export function predictDeviceLatency(call: DeviceCall): DeviceLatency {
  validateCall(call)
  return predictLatency(call, calibratedCoefficients)
}

function validateCall(call: DeviceCall): void {
  const share = call.share ?? 1
  if (!(share > 0 && share <= 1))
    throw new DeviceModelError(`a GPU share of ${share} is not in (0, 1]`)
  if (!(call.batch >= 1)) throw new DeviceModelError(`a batch of ${call.batch} is below 1`)
  const length = call.sequenceLength ?? defaultSequenceLength
  const { architecture } = call
  if (architecture.kind === 'convnet' || getInputKind(architecture) !== 'text') return
  const fixed = architecture.kind === 'graph' && architecture.fixedSize !== undefined
  if (!fixed && length > architecture.maxSequenceLength)
    throw new DeviceModelError(
      `${architecture.name} takes at most ${architecture.maxSequenceLength} tokens, not ${length}`,
      'lower sequenceLength',
    )
}

interface MemoryEstimate {
  readonly mib: number
  /** Relative standard deviation, like `DeviceLatency.relativeError`. */
  readonly relativeError: number
}

/** GPU memory that one process with one instance needs to serve batches of this size. */
export function predictGpuMemory(call: DeviceCall & Pick<MemoryShape, 'isEager'>): MemoryEstimate {
  const measured = call.calibratedServer?.memory
  if (measured)
    return {
      mib: measured.fixedMiB + measured.perItemMiB * call.batch,
      relativeError: calibratedCoefficients.errors.memory,
    }
  const { precision } = resolvePrecision(call.gpu, call.precision ?? 'fp16')
  const parts = estimateMemoryParts(call, precision, calibratedCoefficients.memory)
  return {
    mib:
      parts.contextMiB +
      parts.weightsMiB +
      parts.workspaceMiB +
      parts.activationsMiB +
      parts.cacheMiB,
    relativeError: unmeasuredMemoryError,
  }
}

/** Compiled engines: no published table covers their memory, so the error is an estimate. */
const unmeasuredMemoryError = 0.15

interface MemoryFit {
  readonly fits: boolean
  readonly neededMiB: number
  readonly availableMiB: number
}

/** Whether a batch fits the share of a GPU's memory (or its slice), or the MiB given. */
export function fits(
  call: DeviceCall,
  availableMiB = call.mig?.memoryMiB ?? computeUsableMemoryMiB(call.gpu) * (call.share ?? 1),
): MemoryFit {
  const neededMiB = predictGpuMemory(call).mib
  return { fits: neededMiB <= availableMiB, neededMiB, availableMiB }
}
