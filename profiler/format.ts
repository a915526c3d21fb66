/** Formats rates for people. Latencies and SLOs are formatted by model/slo.ts. */

/** Formats a number with three significant digits and no exponent: 0.114, 21.3, 212, 1,830. */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? 'infinite' : String(value)
  if (value === 0) return '0'
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  return value.toLocaleString('en-US', {
    maximumFractionDigits: Math.min(digits, 8),
    useGrouping: true,
  })
}

/** '1,811 req/s', '82.8 req/s'. */
export const rate = (rps: number): string => `${significant(rps)} req/s`
