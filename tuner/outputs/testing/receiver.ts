import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Heard {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Buffer
}

export interface Receiver {
  readonly heard: readonly Heard[]
  /** 127.0.0.1:PORT */
  readonly address: string
  stop(): void
}

/**
 * A server on loopback that keeps what it hears.
 * @param answer state and body, by what was heard and how much before it
 */
export async function startReceiver(
  answer: (heard: Heard, before: number) => { status: number; body?: string },
): Promise<Receiver> {
  const heard: Heard[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const one = {
        method: request.method!,
        path: request.url!,
        headers: request.headers,
        body: Buffer.concat(chunks),
      }
      const { status, body } = answer(one, heard.length)
      heard.push(one)
      response.statusCode = status
      response.end(body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    heard,
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => server.close(),
  }
}
