import { describe, expect, test } from 'vitest'
import { createEstimator } from '../launchers/simulated/estimate.ts'
import { findArchitecture } from './architecture.ts'
import { findGpu } from './catalogue.ts'
import { predictDeviceLatency, predictGpuMemory } from './device-model.ts'
import { fitCalibration, fitTypicalServer, type ServerCalibration } from './server-calibration.ts'
import { predictServerMs } from './server-fit.ts'

const architecture = findArchitecture('resnet50')
const a10 = findGpu('A10')
/** ln host, ln host per item, ln floor, ln level, slope */
const truth = [Math.log(2), Math.log(0.2), Math.log(6), Math.log(3), 0]
const latencyMs = (batch: number) =>
  predictServerMs(truth, batch, predictDeviceLatency({ architecture, gpu: a10, batch }).ms)

const calibration: ServerCalibration = {
  name: 'own-resnet50-a10',
  server: 'own',
  model: 'resnet50',
  device: 'A10',
  measuredAt: '2026-11-20T10:00:00.000Z',
  configuration: { gpu: 'A10', batchSize: 64 },
  points: [1, 4, 16, 64].map((batch) => ({ batch, latencyMs: latencyMs(batch), processes: 1 })),
  memory: [1, 4, 16, 64].map((batch) => ({ batch, gpuMemoryMiB: 1500 + 120 * batch })),
}
const calibratedServer = fitCalibration(calibration, architecture)
const slo = { percentile: 0.99, limitMs: 200 }
const at = (batchSize: number, more = {}) => ({ gpu: 'A10', batchSize, cpuCores: 8, ...more })

test('estimates of a calibrated server are its own, and their error is smaller than that of one of which only the usual is known', () => {
  const estimates = [fitTypicalServer(), calibratedServer].map((server) =>
    createEstimator({ architecture, slo, calibratedServer: server }).estimate(at(32)),
  )
  const [usual, own] = estimates.map((estimated) => (estimated.isFeasible ? estimated : undefined))
  expect(own!.saturationRps).toBeGreaterThan((0.93 * 32_000) / latencyMs(32))
  expect(own!.saturationRps).toBeLessThan((1.07 * 32_000) / latencyMs(32))
  expect(own!.relativeError).toBeLessThan(0.12)
  expect(usual!.relativeError).toBeGreaterThan(2 * own!.relativeError)
})

test('memory that was read decides what fits: at sizes that were not read, and with several processes', () => {
  expect(predictGpuMemory({ architecture, gpu: a10, batch: 128, calibratedServer })).toMatchObject({
    mib: 1500 + 120 * 128,
  })
  const estimator = createEstimator({ architecture, slo, calibratedServer })
  expect(estimator.cannotServe(at(128))).toBe(false)
  expect(estimator.cannotServe(at(128, { instances: 2 }))).toBe(true)
  expect(estimator.estimate(at(256))).toMatchObject({
    isFeasible: false,
    reason: expect.stringMatching(/needs 32220 MiB of GPU memory/),
  })
})

test('the numbers of the fit are what the search learns from trials; the GPU of the anchors is surer than another', () => {
  const gpus = ['A10', 'L4']
  const { sd, applyFactors: moved } = createEstimator({
    architecture,
    slo,
    calibratedServer,
  }).priorFactors(gpus)
  expect(sd.length).toBe(5 + 1 + 2)
  expect(sd[7]!).toBeGreaterThan(2 * sd[6]!)
  const slower = moved(sd.map((_, i) => (i === 6 ? 0.3 : 0)))
  const still = moved(sd.map(() => 0))
  expect(slower.predictLogRate(at(32))!).toBeLessThan(still.predictLogRate(at(32))!)
  expect(still.computeSensitivities(at(32))[6]!).toBeLessThan(0)
  expect(still.computeSensitivities(at(32))[7]!).toBe(0)
})

test('a lone request takes what was measured: the work of the host and a delay count once', () => {
  for (const instances of [1, 2]) {
    const estimated = createEstimator({ architecture, slo, calibratedServer }).estimate(
      at(32, { instances, cpuCores: 1 }),
    )
    expect(estimated.isFeasible && estimated.unloadedMs / latencyMs(1)).toBeCloseTo(1, 1)
  }
})

describe('what requests cost beside their batches', () => {
  const limitRps = 64_000 / latencyMs(64)
  const foretold = (rps: number | undefined, configuration = at(64)) => {
    const server = fitCalibration(
      { ...calibration, ...(rps !== undefined && { saturation: { connections: 64, rps } }) },
      architecture,
    )
    const estimated = createEstimator({ architecture, slo, calibratedServer: server }).estimate(
      configuration,
    )
    return estimated.isFeasible ? estimated : undefined
  }

  test('is nothing where many requests at once come to what the batches allow, or nobody asked', () => {
    expect(foretold(0.95 * limitRps)).toEqual(foretold(undefined))
  })

  test('bounds the rate between the two where they do not, and the error reaches both', () => {
    const { saturationRps, relativeError } = foretold(0.36 * limitRps)!
    expect(saturationRps / limitRps).toBeCloseTo(0.6, 1)
    expect(relativeError).toBeGreaterThan(0.35)
  })

  test('holds up no batches that are slower', () => {
    expect(foretold(0.36 * limitRps, at(1))!.capacityRps).toBeCloseTo(
      foretold(undefined, at(1))!.capacityRps,
      1,
    )
  })
})
