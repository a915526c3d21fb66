/** A quota of computing time, as a container has it by its CPU limit: what has used it up waits for the next period, so that a server stalls under load alone. */
import { median, sum } from 'simple-statistics'
import type { LoadPoint, LoadRun } from '../../types.ts'
import type { Effort } from '../effort.ts'
import type { Searched } from '../known-capacity.ts'
import { rateBisection } from '../rate-bisection.ts'
import type { Session } from '../session.ts'

/** The period of Linux' quotas, unless set otherwise (sched-bwc.rst); Kubernetes and Docker leave it so. */
const periodMs = 100
/** A wait is at least so long, and so many times the usual time from one answer to the next: shorter ones cost little. */
const shortestMs = 0.2 * periodMs
const beyondUsual = 2.5
/** Answers closer together are of one batch. */
const togetherMs = 0.5
/** How well the ends of waits keep the period, 0 to 1: what is served across the end of one is answered some milliseconds after it. */
const aligned = 0.8
/** Rayleigh's statistic n R², whose chance is e to its negative where no period is kept (Mardia and Jupp, Directional Statistics, section 6.3.1): one in a thousand. */
const beyondChance = 7

const waitsForQuota =
  'under load nothing was answered for a part of each 100 ms, as of a container whose CPU limit is used up: more cores may serve far more'

/**
 * The capacity of a throttled server, by open windows alone: its waits come with the load, and closed loops, which are always in need of computing time, tell a twin nothing of
 * when they come under less.
 */
export async function throttledCapacity(
  session: Session,
  effort: Effort,
  idle: LoadPoint,
  aim: { readonly seed: number; readonly capacityToBeatRps?: number; readonly expectedRps?: number },
): Promise<Searched> {
  session.startBudget()
  const found = await rateBisection(session, effort, idle, aim)
  return { ...found, caveats: [...(found.caveats ?? []), waitsForQuota] }
}

/** Whether a server waits for computing time, by closed loops that keep it busy: its waits end whole periods apart, loop by loop. */
export function isThrottled(loops: readonly LoadRun[]): boolean {
  const apartMs = loops.flatMap((loop) => {
    const endsMs = waitsEndMs(loop)
    return endsMs.slice(1).map((ms, i) => ms - endsMs[i]!)
  })
  if (apartMs.length === 0) return false
  const meanOf = (part: (angle: number) => number) => sum(apartMs.map((ms) => part((2 * Math.PI * ms) / periodMs))) / apartMs.length
  // Whole periods apart: all at the same place, the beginning.
  const resultant = Math.hypot(meanOf(Math.cos), meanOf(Math.sin))
  return meanOf(Math.cos) >= aligned && apartMs.length * resultant ** 2 >= beyondChance
}

/** When the first answers came after nothing was answered for unusually long, ms from the start. */
function waitsEndMs({ sentMs, latencyMs }: LoadRun): number[] {
  const answeredMs = sentMs
    .map((ms, i) => ms + latencyMs[i]!)
    .filter((ms) => !Number.isNaN(ms))
    .sort()
  const steps = [...answeredMs.slice(1)].flatMap((ms, i) =>
    ms - answeredMs[i]! > togetherMs ? [{ endedMs: ms, tookMs: ms - answeredMs[i]! }] : [],
  )
  if (steps.length === 0) return []
  const longMs = Math.max(shortestMs, beyondUsual * median(steps.map(({ tookMs }) => tookMs)))
  return steps.filter(({ tookMs }) => tookMs >= longMs).map(({ endedMs }) => endedMs)
}
