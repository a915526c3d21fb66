/**
 * Open loop: requests are sent on schedule whatever the server does, and each is timed from its
 * intended send. So a stalled server cannot hide the requests that it delayed (coordinated
 * omission: Schroeder et al., NSDI 2006; wrk2).
 */

import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import { schedule } from './arrivals.ts'
import type { HttpTarget } from './child-messages.ts'
import { Exchanges } from './exchanges.ts'
import type { Pacer } from './pacer.ts'
import type { Sender } from './sender.ts'

type OpenLoad = Extract<Load, { kind: 'open' }>

/** Limit on requests in progress; further ones are dropped and count as failed. */
const maxUnderWay = 20_000
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
  let next = 0
  let overLimit = 0
  let cutMs: number | undefined

  const endIfDone = () => {
    if (next >= atMs.length && exchanges.underWay.size === 0) exchanges.end()
  }
  const ended = (failure: string | undefined, latencyMs: number) => {
    if (cut !== undefined && (failure !== undefined || latencyMs > cut.overMs)) overLimit++
    endIfDone()
  }
  const sendDue = () => {
    while (
      cutMs === undefined &&
      next < atMs.length &&
      atMs[next]! <= exchanges.now() + clockToleranceMs
    ) {
      const intendedMs = atMs[next++]!
      if (exchanges.underWay.size < maxUnderWay) exchanges.send(intendedMs, ended)
      else exchanges.drop(intendedMs)
    }
    endIfDone()
  }
  /**
   * Ends the window once more requests than `cut.requests` failed or exceed the limit, those in
   * progress included: it can no longer meet the SLO.
   */
  const cutIfLost = (nowMs: number) => {
    if (cut === undefined || cutMs !== undefined) return
    let late = overLimit
    for (const exchange of exchanges.underWay) {
      if (nowMs - exchange.intendedMs <= cut.overMs) break
      late++
    }
    if (late <= cut.requests) return
    cutMs = nowMs
    exchanges.cutShort(nowMs)
  }

  let pacing: { stop(): void } | undefined
  try {
    await exchanges.run(
      signal,
      () => {
        pacing = pacer.start(atMs, exchanges.startMs, sendDue)
      },
      cutIfLost,
    )
  } finally {
    pacing?.stop()
  }
  return exchanges.result(load, {
    planned: cutMs === undefined ? atMs.length : next,
    seconds: Math.min((cutMs ?? Number.POSITIVE_INFINITY) / 1000, load.durationS),
    cutMs,
  })
}
