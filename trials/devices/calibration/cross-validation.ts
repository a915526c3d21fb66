/**
 * Errors of the device model by cross-validation: each prediction is for rows that the fit did not
 * use.
 */
import type { Coefficients } from '../coefficients.ts'
import { evaluateShareCurve } from '../coefficients.ts'
import { completeGpu } from '../custom-devices.ts'
import { predictLatency } from '../predict.ts'
import {
  fitCoefficients,
  fitMemory,
  fitRuntimes,
  fitShareCurves,
  predictMemoryMiB,
} from './fit-coefficients.ts'
import { isCompiled } from './fit-physics.ts'
import type { LatencyRow, ShareRow, Tables } from './published-tables.ts'

type Errors = Coefficients['errors']

/** Relative errors of share curves on held-out rows. */
export const crossValidateShares = (rows: readonly ShareRow[], k = 5): number[] =>
  assignFolds(rows.length, k).flatMap((held) => {
    const curves = fitShareCurves(excludeRows(rows, held))
    return selectRows(rows, held).map(
      (row) =>
        evaluateShareCurve(
          curves.find((c) => c.model === row.architecture.name && c.gpu === row.gpu.name)!,
          row.batch,
          row.share,
        ) /
          row.latencyMs -
        1,
    )
  })

/**
 * Relative errors of the slowdown between two shares without share curves, for models that have
 * none.
 */
export function computeSlowdownErrors(
  rows: readonly ShareRow[],
  coefficients: Coefficients,
): number[] {
  const physicsAlone = { ...coefficients, shareCurves: [] }
  const at = (row: ShareRow) =>
    predictLatency({ ...row, runtime: 'tensorrt', sharing: 'mps' }, physicsAlone).ms
  return rows.flatMap((row) => {
    const same = rows.filter(
      (r) =>
        r.batch === row.batch &&
        r.architecture.name === row.architecture.name &&
        r.gpu.name === row.gpu.name,
    )
    const most = same.reduce((a, b) => (b.share > a.share ? b : a))
    return most === row ? [] : [at(row) / at(most) / (row.latencyMs / most.latencyMs) - 1]
  })
}

/**
 * Errors of predictions for held-out rows.
 * @param inEngine convolutional networks in TensorRT itself, which are never fitted
 */
export function crossValidate(
  tables: Pick<Tables, 'latency' | 'share' | 'memory'>,
  inEngine: readonly LatencyRow[],
): Errors {
  const rows = tables.latency.filter(isCompiled)
  const model = fitLatencies(rows)
  const memoryErrors = [...new Set(tables.memory.map((r) => r.architecture.name))].flatMap(
    (name) => {
      const memory = fitMemory(tables.memory.filter((r) => r.architecture.name !== name))
      return tables.memory
        .filter((r) => r.architecture.name === name)
        .map((r) => predictMemoryMiB(r, memory) / r.gpuMemoryMiB - 1)
    },
  )
  const models = new Set(rows.map((r) => r.architecture.name)).size
  return {
    calibrated: computeQuantile68(crossValidateFolds(rows, 5)),
    otherModel: inflateForFewGroups(
      leaveOut(rows, (r) => r.architecture.name),
      models,
    ),
    otherKind: inflateForFewGroups(crossValidateKinds(rows), 2),
    otherGpu: boundWorstGroup(crossValidateGroups(rows, (r) => r.gpu.name)),
    datasheetGpu: boundWorstGroup(crossValidateDatasheets(rows)),
    engine: inflateForFewGroups(computeErrors(inEngine, model), 2),
    framework: boundFrameworkError(crossValidateFrameworks(tables.latency, model)),
    share: computeQuantile68(crossValidateShares(tables.share)),
    otherShare: computeQuantile68(computeSlowdownErrors(tables.share, model)),
    memory: computeQuantile68(memoryErrors),
  }
}

/** Student's t quantile over the normal's at 68 %, by the number of groups. */
const studentOverNormal = [Number.NaN, Number.NaN, 1.84, 1.32, 1.2, 1.14, 1.11, 1.09, 1.08, 1.07]
const inflateForFewGroups = (errors: readonly number[], groups: number): number =>
  computeQuantile68(errors) * (studentOverNormal[groups] ?? 1.06) * Math.sqrt(1 + 1 / groups)

/**
 * Bound of the error for a new group: that of the worst group, widened as the next may be worse.
 */
const boundWorstGroup = (groups: readonly (readonly number[])[]): number =>
  Math.max(...groups.map(computeQuantile68)) *
  (studentOverNormal[groups.length] ?? 1.06) *
  Math.sqrt(1 + 1 / groups.length)

/**
 * Error of a framework on a GPU where it was not measured, from each framework on each left-out
 * GPU: their errors are independent.
 */
export const boundFrameworkError = (errors: ReturnType<typeof crossValidateFrameworks>): number =>
  boundWorstGroup(
    [...new Set(errors.map(groupKey))].map((group) =>
      errors.filter((e) => groupKey(e) === group).map(({ error }) => error),
    ),
  )

const groupKey = ({ runtime, gpu }: { runtime: string; gpu: string }) => `${runtime} on ${gpu}`

/** Errors for a kind of model on a GPU for which only the other kind was fitted. */
export const crossValidateKinds = (rows: readonly LatencyRow[]): number[] => {
  const getPairKey = (r: LatencyRow) => `${r.gpu.name} ${r.architecture.kind}`
  return [...new Set(rows.map(getPairKey))].flatMap((pair) => {
    const held = rows.filter((r) => getPairKey(r) === pair)
    const seen = rows.filter((r) => getPairKey(r) !== pair)
    return seen.some((r) => r.gpu.name === held[0]!.gpu.name)
      ? computeErrors(held, fitLatencies(seen))
      : []
  })
}

/** Errors for each left-out GPU, described by the least that a user may specify. */
export const crossValidateDatasheets = (rows: readonly LatencyRow[]): number[][] =>
  [...new Set(rows.map((r) => r.gpu))].map((gpu) => {
    const model = fitLatencies(rows.filter((r) => r.gpu !== gpu))
    return computeErrors(rows.filter((r) => r.gpu === gpu).map(reduceToDatasheet), model)
  })

/** The row with its GPU reduced to memory, bandwidth and peak rates. */
export const reduceToDatasheet = (row: LatencyRow): LatencyRow => {
  const { name, memoryGiB, bandwidthGBs, peakTflops } = row.gpu
  return {
    ...row,
    gpu: completeGpu(`${name} by its datasheet`, { memoryGiB, bandwidthGBs, peakTflops }),
  }
}

/** Errors of each framework's rows on a GPU where the framework was not measured. */
export const crossValidateFrameworks = (
  rows: readonly LatencyRow[],
  coefficients: Coefficients,
): { runtime: string; gpu: string; error: number }[] => {
  const own = rows.filter((r) => !isCompiled(r))
  return [...new Set(own.map((r) => r.gpu.name))].flatMap((gpu) => {
    const runtimes = fitRuntimes(
      own.filter((r) => r.gpu.name !== gpu),
      coefficients,
    )
    const held = own.filter((r) => r.gpu.name === gpu && runtimes[r.runtime] !== undefined)
    const errors = computeErrors(held, { ...coefficients, runtimes })
    return held.map(({ runtime }, i) => ({ runtime, gpu, error: errors[i]! }))
  })
}

const zeroErrors: Errors = {
  calibrated: 0,
  otherModel: 0,
  otherKind: 0,
  otherGpu: 0,
  datasheetGpu: 0,
  engine: 0,
  framework: 0,
  share: 0,
  otherShare: 0,
  memory: 0,
}
const fitLatencies = (rows: readonly LatencyRow[]) =>
  fitCoefficients({ latency: [...rows], share: [], memory: [] }, zeroErrors)
/** predicted / measured − 1 of each row. */
export const computeErrors = (rows: readonly LatencyRow[], coefficients: Coefficients): number[] =>
  rows.map((row) => predictLatency(row, coefficients).ms / row.latencyMs - 1)

/** Relative errors of the rows of each fold under a fit to the others. */
export const crossValidateFolds = (rows: readonly LatencyRow[], k: number): number[] =>
  assignFolds(rows.length, k).flatMap((held) =>
    computeErrors(selectRows(rows, held), fitLatencies(excludeRows(rows, held))),
  )

/** Relative errors of the rows of each group under a fit to the other groups. */
export const crossValidateGroups = (
  rows: readonly LatencyRow[],
  group: (row: LatencyRow) => string,
): number[][] =>
  [...new Set(rows.map(group))].map((name) => {
    const model = fitLatencies(rows.filter((r) => group(r) !== name))
    return computeErrors(
      rows.filter((r) => group(r) === name),
      model,
    )
  })
const leaveOut = (rows: readonly LatencyRow[], group: (row: LatencyRow) => string): number[] =>
  crossValidateGroups(rows, group).flat()

/** k deterministic folds of row indices, independent of the order of the rows. */
function assignFolds(n: number, k: number): ReadonlySet<number>[] {
  const sets = Array.from({ length: k }, () => new Set<number>())
  // Multiples of the golden ratio spread neighbouring rows over the folds.
  for (let i = 0; i < n; i++) sets[Math.floor(((i * 0.6180339887) % 1) * k)]!.add(i)
  return sets
}
const selectRows = <T>(rows: readonly T[], held: ReadonlySet<number>) =>
  rows.filter((_, i) => held.has(i))
const excludeRows = <T>(rows: readonly T[], held: ReadonlySet<number>) =>
  rows.filter((_, i) => !held.has(i))

/** Computes the 68 % quantile of the absolute errors. */
function computeQuantile68(errors: readonly number[]): number {
  const sorted = errors.map(Math.abs).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(0.68 * sorted.length))]!
}
