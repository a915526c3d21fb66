/** Process of the generator, whose clock nothing else disturbs. Ends with its parent. */

import type { Load } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { FromChild, HttpTarget, ToChild } from './child-messages.ts'
import { playAutocannon, suitsAutocannon } from './closed-autocannon.ts'
import { playClosed } from './closed-loop.ts'
import { HttpSender } from './http-sender.ts'
import { Http2Sender } from './http2-sender.ts'
import { playOpen } from './open-loop.ts'
import { Pacer } from './pacer.ts'
import type { Sender } from './sender.ts'

const send = (message: FromChild) => process.send?.(message)
let target: HttpTarget | undefined
let running: AbortController | undefined

/**
 * Connections of the last load, reused for the next. A hundred TLS handshakes at the start of each
 * window would be measured as latency of the server. They are closed soon, as a server that ends
 * may wait for its clients to leave.
 */
let kept: Sender | undefined
let keptTimer: NodeJS.Timeout | undefined
const keptMs = 2000

async function giveUpConnections(): Promise<void> {
  clearTimeout(keptTimer)
  const sender = kept
  kept = undefined
  await sender?.close()
}

/** Paces all open loads of this process. */
let pacer: Pacer | undefined
/** The server of the target does something that autocannon's interface cannot handle. */
let beyondAutocannon = false
/** Answers per second of the target's last closed loop. */
let answeredRps = 0
/**
 * From this rate, autocannon gets more out of a core than our own client. Below it, the requests
 * that it leaves unanswered occupy a server for too long.
 */
const fastRps = 2000

async function play(load: Load, signal: AbortSignal): Promise<LoadRun> {
  if (target === undefined) throw new Error('no target given before the load')
  clearTimeout(keptTimer)
  kept ??= await senderFor(target)
  try {
    const run =
      (await playFast(kept, target, load, signal)) ?? (await playOver(kept, target, load, signal))
    if (load.kind === 'closed')
      answeredRps = run.latencyMs.filter((ms) => !Number.isNaN(ms)).length / run.seconds
    keptTimer = setTimeout(giveUpConnections, keptMs)
    return run
  } catch (error) {
    await giveUpConnections()
    throw error
  }
}

/**
 * Plays a closed loop on a fast server by autocannon; undefined where autocannon cannot play it.
 */
async function playFast(
  sender: Sender,
  to: HttpTarget,
  load: Load,
  signal: AbortSignal,
): Promise<LoadRun | undefined> {
  if (
    load.kind !== 'closed' ||
    beyondAutocannon ||
    answeredRps < fastRps ||
    !suitsAutocannon(to, load)
  )
    return undefined
  const run = await playAutocannon(to, load, signal, answeredRps)
  beyondAutocannon = run === undefined
  return run && { ...run, elapsedS: run.elapsedS + (await caughtUpS(sender, to)) }
}

/**
 * Seconds until a request is answered. Servers still work on requests that autocannon abandoned,
 * and the next load would wait for them.
 */
async function caughtUpS(sender: Sender, { timeoutMs }: HttpTarget): Promise<number> {
  const fromMs = performance.now()
  await new Promise<void>((resolve) => {
    const exchange = sender.send(0, () => {
      clearTimeout(timer)
      resolve()
    })
    const timer = setTimeout(() => {
      exchange.abandon()
      resolve()
    }, timeoutMs)
  })
  return (performance.now() - fromMs) / 1000
}

async function playOver(
  sender: Sender,
  to: HttpTarget,
  load: Load,
  signal: AbortSignal,
): Promise<LoadRun> {
  const run =
    load.kind === 'closed'
      ? await playClosed(to, load, sender, signal)
      : await playPaced(sender, to, load, signal)
  return { ...run, sampled: sender.takeSampled() }
}

async function playPaced(
  sender: Sender,
  to: HttpTarget,
  load: Extract<Load, { kind: 'open' }>,
  signal: AbortSignal,
): Promise<LoadRun> {
  pacer ??= new Pacer()
  await pacer.ready
  return playOpen(to, load, sender, pacer, signal)
}

async function senderFor(to: HttpTarget): Promise<Sender> {
  if (to.spread !== undefined)
    return (await import('./spread-sender.ts')).SpreadSender.to(to, senderFor)
  switch (to.transport) {
    case 'grpc':
      return new (await import('./grpc-sender.ts')).GrpcSender(to)
    case 'sse':
      return (await import('./sse-sender.ts')).sseSender(to)
    case undefined:
      return new (to.http2 ? Http2Sender : HttpSender)(to)
  }
}

process.on('message', (message: ToChild) => {
  if (message.type === 'target') {
    target = message.target
    beyondAutocannon = false
    answeredRps = 0
    void giveUpConnections()
  } else if (message.type === 'abort') running?.abort()
  else {
    const controller = new AbortController()
    running = controller
    play(message.load, controller.signal)
      .then((run) => send({ type: 'played', run }))
      .catch((error: unknown) => {
        if (controller.signal.aborted) send({ type: 'aborted' })
        else
          send({
            type: 'failed',
            message: error instanceof Error ? (error.stack ?? error.message) : String(error),
          })
      })
  }
})
process.on('disconnect', () => process.exit())
process.on('SIGINT', () => {}) // Ctrl-C reaches the whole foreground process group; the parent decides when this process ends.
send({ type: 'ready' })
