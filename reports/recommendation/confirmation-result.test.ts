import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { Slo } from '../../profiler/model/slo.ts'
import { type CompleteTrial, readConfirmation } from './confirmation-result.ts'
import { A, again, disturbed } from './invented-trials.contract.ts'
import type { Windows } from './windows.contract.ts'

const slo: Slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
/** A second measurement in windows of [rate, p99], the highest that kept 50 ms its capacity. */
const measuredAgain = (windows: Windows, change: Partial<Measurement> = {}, proven = true) =>
  again(2, A, windows, proven, change) as CompleteTrial

describe('under the SLO that it was made for, its own word counts', () => {
  test.each<[string, Windows, { rateRps: number; sloMs: number; met: boolean }]>([
    ['held where it was asked to', [[100, 34]], { rateRps: 100, sloMs: 34, met: true }],
    ['held at less than one a second', [[0.5, 34]], { rateRps: 0.5, sloMs: 34, met: true }],
    [
      'held at a lower rate',
      [
        [100, 62],
        [90, 44],
      ],
      { rateRps: 90, sloMs: 44, met: true },
    ],
    [
      'missed everywhere: the lowest rate that missed',
      [
        [100, 90],
        [82, 65],
        [90, 80],
      ],
      { rateRps: 82, sloMs: 65, met: false },
    ],
  ])('%s', (_, windows, expected) => {
    expect(readConfirmation(measuredAgain(windows), slo)).toMatchObject({
      ...expected,
      sloCi95Ms: [0.96 * expected.sloMs, 1.04 * expected.sloMs],
    })
  })

  test('what missed holds at no rate for sure, and proves nothing', () => {
    expect(readConfirmation(measuredAgain([[100, 90]]), slo)).toMatchObject({
      met: false,
      proven: false,
      lowerRps: 0,
    })
  })

  test('proven by its window: its rate is sure', () => {
    expect(readConfirmation(measuredAgain([[100, 34]]), slo)).toMatchObject({
      proven: true,
      lowerRps: 100,
    })
  })

  test('too few requests to prove it: the profiler lowers what is sure', () => {
    const look = readConfirmation(measuredAgain([[100, 34]], {}, false), slo)!
    expect(look).toMatchObject({ proven: false, rateRps: 100 })
    expect(look.lowerRps).toBeCloseTo(0.95 * 100, 9)
  })

  test('two windows joined prove what neither does alone: the interval says so', () => {
    const windows: Windows = [[100, 34]]
    expect(
      readConfirmation(measuredAgain(windows, { capacityCi90Rps: [100, Infinity] }, false), slo),
    ).toMatchObject({
      proven: true,
      lowerRps: 100,
    })
    expect(
      readConfirmation(measuredAgain(windows, { capacityCi90Rps: [99, Infinity] }, false), slo),
    ).toMatchObject({
      proven: false,
      lowerRps: 99,
    })
  })

  test('nothing is sure above the rate that held, and an interval from nothing is taken as unproven', () => {
    expect(
      readConfirmation(measuredAgain([[100, 34]], { capacityCi90Rps: [150, 180] }), slo),
    ).toMatchObject({ lowerRps: 100 })
    const open = readConfirmation(
      measuredAgain([[100, 34]], { capacityCi90Rps: [0, Infinity] }, false),
      slo,
    )!
    expect(open.lowerRps).toBeCloseTo(0.95 * 100, 9)
  })

  test('its latency is that of the window nearest its rate; of two at one rate, of the one that held', () => {
    const at = (windows: Windows) =>
      readConfirmation(
        measuredAgain(windows, { capacityRps: 100, capacityCi90Rps: [100, Infinity] }),
        slo,
      )?.sloMs
    expect(
      at([
        [60, 20],
        [98, 30],
        [104, 40],
      ]),
    ).toBe(30)
    expect(
      at([
        [100, 70],
        [100, 34],
      ]),
    ).toBe(34)
    expect(
      at([
        [100, 34],
        [100, 70],
      ]),
    ).toBe(34)
    // Joined of two windows that held: the first one.
    expect(
      at([
        [100, 34],
        [100, 36],
      ]),
    ).toBe(34)
    expect(at([])).toBeNaN()
  })

  test('without windows its rate stands, and how sure it is is told by its interval', () => {
    const look = readConfirmation(
      measuredAgain([], { capacityRps: 100, capacityCi90Rps: [100, Infinity] }),
      slo,
    )
    expect(look).toMatchObject({ met: true, proven: true, rateRps: 100, sloCi95Ms: [0, Infinity] })
  })

  test.each<[string, Partial<Measurement>]>([
    ['the machine spoilt it', disturbed],
    ['the generator could not hold the load', { outcome: 'generator-limit', bounds: 'none' }],
  ])('it says nothing where %s', (_, change) => {
    expect(readConfirmation(measuredAgain([[100, 90]], change), slo)).toBeUndefined()
  })

  test('it says nothing where no window missed', () => {
    expect(readConfirmation(measuredAgain([], { capacityRps: 0 }), slo)).toBeUndefined()
    expect(readConfirmation(measuredAgain([[100, 34]], { capacityRps: 0 }), slo)).toBeUndefined()
  })
})

describe('under another SLO its windows count, each for itself', () => {
  const windows: Windows = [
    [60, 20],
    [90, 38],
    [100, 44],
  ]
  const under = (limitMs: number, proven = true) =>
    readConfirmation(measuredAgain(windows, {}, proven), { ...slo, limitMs })

  test.each<[number, { met: boolean; rateRps: number; sloMs: number }]>([
    [47, { met: true, rateRps: 100, sloMs: 44 }],
    [41, { met: true, rateRps: 90, sloMs: 38 }],
    [30, { met: true, rateRps: 60, sloMs: 20 }],
    [15, { met: false, rateRps: 60, sloMs: 20 }],
  ])('at %d ms: the highest rate that held, else the lowest that missed', (limitMs, expected) => {
    expect(under(limitMs)).toMatchObject(expected)
  })

  test('what was proven is sure at its rate, what was not at 95 % of it, what missed at none', () => {
    expect(under(90)).toMatchObject({ proven: true, lowerRps: 100 })
    expect(under(90, false)).toMatchObject({ met: true, proven: false })
    expect(under(90, false)!.lowerRps).toBeCloseTo(0.95 * 100, 9)
    expect(under(15)).toMatchObject({ proven: false, lowerRps: 0 })
  })

  test('nothing where no window tells', () => {
    expect(readConfirmation(measuredAgain([]), { ...slo, limitMs: 40 })).toBeUndefined()
    expect(readConfirmation(measuredAgain(windows), { ...slo, metric: 'ttft' })).toBeUndefined()
  })
})
