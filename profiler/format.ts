/** Formats rates for people. Latencies and SLOs are formatted by model/slo.ts. */

/**
 * Formats a number with three significant digits, without exponent and trailing zeros: 0.114, 21.3,
 * 212, 1,830.
 */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? 'infinite' : String(value)
  if (value === 0) return '0'
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  const text = grouped(value, Math.min(digits, 8))
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

/**
 * Formats a number with a number of decimals: 1,234.50. Unlike toLocaleString it loads no locale data,
 * which takes tens of milliseconds.
 */
export function grouped(value: number, digits: number): string {
  if (!Number.isFinite(value)) return String(value)
  // Beyond 1e21, toFixed returns an exponent.
  const ungrouped = Math.abs(value) < 1e21 ? value.toFixed(digits) : String(BigInt(value))
  const [whole = '', decimals] = ungrouped.split('.')
  const thousands = whole.replace(/\B(?=(\d{3})+$)/g, ',')
  return decimals === undefined ? thousands : `${thousands}.${decimals}`
}

/** Formats a rate: '1,811 req/s', '82.8 req/s'. */
export const rate = (rps: number): string => `${significant(rps)} req/s`
