/** What keeps the dashboard to its owner: this machine alone, this page alone, reading alone. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** The page may run its own script and ask its own server, and nothing else. */
export const securityHeaders: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
}

const ownNames = new Set(['127.0.0.1', 'localhost', '[::1]'])

/**
 * Refuses what no page of ours would send: a foreign Host (a name that was re-bound to this address), another site's page, and anything but reading.
 */
export function guard(server: FastifyInstance): void {
  server.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    reply.headers(securityHeaders)
    const name = (request.headers.host ?? '').replace(/:\d+$/, '').toLowerCase()
    if (!ownNames.has(name)) return refuse(reply, 403, `this server answers to 127.0.0.1 and localhost only, not to "${name}"`)
    const site = request.headers['sec-fetch-site']
    if (site !== undefined && site !== 'same-origin' && site !== 'none') return refuse(reply, 403, 'other sites may not ask this server')
    const { origin } = request.headers
    if (origin !== undefined && origin !== `http://${request.headers.host}`)
      return refuse(reply, 403, 'other sites may not ask this server')
    if (request.method !== 'GET' && request.method !== 'HEAD') return refuse(reply, 405, 'the dashboard only reads')
  })
}

const refuse = (reply: FastifyReply, status: number, why: string) => reply.code(status).type('text/plain; charset=utf-8').send(`${why}\n`)
