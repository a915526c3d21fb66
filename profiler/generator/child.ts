/** The generator's own process: nothing else disturbs its clock. Ends with its parent. */
import type { Load, LoadRun } from '../types.ts'
import type { FromChild, HttpTarget, ToChild } from './child-messages.ts'
import { playClosed } from './closed-http.ts'
import { playClosedLoop } from './closed-loop.ts'
import { HttpSender } from './http-sender.ts'
import { Http2Sender } from './http2-sender.ts'
import { playOpen } from './open-loop.ts'
import type { Sender } from './sender.ts'

const send = (message: FromChild) => process.send?.(message)
let target: HttpTarget | undefined
let running: AbortController | undefined

/**
 * The connections of the last load, for the next: a client keeps its own, and a hundred TLS handshakes at the start of each window
 * would be read as the server's latency. Given up soon, for a server that ends may wait for its clients to go.
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

async function play(load: Load, signal: AbortSignal): Promise<LoadRun> {
  if (target === undefined) throw new Error('no target given before the load')
  // autocannon speaks HTTP/1.1 alone.
  if (load.kind === 'closed' && !load.forOpen && target.transport === undefined && !target.http2) return playClosed(target, load, signal)
  clearTimeout(keptTimer)
  kept ??= await senderFor(target)
  try {
    const run = await (load.kind === 'closed' ? playClosedLoop(target, load, kept, signal) : playOpen(target, load, kept, signal))
    keptTimer = setTimeout(giveUpConnections, keptMs)
    return run
  } catch (error) {
    await giveUpConnections()
    throw error
  }
}

async function senderFor(to: HttpTarget): Promise<Sender> {
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
    void giveUpConnections()
  } else if (message.type === 'abort') running?.abort()
  else {
    const controller = new AbortController()
    running = controller
    play(message.load, controller.signal)
      .then((run) => send({ type: 'played', run }))
      .catch((error: unknown) => {
        if (controller.signal.aborted) send({ type: 'aborted' })
        else send({ type: 'failed', message: error instanceof Error ? (error.stack ?? error.message) : String(error) })
      })
  }
})
process.on('disconnect', () => process.exit())
process.on('SIGINT', () => {}) // Ctrl-C reaches the whole foreground group: the parent decides when this process ends.
send({ type: 'ready' })
