/**
 * The device model: how long a batch takes on a GPU, how much of its memory it needs, and how sure
 * that is. Physics (physics.ts) with coefficients calibrated on published tables
 * (coefficients.json), corrected by what those tables say beyond it.
 */
import { defaultSequenceLength, takesOf } from './architecture.ts'
import { effectivePrecision, usableMemoryMiB } from './catalogue.ts'
import { calibration } from './coefficients.ts'
import { type MemoryShape, memoryParts } from './device-memory.ts'
import { DeviceModelError } from './device-model-error.ts'
import { type DeviceCall, type DeviceLatency, predictLatency } from './predict.ts'

export type { AnchoredOn, DeviceCall, DeviceLatency } from './predict.ts'

/**
 * Time of one batch on the device; queueing, network and pre-processing are not in it.
 * @throws DeviceModelError when the precision, the share or the shape is impossible.
 */
export function deviceLatencyMs(call: DeviceCall): DeviceLatency {
  check(call)
  return predictLatency(call, calibration)
}

function check(call: DeviceCall): void {
  const share = call.share ?? 1
  if (!(share > 0 && share <= 1))
    throw new DeviceModelError(`a GPU share of ${share} is not in (0, 1]`)
  if (!(call.batch >= 1)) throw new DeviceModelError(`a batch of ${call.batch} is below 1`)
  const length = call.sequenceLength ?? defaultSequenceLength
  const { architecture } = call
  if (architecture.kind === 'convnet' || takesOf(architecture) !== 'text') return
  const fixed = architecture.kind === 'graph' && architecture.fixedSize !== undefined
  if (!fixed && length > architecture.maxSequenceLength)
    throw new DeviceModelError(
      `${architecture.name} takes at most ${architecture.maxSequenceLength} tokens, not ${length}`,
      'lower sequenceLength',
    )
}

interface MemoryNeed {
  readonly mib: number
  /** As `DeviceLatency.relativeError`. */
  readonly relativeError: number
}

/** GPU memory that one process with one instance needs to serve batches of this size. */
export function gpuMemoryMiB(call: DeviceCall & Pick<MemoryShape, 'framework'>): MemoryNeed {
  const measured = call.anchored?.memory
  if (measured)
    return {
      mib: measured.fixedMiB + measured.perItemMiB * call.batch,
      relativeError: calibration.errors.memory,
    }
  const { precision } = effectivePrecision(call.gpu, call.precision ?? 'fp16')
  const parts = memoryParts(call, precision, calibration.memory)
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

/** Compiled engines: no published table of their memory is behind the model. */
const unmeasuredMemoryError = 0.15

interface Fit {
  readonly fits: boolean
  readonly neededMiB: number
  readonly availableMiB: number
}

/** Whether a batch fits the share of a GPU's memory (or its slice), or the MiB given. */
export function fits(
  call: DeviceCall,
  availableMiB = call.mig?.memoryMiB ?? usableMemoryMiB(call.gpu) * (call.share ?? 1),
): Fit {
  const neededMiB = gpuMemoryMiB(call).mib
  return { fits: neededMiB <= availableMiB, neededMiB, availableMiB }
}
