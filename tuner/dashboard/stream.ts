/** Server-sent events of one experiment: first what is known, then updates. */
import type { ServerResponse } from 'node:http'
import type { DashboardExperiment } from '../../reports/dashboard/data/page-data.ts'
import { type Feed, noAnnotations, type StoreWatcher } from './store-watcher.ts'

/** Larger batches delay the first rows of the page. */
const maxTrialsPerEvent = 500
/** Interval of comments that keep idle connections open. */
const heartbeatMs = 15_000

/**
 * Streams an experiment from its `from`-th trial until the client disconnects. The id of each
 * `trials` event is the number of trials sent so far, so that a reconnecting browser continues
 * there. A slow client does not delay others.
 */
export function streamExperiment(
  watcher: StoreWatcher,
  id: string,
  from: number,
  response: ServerResponse,
): void {
  let sentTrials = from
  let sentExperiment: DashboardExperiment | undefined
  let sentAnnotations = noAnnotations
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
      await sendUpdates(feed)
    }
    pumping = false
  }

  async function sendUpdates({
    view,
    packed,
    annotations,
    caughtUp,
    problem,
  }: Feed): Promise<void> {
    if (problem) {
      await send('problem', problem.message)
      response.end()
      return
    }
    if (!view) return
    if (view.dashboard !== sentExperiment) {
      sentExperiment = view.dashboard
      await send('experiment', JSON.stringify(sentExperiment))
    }
    if (annotations !== sentAnnotations) {
      sentAnnotations = annotations
      await send('annotations', JSON.stringify(sentAnnotations))
    }
    while (sentTrials < packed.length && !response.destroyed) {
      const batch = packed.slice(sentTrials, sentTrials + maxTrialsPerEvent)
      sentTrials += batch.length
      await send('trials', JSON.stringify(batch), sentTrials)
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
    const hasRoom = response.write(
      `${eventId === undefined ? '' : `id: ${eventId}\n`}event: ${event}\n${lines}\n`,
    )
    if (hasRoom || response.destroyed) return
    await new Promise<void>((resolve) => {
      const resume = () => {
        response.off('drain', resume)
        response.off('close', resume)
        resolve()
      }
      response.on('drain', resume)
      response.on('close', resume)
    })
  }
}
