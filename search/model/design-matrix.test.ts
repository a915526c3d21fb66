import { describe, expect, test } from 'vitest'
import { enumerate } from '../space/space.ts'
import type { OrdinalParameter, Parameter, Problem, SearchSpace } from '../types.ts'
import {
  concurrencySlope,
  createDesign,
  type Knowledge,
  logReach,
  movesPrice,
  priceRange,
  representatives,
  slope,
} from './design-matrix.ts'

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

describe('the reach of an axis', () => {
  test('is ln(max / min) in logarithms, and none of a linear one or one that begins at 0', () => {
    expect(logReach(cores)).toBeCloseTo(Math.log(4), 12)
    expect(logReach({ ...cores, scale: 'linear' })).toBeUndefined()
    expect(logReach({ ...cores, values: [0, 1] })).toBeUndefined()
    expect(logReach({ ...wait, min: 2, max: 20, scale: 'log' })).toBeCloseTo(Math.log(10), 12)
    expect(logReach({ ...wait, scale: 'log' })).toBeUndefined()
  })
})

describe('what is believed of a parameter before any trial', () => {
  test('elasticities of 0 ± 0.5 over its reach, of at least half an e-fold; 0 ± 1 over a linear axis; 0 ± 0.5 between names', () => {
    expect(slope(cores, 1)).toEqual({ mean: 0, sd: expect.closeTo(0.5 * Math.log(4), 12) })
    expect(slope({ ...cores, values: [1, 1.1] }, 1)).toEqual({ mean: 0, sd: 0.25 })
    expect(slope(wait, 1)).toEqual({ mean: 0, sd: 1 })
    expect(slope(loop, 1)).toEqual({ mean: 0, sd: 0.5 })
    // What knowledge leaves to correct.
    expect([slope(cores, 1, 0.1).sd, slope(wait, 1, 0.1).sd, slope(loop, 1, 0.1).sd]).toEqual([
      expect.closeTo(0.05 * Math.log(4), 12),
      expect.closeTo(0.1, 12),
      expect.closeTo(0.05, 12),
    ])
  })

  test('certain knowledge moves the mean by half a deviation, in its direction and that of the quantity', () => {
    const sd = 0.5 * Math.log(4)
    expect(slope({ ...cores, monotone: 'up' }, 1).mean).toBeCloseTo(sd / 2, 12)
    expect(slope({ ...cores, monotone: 'down' }, 1).mean).toBeCloseTo(-sd / 2, 12)
    expect(slope({ ...cores, monotone: 'up' }, -1).mean).toBeCloseTo(-sd / 2, 12)
  })

  test('what is served at once raises the rate, and the latency at that rate, by an elasticity of 0.5 ± 0.25', () => {
    const known = {
      mean: expect.closeTo(0.5 * Math.log(8), 12),
      sd: expect.closeTo(0.25 * Math.log(8), 12),
    }
    expect(concurrencySlope(problem, batch, 'rate')).toEqual(known)
    expect(concurrencySlope({ ...problem, constraintAtRate: true }, batch, 'constraint')).toEqual(
      known,
    )
  })

  test('of a server without load, of what cannot serve, of other parameters and of linear axes it says nothing', () => {
    expect(concurrencySlope(problem, batch, 'constraint')).toBeUndefined()
    expect(
      concurrencySlope({ ...problem, constraintAtRate: true }, batch, 'serves'),
    ).toBeUndefined()
    expect(concurrencySlope(problem, cores, 'rate')).toBeUndefined()
    const ofMetric = { ...problem, objective: { kind: 'min-metric', metric: 'depth' } } as const
    expect(concurrencySlope(ofMetric, batch, 'rate')).toBeUndefined()
    expect(
      concurrencySlope({ ...ofMetric, constraintAtRate: true }, batch, 'constraint'),
    ).toBeDefined()
    const leaning = (of: Problem) =>
      createDesign(of, 'rate').shape.slopeMean.some((mean) => mean !== 0)
    expect([leaning(problem), leaning(ofMetric)]).toEqual([true, false])
    expect(concurrencySlope(problem, { ...batch, scale: 'linear' }, 'rate')).toBeUndefined()
  })
})

describe('prices', () => {
  test('range over the space in ln; one price is none', () => {
    expect(priceRange(problem)).toEqual([
      expect.closeTo(Math.log(0.2), 12),
      expect.closeTo(Math.log(4), 12),
    ])
    expect(priceRange(problemOf(problem.space, { pricePerHour: () => 3 }))).toEqual([
      Math.log(3),
      0,
    ])
  })

  test('depend on whatever ever moves them, dearer or cheaper', () => {
    const asked = problemOf(problem.space, {
      pricePerHour: (c) => (c.loop === 'sync' && c.cores === 4 ? 1 : 2),
    })
    expect(['cores', 'batch', 'loop'].map((name) => movesPrice(asked, name))).toEqual([
      true,
      false,
      true,
    ])
    expect(movesPrice(problem, 'cores')).toBe(true)
  })

  test('are compared within the constraints alone', () => {
    // The only pair that differs in cores breaks the constraint.
    const bound = problemOf(
      {
        parameters: [cores, batch],
        constraints: [
          { text: 'cores = 1 or batch = 8', holds: (c) => c.cores === 1 || c.batch === 8 },
        ],
      },
      { pricePerHour: (c) => (c.batch === 8 ? 1 : Number(c.cores)) },
    )
    expect(movesPrice(bound, 'cores')).toBe(false)
  })
})

describe('representatives', () => {
  test('are all of a small space, and the same objects each time', () => {
    expect(representatives(problem)).toEqual(enumerate(problem.space))
    expect(representatives(problem)).toBe(representatives({ ...problem }))
  })
  test('are at most 512 evenly chosen of a larger one, and as many of one that cannot be listed', () => {
    const many = spaceOf(
      ordinal(
        'a',
        Array.from({ length: 50 }, (_, i) => i + 1),
      ),
      ordinal(
        'b',
        Array.from({ length: 21 }, (_, i) => i + 1),
      ),
    )
    const some = representatives(problemOf(many))
    // 1,050 cells: every third.
    expect(some.map((c) => (Number(c.a) - 1) * 21 + Number(c.b) - 1)).toEqual(
      Array.from({ length: 350 }, (_, i) => 3 * i),
    )
    expect(representatives(problemOf(spaceOf(wait)))).toHaveLength(512)
  })
})

describe('a design', () => {
  const sd = 0.5 * Math.log(4)
  const span = Math.log(4)
  /** Group, mean and deviation of each column. */
  const columns = ({ shape }: ReturnType<typeof createDesign>) =>
    shape.groups.map((group, i) => [
      group,
      shape.slopeMean[i]! + 0,
      Math.sqrt(shape.slopeVariance[i]!),
    ])
  const close = (rows: readonly (readonly number[])[]) =>
    rows.map((row) => row.map((v) => expect.closeTo(v, 12)))

  test('has encoded parameters, ln price from 0 to 1 and ones', () => {
    const { rows, groups } = createDesign(problem, 'rate')
    expect(groups).toBe(4)
    const [row, again] = [{ cores: 2, batch: 8, loop: 'async' }].flatMap((c) => rows([c, c]))
    expect([...row!]).toEqual([
      expect.closeTo(0.5, 12),
      1,
      0,
      Math.SQRT1_2,
      expect.closeTo(0.5, 12),
      1,
    ])
    expect(again).toBe(row)
    expect(rows([])).toEqual([])
  })

  test('believes that the dearer serves more and takes less time; nothing of what cannot serve', () => {
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
    const { shape, groups, rows } = createDesign(
      problemOf(problem.space, { pricePerHour: () => 1 }),
      'rate',
    )
    expect([groups, shape.groups]).toEqual([3, [0, 1, 2, 2, -1]])
    expect(rows(enumerate(problem.space))[0]).toHaveLength(5)
  })

  test('takes what is known beforehand as further columns, and leaves the trend a part to correct', () => {
    const knowledge: Knowledge = {
      slopes: [
        [1, 0.05],
        [-0.2, 0.3],
      ],
      columns: (configurations) => configurations.map((c) => [Number(c.cores), 7]),
      correction: 0.1,
      offsetSd: 0.2,
      burden: -2,
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
    expect([...design.rows([{ cores: 4, batch: 1, loop: 'sync' }])[0]!].slice(-3)).toEqual([
      1, 4, 7,
    ])
  })
})
