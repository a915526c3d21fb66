import { describe, expect, test } from 'vitest'
import type { LoadPoint } from '../../profiler/model/load-point.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Configuration } from '../../search/types.ts'
import { tight, tried } from './invented-trials.contract.ts'
import { computeTokenFigures } from './token-figures.ts'
import { formatWindow, listLatencyRows, rateRows, tokenFigures } from './token-text.ts'

const configuration: Configuration = { gpu: 'T4', gpus: 2, gpuMemoryPercent: 50 }
type Streamed = { readonly inputTokens?: number; readonly outputTokens?: number }

/** Windows at these rates, of 10 s each, and what their requests are like. */
function measured(
  capacityRps: number,
  windows: readonly (readonly [rate: number, p99Ms: number, tokens: Streamed])[],
): Measurement {
  const trial = tried(1, configuration, capacityRps, {
    slo: tight,
    windows: windows.map(([rate, p99Ms]) => [rate, p99Ms]),
  })
  const { measurement } = trial as typeof trial & { state: 'complete' }
  const points = measurement.points.map(
    (point, i): LoadPoint => ({ ...point, stream: { ...point.stream!, ...windows[i]![2] } }),
  )
  return { ...measurement, points }
}
const each: Streamed = { inputTokens: 300, outputTokens: 100 }
const figures = (measurement: Measurement, capacityRps = 10) =>
  computeTokenFigures(measurement, { capacityRps, pricePerHour: 3.6 }, configuration)

describe('what streams say at the capacity', () => {
  test('tokens and prices of the mean request, each price bearing the whole', () => {
    const found = figures(measured(10, [[10, 100, each]]))!
    expect(found).toMatchObject({
      outputTokens: 100,
      inputTokens: 300,
      outputTokensPerSecond: 1000,
      totalTokensPerSecond: 4000,
      windowRps: 10,
    })
    // Two halves of a GPU are one.
    expect(found.outputTokensPerSecondPerGpu).toBe(1000)
    expect(found.pricePerMillionOutputTokens).toBeCloseTo(1, 9)
    expect(found.pricePerMillionInputTokens).toBeCloseTo(1 / 3, 9)
    expect(found.pricePerMillionTokens).toBeCloseTo(0.25, 9)
    expect(found.latencies!.ttft.p99Ms).toBe(100)
    expect(listLatencyRows(found).map(([name]) => name)).toEqual(['TTFT', 'ITL', 'TPOT', 'E2E'])
    expect(rateRows(found).map(([title]) => title)).toContain('per million tokens')
    expect(tokenFigures.every(({ read }) => Number.isFinite(read(found)))).toBe(true)
  })

  test('latencies are of the window nearest below, not of one that missed beyond; requests are the mean of all', () => {
    const found = figures(
      measured(10, [
        [4, 50, { inputTokens: 100, outputTokens: 40 }],
        [9.5, 80, { inputTokens: 100, outputTokens: 100 }],
        [10.4, 900, { inputTokens: 100, outputTokens: 100 }],
      ]),
    )!
    expect([found.windowRps, found.latencies!.ttft.p99Ms]).toEqual([9.5, 80])
    expect(found.outputTokens).toBeCloseTo((40 * 40 + 100 * 95 + 100 * 104) / (40 + 95 + 104), 9)
  })

  test('latencies are of a window that kept the SLO where one did: below the capacity some miss by chance', () => {
    const windows: [number, number, Streamed][] = [
      [8, 60, each],
      [9.5, tight.limitMs + 10, each],
    ]
    expect(figures(measured(10, windows))!.windowRps).toBe(8)
    expect(figures(measured(10, windows.slice(1)))!.windowRps).toBe(9.5)
  })

  test('where all windows are far above the capacity, as under another SLO, nothing is said of how long answers take, nor a goodput beyond it', () => {
    const far = figures(measured(10, [[10, 100, each]]), 3)!
    expect(far.outputTokensPerSecond).toBe(300)
    expect([far.windowRps, far.latencies, far.goodputRps, formatWindow(far)]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ])
    expect(listLatencyRows(far)).toEqual([])
    expect(rateRows(far).map(([title]) => title)).not.toContain('goodput')
    expect(formatWindow(figures(measured(10, [[10.4, 100, each]]))!)).toBe('at 10.4 req/s')
  })

  test('windows that were cut, spoilt or late do not count', () => {
    const measurement = measured(10, [
      [5, 60, each],
      [10, 100, each],
    ])
    const spoilt = (change: Partial<LoadPoint>) => ({
      ...measurement,
      points: measurement.points.map((point, i) => (i === 1 ? { ...point, ...change } : point)),
    })
    for (const change of [{ cut: true }, { invalid: true }, { generatorSaturated: true }])
      expect(figures(spoilt(change))!.windowRps).toBe(5)
  })

  test('where the machine spoilt every window, tokens and prices are told all the same, and no latencies', () => {
    const measurement = measured(10, [[10, 100, each]])
    const found = figures({
      ...measurement,
      points: measurement.points.map((point) => ({ ...point, invalid: true })),
    })!
    expect([found.outputTokensPerSecond, found.latencies]).toEqual([1000, undefined])
    expect(found.pricePerMillionOutputTokens).toBeCloseTo(1, 9)
  })

  test('without input tokens nothing is said of them; of an old store, or without a capacity, nothing at all', () => {
    const blind = figures(measured(10, [[10, 100, { outputTokens: 100 }]]))!
    expect(blind.pricePerMillionTokens).toBeUndefined()
    expect(blind.totalTokensPerSecond).toBeUndefined()
    expect(blind.pricePerMillionOutputTokens).toBeCloseTo(1, 9)
    expect(figures(measured(10, [[10, 100, {}]]))).toBeUndefined()
    expect(figures(measured(10, [[10, 100, each]]), 0)).toBeUndefined()
  })

  test('without a GPU there is no figure per GPU', () => {
    const found = computeTokenFigures(
      measured(10, [[10, 100, each]]),
      { capacityRps: 10, pricePerHour: 1 },
      { gpu: 'none' },
    )!
    expect(found.outputTokensPerSecondPerGpu).toBeUndefined()
  })
})
