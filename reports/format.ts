/**
 * Numbers as people read them: money here; rates, latencies and SLOs as the profiler writes them.
 */
export { rate, significant } from '../profiler/format.ts'
export {
  latency,
  percentileName,
  sloAxis,
  sloFigure,
  sloLimit,
  sloName,
  sloText,
  sloValue,
} from '../profiler/model/slo.ts'

import { grouped, rate, significant } from '../profiler/format.ts'
import { latency } from '../profiler/model/slo.ts'

/**
 * '95 to 105'; 'at least 95' where no load missed the SLO, so that nothing bounds the rate from
 * above.
 */
export const rateInterval = ([low, high]: readonly [number, number]): string =>
  Number.isFinite(high)
    ? `${significant(low)} to ${significant(high)}`
    : `at least ${significant(low)}`

/** $0.070, $0.11, $1.85, $110,160: cents, or two significant digits below a dime. */
export function money(dollars: number): string {
  if (!Number.isFinite(dollars)) return '$infinite'
  const small = Math.abs(dollars) < 0.1 && dollars !== 0
  const digits = small
    ? Math.min(8, 1 - Math.floor(Math.log10(Math.abs(dollars))))
    : Math.abs(dollars) >= 1000
      ? 0
      : 2
  return `$${grouped(dollars, digits)}`
}

/** 0.35 J. */
export const formatEnergy = (joules: number): string => `${significant(joules)} J`

/** Formatters for the units of objectives. */
export const writing = { money, rate, latency, energy: formatEnergy, plain: significant } as const

/** 12 %, 3.4 %. */
export const percent = (share: number): string =>
  `${Number((share * 100).toFixed(Math.abs(share) < 0.095 ? 1 : 0))} %`

/** Converts a probability to whole per cent, rounded down: 0.9599 is 95. */
export const computeCertaintyPercent = (probability: number): number =>
  Math.floor(probability * 100 + 1e-9)

/** 2.3×, 12×. */
export const times = (ratio: number): string =>
  `${ratio >= 10 ? Math.round(ratio) : Number(ratio.toFixed(ratio < 1.095 ? 2 : 1))}×`
