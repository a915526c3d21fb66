/**
 * Whether stated errors hold where it counts: rows that neither the fit nor the choice of the bars
 * saw. A GPU, a model or a framework is left out of both, or the table is one that nothing is
 * fitted to.
 */
import {
  boundFrameworkError,
  crossValidate,
  crossValidateFrameworks,
  reduceToDatasheet,
} from '../calibration/cross-validation.ts'
import { fitCoefficients } from '../calibration/fit-coefficients.ts'
import { isCompiled } from '../calibration/fit-physics.ts'
import {
  type LatencyRow,
  readHeldOutLatencies,
  type Tables,
} from '../calibration/published-tables.ts'
import { type Coefficients, calibratedCoefficients } from '../coefficients.ts'
import { predictLatency } from '../predict.ts'

export interface Coverage {
  readonly what: string
  readonly within: number
  readonly rows: number
}

const within = (rows: readonly LatencyRow[], coefficients: Coefficients): number =>
  rows.filter((row) => {
    const { ms, relativeError } = predictLatency(row, coefficients)
    return Math.abs(ms / row.latencyMs - 1) <= relativeError
  }).length

/** How many of the rows lie within the error that is stated of each: two thirds should. */
export const coverageOf = (
  what: string,
  rows: readonly LatencyRow[],
  coefficients: Coefficients,
): string => lineOf({ what, within: within(rows, coefficients), rows: rows.length })

const lineOf = ({ what, within, rows }: Coverage): string =>
  `${`  ${what}`.padEnd(62)} ${`${within} of ${rows}`.padStart(10)} rows within the stated error (${((100 * within) / rows).toFixed(0)} %)`

/** One line each; the fits take a minute or two. */
export function* statedErrors(tables: Tables): Generator<string> {
  const rows = tables.latency.filter(isCompiled)
  const engine = readHeldOutLatencies('resnet50-tensorrt.csv')
  for (const gpu of new Set(rows.map((r) => r.gpu.name))) {
    const coefficients = without(tables, (r) => r.gpu.name === gpu, engine)
    const held = rows.filter((r) => r.gpu.name === gpu)
    yield coverageOf(`${gpu} left out whole`, held, coefficients)
    yield coverageOf(
      `${gpu} left out, by memory, bandwidth and peaks`,
      held.map(reduceToDatasheet),
      coefficients,
    )
  }
  yield* datasheetsWithout('T4', tables, rows, engine)
  for (const model of ['bert-base', 'bert-large']) {
    const coefficients = without(tables, (r) => r.architecture.name === model, engine)
    yield coverageOf(
      `${model} left out whole`,
      rows.filter((r) => r.architecture.name === model),
      coefficients,
    )
  }
  yield* frameworksLeftOut(tables)
  for (const name of ['A30', 'L40S'])
    yield coverageOf(
      `BERT on ${name}, in no table of the fit`,
      readHeldOutLatencies('bert-tensorrt.csv').filter((r) => r.gpu.name === name),
      calibratedCoefficients,
    )
  yield coverageOf(
    'convolutional networks in TensorRT on A100, int8',
    readHeldOutLatencies('convnets-a100.csv'),
    calibratedCoefficients,
  )
}

/**
 * GPUs known by their datasheets alone, of which neither tables nor bars know one more: whether the
 * one that is met worst is met so by chance.
 */
function* datasheetsWithout(
  gone: string,
  tables: Tables,
  rows: readonly LatencyRow[],
  engine: readonly LatencyRow[],
): Generator<string> {
  for (const gpu of new Set(rows.map((r) => r.gpu.name).filter((name) => name !== gone)))
    yield coverageOf(
      `${gpu} the same, the ${gone} in no table`,
      rows.filter((r) => r.gpu.name === gpu).map(reduceToDatasheet),
      without(tables, (r) => [gpu, gone].includes(r.gpu.name), engine),
    )
}

const without = (
  tables: Tables,
  isHeld: (row: LatencyRow) => boolean,
  engine: readonly LatencyRow[],
): Coefficients => {
  const seen = { ...tables, latency: tables.latency.filter((r) => !isHeld(r)) }
  return fitCoefficients(
    seen,
    crossValidate(
      seen,
      engine.filter((r) => !isHeld(r)),
    ),
  )
}

/**
 * Each framework on a GPU where it was not measured, within the bar that the other frameworks give.
 */
function* frameworksLeftOut(tables: Tables): Generator<string> {
  const errors = crossValidateFrameworks(tables.latency, calibratedCoefficients)
  for (const runtime of new Set(errors.map((e) => e.runtime))) {
    const bar = boundFrameworkError(errors.filter((e) => e.runtime !== runtime))
    const own = errors.filter((e) => e.runtime === runtime)
    yield lineOf({
      what: `${runtime} on the GPU where it was not measured`,
      within: own.filter(({ error }) => Math.abs(error) <= bar).length,
      rows: own.length,
    })
  }
}
