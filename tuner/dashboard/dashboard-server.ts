/** The dashboard's server on loopback. edits.ts has all routes that write. */
import compress from '@fastify/compress'
import etag from '@fastify/etag'
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from 'fastify'
import { loadAssets } from '../../reports/dashboard/bundle.ts'
import type { ExperimentEntry } from '../../reports/dashboard/data/page-data.ts'
import { escapeHtml } from '../../reports/document/html.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import { StoreError, type StoreReader } from '../../trials/store/index.ts'
import type { HostContext } from '../config/context.ts'
import { ConfigError } from '../config/types.ts'
import { UserError } from '../exit-codes.ts'
import { addEdits, type Edits } from './edits.ts'
import { guard, MalformedRequest, mayWrite, securityHeaders } from './guard.ts'
import { exportFormats, parseQuestion, renderSpecText } from './page-exports.ts'
import { StoreWatcher } from './store-watcher.ts'
import { streamExperiment } from './stream.ts'
import { registerTrialFileRoutes } from './trial-files.ts'

export interface DashboardServer {
  readonly server: FastifyInstance
  /** Closes all streams, the server and the store reader. */
  close(): Promise<void>
}

interface DashboardOptions {
  /** Experiment that the page opens; absent: the newest that is not archived. */
  readonly chosen?: string
  /** Absent: the dashboard is read-only. */
  readonly edits?: Edits
}

/** Creates a server of one store, not listening yet. */
export async function createDashboard(
  reader: StoreReader,
  host: HostContext,
  { chosen, edits }: DashboardOptions = {},
): Promise<DashboardServer> {
  const assets = await loadAssets()
  const watcher = new StoreWatcher(reader, host)
  const server = Fastify({
    forceCloseConnections: true,
    exposeHeadRoutes: true,
    routerOptions: { maxParamLength: 200 },
    // Hooks do not run for a malformed path, so it gets the headers here.
    frameworkErrors: (error, _, reply) => sendError(error, reply.headers(securityHeaders)),
  })
  guard(server, edits?.token)
  await server.register(etag, { weak: true })
  await server.register(compress)
  if (edits) addEdits(server, edits)
  // Another version of tune may listen here next, so browsers must revalidate cached files.

  const serveFile = (path: string, type: string, text: string) =>
    server.get(path, (_, reply) =>
      reply.header('cache-control', 'no-cache').type(`${type}; charset=utf-8`).send(text),
    )
  const sendNotFound = async (what: string, reply: FastifyReply) =>
    reply
      .code(404)
      .type('text/html; charset=utf-8')
      .send(renderNotFoundPage(what, await watcher.list()))
  server.get<{ Querystring: { experiment?: string | string[] } }>('/', async ({ query }, reply) => {
    const { experiment } = query
    const isKnownExperiment =
      experiment === undefined || (await watcher.list()).some(({ id }) => id === experiment)
    if (!isKnownExperiment)
      return sendNotFound(`There is no experiment ${String(experiment)} in the store.`, reply)
    return reply.type('text/html; charset=utf-8').send(assets.html)
  })
  serveFile('/app.js', 'text/javascript', assets.script)
  serveFile('/style.css', 'text/css', assets.style)

  server.get('/experiments', (_, reply) => reply.type('text/html; charset=utf-8').send(assets.html))

  server.get('/api/experiments', async (request) => {
    const experiments = await watcher.list()
    const newest =
      experiments.findLast(({ annotation }) => annotation?.archivedAt === undefined) ??
      experiments.at(-1)
    return {
      chosen: chosen ?? newest?.id ?? '',
      experiments,
      writable: mayWrite(request, edits?.token),
    }
  })
  server.get('/api/outcomes', () => watcher.listOutcomes())

  server.get<{ Params: { id: string } }>('/api/experiments/:id/stream', (request, reply) => {
    const sentTrials = parseLastEventId(request.headers['last-event-id'])
    reply.hijack()
    reply.raw.writeHead(200, {
      ...securityHeaders,
      'content-type': 'text/event-stream; charset=utf-8',
      connection: 'keep-alive',
    })
    if (request.method === 'HEAD') return reply.raw.end()
    streamExperiment(watcher, request.params.id, sentTrials, reply.raw)
  })

  registerTrialFileRoutes(server, watcher)

  server.get<{ Params: { id: string; file: string }; Querystring: { view?: unknown } }>(
    '/api/experiments/:id/export/:file',
    async ({ params, query }, reply) => {
      const make = Object.hasOwn(exportFormats, params.file)
        ? exportFormats[params.file]
        : undefined
      if (!make)
        throw new UserError(
          `there is no export "${params.file}": use ${Object.keys(exportFormats).join(', ')}`,
        )
      const current = await watcher.readCurrent(params.id)
      const { type, text } = await make(current, parseQuestion(query.view, current.view), assets)
      return reply
        .type(type)
        .header('content-disposition', `attachment; filename="${params.file}"`)
        .send(text)
    },
  )

  server.get<{ Params: { id: string; target: string }; Querystring: { view?: unknown } }>(
    '/api/experiments/:id/spec/:target',
    async ({ params, query }, reply) => {
      const current = await watcher.readCurrent(params.id)
      return reply
        .type('text/plain; charset=utf-8')
        .send(await renderSpecText(current, parseQuestion(query.view, current.view), params.target))
    },
  )

  server.setNotFoundHandler((request, reply) =>
    request.headers.accept?.includes('text/html')
      ? sendNotFound('There is no such page.', reply)
      : reply.code(404).type('text/plain; charset=utf-8').send('there is no such page\n'),
  )
  server.setErrorHandler((error: Error, _, reply) => sendError(error, reply))
  server.addHook('onClose', () => watcher.close())
  return { server, close: () => server.close() }
}

/**
 * Number of trials that a reconnecting client already has.
 * @throws MalformedRequest
 */
function parseLastEventId(lastEventId: string | string[] | undefined): number {
  const text = String(lastEventId ?? 0)
  if (!/^\d{1,15}$/.test(text))
    throw new MalformedRequest('last-event-id is not the id of an event of this stream')
  return Number(text)
}

function sendError(error: Error, reply: FastifyReply): FastifyReply {
  const hint = 'hint' in error && typeof error.hint === 'string' ? `\nhint: ${error.hint}` : ''
  return reply
    .code(resolveStatusCode(error))
    .type('text/plain; charset=utf-8')
    .send(`${error.message}${hint}\n`)
}

/**
 * 422 for a valid request without an answer; errors of Fastify have their own status: 400, 413, ...
 */
function resolveStatusCode(error: Error): number {
  if (
    error instanceof UserError ||
    error instanceof StoreError ||
    error instanceof SpecError ||
    error instanceof ConfigError
  )
    return 422
  const { statusCode = 500 } = error as Partial<FastifyError>
  return statusCode >= 400 && statusCode < 500 ? statusCode : 500
}

/**
 * Renders the page for unknown addresses: names what is missing and links to the experiments,
 * newest first.
 */
function renderNotFoundPage(what: string, experiments: readonly ExperimentEntry[]): string {
  const links = [...experiments]
    .sort((a, b) => b.createdAt.localeCompare(a.createdAt))
    .map(({ id, name, state, trials, createdAt }) => {
      const about = `${name}, ${state}, ${trials} trial${trials === 1 ? '' : 's'}, ${createdAt.slice(0, 16).replace('T', ' ')} UTC`
      return `<li><a href="/?experiment=${encodeURIComponent(id)}">${escapeHtml(id)}</a> <small>${escapeHtml(about)}</small></li>`
    })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Not here - tune</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
</head>
<body>
<header class="top"><a class="brand" href="/">tune</a></header>
<main>
<section>
<h1 class="sentence">${escapeHtml(what)}</h1>
<p>${links.length > 0 ? 'The store has:' : 'The store has no experiments yet.'}</p>
<ul>${links.join('\n')}</ul>
</section>
</main>
</body>
</html>
`
}
