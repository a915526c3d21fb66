/** Fits what a server adds to the step model to whole servers that were measured. */
import { leastSquares } from '../../../devices/calibration/least-squares.ts'
import type { EngineProfile } from '../../../predictor/llm/engine-profile.ts'
import type { FigureName, MeasuredServer } from './measured-servers.ts'

/** Where nothing is measured: hosts of a millisecond, kernels as composed; and how far from it a server may lie, in logarithms. Weights are read no faster than the datasheet says. */
const prior = {
  front: [2, 1.5],
  step: [1, 1],
  prefill: [2, 1.5],
  prompt: [0.2, 1.5],
  join: [0.05, 2],
  sequence: [0.01, 1.5],
  split: [0.5, 1.2],
  weights: [1, 0.05],
  cache: [0.6, 0.5],
  flops: [1.4, 0.35],
} as const
type Part = keyof typeof prior
const parts = Object.keys(prior) as Part[]
/** A figure against the model, as a standard deviation of its logarithm. */
const noise = 0.2

/** @param logs of the parts, in the order of `prior` (10) */
export function profileOf(order: EngineProfile['order'], logs: readonly number[]): EngineProfile {
  const of = Object.fromEntries(parts.map((part, i) => [part, Math.exp(logs[i]!)])) as Record<Part, number>
  const { weights, cache, flops, ...hostMs } = of
  return { order, hostMs, level: { weights, cache, flops } }
}

/** A server that adds nothing: operations one after the other, as the step model has them. */
export const composedProfile = (order: EngineProfile['order']): EngineProfile => ({
  order,
  hostMs: { front: 0, step: 0, split: 0, sequence: 0, prefill: 0, prompt: 0, join: 0 },
  level: { weights: 1, cache: 1, flops: 1 },
})

/** The inverse (10). */
export const logsOf = ({ hostMs, level }: EngineProfile): number[] => parts.map((part) => Math.log({ ...hostMs, ...level }[part]))

export interface Departure {
  readonly row: MeasuredServer
  readonly figure: FigureName
  /** ln(simulated / measured). */
  readonly ln: number
}

/** Of every figure of the rows. */
export function departures(rows: readonly MeasuredServer[], profile: EngineProfile): Departure[] {
  return rows.flatMap((row) => {
    const simulated = row.play(profile)
    return (Object.keys(row.measured) as FigureName[]).map((figure) => ({
      row,
      figure,
      ln: Math.log(Math.max(1e-3, simulated[figure]!) / row.measured[figure]!),
    }))
  })
}

/**
 * The most probable profile behind the rows (maximum a posteriori).
 * @param from logarithms where it begins
 * @returns logarithms (10)
 */
export function fitProfile(
  rows: readonly MeasuredServer[],
  order: EngineProfile['order'],
  from = parts.map((part) => Math.log(prior[part][0])),
  iterations = 12,
): number[] {
  return leastSquares(
    {
      start: parts.map((part) => Math.log(prior[part][0])),
      priorSd: parts.map((part) => prior[part][1]),
      from,
      difference: 0.05,
      data: (x) => Float64Array.from(departures(rows, profileOf(order, x)), ({ ln }) => ln / noise),
    },
    iterations,
  )
}
