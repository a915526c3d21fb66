/** Node HTTP server options that end an incomplete request with 408, and close its connection. */
import type { ServerOptions } from 'node:http'

/** @param timeoutS maximum time to receive a whole request, including its body */
export function createRequestTimeouts(
  timeoutS: number,
): Required<
  Pick<ServerOptions, 'requestTimeout' | 'headersTimeout' | 'connectionsCheckingInterval'>
> {
  const timeoutMs = Math.round(1000 * timeoutS)
  // Interval of the timeout check: detection is late by at most this.
  const checkIntervalMs = Math.max(50, Math.min(5_000, Math.round(timeoutMs / 4)))
  return {
    requestTimeout: timeoutMs,
    headersTimeout: timeoutMs,
    connectionsCheckingInterval: checkIntervalMs,
  }
}
