/** Downloads of a trial: the log of its predictor, and its latencies. */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { UserError } from '../exit-codes.ts'
import type { StoreWatcher } from './store-watcher.ts'

/** Bytes that are shown, from the end of a log. */
const maxLogBytes = 64 * 1024

export function registerTrialFileRoutes(server: FastifyInstance, watcher: StoreWatcher): void {
  server.get<{ Params: { id: string; number: string } }>(
    '/api/experiments/:id/trials/:number/log',
    async ({ params }, reply) => {
      const { trials } = await watcher.readCurrent(params.id)
      const trial = trials.find((t) => String(t.number) === params.number)
      if (!trial?.logPath) throw new UserError(`trial ${params.number} has no log`)
      return reply.type('text/plain; charset=utf-8').send(await readLogTail(trial.logPath))
    },
  )

  server.get<{ Params: { id: string; number: string } }>(
    '/api/experiments/:id/trials/:number/latencies.hlog',
    async ({ params }, reply) => {
      const { trials } = await watcher.readCurrent(params.id)
      const trial = trials.filter((t) => String(t.number) === params.number)
      if (trial.length === 0) throw new UserError(`there is no trial ${params.number}`)
      const { renderLatencyLog } = await import('../../reports/report/latency-log.ts')
      const name = `${params.id}-trial-${params.number}.hlog`
      return reply
        .type('text/plain; charset=utf-8')
        .header('content-disposition', `attachment; filename="${name}"`)
        .send(renderLatencyLog(trial))
    },
  )
}

/** Follows no links and does not block on pipes, because the store may come from someone else. */
const openFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/**
 * Reads the end of a predictor's log. The path comes from the store, not from the request; only
 * regular files with the name of a launcher's log are read.
 */
async function readLogTail(path: string): Promise<string> {
  if (!/^predictor(-\d+)?\.log$/.test(basename(path)))
    throw new UserError(`${basename(path)} is not a log of a predictor`)
  const handle = await open(path, openFlags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ELOOP') throw new UserError(`${path} is a link, which tune does not follow`)
    throw new UserError(
      error.code === 'ENOENT'
        ? `the log is gone: ${path}`
        : `the log cannot be read: ${error.message}`,
    )
  })
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new UserError(`${path} is not a file`)
    const { size } = stats
    const from = Math.max(0, size - maxLogBytes)
    const { buffer, bytesRead } = await handle.read(
      Buffer.alloc(Math.min(size, maxLogBytes)),
      0,
      Math.min(size, maxLogBytes),
      from,
    )
    const text = buffer.toString('utf8', 0, bytesRead)
    return from > 0 ? `... ${from} bytes before ...\n${text}` : text
  } finally {
    await handle.close()
  }
}
