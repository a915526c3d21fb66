/** Fits the physical coefficients of the device model to published tables. */

import type { Precision } from '../catalogue.ts'
import {
  computeLatencyParts,
  type Deviation,
  noDeviation,
  type Physics,
  resolveExecutedPrecision,
} from '../device-physics.ts'
import { countWork } from '../work.ts'
import { solveLeastSquares } from './least-squares.ts'
import type { LatencyRow } from './published-tables.ts'

/** Priors: typical values and standard deviations of their logarithms. */
const priors: readonly (readonly [keyof Physics | 'hostMs', value: number, sd: number])[] = [
  ['launchUs', 4, 0.4],
  ['productEfficiency', 0.75, 0.15],
  ['convolutionFactor', 0.8, 0.2],
  ['attentionEfficiency', 0.4, 0.4],
  ['bandwidthEfficiency', 0.8, 0.2],
  ['tflopsPerWatt', 0.4, 0.4],
  ['cacheReach', 0.7, 0.5],
  ['int8Efficiency', 0.9, 0.15],
  ['int8AttentionGain', 1.2, 0.3],
  ['waveQuantisation', 0.5, 0.3],
  ['hostMs', 0.2, 0.7],
]
const deviationSd = { compute: 0.12, launch: 0.2, bandwidth: 0.15, precision: 0.08 }
/**
 * Spread of published figures, as a standard deviation of logarithms; larger residuals count as
 * outliers.
 */
const tableSpread = 0.05

export interface PhysicsFit {
  readonly physics: Physics
  /** Overhead of a framework around each call of its embedded engine (the image tables), ms. */
  readonly hostMs: number
  readonly deviations: Readonly<Record<string, Deviation>>
}

/**
 * Whether a compiled engine ran: TensorRT itself, or inside a framework with a constant overhead.
 */
export const isCompiled = (row: LatencyRow): boolean =>
  row.runtime === 'tensorrt' || row.runtime === 'paddle-trt'

export function fitPhysics(rows: readonly LatencyRow[]): PhysicsFit {
  const prepared = rows.map((row) => {
    const executed = resolveExecutedPrecision(row.gpu, row.precision)
    return {
      row,
      executed,
      work: countWork(row.architecture, row, executed.precision),
      logMs: Math.log(row.latencyMs),
    }
  })
  const gpus = [...new Set(rows.map((r) => r.gpu.name))]
  const kinds = gpus.flatMap((gpu) => {
    const types = [
      ...new Set(prepared.filter((p) => p.row.gpu.name === gpu).map((p) => p.executed.precision)),
    ]
    return [
      { gpu, what: 'compute' as const },
      { gpu, what: 'launch' as const },
      { gpu, what: 'bandwidth' as const },
      ...types.map((precision) => ({ gpu, what: 'precision' as const, precision })),
    ]
  })
  const read = (x: readonly number[]): PhysicsFit => {
    const common = Object.fromEntries(
      priors.map(([name], j) => [name, Math.exp(x[j]!)]),
    ) as unknown as Physics & { hostMs: number }
    const { hostMs, ...physics } = common
    const deviations: Record<
      string,
      Deviation & { precision: Partial<Record<Precision, number>> }
    > = {}
    kinds.forEach((kind, j) => {
      const value = x[priors.length + j]!
      const known = deviations[kind.gpu] ?? { ...noDeviation, precision: {} }
      deviations[kind.gpu] =
        kind.what === 'precision'
          ? { ...known, precision: { ...known.precision, [kind.precision]: value } }
          : { ...known, [kind.what]: value }
    })
    return {
      physics: { ...physics, waveQuantisation: Math.min(1, physics.waveQuantisation) },
      hostMs,
      deviations,
    }
  }
  const solution = solveLeastSquares({
    start: [...priors.map(([, value]) => Math.log(value)), ...kinds.map(() => 0)],
    priorSd: [...priors.map(([, , sd]) => sd), ...kinds.map(({ what }) => deviationSd[what])],
    data: (x) => {
      const fit = read(x)
      return Float64Array.from(prepared, ({ row, executed, work, logMs }) => {
        const deviation = fit.deviations[row.gpu.name]!
        const parts = computeLatencyParts(
          work,
          row.gpu,
          executed,
          fit.physics,
          deviation,
          row.architecture.kind === 'convnet',
        )
        const host = row.runtime === 'paddle-trt' ? fit.hostMs : 0
        return (
          (Math.log(parts.launchMs + parts.computeMs + parts.memoryMs + host) - logMs) / tableSpread
        )
      })
    },
  })
  return read(solution)
}
