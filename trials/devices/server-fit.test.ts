import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { findArchitecture } from './architecture.ts'
import { isCompiled } from './calibration/fit-physics.ts'
import { readTables } from './calibration/published-tables.ts'
import { findGpu } from './catalogue.ts'
import { predictDeviceLatency } from './device-model.ts'
import { estimateFitError, fitServer, predictServerMs } from './server-fit.ts'
import {
  foretoldFrameworks,
  foretoldLlmServers,
  foretoldProcesses,
} from './testing/anchored-tables.ts'

const device = (batch: number, gpu = 'T4') =>
  predictDeviceLatency({ architecture: findArchitecture('resnet50'), gpu: findGpu(gpu), batch }).ms
/** ln host, ln host per item, ln floor, ln level, slope */
const anyServer = fc.tuple(
  fc.double({ min: -2, max: 2, noNaN: true }),
  fc.double({ min: -4, max: 0, noNaN: true }),
  fc.double({ min: -1, max: 2.5, noNaN: true }),
  fc.double({ min: -0.5, max: 1.5, noNaN: true }),
  fc.double({ min: -0.1, max: 0.1, noNaN: true }),
)
const measured = (at: readonly number[], batches: readonly number[]) =>
  batches.map((batch) => ({
    batch,
    latencyMs: predictServerMs(at, batch, device(batch)),
    deviceMs: device(batch),
  }))

describe('a server of the law itself', () => {
  test('is foretold at sizes between and beyond its anchors, within what the fit says of itself', () => {
    fc.assert(
      fc.property(anyServer, (at) => {
        const fit = fitServer(measured(at, [1, 4, 16, 64]))
        for (const batch of [2, 8, 32, 128]) {
          const truth = predictServerMs(at, batch, device(batch))
          const error = Math.log(predictServerMs(fit.parameters, batch, device(batch)) / truth)
          expect(Math.abs(error)).toBeLessThan(2 * estimateFitError(fit, batch, device(batch)))
        }
      }),
      { numRuns: fc.readConfigureGlobal().numRuns ?? 15 },
    )
  })

  test('latency never falls as the batch, the processes or the device time grow', () => {
    fc.assert(
      fc.property(
        anyServer,
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 1, max: 5 }),
        (at, batch, processes) => {
          const here = predictServerMs(at, batch, 5, processes)
          expect(predictServerMs(at, batch, 5, processes + 1)).toBeGreaterThanOrEqual(here)
          expect(predictServerMs(at, batch, 6, processes)).toBeGreaterThanOrEqual(here)
          expect(predictServerMs(at, batch + 1, device(batch + 1), 1)).toBeGreaterThanOrEqual(
            0.99 * predictServerMs(at, batch, device(batch), 1),
          )
        },
      ),
    )
  })

  test('more anchors leave less error, and what was not measured more of it', () => {
    const at = [0, -3, 1.5, 0.5, 0]
    const few = fitServer(measured(at, [1, 4, 16]))
    const many = fitServer(measured(at, [1, 2, 4, 16, 64]))
    expect(estimateFitError(many, 64, device(64))).toBeLessThan(
      estimateFitError(few, 64, device(64)),
    )
    expect(estimateFitError(few, 512, device(512))).toBeGreaterThan(
      estimateFitError(few, 8, device(8)),
    )
    expect(estimateFitError(few, 8, device(8), 4)).toBeGreaterThan(
      estimateFitError(few, 8, device(8)),
    )
  })
})

test('the error of a server on another GPU is wider than on its own, and that of another share of it lies between', () => {
  const gpu = findGpu('T4')
  const calibratedServer = {
    ...fitServer(measured([0, -3, 1, 0.5, 0], [1, 4, 16, 64])),
    measuredOn: { gpu },
  }
  const call = { architecture: findArchitecture('resnet50'), batch: 32, calibratedServer }
  const here = predictDeviceLatency({ ...call, gpu }).relativeError
  const half = predictDeviceLatency({
    ...call,
    gpu,
    share: 0.5,
    sharing: 'memory-only',
  }).relativeError
  const elsewhere = predictDeviceLatency({ ...call, gpu: findGpu('L4') }).relativeError
  expect(half).toBeGreaterThan(here)
  expect(elsewhere).toBeGreaterThan(half)
})

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!
const tables = readTables(new URL('./tables', import.meta.url).pathname)

test.each([
  [
    'frameworks',
    foretoldFrameworks(
      tables.latency.filter((r) => !isCompiled(r)),
      [1, 8, 32, 128],
    ),
    0.05,
  ],
  ['processes on slices', foretoldProcesses('bert'), 0.1],
  ['LLM servers', foretoldLlmServers([1, 4, 16]), 0.05],
] as const)(
  '%s: rows that were no anchors are foretold many times better than by the device alone, two in three within the error',
  (_, rows, target) => {
    const errors = rows.map((r) => Math.abs(r.anchoredMs / r.measuredMs - 1))
    expect(median(errors)).toBeLessThan(target)
    expect(median(rows.map((r) => Math.abs(r.unanchoredMs / r.measuredMs - 1)))).toBeGreaterThan(
      5 * median(errors),
    )
    expect(rows.filter((r, i) => errors[i]! <= r.relativeError).length).toBeGreaterThan(
      (2 / 3) * rows.length,
    )
  },
)
