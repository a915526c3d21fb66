import { Matrix } from 'ml-matrix'
import { fitGp } from '../gp/fit.ts'
import { remembered } from '../memoise.ts'
import { createEncoder } from '../space/encoding.ts'
import type { Configuration, Observation, SearchSpace } from '../types.ts'
import type { Knowledge } from './design-matrix.ts'

/** Fewer rates do not tell how a rate moves with any parameter. */
const minRates = 3

type LogRate = (configurations: readonly Configuration[]) => readonly number[]

/**
 * Rates that earlier experiments measured of the same model, as a further trend column: the
 * posterior mean of ln rate. Its slope and offset are learned, for the machine or the SLO may have
 * changed since. Earlier failures and constraints are left out, because limits differ. Undefined
 * where fewer than three rates are known.
 */
export function earlierKnowledge(
  earlier: readonly Observation[],
  space: SearchSpace,
): Knowledge | undefined {
  const logRate = fitEarlier(earlier)(space)
  return (
    logRate && {
      slopes: [[1, 0.5]],
      columns: (configurations) => logRate(configurations).map((value) => [value]),
      // The trials must be e times as likely with it as without before it is believed.
      burden: 1,
      correction: 0.3,
      offsetSd: 1,
      signal: [-3, 1],
    }
  )
}

/** Fitted once, not once for each trial. */
const fitEarlier = remembered((earlier: readonly Observation[]) =>
  remembered((space: SearchSpace) => fitLogRate(earlier, space)),
)

function fitLogRate(earlier: readonly Observation[], space: SearchSpace): LogRate | undefined {
  const rates = earlier.flatMap((o) =>
    o.state === 'complete' && !o.censored && o.rate && o.rate.value > 0
      ? [{ at: o.configuration, logRate: Math.log(o.rate.value) }]
      : [],
  )
  if (rates.length < minRates) return undefined
  const encoder = createEncoder(space)
  const mean = rates.reduce((sum, { logRate }) => sum + logRate, 0) / rates.length
  const gp = fitGp(
    {
      groups: encoder.columns.map((column) => column.group),
      slopeMean: new Float64Array(encoder.columns.length),
      slopeVariance: new Float64Array(encoder.columns.length).fill(1),
    },
    {
      X: new Matrix(rates.map(({ at }) => encoder.encode(at))),
      y: Float64Array.from(rates, ({ logRate }) => logRate - mean),
    },
  )
  const known = new WeakMap<Configuration, number>()
  return (configurations) => {
    const unknown = configurations.filter((configuration) => !known.has(configuration))
    if (unknown.length > 0) {
      const predicted = gp.predict(unknown.map(encoder.encode)).mean
      for (const [i, configuration] of unknown.entries())
        known.set(configuration, mean + predicted[i]!)
    }
    return configurations.map((configuration) => known.get(configuration)!)
  }
}
