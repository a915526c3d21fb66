/**
 * One load after the other on a server, each for the same time: how it fares as ever more is asked
 * of it.
 */
import { describeErrors, type Session } from './capacity/session.ts'
import { meetsSlo, type Slo, sloName, sloText, sloValue } from './model/slo.ts'
import type { LoadPoint } from './model/load-point.ts'
import type { Arrivals } from './model/load.ts'

/** A closed loop of so many at a time, or open load at so many requests per second. */
export type SweepLoad = { readonly connections: number } | { readonly rateRps: number }

interface Sweep {
  readonly loads: readonly SweepLoad[]
  /** Of each load, seconds. */
  readonly durationS: number
  /** Of open load. */
  readonly arrivals: Arrivals
  readonly seed: number
}

/**
 * The loads in the order they are given; a closed loop of the first one's size comes before, and
 * does not count. Rejects as the session does.
 */
export async function playSweep(
  session: Session,
  { loads, durationS, arrivals, seed }: Sweep,
): Promise<LoadPoint[]> {
  const [first] = loads
  await session.closed(
    first !== undefined && 'connections' in first ? first.connections : 2,
    Math.min(1, durationS / 5),
    'warm-up',
    false,
  )
  const points: LoadPoint[] = []
  for (const [i, load] of loads.entries()) {
    const played =
      'connections' in load
        ? await session.closed(load.connections, durationS, 'curve')
        : await session.open(load.rateRps, durationS, seed + i, 'curve', arrivals)
    points.push(played.point)
  }
  return points
}

/** '8 at a time', '12.5 requests per second'. */
const asked = ({ load, offeredRps }: LoadPoint): string =>
  load.kind === 'closed'
    ? `${load.connections} at a time`
    : `${Number(offeredRps.toPrecision(3))} requests per second`

/**
 * What a sweep comes to: the load of the most answers that kept the SLO. A closed loop waits for
 * its server, so that its latencies are no capacity.
 */
export function sweepVerdict(
  points: readonly LoadPoint[],
  slo: Slo,
): { verdict: 'met' | 'missed' | 'failed'; summary: string } {
  const [first] = points
  if (first === undefined || points.every(({ requests, errors }) => requests === errors))
    return {
      verdict: 'failed',
      summary: `no request was answered well${first ? `: ${describeErrors(first)}` : ''}`,
    }
  const kept = points.filter((point) => meetsSlo(point, slo))
  const most = kept.reduce<LoadPoint | undefined>(
    (a, b) => (a && a.achievedRps >= b.achievedRps ? a : b),
    undefined,
  )
  if (most === undefined) {
    const least = points.reduce((a, b) => (a.sloMs <= b.sloMs ? a : b))
    return {
      verdict: 'missed',
      summary: `no load keeps ${sloText(slo)}: at the best, ${asked(least)}, ${sloName(slo)} ${sloValue(slo, least.sloMs)}${least.errors > 0 ? `; ${describeErrors(least)}` : ''}`,
    }
  }
  const figure = `${sloName(slo)} ${sloValue(slo, most.sloMs)}`
  return {
    verdict: 'met',
    summary: `${sloText(slo)} holds at ${asked(most)}: ${most.achievedRps.toFixed(1)} good answers a second, ${figure}`,
  }
}
