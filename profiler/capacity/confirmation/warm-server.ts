/** Warms the server of a confirmation, and measures its unloaded latency. */
import type { LoadPoint } from '../../model/load-point.ts'
import { planEarlyCut } from '../../model/slo.ts'
import type { PlayedLoad, Session } from '../session.ts'
import { warmUntilSteady } from '../warm-up.ts'
import { findOtherUnloaded } from './agreement.ts'
import type { ConfirmationPlan } from './confirm-options.ts'

// All of the following are assumed.

/** Longest measurement of the unloaded latency, seconds, and as a share of the time at a rate. */
const maxUnloadedS = 1
const maxUnloadedShare = 0.1
/** Requests that measure the unloaded latency, if time allows: a median within a few percent. */
const unloadedRequests = 100
/** Length of the first closed loop, and shortest measurement, as a share of the longest. */
const minUnloadedShare = 1 / 3
/**
 * Length of a warm-up window at the rate, as a share of its time: a server under its first load
 * compiles, allocates and fills caches.
 */
const warmUpShare = 1 / 30
const maxWarmUps = 5
/**
 * A warm-up window with this many requests is shorter, down to a third: the number of requests
 * warms a server, not the time.
 */
const warmUpRequestTarget = 2000
const minWarmUpShare = 1 / 3
/** Shares of the rate that warm a server before the full rate. */
const rampShares = [0.25, 0.5, 0.75]
/** Requests present at the rate from which a server is warmed by these shares first. */
const minPresentToRamp = 2
/** A warm-up window is not cut before this share of its requests, and this number, is over. */
const minPlayedShare = 0.3
const minPlayedRequests = 20
/** Offset that separates the seeds of warm-up windows from those of the confirmation. */
const warmUpSeeds = 9000

/** The warm server, or a dead one. */
interface WarmServer {
  readonly unloaded: PlayedLoad
  readonly unloadedPoints: readonly LoadPoint[]
  /** Last load of a server that died. */
  readonly death?: PlayedLoad
}

/**
 * Warms the server and measures its unloaded latency. Measures it again if it differs from earlier
 * measurements, because the server was cold at first.
 */
export async function warmServer(session: Session, plan: ConfirmationPlan): Promise<WarmServer> {
  const { seconds, earlier = [] } = plan
  const maxS = Math.min(maxUnloadedS, maxUnloadedShare * seconds)
  const minS = minUnloadedShare * maxS
  const warmUp = await session.playClosed(2, minS, 'warm-up', false)
  // One request at a time answers about half as many per second as two.
  const targetS = (2 * unloadedRequests) / warmUp.point.achievedRps
  const unloadedS = Math.min(maxS, Math.max(minS, targetS))
  const first = await session.playClosed(1, unloadedS, 'unloaded')
  if (await session.hasDied(warmUp.point))
    return { unloaded: first, unloadedPoints: [first.point], death: warmUp }
  await warmByOpenLoad(session, plan, first.point)
  if (findOtherUnloaded(earlier, first.point) === undefined)
    return { unloaded: first, unloadedPoints: [first.point] }
  await session.settle(first.point)
  const repeated = await session.playClosed(1, unloadedS, 'unloaded')
  return { unloaded: repeated, unloadedPoints: [first.point, repeated.point] }
}

/**
 * Warms the server at the rate, by shares of it first if many requests are present at once (Little's
 * law). The full rate would overload a cold server, and its queue would keep it slow for long.
 */
async function warmByOpenLoad(
  session: Session,
  { rateRps, slo, seconds, seed, arrivals, warmUpRequests }: ConfirmationPlan,
  unloaded: LoadPoint,
): Promise<void> {
  const requests = rateRps * warmUpShare * seconds
  const lengthFactor = Math.min(1, Math.max(minWarmUpShare, warmUpRequestTarget / requests))
  const durationS = lengthFactor * warmUpShare * seconds
  let windows = 0
  const play = async (rps: number) => {
    const load = {
      kind: 'open',
      rateRps: rps,
      durationS,
      arrivals,
      seed: seed + warmUpSeeds + windows++,
      // A warm-up may violate the SLO for a while.
      cut: planEarlyCut(slo, minPlayedShare * rps * durationS + minPlayedRequests),
    } as const
    const { run } = await session.play(load, 'warm-up', false)
    if (run.cutMs !== undefined) await session.settle(unloaded)
    return run
  }
  // Of streamed answers, the SLO may constrain only a part of the sojourn, which does not give the
  // number of requests present.
  const requestsPresent = (rateRps * unloaded.p50Ms) / 1000
  if (unloaded.stream === undefined && requestsPresent > minPresentToRamp)
    for (const share of rampShares) await play(share * rateRps)
  /** Earlier servers of this type were steady after this number of requests. */
  const hasWarmUpRequests = () => warmUpRequests !== undefined && session.requests >= warmUpRequests
  await warmUntilSteady(maxWarmUps, async (window) =>
    window > 0 && hasWarmUpRequests() ? undefined : play(rateRps),
  )
}
