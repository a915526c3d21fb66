import { describe, expect, test } from 'vitest'
import { computeEffects } from './importance.ts'
import { computeNeighbourhood } from './neighbourhood.ts'

describe('what matters', () => {
  const parameters = [
    { kind: 'ordinal', name: 'cpuCores', category: 'resource', scale: 'log', values: [1, 2, 4, 8] },
    { kind: 'categorical', name: 'gpu', category: 'resource', values: ['A', 'B'] },
    { kind: 'ordinal', name: 'batchSize', category: 'server', scale: 'log', values: [1, 2, 4, 8] },
    { kind: 'ordinal', name: 'fixed', category: 'server', scale: 'linear', values: [3] },
  ] as const
  /**
   * ln capacity = 1.2 ln cores + 0.3 (gpu B) + 0 batch: shares of the variance are known in closed
   * form.
   */
  const all = [1, 2, 4, 8].flatMap((cpuCores) =>
    ['A', 'B'].flatMap((gpu) =>
      [1, 2, 4, 8].map((batchSize) => ({
        trial: cpuCores * 100 + batchSize * 10 + (gpu === 'B' ? 1 : 0),
        configuration: { cpuCores, gpu, batchSize, fixed: 3 },
        capacityRps: 100 * cpuCores ** 1.2 * (gpu === 'B' ? Math.exp(0.3) : 1),
        logSd: 0.01,
      })),
    ),
  )
  const served = all.filter((_, i) => i % 2 === 0 || i % 3 === 0)

  test('importance and effects come out as they were put in', () => {
    const { effects } = computeEffects(parameters, served, 1)!
    expect(effects.map((e) => e.parameter)).toEqual(['cpuCores', 'gpu', 'batchSize'])
    const varianceOfCores = (1.2 * Math.LN2) ** 2 * 1.25
    const expected = varianceOfCores / (varianceOfCores + 0.15 ** 2)
    expect(Math.abs(effects[0]!.importance.median - expected)).toBeLessThan(0.05)
    expect(effects[2]!.importance.high).toBeLessThan(0.05)
    const [a, b] = effects[1]!.values
    expect(b!.median / a!.median).toBeCloseTo(Math.exp(0.3), 1)
    for (const { low, median, high } of effects.flatMap((e) => e.values))
      expect(low <= median && median <= high).toBe(true)
  })

  test('fewer trials widen the intervals, and too few say nothing', () => {
    const width = (n: number) => {
      const cores = computeEffects(parameters, served.slice(0, n), 1)!.effects.find(
        (e) => e.parameter === 'cpuCores',
      )!
      return cores.values.reduce((sum, v) => sum + Math.log(v.high / v.low), 0)
    }
    expect(width(5)).toBeGreaterThan(2 * width(served.length))
    expect(computeEffects(parameters, served.slice(0, 3), 1)).toBeUndefined()
  })

  test('along one parameter and over two, the capacity is what was put in, surest where it was measured', () => {
    const centre = { cpuCores: 4, gpu: 'A', batchSize: 2, fixed: 3 }
    const { slices, surface } = computeNeighbourhood(
      parameters,
      served,
      centre,
      ['batchSize', 'nothing', 'cpuCores'],
      1,
    )!
    expect(slices.map(({ parameter, centreValue: at }) => [parameter, at])).toEqual([
      ['cpuCores', 4],
      ['gpu', 'A'],
      ['batchSize', 2],
    ])
    const truth = (cores: number, gpu = 'A') =>
      100 * cores ** 1.2 * (gpu === 'B' ? Math.exp(0.3) : 1)
    for (const { value, median, low, high } of slices[0]!.values) {
      expect(median / truth(Number(value))).toBeCloseTo(1, 1)
      expect(low <= median && median <= high).toBe(true)
    }
    const [a, b] = slices[1]!.values
    expect(b!.median / a!.median).toBeCloseTo(Math.exp(0.3), 1)
    const triedAlong = served.filter(
      ({ configuration: { cpuCores, gpu, batchSize } }) =>
        cpuCores === 4 && gpu === 'A' && batchSize > 0,
    )
    expect(slices[2]!.values.flatMap(({ tried }) => tried.map(({ trial }) => trial))).toEqual(
      triedAlong.map(({ trial }) => trial),
    )
    expect([surface!.across.parameter, surface!.up.parameter]).toEqual(['batchSize', 'cpuCores'])
    for (const [v, row] of surface!.cells.entries())
      for (const { median } of row)
        expect(median / truth(Number(surface!.up.values[v]))).toBeCloseTo(1, 1)
    expect(computeNeighbourhood(parameters, served.slice(0, 3), centre, [], 1)).toBeUndefined()
    // One parameter alone has no surface; a centre between the values is one of them.
    const alone = computeNeighbourhood(
      [parameters[0], parameters[3]],
      served,
      { cpuCores: 3, fixed: 3 },
      [],
      1,
    )!
    expect(alone.surface).toBeUndefined()
    expect(alone.slices[0]!.values.map(({ value }) => value)).toEqual([1, 2, 3, 4, 8])
  })

  test('the same trials and seed give the same answer', () => {
    expect(computeEffects(parameters, served, 3)).toEqual(computeEffects(parameters, served, 3))
  })
})
