/** What must hold of every GPU, model and division, whatever the tables say. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Architecture, architectures, findArchitecture } from './architecture.ts'
import { findGpu, type Gpu, gpuCatalogue, precisions } from './catalogue.ts'
import { calibratedCoefficients } from './coefficients.ts'
import { predictDeviceLatency } from './device-model.ts'
import { listMigProfiles } from './mig.ts'
import type { DeviceCall } from './predict.ts'

const precisionOf = (gpu: Gpu) =>
  fc.constantFrom(
    ...precisions.filter((p) => !(p === 'bf16' || p === 'fp8') || gpu.peakTflops[p] !== undefined),
  )
const longest = (architecture: Architecture) =>
  architecture.kind === 'convnet' ? 512 : architecture.maxSequenceLength
const sized = (architecture: Architecture, length: number) =>
  architecture.kind === 'convnet' ? { imageSize: length } : { sequenceLength: length }

/** A whole GPU with a model and a shape. */
const anyCall: fc.Arbitrary<DeviceCall & { readonly length: number }> = fc
  .tuple(fc.constantFrom(...gpuCatalogue), fc.constantFrom(...architectures))
  .chain(([gpu, architecture]) =>
    fc
      .record({
        batch: fc.integer({ min: 1, max: 200 }),
        length: fc.integer({ min: 32, max: Math.min(512, longest(architecture)) }),
        precision: precisionOf(gpu),
        sharing: fc.constantFrom('time-slice' as const, 'mps' as const, 'memory-only' as const),
        share: fc.constantFrom(0.1, 0.3, 0.55, 1),
      })
      .map(({ length, ...shape }) => ({
        gpu,
        architecture,
        length,
        ...shape,
        ...sized(architecture, length),
      })),
  )

const noFaster = (slower: number, faster: number) =>
  expect(slower).toBeGreaterThanOrEqual(faster * (1 - 1e-9))

test('a larger batch never takes less, nor a longer text or a larger image', () => {
  fc.assert(
    fc.property(anyCall, fc.integer({ min: 1, max: 64 }), (call, more) => {
      const { architecture, batch, length } = call
      const here = predictDeviceLatency(call).ms
      noFaster(predictDeviceLatency({ ...call, batch: batch + more }).ms, here)
      noFaster(
        predictDeviceLatency({
          ...call,
          ...sized(architecture, Math.min(longest(architecture), length + more)),
        }).ms,
        here,
      )
    }),
  )
})

test('a larger share is never slower, by whatever it is shared', () => {
  fc.assert(
    fc.property(
      anyCall,
      fc.integer({ min: 1, max: 100 }),
      fc.integer({ min: 1, max: 100 }),
      (call, a, b) => {
        const at = (percent: number) => predictDeviceLatency({ ...call, share: percent / 100 }).ms
        noFaster(at(Math.min(a, b)), at(Math.max(a, b)))
      },
    ),
  )
})

test('no MIG slice is faster than its GPU, nor than a slice that has as much of everything', () => {
  const sliced = gpuCatalogue.filter((gpu) => listMigProfiles(gpu).length > 0)
  fc.assert(
    fc.property(anyCall, fc.constantFrom(...sliced), (call, gpu) => {
      const on = (mig?: ReturnType<typeof listMigProfiles>[number]) =>
        predictDeviceLatency({
          ...call,
          gpu,
          precision: 'fp16',
          share: undefined,
          sharing: undefined,
          mig,
        }).ms
      const slices = listMigProfiles(gpu)
      for (const slice of slices) {
        noFaster(on(slice), on())
        for (const other of slices)
          if (
            other.multiprocessors >= slice.multiprocessors &&
            other.memoryFraction >= slice.memoryFraction
          )
            noFaster(on(slice), on(other))
      }
    }),
    { numRuns: fc.readConfigureGlobal().numRuns ?? 30 },
  )
})

test('no GPU is credited with more bandwidth than its datasheet', () => {
  for (const gpu of gpuCatalogue) {
    // One item of a wide model: its weights are read whole, whatever else is done.
    const architecture = findArchitecture('bert-large')
    const { ms } = predictDeviceLatency({ architecture, gpu, batch: 1, sequenceLength: 16 })
    const { layers, hidden, intermediate } = architecture as Extract<
      Architecture,
      { kind: 'encoder' }
    >
    const weightBytes =
      layers *
      (4 * hidden ** 2 + 2 * hidden * intermediate) *
      (gpu.peakTflops.fp16 === undefined ? 4 : 2)
    expect(weightBytes / 1e9 / (ms / 1e3), gpu.name).toBeLessThanOrEqual(gpu.bandwidthGBs * 1.02)
  }
})

test('twins of one silicon share their calibration', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 128 }),
      fc.constantFrom(64, 128, 384),
      (batch, sequenceLength) => {
        const bert = { architecture: findArchitecture('bert'), batch, sequenceLength }
        const on = (name: string) => predictDeviceLatency({ ...bert, gpu: findGpu(name) })
        expect(on('V100-32GB')).toEqual(on('V100'))
        // More bandwidth, all else alike.
        noFaster(on('A100-40GB').ms, on('A100-80GB').ms)
        expect(on('A100-80GB').relativeError).toBe(on('A100-40GB').relativeError)
      },
    ),
  )
})

test('what is known less is stated wider: rows left out, another model, another kind, another GPU, one by its bare datasheet', () => {
  const { calibrated, otherModel, otherKind, otherGpu, datasheetGpu, framework } =
    calibratedCoefficients.errors
  expect(calibrated).toBeLessThan(otherModel)
  expect(otherGpu).toBeLessThan(datasheetGpu)
  const errorOf = (gpu: string, model: string) =>
    predictDeviceLatency({ architecture: findArchitecture(model), gpu: findGpu(gpu), batch: 8 })
      .relativeError
  expect(errorOf('RTX-4090', 'mobilenet')).toBeGreaterThan(errorOf('RTX-4090', 'bert'))
  expect(errorOf('T4', 'mobilenet')).toBeGreaterThan(errorOf('T4', 'resnet50'))
  expect(errorOf('RTX-4090', 'bert')).toBeGreaterThan(2 * errorOf('T4', 'bert'))
  expect(errorOf('T4', 'mobilenet')).toBeGreaterThan(Math.hypot(otherKind, otherModel))
  const resnet = { architecture: findArchitecture('resnet50'), gpu: findGpu('T4'), batch: 8 }
  expect(predictDeviceLatency(resnet).relativeError).toBeGreaterThan(0.9 * otherKind)
  expect(predictDeviceLatency({ ...resnet, runtime: 'pytorch' }).relativeError).toBeGreaterThan(
    framework,
  )
  expect(
    predictDeviceLatency({ ...resnet, gpu: findGpu('V100'), runtime: 'pytorch' }).relativeError,
  ).toBeLessThan(framework)
})
