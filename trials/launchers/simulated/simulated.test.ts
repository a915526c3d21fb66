import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { schedule } from '../../../profiler/load/arrivals.ts'
import { createUniform } from '../../../profiler/seeded-random.ts'
import type { Configuration } from '../../../search/types.ts'
import { findArchitecture } from '../../devices/architecture.ts'
import { completeGpu } from '../../devices/custom-devices.ts'
import { predictDeviceLatency } from '../../devices/device-model.ts'
import { InfeasibleError } from '../../types.ts'
import { createStretchedSchedule } from './arrival-times.ts'
import { SimulatedServer, type SimulatedServerOptions } from './batch-server.ts'
import { referenceCores } from './cpu-stage.ts'
import { createEstimator } from './estimate.ts'
import {
  computeLatencyPercentileMs,
  predictCapacity,
  tabulateDeviceTimes,
} from './estimated-capacity.ts'
import { modelServer } from './modelled-server.ts'
import { createQueueingModel } from './queueing-model.ts'
import { createSimulatedLauncher } from './simulated-launcher.ts'

const noCpu = { acceptMs: 0, prepareMs: 0, jitter: 0, overheadMs: 0, relativeError: 0 }
const server = (options: Partial<SimulatedServerOptions>) =>
  new SimulatedServer({
    cpu: noCpu,
    cpuCores: 1,
    maxBatchSize: 1,
    maxDelayMs: 0,
    queueLimit: 1e6,
    instances: 1,
    devices: 1,
    batchMs: () => 10,
    deviceJitter: 0,
    schedule,
    uniform: createUniform(5),
    ...options,
  })
const poisson = (rateRps: number, requests: number) =>
  ({
    kind: 'open',
    rateRps,
    arrivals: { kind: 'poisson' },
    durationS: requests / rateRps,
    seed: 11,
  }) as const
const mean = (values: Float64Array) => values.reduce((sum, v) => sum + v, 0) / values.length
const quantile = (values: Float64Array, q: number) =>
  [...values].sort((a, b) => a - b)[Math.floor(q * values.length)]!

describe('closed forms', () => {
  test.each([0.3, 0.6, 0.8])('M/D/1 at load %d: mean wait is ρ t / (2 (1 − ρ))', (load) => {
    const { latencyMs } = server({}).play(poisson(100 * load, 200_000))
    const wait = (load * 10) / (2 * (1 - load))
    expect(mean(latencyMs) / (10 + wait)).toBeCloseTo(1, 1.5)
  })

  test('M/D/4 on the CPU stage: four cores at load 0.7 wait as the M/D/1 divided by about four and the Erlang C factor', () => {
    const cpu = { ...noCpu, prepareMs: 10 }
    const { latencyMs } = server({ cpu, cpuCores: 4, maxBatchSize: 1000, batchMs: () => 0 }).play(
      poisson(280, 200_000),
    )
    // M/M/4 at ρ = 0.7 waits 0.3572 services of Erlang C 0.4287 / (4 × 0.3); with constant service
    // about half of it.
    expect(mean(latencyMs) - 10).toBeGreaterThan(0.4 * 3.572)
    expect(mean(latencyMs) - 10).toBeLessThan(0.62 * 3.572)
  })

  test('bulk service without a limit: latency tends to 1.5 t0 / (1 − ρ)', () => {
    const [t0, perItem] = [20, 0.5]
    const { latencyMs } = server({ maxBatchSize: 1e6, batchMs: (b) => t0 + perItem * b }).play(
      poisson(1200, 200_000),
    )
    expect(mean(latencyMs) / ((1.5 * t0) / (1 - 1.2 * perItem))).toBeCloseTo(1, 1)
  })

  test('saturated closed loop: batch / t(batch), whatever the number of connections above it', () => {
    const { sentMs, latencyMs } = server({ maxBatchSize: 8, batchMs: (b) => 10 + 2 * b }).play({
      kind: 'closed',
      connections: 32,
      durationS: 20,
    })
    expect(latencyMs.length / (sentMs.at(-1)! / 1000)).toBeCloseTo(8 / 0.026, -1)
    // Little's law: connections = rate × latency.
    expect((mean(latencyMs) * 8) / 26).toBeCloseTo(32, 0)
  })
})

test('two cores serve twice what one serves, until the device is the limit', () => {
  const cpu = { ...noCpu, prepareMs: 10 }
  const closed = { kind: 'closed', connections: 64, durationS: 100 } as const
  const rate = (cpuCores: number) =>
    server({ cpu, cpuCores, maxBatchSize: 16, batchMs: () => 40 }).play(closed).latencyMs.length /
    100
  expect(rate(2) / rate(1)).toBeCloseTo(2, 1)
  expect(rate(1.5) / rate(1)).toBeCloseTo(1.5, 1)
  expect(rate(8)).toBeCloseTo(400, -1.5)
})

test('a full queue refuses, and every request is answered or refused', () => {
  const { latencyMs, sentMs } = server({ queueLimit: 5 }).play(poisson(300, 3000))
  const refused = latencyMs.filter((l) => Number.isNaN(l)).length
  expect(sentMs.length).toBe(3000)
  expect(refused / 3000).toBeCloseTo(2 / 3, 1)
  expect(
    quantile(
      latencyMs.filter((l) => !Number.isNaN(l)),
      0.99,
    ),
  ).toBeLessThanOrEqual(70)
})

test('the delay is waited for company, not for a full batch', () => {
  const { latencyMs } = server({ maxBatchSize: 8, maxDelayMs: 5 }).play({
    ...poisson(1, 20),
    arrivals: { kind: 'constant' },
  })
  expect([...new Set(latencyMs)]).toEqual([15])
})

test('devices work side by side', () => {
  const closed = { kind: 'closed', connections: 16, durationS: 10 } as const
  const rate = (devices: number) => server({ devices }).play(closed).latencyMs.length
  expect(rate(2) / rate(1)).toBeCloseTo(2, 1)
})

test('the same seed plays the same', () => {
  const play = () => server({ deviceJitter: 0.1, uniform: createUniform(9) }).play(poisson(50, 500))
  expect(play()).toEqual(play())
})

test('counting what is over tells what playing tells, and ends early', () => {
  const options = {
    cpu: { ...noCpu, prepareMs: 1, jitter: 0.3 },
    maxBatchSize: 4,
    batchMs: (b: number) => 8 + b,
    deviceJitter: 0.02,
  }
  const load = poisson(300, 4000)
  const { latencyMs } = server(options).play(load)
  const over = latencyMs.filter((ms) => !(ms <= 25)).length
  expect(over).toBeGreaterThan(20)
  expect(server(options).countViolations(load, 25, 4000)).toEqual({
    requests: 4000,
    violations: over,
    failed: 0,
  })
  const early = server(options).countViolations(load, 25, 10)
  expect(early.violations).toBeGreaterThan(10)
  expect(early.requests).toBeLessThan(3000)
})

test('a server keeps nothing of one play for the next', () => {
  const one = server({ cpu: { ...noCpu, prepareMs: 1, jitter: 0.3 }, deviceJitter: 0.02 })
  const first = one.play(poisson(80, 6000))
  one.play({ kind: 'closed', connections: 200, durationS: 60 })
  expect(one.play(poisson(80, 6000))).toEqual(first)
})

test.each([
  { kind: 'poisson' },
  { kind: 'constant' },
  { kind: 'gamma', cv: 2 },
  { kind: 'on-off', onS: 1, offS: 2 },
] as const)('stretched arrivals are the schedule, to rounding: $kind', (arrivals) => {
  const stretched = createStretchedSchedule()
  for (const rateRps of [100, 130, 70]) {
    const load = { kind: 'open', rateRps, arrivals, durationS: 1000 / rateRps, seed: 3 } as const
    const [got, wanted] = [stretched(load), schedule(load)]
    expect(got.length).toBe(wanted.length)
    for (let i = 0; i < got.length; i++) expect(Math.abs(got[i]! - wanted[i]!)).toBeLessThan(1e-6)
  }
})

const bert = findArchitecture('bert')
const launcher = createSimulatedLauncher({ architecture: bert, seed: 1 })
const signal = new AbortController().signal

describe('launcher', () => {
  test('a trial is simulated and says so', async () => {
    const predictor = await launcher.launch(
      { cpuCores: 2, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8 },
      1,
      signal,
    )
    expect(predictor.provenance).toBe('simulated')
    expect(predictor.isolation).toBe('simulated in virtual time: 2 cores, 1/4 T4 (4 GiB), batch 8')
    if (predictor.target.kind !== 'virtual') throw new Error('not virtual')
    predictor.target.server.play(poisson(150, 2000))
    const usage = await predictor.usage()
    expect(usage.gpuUtilization).toBeGreaterThan(0.3)
    expect(usage.realisedBatch).toBeGreaterThan(1)
    expect(usage.gpuMemoryMiB).toBeGreaterThan(500)
    await predictor.stop()
  })

  test('what does not fit or does not exist is infeasible, with the reason', async () => {
    const failing = (configuration: Record<string, string | number>) =>
      launcher.launch(configuration, 1, signal).then(
        () => undefined,
        (e) => e,
      )
    const oom = await failing({ gpu: 'T4', gpuMemoryPercent: 5, batchSize: 128 })
    expect(oom).toBeInstanceOf(InfeasibleError)
    expect(oom).toMatchObject({
      reason: 'out-of-memory',
      message: expect.stringMatching(
        /batch 128.* need \d+ MiB of GPU memory, but the share has 768 MiB/,
      ),
    })
    expect(await failing({ gpu: 'T5' })).toMatchObject({ reason: 'no-such-gpu' })
    expect(await failing({ gpu: 'T4', precision: 'bf16' })).toMatchObject({
      reason: 'crashed',
      message: expect.stringMatching(/T4 has no bf16/),
    })
  })
})

describe('prediction', () => {
  test.each([
    ['T4', 25, 2, 8],
    ['T4', 100, 8, 16],
    ['V100', 50, 4, 4],
    ['H100', 100, 1, 64],
  ])(
    'closed form and simulation agree on %s %d %%, %d cores, batch %d',
    async (gpu, gpuMemoryPercent, cpuCores, batchSize) => {
      const slo = { percentile: 0.99, limitMs: 50 }
      const estimator = createEstimator({ architecture: bert, slo })
      const estimated = estimator.estimate({ gpu, gpuMemoryPercent, cpuCores, batchSize })
      if (!estimated.isFeasible) throw new Error(estimated.reason)
      const p99 = async (rate: number) => {
        const predictor = await launcher.launch(
          { gpu, gpuMemoryPercent, cpuCores, batchSize },
          1,
          signal,
        )
        if (predictor.target.kind !== 'virtual') throw new Error('not virtual')
        // Refused requests count as infinitely slow.
        const { latencyMs } = predictor.target.server.play(poisson(rate, 20_000))
        return quantile(
          latencyMs.map((ms) => (Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms)),
          0.99,
        )
      }
      expect(await p99(0.85 * estimated.capacityRps)).toBeLessThan(50)
      expect(await p99(1.15 * estimated.capacityRps)).toBeGreaterThan(50)
    },
  )

  test('an SLO below the lone latency has no capacity; a looser one never has less', () => {
    const model = {
      cpu: noCpu,
      cpuCores: 1,
      maxBatchSize: 8,
      maxDelayMs: 2,
      devices: 1,
      batchMs: (b: number) => 5 + b,
    }
    expect(predictCapacity(model, { percentile: 0.99, limitMs: 7 })).toMatchObject({
      capacityRps: 0,
      binding: 'slo',
    })
    const capacities = [10, 20, 40, 80, 160].map(
      (limitMs) => predictCapacity(model, { percentile: 0.99, limitMs }).capacityRps,
    )
    expect([...capacities].sort((a, b) => a - b)).toEqual(capacities)
    expect(capacities.at(-1)!).toBeLessThan((1000 * 8) / 13)
  })

  test('the capacity is the highest rate that keeps the SLO', () => {
    const model = fc.record({
      cores: fc.constantFrom(1, 1.5, 4, 16),
      maxBatchSize: fc.constantFrom(1, 5, 32, 128, 700),
      maxDelayMs: fc.constantFrom(0, 2, 20),
      prepareMs: fc.double({ min: 0.05, max: 10, noNaN: true }),
      perItemMs: fc.double({ min: 0.01, max: 2, noNaN: true }),
      percentile: fc.constantFrom(0.5, 0.99),
    })
    fc.assert(
      fc.property(
        model,
        ({ cores, maxBatchSize, maxDelayMs, prepareMs, perItemMs, percentile }) => {
          const cpu = { ...noCpu, acceptMs: 0.1, prepareMs }
          const queueing = {
            cpu,
            cpuCores: cores,
            maxBatchSize,
            maxDelayMs,
            devices: 1,
            batchMs: (b: number) => 3 + perItemMs * b,
          }
          const { capacityRps, saturationRps } = predictCapacity(queueing, {
            percentile,
            limitMs: 60,
          })
          const latencyMs = (rateRps: number) =>
            computeLatencyPercentileMs(tabulateDeviceTimes(queueing), rateRps, percentile)
          expect(capacityRps).toBeLessThanOrEqual(saturationRps)
          if (capacityRps > 1e-5 * saturationRps)
            expect(latencyMs(capacityRps)).toBeLessThanOrEqual(60 * (1 + 1e-9))
          if (capacityRps > 0) expect(latencyMs(1.001 * capacityRps)).toBeGreaterThan(60)
        },
      ),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 100 },
    )
  })

  test('moved factors move the capacity as the inputs would, and sensitivities are its differences', () => {
    const slo = { percentile: 0.99, limitMs: 50 }
    const gpus = ['T4', 'H100']
    const estimator = createEstimator({ architecture: bert, slo })
    const { applyFactors, sd } = estimator.priorFactors(gpus)
    expect(sd.length).toBe(6)
    const factors = [0.2, 0.03, -0.05, 0.3, 0.1, -0.15]
    const moved = applyFactors(factors)
    for (const gpu of gpus)
      for (const [cpuCores, gpuMemoryPercent, batchSize] of [
        [1, 40, 4],
        [2, 100, 64],
        [16, 20, 24],
      ] as const) {
        const configuration = { gpu, cpuCores, gpuMemoryPercent, batchSize }
        const modelled = modelServer(bert, configuration)
        const model = createQueueingModel(modelled)
        const device = factors[4 + gpus.indexOf(gpu)]! + 0.05 * Math.log(gpuMemoryPercent / 100)
        const { capacityRps } = predictCapacity(
          {
            ...model,
            cpu: {
              ...model.cpu,
              acceptMs: Math.exp(0.2) * model.cpu.acceptMs,
              prepareMs: Math.exp(0.2) * model.cpu.prepareMs,
            },
            batchMs: (b) => model.batchMs(b) * Math.exp(device + 0.03 * Math.log(b / 8)),
          },
          slo,
        )
        expect(moved.predictLogRate(configuration)).toBeCloseTo(Math.log(capacityRps), 9)
        const sensitivities = moved.computeSensitivities(configuration)
        for (const [i, by] of [[0, 'cpu'] as const, [4 + gpus.indexOf(gpu), 'device'] as const]) {
          const further = applyFactors(
            factors.map((v, j) => (j === i ? v + 0.05 : v)),
          ).predictLogRate(configuration)!
          expect(sensitivities[i], by).toBeCloseTo(
            (further - moved.predictLogRate(configuration)!) / 0.05,
            6,
          )
        }
        expect(sensitivities[4 + gpus.indexOf(gpu === 'T4' ? 'H100' : 'T4')]).toBe(0)
      }
  })

  test('on a core of half the speed what the cores do takes twice as long, and what a GPU does as long as ever', () => {
    const rates = (model: string, configuration: Configuration) =>
      [1, 0.5].map((speed) => {
        const estimator = createEstimator({
          architecture: findArchitecture(model),
          slo: { percentile: 0.99, limitMs: 2000 },
          cores: { speed, count: 64 },
        })
        return Math.exp(estimator.priorLogRate(configuration)!)
      })
    const [onCores, onHalf] = rates('bert-tiny', { cpuCores: 2, batchSize: 8 })
    expect(onCores! / onHalf!).toBeCloseTo(2, 1)
    const [byTheLoop, byHalf] = rates('mobilenet', { gpu: 'H100', cpuCores: 1, batchSize: 32 })
    expect(byTheLoop! / byHalf!).toBeCloseTo(2, 1)
    const [byTheGpu, stillByTheGpu] = rates('bert', { gpu: 'T4', cpuCores: 8, batchSize: 8 })
    expect(byTheGpu! / stillByTheGpu!).toBeCloseTo(1, 2)
  })

  test('a server that has all cores of a machine shares them with the load, which costs a text half as much again, and a picture next to nothing', () => {
    const shared = (model: string, cpuCores: number) => {
      const [elsewhere, beside] = [referenceCores, { speed: 1, count: 2 }].map((cores) => {
        const estimator = createEstimator({
          architecture: findArchitecture(model),
          slo: { percentile: 0.99, limitMs: 2000 },
          cores,
        })
        return Math.exp(estimator.priorLogRate({ gpu: 'H100', cpuCores, batchSize: 64 })!)
      })
      return elsewhere! / beside!
    }
    expect(shared('bert-tiny', 1)).toBe(1)
    expect(shared('bert-tiny', 2)).toBeGreaterThan(1.2)
    expect(shared('mobilenet', 2)).toBeLessThan(1.05)
  })

  test('of inference on cores the exponent of the cores moves too: what more of them bring is learned apart from how fast one is', () => {
    const estimator = createEstimator({
      architecture: findArchitecture('bert-tiny'),
      slo: { percentile: 0.99, limitMs: 2000 },
    })
    const { applyFactors } = estimator.priorFactors(['none'])
    const [one, two] = [
      { cpuCores: 1, batchSize: 8 },
      { cpuCores: 2, batchSize: 8 },
    ]
    const gain = (cores: number, level: number) => {
      const moved = applyFactors([0, 0, 0, cores, level])
      return moved.predictLogRate(two)! - moved.predictLogRate(one)!
    }
    expect(gain(-0.5, 0)).toBeCloseTo(gain(0, 0) - 0.5 * Math.log(2), 1)
    expect(gain(0, 0.2)).toBeCloseTo(gain(0, 0), 1)
    const [, , , byCores, byLevel] = applyFactors([0, 0, 0, 0, 0]).computeSensitivities(two)
    expect(byCores).toBeCloseTo(-byLevel! * Math.log(2), 9)
    expect(estimator.estimate(two)).toMatchObject({ isFeasible: true, binding: 'cpu' })
  })

  test('an estimator knows what cannot serve and what only may not', () => {
    const estimator = createEstimator({
      architecture: bert,
      slo: { percentile: 0.99, limitMs: 50 },
    })
    expect(estimator.cannotServe({ gpu: 'T4', gpuMemoryPercent: 2, batchSize: 8 })).toBe(true)
    expect(estimator.cannotServe({ gpu: 'T4', precision: 'fp8' })).toBe(true)
    expect(estimator.cannotServe({ gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8 })).toBe(false)
    const fits = [25, 10, 5, 2].map((gpuMemoryPercent) =>
      estimator.memoryFitProbability({ gpu: 'T4', gpuMemoryPercent, batchSize: 32 }),
    )
    expect(fits).toEqual([...fits].sort((a, b) => b - a))
    expect([
      fits[0]! > 0.99,
      fits[3]! < 0.01,
      estimator.memoryFitProbability({ gpu: 'T4', precision: 'fp8' }),
    ]).toEqual([true, true, 1])
    const one = estimator.estimate({ gpu: 'T4', cpuCores: 1, batchSize: 8 })
    const four = estimator.estimate({ gpu: 'T4', cpuCores: 4, batchSize: 8 })
    if (!one.isFeasible || !four.isFeasible) throw new Error('must serve')
    expect(four.capacityRps).toBeGreaterThanOrEqual(one.capacityRps)
    expect(one.relativeError).toBeGreaterThan(0.01)
  })

  test('the capacity of a device that is the limit has the device’s own error, wide as it is', () => {
    const card = completeGpu('Card', {
      memoryGiB: 16,
      bandwidthGBs: 320,
      peakTflops: { fp32: 8.1, fp16: 65 },
    })
    const device = predictDeviceLatency({ architecture: bert, gpu: card, batch: 32 })
    const slo = { percentile: 0.99, limitMs: 100 * device.ms }
    const estimated = createEstimator({ architecture: bert, slo, ownGpus: [card] }).estimate({
      gpu: 'Card',
      cpuCores: 64,
      batchSize: 32,
    })
    if (!estimated.isFeasible) throw new Error('must serve')
    expect(device.relativeError).toBeGreaterThan(0.4)
    expect(estimated.relativeError / device.relativeError).toBeGreaterThan(0.98)
    expect(estimated.relativeError / device.relativeError).toBeLessThan(1.1)
  })
})
