/**
 * From tables to the coefficients that the product carries, and their errors by cross-validation.
 */
import { type Coefficients, type Runtime, type ShareCurve, shareCurveMs } from '../coefficients.ts'
import { memoryParts } from '../device-memory.ts'
import { executedPrecision, latencyParts } from '../device-physics.ts'
import { completed } from '../own.ts'
import { predictLatency } from '../predict.ts'
import { type ResidualBlock, type ResidualPoint, residualFeatures } from '../residual.ts'
import { workOf } from '../work.ts'
import { fitPhysics, isCompiled, type PhysicsFit } from './fit-coefficients.ts'
import { leastSquares } from './least-squares.ts'
import type { LatencyRow, MemoryRow, ShareRow, Tables } from './published-tables.ts'

type Errors = Coefficients['errors']

/** Modern CUDA contexts with their libraries take 300-400 MiB. */
const contextMiB = 350

/** Coefficients fitted to tables; `errors` say how far to trust them. */
export function coefficientsFrom(
  tables: Pick<Tables, 'latency' | 'share' | 'memory'>,
  errors: Errors,
): Coefficients {
  const compiled = tables.latency.filter(isCompiled)
  const fit = fitPhysics(compiled)
  const memory = fitMemory(tables.memory)
  const withoutRuntimes: Coefficients = {
    physics: fit.physics,
    deviations: fit.deviations,
    residuals: residualBlocks(compiled, fit),
    runtimes: {
      'paddle-trt': {
        hostMs: fit.hostMs,
        floorMs: 0,
        floorPerItemMs: 0,
        slowdown: 1,
        gpus: gpusOf(compiled.filter((r) => r.runtime === 'paddle-trt')),
      },
    },
    shareCurves: fitShareCurves(tables.share),
    errors,
    memory,
  }
  return {
    ...withoutRuntimes,
    runtimes: { ...withoutRuntimes.runtimes, ...fitRuntimes(tables.latency, withoutRuntimes) },
  }
}

function residualBlocks(rows: readonly LatencyRow[], fit: PhysicsFit): ResidualBlock[] {
  const blocks = new Map<
    string,
    { gpu: string; precision: string; kind: ResidualBlock['kind']; points: ResidualPoint[] }
  >()
  for (const row of rows) {
    const executed = executedPrecision(row.gpu, row.precision)
    const work = workOf(row.architecture, row, executed.precision)
    const { kind } = row.architecture
    const parts = latencyParts(
      work,
      row.gpu,
      executed,
      fit.physics,
      fit.deviations[row.gpu.name]!,
      kind === 'convnet',
    )
    const device = parts.launchMs + parts.computeMs + parts.memoryMs
    const measured = row.runtime === 'paddle-trt' ? row.latencyMs - fit.hostMs : row.latencyMs
    if (measured <= 0) continue
    const key = `${row.gpu.name} ${executed.precision} ${kind}`
    const block = blocks.get(key) ?? {
      gpu: row.gpu.name,
      precision: executed.precision,
      kind,
      points: [],
    }
    // A host time that is large beside the device's leaves an uncertain device time: half of the
    // residual at most.
    const weight = Math.min(1, device / row.latencyMs / 0.5)
    block.points.push({
      at: residualFeatures(row.architecture, row),
      logRatio: weight * Math.log(measured / device),
    })
    blocks.set(key, block)
  }
  return [...blocks.values()]
}

const gpusOf = (rows: readonly LatencyRow[]) => [...new Set(rows.map((r) => r.gpu.name))]

/**
 * Frameworks that run the model layer by layer: a floor that the host sets, and how much slower
 * their kernels are.
 */
function fitRuntimes(
  rows: readonly LatencyRow[],
  coefficients: Coefficients,
): Record<string, Runtime> {
  const names = [...new Set(rows.filter((r) => !isCompiled(r)).map((r) => r.runtime))]
  return Object.fromEntries(
    names.map((name) => {
      const own = rows.filter((r) => r.runtime === name)
      const device = own.map(
        (row) => predictLatency({ ...row, runtime: 'tensorrt' }, coefficients).ms,
      )
      const runtimeAt = ([floor, perItem, slowdown]: readonly number[]): Runtime => ({
        hostMs: 0,
        floorMs: Math.exp(floor!),
        floorPerItemMs: Math.exp(perItem!),
        slowdown: Math.exp(slowdown!),
        gpus: gpusOf(own),
      })
      const x = leastSquares({
        start: [Math.log(5), Math.log(0.1), Math.log(1.2)],
        priorSd: [1, 1.5, 0.4],
        data: (at) => {
          const { floorMs, floorPerItemMs, slowdown } = runtimeAt(at)
          return Float64Array.from(
            own,
            // A smooth maximum, for the fit has to see both sides.
            (row, i) =>
              Math.log(
                ((floorMs + floorPerItemMs * row.batch) ** 6 + (slowdown * device[i]!) ** 6) **
                  (1 / 6) /
                  row.latencyMs,
              ) / 0.1,
          )
        },
      })
      return [name, runtimeAt(x)]
    }),
  )
}

/** One curve for each GPU, model and precision of the table. */
function fitShareCurves(rows: readonly ShareRow[]): ShareCurve[] {
  const keyOf = (r: ShareRow) => `${r.gpu.name} ${r.architecture.name} ${r.precision}`
  return [...new Set(rows.map(keyOf))].map((key) => {
    const own = rows.filter((r) => keyOf(r) === key)
    const curve = (x: readonly number[]): ShareCurve => {
      const [fixedMs, fixedPerItemMs, sharedMs, sharedPerItemMs, exponent] = x.map(Math.exp) as [
        number,
        number,
        number,
        number,
        number,
      ]
      const { gpu, architecture, precision } = own[0]!
      return {
        gpu: gpu.name,
        model: architecture.name,
        precision,
        fixedMs,
        fixedPerItemMs,
        sharedMs,
        sharedPerItemMs,
        exponent,
      }
    }
    const x = leastSquares({
      start: [0.5, 0.05, 0.2, 0.3, 1].map(Math.log),
      priorSd: [2, 2, 2, 2, 0.3],
      data: (at) =>
        Float64Array.from(
          own,
          (row) => Math.log(shareCurveMs(curve(at), row.batch, row.share) / row.latencyMs) / 0.03,
        ),
    })
    return curve(x)
  })
}

/** Relative errors of curves on rows they were not fitted to. */
export const shareErrors = (rows: readonly ShareRow[], k = 5): number[] =>
  folds(rows.length, k).flatMap((held) => {
    const curves = fitShareCurves(without(rows, held))
    return only(rows, held).map(
      (row) =>
        shareCurveMs(
          curves.find((c) => c.model === row.architecture.name && c.gpu === row.gpu.name)!,
          row.batch,
          row.share,
        ) /
          row.latencyMs -
        1,
    )
  })

/**
 * Relative errors of the slowdown between two shares as physics alone predicts it, for models
 * without a curve.
 */
export function slowdownErrors(rows: readonly ShareRow[], coefficients: Coefficients): number[] {
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

export function fitMemory(rows: readonly MemoryRow[]): Coefficients['memory'] {
  const [context, kept] = leastSquares({
    start: [Math.log(250), Math.log(1.1)],
    priorSd: [0.5, 0.3],
    data: ([c, k]) =>
      Float64Array.from(
        rows,
        (row) =>
          Math.log(
            memoryOf(row, {
              contextMiB,
              contextUpToPascalMiB: Math.exp(c!),
              keptActivations: Math.exp(k!),
            }) / row.gpuMemoryMiB,
          ) / 0.02,
      ),
  })
  return { contextMiB, contextUpToPascalMiB: Math.exp(context!), keptActivations: Math.exp(kept!) }
}

export function memoryOf(row: MemoryRow, memory: Coefficients['memory']): number {
  const parts = memoryParts({ ...row, keepsActivations: true }, 'fp32', memory)
  return (
    parts.contextMiB + parts.weightsMiB + parts.workspaceMiB + parts.activationsMiB + parts.cacheMiB
  )
}

/**
 * Errors of predictions for rows that the fit had not seen.
 * @param inEngine convolutional networks in TensorRT by itself, which the fit never sees
 */
export function crossValidated(
  tables: Pick<Tables, 'latency' | 'share' | 'memory'>,
  inEngine: readonly LatencyRow[],
): Errors {
  const rows = tables.latency.filter(isCompiled)
  const model = modelOf(rows)
  const memoryErrors = [...new Set(tables.memory.map((r) => r.architecture.name))].flatMap(
    (name) => {
      const memory = fitMemory(tables.memory.filter((r) => r.architecture.name !== name))
      return tables.memory
        .filter((r) => r.architecture.name === name)
        .map((r) => memoryOf(r, memory) / r.gpuMemoryMiB - 1)
    },
  )
  const models = new Set(rows.map((r) => r.architecture.name)).size
  return {
    calibrated: within68(kFold(rows, 5)),
    otherModel: widened(
      leaveOut(rows, (r) => r.architecture.name),
      models,
    ),
    otherKind: widened(kindErrors(rows), 2),
    otherGpu: asTheWorst(leaveOutEach(rows, (r) => r.gpu.name)),
    bareGpu: asTheWorst(bareErrors(rows)),
    engine: widened(errorsOn(inEngine, model), 2),
    framework: otherFrameworkError(frameworkErrors(tables.latency, model)),
    share: within68(shareErrors(tables.share)),
    otherShare: within68(slowdownErrors(tables.share, model)),
    memory: within68(memoryErrors),
  }
}

/**
 * One group in 68 % of draws, of so many that were seen: Student's t over the normal's, with the
 * mean's own error.
 */
const studentOverNormal = [Number.NaN, Number.NaN, 1.84, 1.32, 1.2, 1.14, 1.11, 1.09, 1.08, 1.07]
const widened = (errors: readonly number[], groups: number): number =>
  within68(errors) * (studentOverNormal[groups] ?? 1.06) * Math.sqrt(1 + 1 / groups)

/**
 * Of groups that differ, as wide as the one that is met worst needs, and for the next group that
 * may be worse.
 */
const asTheWorst = (groups: readonly (readonly number[])[]): number =>
  Math.max(...groups.map(within68)) *
  (studentOverNormal[groups.length] ?? 1.06) *
  Math.sqrt(1 + 1 / groups.length)

/**
 * The bar of a framework where it was not measured, by each framework on a GPU that was left out:
 * what one is off by says little of the next.
 */
export const otherFrameworkError = (errors: ReturnType<typeof frameworkErrors>): number =>
  asTheWorst(
    [...new Set(errors.map(groupOf))].map((group) =>
      errors.filter((e) => groupOf(e) === group).map(({ error }) => error),
    ),
  )

const groupOf = ({ runtime, gpu }: { runtime: string; gpu: string }) => `${runtime} on ${gpu}`

/** Errors for a kind of model on a GPU of which the fit had seen the other kind alone. */
export const kindErrors = (rows: readonly LatencyRow[]): number[] => {
  const pairOf = (r: LatencyRow) => `${r.gpu.name} ${r.architecture.kind}`
  return [...new Set(rows.map(pairOf))].flatMap((pair) => {
    const held = rows.filter((r) => pairOf(r) === pair)
    const seen = rows.filter((r) => pairOf(r) !== pair)
    return seen.some((r) => r.gpu.name === held[0]!.gpu.name) ? errorsOn(held, modelOf(seen)) : []
  })
}

/** Errors for each GPU, not seen by the fit, of which the least is known that a user may give. */
export const bareErrors = (rows: readonly LatencyRow[]): number[][] =>
  [...new Set(rows.map((r) => r.gpu))].map((gpu) => {
    const model = modelOf(rows.filter((r) => r.gpu !== gpu))
    return errorsOn(rows.filter((r) => r.gpu === gpu).map(byDatasheet), model)
  })

/** The row's GPU by memory, bandwidth and peaks alone. */
export const byDatasheet = (row: LatencyRow): LatencyRow => {
  const { name, memoryGiB, bandwidthGBs, peakTflops } = row.gpu
  return {
    ...row,
    gpu: completed(`${name} by its datasheet`, { memoryGiB, bandwidthGBs, peakTflops }),
  }
}

/** Errors of each framework's rows on a GPU where the framework was not measured. */
export const frameworkErrors = (
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
    const errors = errorsOn(held, { ...coefficients, runtimes })
    return held.map(({ runtime }, i) => ({ runtime, gpu, error: errors[i]! }))
  })
}

const unknownErrors: Errors = {
  calibrated: 0,
  otherModel: 0,
  otherKind: 0,
  otherGpu: 0,
  bareGpu: 0,
  engine: 0,
  framework: 0,
  share: 0,
  otherShare: 0,
  memory: 0,
}
const modelOf = (rows: readonly LatencyRow[]) =>
  coefficientsFrom({ latency: [...rows], share: [], memory: [] }, unknownErrors)
/** predicted / measured − 1 of each row. */
export const errorsOn = (rows: readonly LatencyRow[], coefficients: Coefficients): number[] =>
  rows.map((row) => predictLatency(row, coefficients).ms / row.latencyMs - 1)

/** Relative errors of the rows of each fold under a fit to the others. */
export const kFold = (rows: readonly LatencyRow[], k: number): number[] =>
  folds(rows.length, k).flatMap((held) => errorsOn(only(rows, held), modelOf(without(rows, held))))

/** Relative errors of the rows of each group under a fit to the other groups. */
export const leaveOutEach = (
  rows: readonly LatencyRow[],
  group: (row: LatencyRow) => string,
): number[][] =>
  [...new Set(rows.map(group))].map((name) => {
    const model = modelOf(rows.filter((r) => group(r) !== name))
    return errorsOn(
      rows.filter((r) => group(r) === name),
      model,
    )
  })
const leaveOut = (rows: readonly LatencyRow[], group: (row: LatencyRow) => string): number[] =>
  leaveOutEach(rows, group).flat()

/** k sets of row numbers, drawn without regard to the rows' order but always the same. */
function folds(n: number, k: number): ReadonlySet<number>[] {
  const sets = Array.from({ length: k }, () => new Set<number>())
  // Multiples of the golden ratio spread neighbouring rows over the folds.
  for (let i = 0; i < n; i++) sets[Math.floor(((i * 0.6180339887) % 1) * k)]!.add(i)
  return sets
}
const only = <T>(rows: readonly T[], held: ReadonlySet<number>) =>
  rows.filter((_, i) => held.has(i))
const without = <T>(rows: readonly T[], held: ReadonlySet<number>) =>
  rows.filter((_, i) => !held.has(i))

/** The size that 68 % of the errors do not exceed. */
function within68(errors: readonly number[]): number {
  const sorted = errors.map(Math.abs).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(0.68 * sorted.length))]!
}
