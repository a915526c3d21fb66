/**
 * A server whose streams are known exactly: each request says when its first token comes, and how
 * long after one another the others do.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a request's body asks for. */
export interface KnownStream {
  /** From the request's arrival, ms. */
  readonly first_ms: number
  /** From each token to the next, ms. */
  readonly each_ms: number
  readonly tokens: number
}

const chunk = (finish: string | null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'word ' }, finish_reason: finish }] })}\n\n`

/** Times are kept from the arrival, so that a late timer delays no token but its own. */
function stream(
  response: ServerResponse,
  { first_ms: firstMs, each_ms: eachMs, tokens }: KnownStream,
): void {
  const arrivedMs = performance.now()
  const write = (token: number): void => {
    const last = token === tokens - 1
    response.write(chunk(last ? 'length' : null))
    if (last) response.end('data: [DONE]\n\n')
    else
      setTimeout(
        () => write(token + 1),
        arrivedMs + firstMs + (token + 1) * eachMs - performance.now(),
      )
  }
  setTimeout(() => write(0), firstMs)
}

process.once('message', () => {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    stream(response, JSON.parse(body) as KnownStream)
  })
  server.listen(0, '127.0.0.1', () =>
    process.send?.({ port: (server.address() as AddressInfo).port }),
  )
})
process.on('disconnect', () => process.exit())
