/**
 * Entry of the load generator's process. Its own process, because work of the parent would delay
 * sends and timestamps. It ends with its parent.
 */

import type { Load, OpenLoad } from '../model/load.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { HttpTarget } from '../model/target.ts'
import type { FromChild, ToChild } from './child-messages.ts'
import { canUseAutocannon, playAutocannon } from './closed-autocannon.ts'
import { playClosed } from './closed-loop.ts'
import { HttpSender } from './http-sender.ts'
import { Http2Sender } from './http2-sender.ts'
import { playOpen } from './open-loop.ts'
import { Pacer } from './pacer.ts'
import type { Sender } from './sender.ts'

const send = (message: FromChild) => process.send?.(message)
let target: HttpTarget | undefined
let loadAbort: AbortController | undefined

/**
 * Sender of the last load, whose connections the next load reuses. Otherwise a hundred TLS
 * handshakes at the start of each window would count as latency of the server. Unused connections
 * are closed soon, because a server that shuts down may wait for its clients to disconnect.
 */
let idleSender: Sender | undefined
let idleTimer: NodeJS.Timeout | undefined
/** Unused connections are closed after this time. Assumed. */
const maxIdleMs = 2000

async function closeConnections(): Promise<void> {
  clearTimeout(idleTimer)
  const sender = idleSender
  idleSender = undefined
  await sender?.close()
}

/** Paces all open loads of this process. */
let pacer: Pacer | undefined
/** Autocannon could not play an earlier closed loop on this target. */
let isAutocannonUnsuitable = false
/** Answers per second of the target's last closed loop. */
let lastClosedRps = 0
/**
 * Minimum rate for autocannon. At high rates it needs less CPU per request than our own client. At
 * low rates, the requests that it abandons at the end would occupy the server for too long.
 */
const minAutocannonRps = 2000

async function play(load: Load, signal: AbortSignal): Promise<LoadRun> {
  if (target === undefined) throw new Error('a load arrived before its target')
  clearTimeout(idleTimer)
  idleSender ??= await createSender(target)
  try {
    const run =
      (await tryAutocannon(idleSender, target, load, signal)) ??
      (await playLoad(idleSender, target, load, signal))
    if (load.kind === 'closed')
      lastClosedRps = run.latencyMs.filter((ms) => !Number.isNaN(ms)).length / run.seconds
    idleTimer = setTimeout(closeConnections, maxIdleMs)
    return run
  } catch (error) {
    await closeConnections()
    throw error
  }
}

/**
 * Plays a closed loop on a fast server with autocannon; undefined where it cannot play the load.
 */
async function tryAutocannon(
  sender: Sender,
  httpTarget: HttpTarget,
  load: Load,
  signal: AbortSignal,
): Promise<LoadRun | undefined> {
  if (
    load.kind !== 'closed' ||
    isAutocannonUnsuitable ||
    lastClosedRps < minAutocannonRps ||
    !canUseAutocannon(httpTarget, load)
  )
    return undefined
  const run = await playAutocannon(httpTarget, load, signal, lastClosedRps)
  isAutocannonUnsuitable = run === undefined
  return run && { ...run, elapsedS: run.elapsedS + (await waitForBacklogS(sender, httpTarget)) }
}

/**
 * Waits for the answer to one more request, and returns the seconds that took. The server still
 * works on the requests that autocannon abandoned, and the next load would wait for them.
 */
async function waitForBacklogS(sender: Sender, { timeoutMs }: HttpTarget): Promise<number> {
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

async function playLoad(
  sender: Sender,
  httpTarget: HttpTarget,
  load: Load,
  signal: AbortSignal,
): Promise<LoadRun> {
  const run =
    load.kind === 'closed'
      ? await playClosed(httpTarget, load, sender, signal)
      : await playPaced(sender, httpTarget, load, signal)
  return { ...run, answerSamples: sender.takeSamples() }
}

async function playPaced(
  sender: Sender,
  httpTarget: HttpTarget,
  load: OpenLoad,
  signal: AbortSignal,
): Promise<LoadRun> {
  pacer ??= new Pacer()
  await pacer.ready
  return playOpen(httpTarget, load, sender, pacer, signal)
}

async function createSender(httpTarget: HttpTarget): Promise<Sender> {
  if (httpTarget.replicas !== undefined)
    return (await import('./spread-sender.ts')).SpreadSender.create(httpTarget, createSender)
  switch (httpTarget.transport) {
    case 'grpc':
      return new (await import('./grpc-sender.ts')).GrpcSender(httpTarget)
    case 'sse':
      return (await import('./sse-sender.ts')).createSseSender(httpTarget)
    case undefined:
      return new (httpTarget.http2 ? Http2Sender : HttpSender)(httpTarget)
  }
}

process.on('message', (message: ToChild) => {
  if (message.type === 'target') {
    target = message.target
    isAutocannonUnsuitable = false
    lastClosedRps = 0
    void closeConnections()
  } else if (message.type === 'abort') loadAbort?.abort()
  else {
    const controller = new AbortController()
    loadAbort = controller
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
