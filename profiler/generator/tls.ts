import { createSecureContext, type SecureContext } from 'node:tls'
import type { TlsOptions } from '../tls-options.ts'

/**
 * How to check a server's certificate, in the words of node:tls and all that connects by it. Throws
 * for a `ca`, `cert` or `key` that is no PEM, or a pair that does not fit.
 */
export function tlsChecks({ ca, cert, key, insecureSkipVerify }: TlsOptions = {}): {
  secureContext?: SecureContext
  rejectUnauthorized?: false
} {
  return {
    // Made once: a connection with `ca` would read all of its certificates anew.
    ...((ca !== undefined || cert !== undefined) && {
      secureContext: createSecureContext({ ca, cert, key }),
    }),
    ...(insecureSkipVerify && { rejectUnauthorized: false }),
  }
}

/** What to do about a certificate that is not trusted. */
export const trustHint =
  'name the authority (ca, --ca FILE), or take any certificate (insecureSkipVerify, --insecure-skip-verify)'
