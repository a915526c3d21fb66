import { performance } from 'node:perf_hooks'
import type { Load, LoadRun } from '../types.ts'
import type { HttpTarget } from './child-messages.ts'
import { Recorder } from './recorder.ts'
import type { Sender } from './sender.ts'

const pauseAfterFailureMs = 20

/**
 * Plays a closed loop over any sender: each of the load's connections sends when its last request has ended.
 * Requests under way at the end are waited for, each up to the target's timeout. HTTP/1.1 goes through autocannon instead (closed.ts), but for loads that open the connections of open load.
 */
export async function playClosedLoop(
  target: HttpTarget,
  load: Extract<Load, { kind: 'closed' }>,
  sender: Sender,
  signal: AbortSignal,
): Promise<LoadRun> {
  await sender.connect()
  const recorder = new Recorder()
  const cpu = process.cpuUsage()
  const startMs = performance.now()
  const now = () => performance.now() - startMs
  const endMs = load.durationS * 1000
  let next = 0

  const once = () =>
    new Promise<boolean>((resolve) => {
      const sentMs = now()
      const index = recorder.open(sentMs)
      let over = false
      const finish = (good: boolean) => {
        over = true
        clearTimeout(deadline)
        signal.removeEventListener('abort', give)
        resolve(good)
      }
      const give = () => {
        sent.abandon()
        finish(false)
      }
      const deadline = setTimeout(() => {
        recorder.failed(index, 'timeout')
        give()
      }, target.timeoutMs)
      signal.addEventListener('abort', give, { once: true })
      const sent = sender.send(next++, (failure, stream) => {
        if (over) return
        if (failure === undefined) recorder.answered(index, now() - sentMs, stream)
        else recorder.failed(index, failure)
        finish(failure === undefined)
      })
    })

  const connection = async () => {
    while (now() < endMs && !signal.aborted) {
      // A server that refuses at once must not be stormed.
      if (!(await once()) && now() < endMs) await new Promise((resolve) => setTimeout(resolve, pauseAfterFailureMs))
    }
  }
  await Promise.all(Array.from({ length: load.connections }, connection))
  signal.throwIfAborted()
  const used = process.cpuUsage(cpu)
  return recorder.finish(load, {
    seconds: Math.min(now(), endMs) / 1000,
    elapsedS: now() / 1000,
    generatorCores: (used.user + used.system) / 1e3 / now(),
  })
}
