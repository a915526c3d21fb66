/** Send times of open loads. */
import type { OpenLoad } from '../model/load.ts'
import { createUniform, sampleGamma } from '../seeded-random.ts'

/**
 * Schedules the intended send times of an open load, ms from its start, ascending. Random arrivals
 * have exactly round(rate × duration) requests, so that the rate of a window has no sampling error.
 * A Poisson process is conditioned on its count (sorted uniforms), a renewal process is scaled to
 * the window.
 */
export function schedule({ arrivals, rateRps, durationS, seed }: OpenLoad): Float64Array {
  const durationMs = durationS * 1000
  if (arrivals.kind === 'trace')
    return Float64Array.from(arrivals.atMs.filter((t) => t < durationMs))
  const n = Math.max(1, Math.round(rateRps * durationS))
  const uniform = createUniform(seed)
  switch (arrivals.kind) {
    case 'constant':
      return Float64Array.from({ length: n }, (_, i) => (i * durationMs) / n)
    case 'poisson':
      return Float64Array.from({ length: n }, () => uniform() * durationMs).sort()
    case 'sweep': {
      const { fromRps, toRps } = arrivals
      const rise = (toRps - fromRps) / durationS
      // A constant rate, by whose rise the inverse would divide.
      if (Math.abs(rise) < 1e-9)
        return Float64Array.from({ length: n }, () => uniform() * durationMs).sort()
      // Inverse of the cumulative rate a t + b t² / 2, at sorted uniforms of its total.
      const total = ((fromRps + toRps) / 2) * durationS
      return Float64Array.from({ length: n }, () => uniform() * total)
        .sort()
        .map((count) => (1000 * (-fromRps + Math.sqrt(fromRps ** 2 + 2 * rise * count))) / rise)
    }
    case 'gamma': {
      const shape = 1 / arrivals.cv ** 2
      const times = new Float64Array(n + 1)
      for (let i = 0; i <= n; i++)
        times[i] = (i === 0 ? 0 : times[i - 1]!) + sampleGamma(uniform, shape)
      return times.subarray(0, n).map((t) => (t * durationMs) / times[n]!)
    }
    case 'on-off': {
      const periodMs = (arrivals.onS + arrivals.offS) * 1000
      const onMs = arrivals.onS * 1000
      const wholePeriods = Math.floor(durationMs / periodMs)
      const totalOnMs = wholePeriods * onMs + Math.min(onMs, durationMs - wholePeriods * periodMs)
      return Float64Array.from({ length: n }, () => uniform() * totalOnMs)
        .sort()
        .map((t) => Math.floor(t / onMs) * periodMs + (t % onMs))
    }
  }
}
