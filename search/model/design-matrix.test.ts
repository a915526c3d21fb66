import { describe, expect, test } from 'vitest'
import { enumerateConfigurations } from '../space/space.ts'
import type { OrdinalParameter, Parameter, Problem, SearchSpace } from '../types.ts'
import {
  computeLogRange,
  createConcurrencySlopePrior,
  createDesign,
  createSlopePrior,
} from './design-matrix.ts'
import type { InformativePrior } from './informative-prior.ts'

const ordinal = (
  name: string,
  values: readonly number[],
  more: Partial<OrdinalParameter> = {},
): OrdinalParameter => ({
  name,
  category: 'resource',
  kind: 'ordinal',
  values,
  scale: 'log',
  ...more,
})
const cores = ordinal('cores', [1, 2, 4])
const batch = ordinal('batch', [1, 8], { concurrency: true })
const loop: Parameter = {
  name: 'loop',
  category: 'server',
  kind: 'categorical',
  values: ['sync', 'async'],
}
const wait: Parameter = {
  name: 'waitMs',
  category: 'server',
  kind: 'float',
  min: 0,
  max: 4,
  scale: 'linear',
}
const spaceOf = (...parameters: Parameter[]): SearchSpace => ({ parameters, constraints: [] })
const problemOf = (space: SearchSpace, more: Partial<Problem> = {}): Problem => ({
  space,
  objective: { kind: 'price-per-request' },
  constraintLimit: 50,
  pricePerHour: (c) => 0.2 * Number(c.cores),
  ...more,
})
const problem = problemOf(spaceOf(cores, batch, loop))

describe('the log range of an axis', () => {
  test('is ln(max / min) of a log axis, undefined for a linear one or one that starts at 0', () => {
    expect(computeLogRange(cores)).toBeCloseTo(Math.log(4), 12)
    expect(computeLogRange({ ...cores, scale: 'linear' })).toBeUndefined()
    expect(computeLogRange({ ...cores, values: [0, 1] })).toBeUndefined()
    expect(computeLogRange({ ...wait, min: 2, max: 20, scale: 'log' })).toBeCloseTo(
      Math.log(10),
      12,
    )
    expect(computeLogRange({ ...wait, scale: 'log' })).toBeUndefined()
  })
})

describe('slope priors', () => {
  test('are elasticities of 0 ± 0.5 over a log range of at least 0.5; 0 ± 1 over a linear axis; 0 ± 0.5 between names', () => {
    expect(createSlopePrior(cores, 1)).toEqual({
      mean: 0,
      sd: expect.closeTo(0.5 * Math.log(4), 12),
    })
    expect(createSlopePrior({ ...cores, values: [1, 1.1] }, 1)).toEqual({ mean: 0, sd: 0.25 })
    expect(createSlopePrior(wait, 1)).toEqual({ mean: 0, sd: 1 })
    expect(createSlopePrior(loop, 1)).toEqual({ mean: 0, sd: 0.5 })
    // Scaled beside an informative prior.
    expect([
      createSlopePrior(cores, 1, 0.1).sd,
      createSlopePrior(wait, 1, 0.1).sd,
      createSlopePrior(loop, 1, 0.1).sd,
    ]).toEqual([
      expect.closeTo(0.05 * Math.log(4), 12),
      expect.closeTo(0.1, 12),
      expect.closeTo(0.05, 12),
    ])
  })

  test('known monotonicity moves the mean by half a standard deviation, in the direction of the quantity', () => {
    const sd = 0.5 * Math.log(4)
    expect(createSlopePrior({ ...cores, monotone: 'up' }, 1).mean).toBeCloseTo(sd / 2, 12)
    expect(createSlopePrior({ ...cores, monotone: 'down' }, 1).mean).toBeCloseTo(-sd / 2, 12)
    expect(createSlopePrior({ ...cores, monotone: 'up' }, -1).mean).toBeCloseTo(-sd / 2, 12)
  })

  test('concurrency raises the rate, and the latency at that rate, by an elasticity of 0.5 ± 0.25', () => {
    const known = {
      mean: expect.closeTo(0.5 * Math.log(8), 12),
      sd: expect.closeTo(0.25 * Math.log(8), 12),
    }
    expect(createConcurrencySlopePrior(problem, batch, 'rate')).toEqual(known)
    expect(
      createConcurrencySlopePrior({ ...problem, constraintAtRate: true }, batch, 'constraint'),
    ).toEqual(known)
  })

  test('has no concurrency prior for unloaded latency, P(serves), other parameters and linear axes', () => {
    expect(createConcurrencySlopePrior(problem, batch, 'constraint')).toBeUndefined()
    expect(
      createConcurrencySlopePrior({ ...problem, constraintAtRate: true }, batch, 'serves'),
    ).toBeUndefined()
    expect(createConcurrencySlopePrior(problem, cores, 'rate')).toBeUndefined()
    const ofMetric = { ...problem, objective: { kind: 'min-metric', metric: 'depth' } } as const
    expect(createConcurrencySlopePrior(ofMetric, batch, 'rate')).toBeUndefined()
    expect(
      createConcurrencySlopePrior({ ...ofMetric, constraintAtRate: true }, batch, 'constraint'),
    ).toBeDefined()
    const leaning = (of: Problem) =>
      createDesign(of, 'rate').spec.slopeMean.some((mean) => mean !== 0)
    expect([leaning(problem), leaning(ofMetric)]).toEqual([true, false])
    expect(
      createConcurrencySlopePrior(problem, { ...batch, scale: 'linear' }, 'rate'),
    ).toBeUndefined()
  })
})

describe('a design', () => {
  const sd = 0.5 * Math.log(4)
  const span = Math.log(4)
  /** Group, mean and deviation of each column. */
  const columns = ({ spec }: ReturnType<typeof createDesign>) =>
    spec.groups.map((group, i) => [
      group,
      spec.slopeMean[i]! + 0,
      Math.sqrt(spec.slopeVariance[i]!),
    ])
  const close = (rows: readonly (readonly number[])[]) =>
    rows.map((row) => row.map((v) => expect.closeTo(v, 12)))

  test('has encoded parameters, ln price from 0 to 1 and ones', () => {
    const { encodeRows, groups } = createDesign(problem, 'rate')
    expect(groups).toBe(4)
    const [row, again] = [{ cores: 2, batch: 8, loop: 'async' }].flatMap((c) => encodeRows([c, c]))
    expect([...row!]).toEqual([
      expect.closeTo(0.5, 12),
      1,
      0,
      Math.SQRT1_2,
      expect.closeTo(0.5, 12),
      1,
    ])
    expect(again).toBe(row)
    expect(encodeRows([])).toEqual([])
  })

  test('expects a dearer configuration to serve more and to be faster; has no direction for serves', () => {
    const trend = (
      served: readonly [number, number],
      price: number,
      offset: readonly [number, number],
    ) =>
      close([
        [0, 0, sd],
        [1, ...served],
        [2, 0, 0.5],
        [2, 0, 0.5],
        [3, price * span, 0.3 * span],
        [-1, ...offset],
      ])
    const unknown = [0, 0.5 * Math.log(8)] as const
    expect(columns(createDesign(problem, 'rate'))).toEqual(
      trend([0.5 * Math.log(8), 0.25 * Math.log(8)], 0.7, [0, 10]),
    )
    expect(columns(createDesign(problem, 'constraint'))).toEqual(trend(unknown, -0.7, [0, 10]))
    expect(columns(createDesign(problem, 'serves'))).toEqual(trend(unknown, 0, [1, 1]))
  })

  test('has no column for a price that is the same everywhere', () => {
    const { spec, groups, encodeRows } = createDesign(
      problemOf(problem.space, { pricePerHour: () => 1 }),
      'rate',
    )
    expect([groups, spec.groups]).toEqual([3, [0, 1, 2, 2, -1]])
    expect(encodeRows(enumerateConfigurations(problem.space))[0]).toHaveLength(5)
  })

  test('adds the columns of an informative prior, and scales the trend', () => {
    const knowledge: InformativePrior = {
      slopes: [
        [1, 0.05],
        [-0.2, 0.3],
      ],
      computeColumns: (configurations) => configurations.map((c) => [Number(c.cores), 7]),
      trendScale: 0.1,
      offsetSd: 0.2,
      minLogBayesFactor: -2,
    }
    const design = createDesign(problem, 'rate', knowledge)
    expect(columns(design)).toEqual(
      close([
        [0, 0, 0.1 * sd],
        [1, 0, 0.05 * Math.log(8)],
        [2, 0, 0.05],
        [2, 0, 0.05],
        [3, 0, 0.03 * span],
        [-1, 0, 0.2],
        [-1, 1, 0.05],
        [-1, -0.2, 0.3],
      ]),
    )
    expect([...design.encodeRows([{ cores: 4, batch: 1, loop: 'sync' }])[0]!].slice(-3)).toEqual([
      1, 4, 7,
    ])
  })
})
