/**
 * Access control of the dashboard: only this machine, only this page, and writes only with the
 * token.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/** The page may only run its own script and contact its own server. */
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

const allowedHosts = new Set(['127.0.0.1', 'localhost', '[::1]'])

/** Header with the token. Pages of other sites cannot send it. */
const tokenHeader = 'x-tune-token'
const readMethods = new Set(['GET', 'HEAD'])
const writeMethods = new Set(['POST', 'DELETE'])

/**
 * Whether a request carries the token. Other users of this machine can reach the port, but do not
 * know the token.
 */
export function mayWrite({ headers }: FastifyRequest, token: string | undefined): boolean {
  const sentToken = headers[tokenHeader]
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return (
    token !== undefined &&
    typeof sentToken === 'string' &&
    timingSafeEqual(digest(sentToken), digest(token))
  )
}

/**
 * Rejects requests with a foreign Host (DNS rebinding), from other sites, and writes without the
 * token.
 * @param token that authorises writes; absent: the dashboard is read-only
 */
export function guard(server: FastifyInstance, token?: string): void {
  server.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    reply.headers(securityHeaders)
    const name = (request.headers.host ?? '').replace(/:\d+$/, '').toLowerCase()
    if (!allowedHosts.has(name))
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
    if (readMethods.has(request.method)) return
    if (token === undefined || !writeMethods.has(request.method))
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

/** A malformed request to the dashboard. */
export class MalformedRequest extends Error {
  /** Read by Fastify. */
  readonly statusCode = 400
}
