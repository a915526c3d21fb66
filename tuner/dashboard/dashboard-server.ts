/** The dashboard's server: loopback only, reads only. */
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import Fastify, { type FastifyInstance, type FastifyReply } from 'fastify'
import { loadAssets } from '../../reports/dashboard/bundle.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import type { StoreReader } from '../../trials/store/index.ts'
import { UserError } from '../exit-codes.ts'
import type { Surroundings } from '../experiment/context.ts'
import { ConfigError } from '../experiment/types.ts'
import { guard, securityHeaders } from './guard.ts'
import { notFoundPage } from './not-found.ts'
import { exported, questionOf, specText } from './page-exports.ts'
import { streamExperiment } from './stream.ts'
import { StoreWatcher } from './watch.ts'

export interface DashboardServer {
  readonly server: FastifyInstance
  /** Ends every stream, the server and the reader. */
  close(): Promise<void>
}

/** End of a log that is shown. */
const logBytes = 64 * 1024

/**
 * A server of one store, not listening yet.
 * @param chosen experiment that the page opens; absent: the newest.
 */
export async function createDashboard(reader: StoreReader, around: Surroundings, chosen?: string): Promise<DashboardServer> {
  const assets = await loadAssets()
  const watcher = new StoreWatcher(reader, around)
  const server = Fastify({ forceCloseConnections: true, exposeHeadRoutes: true, routerOptions: { maxParamLength: 200 } })
  guard(server)
  const file = (path: string, type: string, text: string) => server.get(path, (_, reply) => reply.type(`${type}; charset=utf-8`).send(text))
  const missing = async (what: string, reply: FastifyReply) =>
    reply
      .code(404)
      .type('text/html; charset=utf-8')
      .send(notFoundPage(what, await watcher.list()))
  server.get<{ Querystring: { experiment?: string | string[] } }>('/', async ({ query }, reply) => {
    const { experiment } = query
    const known = experiment === undefined || (await watcher.list()).some(({ id }) => id === experiment)
    if (!known) return missing(`There is no experiment ${String(experiment)} in the store.`, reply)
    return reply.type('text/html; charset=utf-8').send(assets.html)
  })
  file('/app.js', 'text/javascript', assets.script)
  file('/style.css', 'text/css', assets.style)

  server.get('/api/experiments', async () => {
    const experiments = await watcher.list()
    const newest = experiments.reduce<string>((id, e, i) => (i === 0 || e.createdAt >= experiments[i - 1]!.createdAt ? e.id : id), '')
    return { chosen: chosen ?? newest, experiments }
  })

  server.get<{ Params: { id: string } }>('/api/experiments/:id/stream', (request, reply) => {
    reply.hijack()
    reply.raw.writeHead(200, { ...securityHeaders, 'content-type': 'text/event-stream; charset=utf-8', connection: 'keep-alive' })
    if (request.method === 'HEAD') return reply.raw.end()
    const last = Number(request.headers['last-event-id'] ?? 0)
    streamExperiment(watcher, request.params.id, Number.isInteger(last) && last > 0 ? last : 0, reply.raw)
  })

  server.get<{ Params: { id: string; number: string } }>('/api/experiments/:id/trials/:number/log', async ({ params }, reply) => {
    const { trials } = await watcher.current(params.id)
    const trial = trials.find((t) => String(t.number) === params.number)
    if (!trial?.logPath) throw new UserError(`trial ${params.number} kept no log`)
    return reply.type('text/plain; charset=utf-8').send(await tailOf(trial.logPath))
  })

  server.get<{ Params: { id: string; file: string }; Querystring: { view?: string } }>(
    '/api/experiments/:id/export/:file',
    async ({ params, query }, reply) => {
      const make = Object.hasOwn(exported, params.file) ? exported[params.file] : undefined
      if (!make) throw new UserError(`there is no "${params.file}" to take away: ${Object.keys(exported).join(', ')}`)
      const current = await watcher.current(params.id)
      const { type, text } = await make(current, questionOf(query.view, current.described), assets)
      return reply.type(type).header('content-disposition', `attachment; filename="${params.file}"`).send(text)
    },
  )

  server.get<{ Params: { id: string; target: string }; Querystring: { view?: string } }>(
    '/api/experiments/:id/spec/:target',
    async ({ params, query }, reply) => {
      const current = await watcher.current(params.id)
      return reply.type('text/plain; charset=utf-8').send(await specText(current, questionOf(query.view, current.described), params.target))
    },
  )

  server.setNotFoundHandler((request, reply) =>
    request.headers.accept?.includes('text/html')
      ? missing('There is no such page.', reply)
      : reply.code(404).type('text/plain; charset=utf-8').send('there is no such page\n'),
  )
  server.setErrorHandler((error: Error, _, reply) => {
    const ours = error instanceof UserError || error instanceof SpecError || error instanceof ConfigError
    const hint = 'hint' in error && typeof error.hint === 'string' ? `\nhint: ${error.hint}` : ''
    return reply
      .code(ours ? 422 : 500)
      .type('text/plain; charset=utf-8')
      .send(`${error.message}${hint}\n`)
  })
  server.addHook('onClose', () => watcher.close())
  return { server, close: () => server.close() }
}

/** A link is not followed, and a pipe without a writer holds up nothing: the store may be someone else's. */
const openFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/**
 * The end of a predictor's log. The path is the store's, never the request's, and nothing but a regular file named as launchers name their logs is read.
 */
async function tailOf(path: string): Promise<string> {
  if (!/^predictor(-\d+)?\.log$/.test(basename(path))) throw new UserError(`${basename(path)} is no log of a predictor`)
  const handle = await open(path, openFlags).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ELOOP') throw new UserError(`${path} is a link, and links are not followed`)
    throw new UserError(error.code === 'ENOENT' ? `the log is gone: ${path}` : `the log cannot be read: ${error.message}`)
  })
  try {
    const about = await handle.stat()
    if (!about.isFile()) throw new UserError(`${path} is no file`)
    const { size } = about
    const from = Math.max(0, size - logBytes)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(Math.min(size, logBytes)), 0, Math.min(size, logBytes), from)
    const text = buffer.toString('utf8', 0, bytesRead)
    return from > 0 ? `... ${from} bytes before ...\n${text}` : text
  } finally {
    await handle.close()
  }
}
