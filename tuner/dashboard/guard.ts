/**
 * What keeps the dashboard to its owner: this machine alone, this page alone, and writing for who
 * has the token alone.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
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

/** The header that carries the token. No page of another site may send it. */
const tokenHeader = 'x-tune-token'
const reads = new Set(['GET', 'HEAD'])
const writes = new Set(['POST', 'DELETE'])

/**
 * Whether a request carries the token; never where there is none. Other users of this machine reach
 * the port too, and do not know it.
 */
export function mayWrite({ headers }: FastifyRequest, token: string | undefined): boolean {
  const given = headers[tokenHeader]
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return (
    token !== undefined &&
    typeof given === 'string' &&
    timingSafeEqual(digest(given), digest(token))
  )
}

/**
 * Refuses what no page of ours would send: a foreign Host (a name that was re-bound to this
 * address), another site's page, and writing that does not come from this page with the token.
 * @param token of who may write; without one nobody may.
 */
export function guard(server: FastifyInstance, token?: string): void {
  server.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    reply.headers(securityHeaders)
    const name = (request.headers.host ?? '').replace(/:\d+$/, '').toLowerCase()
    if (!ownNames.has(name))
      return refuse(
        reply,
        403,
        `this server answers to 127.0.0.1 and localhost only, not to "${name}"`,
      )
    const site = request.headers['sec-fetch-site']
    if (site !== undefined && site !== 'same-origin' && site !== 'none')
      return refuse(reply, 403, 'requests from other sites are not allowed')
    const { origin } = request.headers
    if (origin !== undefined && origin !== `http://${request.headers.host}`)
      return refuse(reply, 403, 'requests from other sites are not allowed')
    if (reads.has(request.method)) return
    if (token === undefined || !writes.has(request.method))
      return refuse(reply, 405, 'the dashboard is read-only')
    if (origin === undefined) return refuse(reply, 403, 'changes must come from the page')
    if (!mayWrite(request, token))
      return refuse(
        reply,
        403,
        'this page may not make changes: open the address that `tune dashboard` printed',
      )
  })
}

const refuse = (reply: FastifyReply, status: number, why: string) =>
  reply.code(status).type('text/plain; charset=utf-8').send(`${why}\n`)
