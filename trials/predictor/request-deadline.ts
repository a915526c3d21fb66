/**
 * Options of Node's HTTP servers by which a request that does not come ends: 408, and its
 * connection is closed.
 */
import type { ServerOptions } from 'node:http'

/** @param timeoutS from a request's first byte to its last, body and all */
export function requestDeadline(
  timeoutS: number,
): Required<
  Pick<ServerOptions, 'requestTimeout' | 'headersTimeout' | 'connectionsCheckingInterval'>
> {
  const timeoutMs = Math.round(1000 * timeoutS)
  // How late a slow one may be found.
  const lookEveryMs = Math.max(50, Math.min(5_000, Math.round(timeoutMs / 4)))
  return {
    requestTimeout: timeoutMs,
    headersTimeout: timeoutMs,
    connectionsCheckingInterval: lookEveryMs,
  }
}
