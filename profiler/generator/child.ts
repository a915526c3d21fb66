/** The generator's own process: nothing else disturbs its clock. Ends with its parent. */
import type { Load, LoadRun } from '../types.ts'
import { playClosed } from './closed.ts'
import type { FromChild, HttpTarget, ToChild } from './messages.ts'
import { playOpen } from './open.ts'

const send = (message: FromChild) => process.send?.(message)
let target: HttpTarget | undefined
let running: AbortController | undefined

function play(load: Load, signal: AbortSignal): Promise<LoadRun> {
  if (target === undefined) return Promise.reject(new Error('no target given before the load'))
  return load.kind === 'closed' ? playClosed(target, load, signal) : playOpen(target, load, signal)
}

process.on('message', (message: ToChild) => {
  if (message.type === 'target') target = message.target
  else if (message.type === 'abort') running?.abort()
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
