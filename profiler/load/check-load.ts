import type { Load } from '../model/load.ts'
import { GeneratorError } from '../profiler-errors.ts'

const maxRequests = 5_000_000

/** Throws a GeneratorError that names every unusable number of a load. */
export function checkLoad(load: Load): void {
  const wrong: string[] = []
  const positive = (name: string, value: number) => {
    if (!(value > 0 && Number.isFinite(value)))
      wrong.push(`${name} must be a positive number, not ${value}`)
  }
  positive('durationS', load.durationS)
  if (load.kind === 'closed') {
    if (!Number.isInteger(load.connections) || load.connections < 1)
      wrong.push(`connections must be a whole number from 1, not ${load.connections}`)
  } else {
    const { arrivals } = load
    if (arrivals.kind !== 'trace') positive('rateRps', load.rateRps)
    if (arrivals.kind === 'sweep') {
      positive('arrivals.fromRps', arrivals.fromRps)
      positive('arrivals.toRps', arrivals.toRps)
    }
    if (arrivals.kind === 'gamma') positive('arrivals.cv', arrivals.cv)
    if (arrivals.kind === 'on-off') {
      positive('arrivals.onS', arrivals.onS)
      if (!(arrivals.offS >= 0))
        wrong.push(`arrivals.offS must be at least 0, not ${arrivals.offS}`)
    }
    if (
      arrivals.kind === 'trace' &&
      arrivals.atMs.some((t, i) => !(t >= (i === 0 ? 0 : arrivals.atMs[i - 1]!)))
    )
      wrong.push('arrivals.atMs must ascend from 0')
  }
  const requests =
    load.kind === 'closed'
      ? 0
      : load.arrivals.kind === 'trace'
        ? load.arrivals.atMs.length
        : load.rateRps * load.durationS
  if (requests > maxRequests)
    wrong.push(
      `${Math.round(requests)} requests exceed the limit of ${maxRequests} per window: shorten the window`,
    )
  if (wrong.length > 0) throw new GeneratorError(`unusable load: ${wrong.join('; ')}`)
}
