/** The capacity of a server whose computing-time quota keeps it waiting, by open windows alone. */
import { sum } from 'simple-statistics'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import {
  answersOf,
  connectionsOf,
  longestSilences,
  periodMs,
  waitsForQuota,
} from '../admission-limits/cpu-quota.ts'
import { halfWidthOf, type Searched } from '../capacity-bounds.ts'
import type { Effort } from '../effort.ts'
import type { Session } from '../session.ts'
import { rateBisection } from './rate-bisection.ts'
import type { WindowSeen } from './short-windows.ts'

/** Share of each period from which on the waits of a server make a queue model of it useless. */
const mostForTwin = 0.4

/**
 * The capacity of a server that waits for much of the time, by open windows alone: its waits come
 * with the load, and closed loops, which are always in need of computing time, tell a twin nothing
 * of when they come under less. Undefined of one that waits for little.
 */
export async function throttledCapacity(
  session: Session,
  effort: Effort,
  idle: LoadPoint,
  aim: {
    readonly seed: number
    readonly capacityToBeatRps?: number
    readonly expectedRps?: number
  },
  share: number,
): Promise<Searched | undefined> {
  if (share < mostForTwin) return undefined
  session.startBudget()
  // Who comes while it waits has half of that before him, on the average.
  const waited = { ...idle, p50Ms: idle.p50Ms + (share * periodMs) / 2 }
  const found = await rateBisection(session, effort, waited, {
    ...aim,
    busy: served(session.loops),
  })
  const wide = found.outcome === 'converged' && halfWidthOf(found) >= 2 * effort.precision
  return {
    ...found,
    ...(wide && {
      outcome: 'budget',
      detail: 'windows of open load alone tell it no more closely',
    }),
    caveats: [waitsForQuota(share)],
  }
}

/**
 * What loops over many connections got, from the end of one wait to that of a later one: parts of
 * periods have more of the quota, or less.
 */
function served(loops: readonly LoadRun[]): WindowSeen | undefined {
  const most = Math.max(...loops.map(connectionsOf))
  const spans = loops
    .filter((loop) => connectionsOf(loop) >= most / 2)
    .flatMap((loop) => {
      const ends = longestSilences(loop).map(({ endedMs }) => endedMs)
      if (ends.length < 2) return []
      const [fromMs, toMs] = [ends[0]!, ends.at(-1)!]
      return [
        {
          answers: answersOf(loop).filter((ms) => ms > fromMs && ms <= toMs).length,
          seconds: (toMs - fromMs) / 1000,
        },
      ]
    })
  if (spans.length === 0) return undefined
  const [answers, seconds] = [
    sum(spans.map((span) => span.answers)),
    sum(spans.map((span) => span.seconds)),
  ]
  return {
    rateRps: answers / seconds,
    seconds,
    nEff: 0,
    over: 1,
    behind: { answers, seconds, dispersion: 1 },
  }
}
