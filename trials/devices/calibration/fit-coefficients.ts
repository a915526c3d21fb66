/** Fits the coefficients that the product ships to published tables. */
import {
  type Coefficients,
  evaluateShareCurve,
  type Runtime,
  type ShareCurve,
} from '../coefficients.ts'
import { estimateMemoryParts } from '../device-memory.ts'
import { computeLatencyParts, resolveExecutedPrecision } from '../device-physics.ts'
import { predictLatency } from '../predict.ts'
import { computeResidualFeatures, type ResidualBlock, type ResidualPoint } from '../residual.ts'
import { countWork } from '../work.ts'
import { fitPhysics, isCompiled, type PhysicsFit } from './fit-physics.ts'
import { solveLeastSquares } from './least-squares.ts'
import type { LatencyRow, MemoryRow, ShareRow, Tables } from './published-tables.ts'

type Errors = Coefficients['errors']

/** Modern CUDA contexts with their libraries take 300-400 MiB. */
const contextMiB = 350

/**
 * Coefficients fitted to tables.
 * @param errors their relative errors (`cross-validation.ts`)
 */
export function fitCoefficients(
  tables: Pick<Tables, 'latency' | 'share' | 'memory'>,
  errors: Errors,
): Coefficients {
  const compiled = tables.latency.filter(isCompiled)
  const fit = fitPhysics(compiled)
  const memory = fitMemory(tables.memory)
  const withoutRuntimes: Coefficients = {
    physics: fit.physics,
    deviations: fit.deviations,
    residuals: collectResiduals(compiled, fit),
    runtimes: {
      'paddle-trt': {
        hostMs: fit.hostMs,
        floorMs: 0,
        floorPerItemMs: 0,
        slowdown: 1,
        gpus: listGpus(compiled.filter((r) => r.runtime === 'paddle-trt')),
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

function collectResiduals(rows: readonly LatencyRow[], fit: PhysicsFit): ResidualBlock[] {
  const blocks = new Map<
    string,
    { gpu: string; precision: string; kind: ResidualBlock['kind']; points: ResidualPoint[] }
  >()
  for (const row of rows) {
    const executed = resolveExecutedPrecision(row.gpu, row.precision)
    const work = countWork(row.architecture, row, executed.precision)
    const { kind } = row.architecture
    const parts = computeLatencyParts(
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
    // Where the host takes more than half of the latency, the device time is uncertain: count less
    // of the residual.
    const weight = Math.min(1, device / row.latencyMs / 0.5)
    block.points.push({
      features: computeResidualFeatures(row.architecture, row),
      logRatio: weight * Math.log(measured / device),
    })
    blocks.set(key, block)
  }
  return [...blocks.values()]
}

const listGpus = (rows: readonly LatencyRow[]) => [...new Set(rows.map((r) => r.gpu.name))]

/**
 * Fits frameworks that run the model layer by layer: the host's latency floor and the slowdown of
 * their kernels.
 */
export function fitRuntimes(
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
        gpus: listGpus(own),
      })
      const x = solveLeastSquares({
        start: [Math.log(5), Math.log(0.1), Math.log(1.2)],
        priorSd: [1, 1.5, 0.4],
        data: (at) => {
          const { floorMs, floorPerItemMs, slowdown } = runtimeAt(at)
          return Float64Array.from(
            own,
            // A smooth maximum: both sides need a gradient.
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
export function fitShareCurves(rows: readonly ShareRow[]): ShareCurve[] {
  const getShareKey = (r: ShareRow) => `${r.gpu.name} ${r.architecture.name} ${r.precision}`
  return [...new Set(rows.map(getShareKey))].map((key) => {
    const own = rows.filter((r) => getShareKey(r) === key)
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
    const x = solveLeastSquares({
      start: [0.5, 0.05, 0.2, 0.3, 1].map(Math.log),
      priorSd: [2, 2, 2, 2, 0.3],
      data: (at) =>
        Float64Array.from(
          own,
          (row) =>
            Math.log(evaluateShareCurve(curve(at), row.batch, row.share) / row.latencyMs) / 0.03,
        ),
    })
    return curve(x)
  })
}

export function fitMemory(rows: readonly MemoryRow[]): Coefficients['memory'] {
  const [context, ratio] = solveLeastSquares({
    start: [Math.log(250), Math.log(1.1)],
    priorSd: [0.5, 0.3],
    data: ([c, k]) =>
      Float64Array.from(
        rows,
        (row) =>
          Math.log(
            predictMemoryMiB(row, {
              contextMiB,
              contextUpToPascalMiB: Math.exp(c!),
              storedActivationRatio: Math.exp(k!),
            }) / row.gpuMemoryMiB,
          ) / 0.02,
      ),
  })
  return {
    contextMiB,
    contextUpToPascalMiB: Math.exp(context!),
    storedActivationRatio: Math.exp(ratio!),
  }
}

export function predictMemoryMiB(row: MemoryRow, memory: Coefficients['memory']): number {
  const parts = estimateMemoryParts({ ...row, storesActivations: true }, 'fp32', memory)
  return (
    parts.contextMiB + parts.weightsMiB + parts.workspaceMiB + parts.activationsMiB + parts.cacheMiB
  )
}
