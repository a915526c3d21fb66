/**
 * Uncertain factors in the prior of an anchored server: the five numbers of its fit, the exponent of
 * a GPU share, and the speed of each GPU other than the measured one.
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import type { Configuration, PriorFactors, ShiftedPrior } from '../../../search/types.ts'
import { anchoredMs, movedAnchor } from '../../devices/anchor.ts'
import type { Architecture } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import { type AnchoredOn, deviceLatencyMs } from '../../devices/device-model.ts'
import { anchoredStage } from './cpu-stage.ts'
import type { ModelledServer } from './device.ts'
import { predictTimedCapacity, softCapacity, type TimedModel } from './estimated-capacity.ts'

interface Around {
  readonly architecture: Architecture
  readonly ownGpus?: readonly Gpu[]
  readonly gpus: readonly string[]
  readonly read: (configuration: Configuration) => {
    readonly modelled?: ModelledServer
    readonly model?: TimedModel
  }
  readonly slo: Pick<Slo, 'percentile' | 'limitMs'>
}

/** Standard deviation of the exponent of a share. */
export const shareExponentSd = 0.06
/** Of the measured GPU itself, in another slice or on another day. */
const sameGpuSd = 0.05
const typicalBatch = 8
/** Step of the finite differences. */
const step = 0.05

/**
 * The factors are standard normals of the fit (5), then ln of the share's exponent and of each
 * GPU's time.
 */
export function anchoredFactors(anchored: AnchoredOn, around: Around): PriorFactors {
  const { architecture, gpus, ownGpus } = around
  const gpuSd = (name: string): number => {
    if (name === 'none' || name === anchored.on?.gpu.name) return sameGpuSd
    return deviceLatencyMs({ architecture, gpu: findGpu(name, ownGpus), batch: typicalBatch })
      .relativeError
  }
  return {
    sd: [...anchored.at.map(() => 1), shareExponentSd, ...gpus.map(gpuSd)],
    at: (logFactors) => movedAnchoredPrior(anchored, logFactors, around),
  }
}

function movedAnchoredPrior(
  anchored: AnchoredOn,
  logFactors: readonly number[],
  { gpus, read, slo }: Around,
): ShiftedPrior {
  const size = anchored.at.length
  const rateAt = (moved: readonly number[]) => {
    const at = movedAnchor(anchored, moved.slice(0, size))
    return (
      { resources: { gpu, gpuShare, cpuCores }, serving, anchor }: ModelledServer,
      model: TimedModel,
    ): number => {
      const held = gpuShare > 0 ? Math.log(gpuShare) : 0
      const factor = Math.exp(
        (moved[size + 1 + gpus.indexOf(gpu ?? 'none')] ?? 0) - moved[size]! * held,
      )
      const deviceMs = anchor?.deviceMs
      // Inference on the CPU alone has no fit.
      if (deviceMs === undefined)
        return Math.log(softCapacity(predictTimedCapacity(model, slo), slo))
      const times = model.sizes.map((batch) =>
        anchoredMs(at, batch, factor * deviceMs(batch), serving.instances),
      )
      const cpu = anchoredStage(at, { instances: serving.instances, cpuCores }, anchored.perRequest)
      return Math.log(softCapacity(predictTimedCapacity({ ...model, cpu, times }, slo), slo))
    }
  }
  const rate = rateAt(logFactors)
  const further = logFactors.map((_, j) =>
    rateAt(logFactors.map((v, k) => (k === j ? v + step : v))),
  )
  return {
    logRate: (configuration) => {
      const { modelled, model } = read(configuration)
      return modelled && model && rate(modelled, model)
    },
    sensitivities: (configuration) => {
      const { modelled, model } = read(configuration)
      if (!modelled || !model) return logFactors.map(() => 0)
      const here = rate(modelled, model)
      return further.map((moved) => (moved(modelled, model) - here) / step)
    },
  }
}
