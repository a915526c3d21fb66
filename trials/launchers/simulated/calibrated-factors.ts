/**
 * Uncertain factors in the prior of a calibrated server: the five parameters of its fit, the
 * exponent of a GPU share, and the speed of each GPU.
 */
import type { Slo } from '../../../profiler/model/slo.ts'
import type { Configuration, PriorFactors, ShiftedPrior } from '../../../search/types.ts'
import type { Architecture } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import { type CalibratedServer, predictDeviceLatency } from '../../devices/device-model.ts'
import { predictServerMs, sampleServerFit } from '../../devices/server-fit.ts'
import { createCalibratedStage } from './cpu-stage.ts'
import { predictTimedCapacity, softenCapacity, type TimedModel } from './estimated-capacity.ts'
import type { ModelledServer } from './modelled-server.ts'

interface PriorContext {
  readonly architecture: Architecture
  readonly ownGpus?: readonly Gpu[]
  readonly gpus: readonly string[]
  readonly predictCached: (configuration: Configuration) => {
    readonly modelled?: ModelledServer
    readonly model?: TimedModel
  }
  readonly slo: Pick<Slo, 'percentile' | 'limitMs'>
}

/** Prior standard deviation of the exponent of a GPU share. */
export const shareExponentSd = 0.06
/** Relative error of the measured GPU itself, in another slice or on another day. */
const sameGpuSd = 0.05
/** Batch size for which device errors are computed. */
const typicalBatch = 8
/** Step of the finite differences, in units of a factor. */
const differenceStep = 0.05

/**
 * Creates the factors: standard normals of the fit (5), the change of the share's exponent, and ln
 * of each GPU's time.
 */
export function createCalibratedFactors(
  calibratedServer: CalibratedServer,
  context: PriorContext,
): PriorFactors {
  const { architecture, gpus, ownGpus } = context
  const gpuSd = (name: string): number => {
    if (name === 'none' || name === calibratedServer.measuredOn?.gpu.name) return sameGpuSd
    return predictDeviceLatency({ architecture, gpu: findGpu(name, ownGpus), batch: typicalBatch })
      .relativeError
  }
  return {
    sd: [...calibratedServer.parameters.map(() => 1), shareExponentSd, ...gpus.map(gpuSd)],
    applyFactors: (logFactors) => shiftCalibratedPrior(calibratedServer, logFactors, context),
  }
}

function shiftCalibratedPrior(
  calibratedServer: CalibratedServer,
  logFactors: readonly number[],
  { gpus, predictCached, slo }: PriorContext,
): ShiftedPrior {
  const size = calibratedServer.parameters.length
  /** Creates a function that predicts ln(capacity) of a server with these factors. */
  const createRatePredictor = (factors: readonly number[]) => {
    const fit = sampleServerFit(calibratedServer, factors.slice(0, size))
    return (
      { resources: { gpu, gpuShare, cpuCores }, serving, calibration }: ModelledServer,
      model: TimedModel,
    ): number => {
      const logShare = gpuShare > 0 ? Math.log(gpuShare) : 0
      const factor = Math.exp(
        (factors[size + 1 + gpus.indexOf(gpu ?? 'none')] ?? 0) - factors[size]! * logShare,
      )
      const deviceMs = calibration?.deviceMs
      // Inference on the CPU alone has no fit.
      if (deviceMs === undefined)
        return Math.log(softenCapacity(predictTimedCapacity(model, slo), slo))
      const times = model.sizes.map((batch) =>
        predictServerMs(fit, batch, factor * deviceMs(batch), serving.instances),
      )
      const cpu = createCalibratedStage(
        fit,
        { instances: serving.instances, cpuCores },
        calibratedServer.perRequest,
      )
      return Math.log(softenCapacity(predictTimedCapacity({ ...model, cpu, times }, slo), slo))
    }
  }
  const predictRate = createRatePredictor(logFactors)
  const shiftedPredictors = logFactors.map((_, j) =>
    createRatePredictor(logFactors.map((v, k) => (k === j ? v + differenceStep : v))),
  )
  return {
    predictLogRate: (configuration) => {
      const { modelled, model } = predictCached(configuration)
      return modelled && model && predictRate(modelled, model)
    },
    computeSensitivities: (configuration) => {
      const { modelled, model } = predictCached(configuration)
      if (!modelled || !model) return logFactors.map(() => 0)
      const base = predictRate(modelled, model)
      return shiftedPredictors.map((predict) => (predict(modelled, model) - base) / differenceStep)
    },
  }
}
