import { expect, test } from 'vitest'
import { calibratedCoefficients } from '../coefficients.ts'
import { predictLatency } from '../predict.ts'
import {
  boundFrameworkError,
  computeErrors,
  crossValidateFrameworks,
  crossValidateShares,
} from './cross-validation.ts'
import { fitMemory, predictMemoryMiB } from './fit-coefficients.ts'
import { fitPhysics, isCompiled } from './fit-physics.ts'
import { solveLeastSquares } from './least-squares.ts'
import { readHeldOutLatencies, readPublishedTables } from './published-tables.ts'

const tables = readPublishedTables()
const rows = tables.latency.filter(isCompiled)
const quantile = (errors: readonly number[], q: number) =>
  errors.map(Math.abs).sort((a, b) => a - b)[Math.floor(q * errors.length)]!

test('the committed coefficients are what the tables give', () => {
  const { physics, deviations } = fitPhysics(rows)
  for (const [name, value] of Object.entries(physics))
    expect(calibratedCoefficients.physics[name as keyof typeof physics] / value, name).toBeCloseTo(
      1,
      3,
    )
  for (const [gpu, { compute }] of Object.entries(deviations))
    expect(calibratedCoefficients.deviations[gpu]!.compute, gpu).toBeCloseTo(compute, 3)
})

test('errors of rows, GPUs and shares left out keep their targets', () => {
  expect(calibratedCoefficients.errors.calibrated).toBeLessThan(0.04)
  expect(calibratedCoefficients.errors.otherGpu).toBeLessThan(0.2)
  expect(quantile(crossValidateShares(tables.share), 0.5)).toBeLessThan(0.03)
})

test('in-sample errors are within the spread of published figures', () => {
  expect(quantile(computeErrors(rows, calibratedCoefficients), 0.9)).toBeLessThan(0.04)
})

test.each([
  ['BERT on A30, of which the tables have ResNet-50 alone', 'bert-tensorrt.csv', 'A30'],
  ['BERT on L40S, which no table has', 'bert-tensorrt.csv', 'L40S'],
  ['convolutional networks in TensorRT by itself', 'convnets-a100.csv', 'A100-40GB'],
])(
  '%s: two thirds of the rows, which nothing is fitted to, lie within the stated error',
  (_, table, gpu) => {
    const held = readHeldOutLatencies(table).filter((row) => row.gpu.name === gpu)
    const within = held.filter((row) => {
      const { ms, relativeError } = predictLatency(row, calibratedCoefficients)
      return Math.abs(ms / row.latencyMs - 1) <= relativeError
    })
    expect(held.length).toBeGreaterThan(2)
    expect(within.length / held.length).toBeGreaterThan(2 / 3)
  },
)

test.each(['mxnet', 'tensorflow', 'tensorflow+xla'])(
  '%s on a GPU where it was not measured: two thirds within what the others say',
  (runtime) => {
    const errors = crossValidateFrameworks(tables.latency, calibratedCoefficients)
    const bar = boundFrameworkError(errors.filter((e) => e.runtime !== runtime))
    const own = errors.filter((e) => e.runtime === runtime)
    expect(own.filter(({ error }) => Math.abs(error) <= bar).length / own.length).toBeGreaterThan(
      2 / 3,
    )
    expect(bar).toBeLessThanOrEqual(1.2 * calibratedCoefficients.errors.framework)
  },
)

test('memory of a model left out is within 6 % at the median', () => {
  const errors = ['vgg16', 'vgg-s'].flatMap((left) => {
    const memory = fitMemory(tables.memory.filter((r) => r.architecture.name !== left))
    return tables.memory
      .filter((r) => r.architecture.name === left)
      .map((r) => predictMemoryMiB(r, memory) / r.gpuMemoryMiB - 1)
  })
  expect(quantile(errors, 0.5)).toBeLessThan(0.06)
})

test('rows that name what is unknown are counted, not dropped in silence', () => {
  expect([...tables.skipped]).toEqual([
    [expect.stringMatching(/^resnet50.csv: unknown model architecture 'ssd300-resnet50'/), 28],
  ])
})

test('least squares finds a curve through noise and outliers, and stays at the prior without data', () => {
  const truth = [Math.log(2), Math.log(0.5)]
  const points = Array.from({ length: 40 }, (_, i) => ({
    x: i / 10,
    y: 2 * Math.exp(-0.5 * (i / 10)) + (i === 7 ? 3 : 0),
  }))
  const solved = solveLeastSquares({
    start: [0, 0],
    priorSd: [2, 2],
    data: ([a, b]) =>
      Float64Array.from(
        points,
        ({ x, y }) => (Math.exp(a!) * Math.exp(-Math.exp(b!) * x) - y) / 0.01,
      ),
  })
  expect(solved[0]).toBeCloseTo(truth[0]!, 1)
  expect(solved[1]).toBeCloseTo(truth[1]!, 1)
  expect(
    solveLeastSquares({ start: [1], priorSd: [1], data: () => new Float64Array(0) })[0],
  ).toBeCloseTo(1)
})
