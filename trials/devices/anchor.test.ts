import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { anchorError, anchoredMs, fitAnchor } from './anchor.ts'
import { architectureOf } from './architecture.ts'
import { isCompiled } from './calibration/fit-coefficients.ts'
import { readTables } from './calibration/published-tables.ts'
import { findGpu } from './catalogue.ts'
import { deviceLatencyMs } from './device-model.ts'
import {
  foretoldFrameworks,
  foretoldLlmServers,
  foretoldProcesses,
} from './testing/anchored-tables.ts'

const device = (batch: number, gpu = 'T4') =>
  deviceLatencyMs({ architecture: architectureOf('resnet50'), gpu: findGpu(gpu), batch }).ms
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
    latencyMs: anchoredMs(at, batch, device(batch)),
    deviceMs: device(batch),
  }))

describe('a server of the law itself', () => {
  test('is foretold at sizes between and beyond its anchors, within what the fit says of itself', () => {
    fc.assert(
      fc.property(anyServer, (at) => {
        const fit = fitAnchor(measured(at, [1, 4, 16, 64]))
        for (const batch of [2, 8, 32, 128]) {
          const truth = anchoredMs(at, batch, device(batch))
          const error = Math.log(anchoredMs(fit.at, batch, device(batch)) / truth)
          expect(Math.abs(error)).toBeLessThan(2 * anchorError(fit, batch, device(batch)))
        }
      }),
      { numRuns: 60 },
    )
  })

  test('latency never falls as the batch, the processes or the device time grow', () => {
    fc.assert(
      fc.property(
        anyServer,
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 1, max: 5 }),
        (at, batch, processes) => {
          const here = anchoredMs(at, batch, 5, processes)
          expect(anchoredMs(at, batch, 5, processes + 1)).toBeGreaterThanOrEqual(here)
          expect(anchoredMs(at, batch, 6, processes)).toBeGreaterThanOrEqual(here)
          expect(anchoredMs(at, batch + 1, device(batch + 1), 1)).toBeGreaterThanOrEqual(
            0.99 * anchoredMs(at, batch, device(batch), 1),
          )
        },
      ),
    )
  })

  test('more anchors leave less error, and what was not measured more of it', () => {
    const at = [0, -3, 1.5, 0.5, 0]
    const few = fitAnchor(measured(at, [1, 4, 16]))
    const many = fitAnchor(measured(at, [1, 2, 4, 16, 64]))
    expect(anchorError(many, 64, device(64))).toBeLessThan(anchorError(few, 64, device(64)))
    expect(anchorError(few, 512, device(512))).toBeGreaterThan(anchorError(few, 8, device(8)))
    expect(anchorError(few, 8, device(8), 4)).toBeGreaterThan(anchorError(few, 8, device(8)))
  })
})

test('the error of a server on another GPU is wider than on its own, and that of another share of it lies between', () => {
  const gpu = findGpu('T4')
  const anchored = { ...fitAnchor(measured([0, -3, 1, 0.5, 0], [1, 4, 16, 64])), on: { gpu } }
  const call = { architecture: architectureOf('resnet50'), batch: 32, anchored }
  const here = deviceLatencyMs({ ...call, gpu }).relativeError
  const half = deviceLatencyMs({ ...call, gpu, share: 0.5, sharing: 'memory-only' }).relativeError
  const elsewhere = deviceLatencyMs({ ...call, gpu: findGpu('L4') }).relativeError
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
