/** Fits what a server adds to the step model to whole servers that were measured. */
import { solveLeastSquares } from '../../../devices/calibration/least-squares.ts'
import type { EngineProfile } from '../../../predictor/llm/engine-profile.ts'
import type { FigureName, MeasuredServer } from './measured-servers.ts'

/**
 * Where nothing is measured: hosts of a millisecond, kernels as composed; and how far from it a
 * server may lie, in logarithms. Weights are read no faster than the datasheet says.
 */
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
  flops8: [0.7, 0.35],
  activations: [30, 1],
  nvlink: [1, 0.5],
  pcie: [0.5, 0.7],
} as const
type Part = keyof typeof prior
const parts = Object.keys(prior) as Part[]
/** A figure against the model, as a standard deviation of its logarithm. */
const noise = 0.2

/**
 * What its rows alone tell: arithmetic in 8 bits from that in 16, both from what goes to memory,
 * and what many GPUs exchange.
 */
const manyRows: ReadonlySet<Part> = new Set(['flops8', 'activations', 'nvlink', 'pcie'])
/** What is fitted of a server. */
const partsOf = (engine: string): readonly Part[] =>
  engine === 'tensorrt-llm' ? parts : parts.filter((part) => !manyRows.has(part))

/** What a fit keeps of the profile that it is of, and begins from. */
type Fitted = Pick<MeasuredServer, 'engine'> & Pick<EngineProfile, 'order'>

/** @param logs of the parts that are fitted of the server, in the order of `prior` */
export function profileOf({ engine, order }: Fitted, logs: readonly number[]): EngineProfile {
  const of = Object.fromEntries(
    partsOf(engine).map((part, i) => [part, Math.exp(logs[i]!)]),
  ) as Record<Part, number>
  const {
    weights,
    cache,
    flops,
    flops8 = flops,
    activations = 0,
    nvlink = 1,
    pcie = 1,
    ...hostMs
  } = of
  return { order, hostMs, level: { weights, cache, flops, flops8, activations, nvlink, pcie } }
}

/** A server that adds nothing: operations one after the other, as the step model has them. */
export const composedProfile = (order: EngineProfile['order']): EngineProfile => ({
  order,
  hostMs: { front: 0, step: 0, split: 0, sequence: 0, prefill: 0, prompt: 0, join: 0 },
  level: { weights: 1, cache: 1, flops: 1, flops8: 1, activations: 0, nvlink: 1, pcie: 1 },
})

/** The inverse of `profileOf`. */
export const logsOf = (engine: string, { hostMs, level }: EngineProfile): number[] =>
  partsOf(engine).map((part) => Math.log({ ...hostMs, ...level }[part]))

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
 * @returns logarithms, as `profileOf` takes them
 */
export function fitProfile(
  rows: readonly MeasuredServer[],
  fitted: Fitted,
  from = partsOf(fitted.engine).map((part) => Math.log(prior[part][0])),
  iterations = 12,
): number[] {
  const own = partsOf(fitted.engine)
  return solveLeastSquares(
    {
      start: own.map((part) => Math.log(prior[part][0])),
      priorSd: own.map((part) => prior[part][1]),
      from,
      difference: 0.05,
      data: (x) =>
        Float64Array.from(departures(rows, profileOf(fitted, x)), ({ ln }) => ln / noise),
    },
    iterations,
  )
}
