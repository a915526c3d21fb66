/** Sweep: plays given loads one after another, each for the same time, instead of a search. */
import { describeErrors, type Session } from './capacity/session.ts'
import type { Arrivals } from './model/load.ts'
import type { LoadPoint } from './model/load-point.ts'
import { meetsSlo, type Slo, sloName, sloText, sloValue } from './model/slo.ts'

/** A closed loop of a number of connections, or open load at a rate per second. */
export type SweepLoad = { readonly connections: number } | { readonly rateRps: number }

/** Connections of the warm-up before open load: one leaves a second worker cold. */
const openWarmUpConnections = 2
/** A load is this many times as long as its warm-up, which takes at most `maxWarmUpS`. Assumed. */
const loadPerWarmUp = 5
const maxWarmUpS = 1

/**
 * Plays a short closed loop, which is no point of the load curve.
 * @param durationS length of the load that follows
 */
export const playWarmUp = (
  session: Session,
  durationS: number,
  connections = openWarmUpConnections,
) =>
  session.playClosed(connections, Math.min(maxWarmUpS, durationS / loadPerWarmUp), 'warm-up', false)

interface Sweep {
  readonly loads: readonly SweepLoad[]
  /** Duration of each load, seconds. */
  readonly durationS: number
  /** Arrivals of open loads. */
  readonly arrivals: Arrivals
  readonly seed: number
}

/**
 * Plays the loads in the given order, after a short closed loop as warm-up, which does not count.
 * Rejects as the session does.
 */
export async function playSweep(
  session: Session,
  { loads, durationS, arrivals, seed }: Sweep,
): Promise<LoadPoint[]> {
  const [first] = loads
  await playWarmUp(
    session,
    durationS,
    first !== undefined && 'connections' in first ? first.connections : undefined,
  )
  const points: LoadPoint[] = []
  for (const [i, load] of loads.entries()) {
    const { point } =
      'connections' in load
        ? await session.playClosed(load.connections, durationS, 'curve')
        : await session.playOpen(load.rateRps, durationS, seed + i, 'curve', arrivals)
    points.push(point)
  }
  return points
}

/** '8 at a time', '12.5 requests per second'. */
const describeLoad = ({ load, offeredRps }: LoadPoint): string =>
  load.kind === 'closed'
    ? `${load.connections} at a time`
    : `${Number(offeredRps.toPrecision(3))} requests per second`

/**
 * Judges a sweep by the load with the highest throughput that met the SLO. That is not a capacity:
 * a closed loop waits for its server, so its latencies do not grow without bound.
 */
export function judgeSweep(
  points: readonly LoadPoint[],
  slo: Slo,
): { verdict: 'met' | 'violated' | 'failed'; summary: string } {
  const [first] = points
  if (first === undefined || points.every(({ requests, errors }) => requests === errors))
    return {
      verdict: 'failed',
      summary: `no request succeeded${first ? `: ${describeErrors(first)}` : ''}`,
    }
  const metPoints = points.filter((point) => meetsSlo(point, slo))
  const highest = metPoints.reduce<LoadPoint | undefined>(
    (a, b) => (a && a.achievedRps >= b.achievedRps ? a : b),
    undefined,
  )
  if (highest === undefined) {
    const best = points.reduce((a, b) => (a.sloMs <= b.sloMs ? a : b))
    return {
      verdict: 'violated',
      summary: `no load meets ${sloText(slo)}: at best, ${describeLoad(best)}, ${sloName(slo)} ${sloValue(slo, best.sloMs)}${best.errors > 0 ? `; ${describeErrors(best)}` : ''}`,
    }
  }
  const figure = `${sloName(slo)} ${sloValue(slo, highest.sloMs)}`
  return {
    verdict: 'met',
    summary: `${sloText(slo)} is met at ${describeLoad(highest)}: ${highest.achievedRps.toFixed(1)} good answers per second, ${figure}`,
  }
}
