/** Server-sent events of one experiment: what is known at once, what comes as it comes. */
import type { ServerResponse } from 'node:http'
import type { DashboardExperiment } from '../../reports/dashboard/data/page-data.ts'
import { type Feed, noAnnotations, type StoreWatcher } from './watch.ts'

/** Trials in one event. */
const batch = 500
/** A comment this often keeps proxies and sleeping machines from taking the silence for an end. */
const heartbeatMs = 15_000

/**
 * Streams an experiment from its `from`-th trial on until the reader goes away. The id of each
 * `trials` event is the count of trials sent with it, so that a browser that reconnects goes on
 * where it stood. A reader that is slow is waited for, and holds up nobody else.
 */
export function streamExperiment(
  watcher: StoreWatcher,
  id: string,
  from: number,
  response: ServerResponse,
): void {
  let sent = from
  let told: DashboardExperiment | undefined
  let written = noAnnotations
  let ready = false
  let pumping = false
  let again = false
  const { feed, stop } = watcher.follow(id, () => void pump())
  const heartbeat = setInterval(() => response.write(': \n\n'), heartbeatMs)
  response.on('close', () => {
    clearInterval(heartbeat)
    stop()
  })
  void pump()

  async function pump(): Promise<void> {
    again = true
    if (pumping) return
    pumping = true
    while (again && !response.destroyed) {
      again = false
      await pass(feed)
    }
    pumping = false
  }

  async function pass({ described, packed, annotations, caughtUp, problem }: Feed): Promise<void> {
    if (problem) {
      await send('problem', problem.message)
      response.end()
      return
    }
    if (!described) return
    if (described.dashboard !== told) {
      told = described.dashboard
      await send('experiment', JSON.stringify(told))
    }
    if (annotations !== written) {
      written = annotations
      await send('annotations', JSON.stringify(written))
    }
    while (sent < packed.length && !response.destroyed) {
      const some = packed.slice(sent, sent + batch)
      sent += some.length
      await send('trials', JSON.stringify(some), sent)
    }
    if (caughtUp && !ready) {
      ready = true
      await send('ready', '{}')
    }
  }

  async function send(event: string, data: string, eventId?: number): Promise<void> {
    const lines = data
      .split(/\r\n|\r|\n/)
      .map((line) => `data: ${line}\n`)
      .join('')
    const room = response.write(
      `${eventId === undefined ? '' : `id: ${eventId}\n`}event: ${event}\n${lines}\n`,
    )
    if (room || response.destroyed) return
    await new Promise<void>((resolve) => {
      const done = () => {
        response.off('drain', done)
        response.off('close', done)
        resolve()
      }
      response.on('drain', done)
      response.on('close', done)
    })
  }
}
