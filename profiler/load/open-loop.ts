/**
 * Open loop: requests are sent on schedule whatever the server does, and each is timed from its
 * intended send. So a stalled server cannot hide the requests that it delayed (coordinated
 * omission: Schroeder et al., NSDI 2006; wrk2).
 */

import type { OpenLoad } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'
import { schedule } from './arrivals.ts'
import { Exchanges } from './exchanges.ts'
import type { Pacer } from './pacer.ts'
import type { Sender } from './sender.ts'

/** Limit on requests in progress; further ones are dropped and count as failed. */
const maxInFlight = 20_000
/** Time from the preparation of the load to its first send, so that the first send is not late. */
const leadMs = 5
/** Tolerance between the clocks of the pacer's thread and of this one, ms. */
const clockToleranceMs = 0.001

/** Plays an open load and waits for every answer up to the target's timeout. */
export async function playOpen(
  target: HttpTarget,
  load: OpenLoad,
  sender: Sender,
  pacer: Pacer,
  signal: AbortSignal,
): Promise<LoadRun> {
  await sender.connect()
  const atMs = schedule(load)
  const exchanges = new Exchanges(target, sender, leadMs)
  const { cut } = load
  let nextIndex = 0
  let endedViolations = 0
  let cutMs: number | undefined

  const endIfDone = () => {
    if (nextIndex >= atMs.length && exchanges.inFlight.size === 0) exchanges.end()
  }
  const onEnd = (failure: string | undefined, latencyMs: number) => {
    if (cut !== undefined && (failure !== undefined || latencyMs > cut.overMs)) endedViolations++
    endIfDone()
  }
  const sendDue = () => {
    while (
      cutMs === undefined &&
      nextIndex < atMs.length &&
      atMs[nextIndex]! <= exchanges.now() + clockToleranceMs
    ) {
      const intendedMs = atMs[nextIndex++]!
      if (exchanges.inFlight.size < maxInFlight) exchanges.send(intendedMs, onEnd)
      else exchanges.recordDropped(intendedMs)
    }
    endIfDone()
  }
  /**
   * Ends the window once more requests than `cut.requests` failed or exceed the limit, those in
   * progress included: it can no longer meet the SLO.
   */
  const cutIfViolated = (nowMs: number) => {
    if (cut === undefined || cutMs !== undefined) return
    let violations = endedViolations
    for (const exchange of exchanges.inFlight) {
      if (nowMs - exchange.intendedMs <= cut.overMs) break
      violations++
    }
    if (violations <= cut.requests) return
    cutMs = nowMs
    exchanges.cut(nowMs)
  }

  let pacerRun: { stop(): void } | undefined
  try {
    await exchanges.run(
      signal,
      () => {
        pacerRun = pacer.start(atMs, exchanges.startMs, sendDue)
      },
      cutIfViolated,
    )
  } finally {
    pacerRun?.stop()
  }
  return exchanges.buildRun(load, {
    planned: cutMs === undefined ? atMs.length : nextIndex,
    seconds: Math.min((cutMs ?? Number.POSITIVE_INFINITY) / 1000, load.durationS),
    cutMs,
  })
}
