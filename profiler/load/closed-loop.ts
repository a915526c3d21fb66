/**
 * Closed loop: a fixed number of connections, each of which sends when its last request has ended.
 */

import type { ClosedLoad } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'
import { Exchanges } from './exchanges.ts'
import type { Sender } from './sender.ts'

/** Pause of a connection after a failed request. Assumed. */
const pauseAfterFailureMs = 20

/**
 * Plays a closed loop over any sender: each connection sends when its last request has ended.
 * Requests in progress at the end are awaited up to the target's timeout.
 */
export async function playClosed(
  target: HttpTarget,
  load: ClosedLoad,
  sender: Sender,
  signal: AbortSignal,
): Promise<LoadRun> {
  await sender.connect()
  const endMs = load.durationS * 1000
  const exchanges = new Exchanges(target, sender)
  let activeConnections = load.connections
  const sendNext = () => {
    const now = exchanges.now()
    if (now < endMs && !signal.aborted) exchanges.send(now, onEnd)
    else if (--activeConnections === 0) exchanges.end()
  }
  const onEnd = (failure: string | undefined) => {
    if (failure === undefined) sendNext()
    // The pause protects a server that refuses requests immediately.
    else setTimeout(sendNext, Math.min(pauseAfterFailureMs, Math.max(0, endMs - exchanges.now())))
  }
  await exchanges.run(signal, () => {
    for (let i = 0; i < load.connections; i++) sendNext()
  })
  return exchanges.buildRun(load, { seconds: Math.min(exchanges.now(), endMs) / 1000 })
}
