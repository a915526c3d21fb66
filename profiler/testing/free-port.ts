/** A port for a server that has to be told one. */
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Below the ports that systems give out themselves, so that no other test's socket takes it before
 * the server does.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(12_000 * Math.random())
    const server = createServer().listen(port, '127.0.0.1')
    const free = await once(server, 'listening').then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EADDRINUSE') throw error
        return false
      },
    )
    server.close()
    if (free) return port
  }
}
