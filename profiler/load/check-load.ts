import type { Load } from '../model/load.ts'
import { GeneratorError } from '../profiler-errors.ts'

/** Limit on the requests of a window, whose records are held in memory. Assumed. */
const maxRequests = 5_000_000

/** Throws a GeneratorError that names every unusable number of a load. */
export function checkLoad(load: Load): void {
  const faults: string[] = []
  const checkPositive = (name: string, value: number) => {
    if (!(value > 0 && Number.isFinite(value)))
      faults.push(`${name} must be a positive number, not ${value}`)
  }
  checkPositive('durationS', load.durationS)
  if (load.kind === 'closed') {
    if (!Number.isInteger(load.connections) || load.connections < 1)
      faults.push(`connections must be a whole number from 1, not ${load.connections}`)
  } else {
    const { arrivals } = load
    if (arrivals.kind !== 'trace') checkPositive('rateRps', load.rateRps)
    if (arrivals.kind === 'sweep') {
      checkPositive('arrivals.fromRps', arrivals.fromRps)
      checkPositive('arrivals.toRps', arrivals.toRps)
    }
    if (arrivals.kind === 'gamma') checkPositive('arrivals.cv', arrivals.cv)
    if (arrivals.kind === 'on-off') {
      checkPositive('arrivals.onS', arrivals.onS)
      if (!(arrivals.offS >= 0))
        faults.push(`arrivals.offS must be at least 0, not ${arrivals.offS}`)
    }
    if (
      arrivals.kind === 'trace' &&
      arrivals.atMs.some((t, i) => !(t >= (i === 0 ? 0 : arrivals.atMs[i - 1]!)))
    )
      faults.push('arrivals.atMs must ascend from 0')
  }
  const requests =
    load.kind === 'closed'
      ? 0
      : load.arrivals.kind === 'trace'
        ? load.arrivals.atMs.length
        : load.rateRps * load.durationS
  if (requests > maxRequests)
    faults.push(
      `${Math.round(requests)} requests exceed the limit of ${maxRequests} per window: shorten the window`,
    )
  if (faults.length > 0) throw new GeneratorError(`unusable load: ${faults.join('; ')}`)
}
