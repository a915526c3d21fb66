/** Numbers as people read them: rates, latencies, money, durations. */

/** Three significant digits, no exponent: 0.114, 21.3, 212, 1,830. */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? 'infinite' : String(value)
  if (value === 0) return '0'
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  return value.toLocaleString('en-US', { maximumFractionDigits: Math.min(digits, 8), useGrouping: true })
}

export const rate = (rps: number): string => `${significant(rps)} req/s`
export const latency = (ms: number): string => (Number.isFinite(ms) ? `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms` : 'no answer')
export const money = (dollars: number): string => `$${significant(dollars)}`

/** 7 s, 1 min 20 s, 2 h 5 min. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`
}

/** Names what a percentile is called: 0.99 → p99, 0.999 → p99.9. */
export const percentileName = (percentile: number): string => `p${Number((percentile * 100).toFixed(4))}`

/** Left-aligned text columns, the last one ragged. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows.reduce<number[]>((w, row) => row.map((cell, i) => Math.max(w[i] ?? 0, cell.length)), [])
  return rows.map((row) =>
    row
      .map((cell, i) => (i === row.length - 1 ? cell : cell.padEnd(widths[i] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}
