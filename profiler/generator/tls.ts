import { createSecureContext, type SecureContext } from 'node:tls'
import type { TlsOptions } from '../types.ts'

/** How to check a server's certificate, in the words of node:tls and all that connects by it. Throws for a `ca` that is no PEM. */
export function tlsChecks({ ca, insecureSkipVerify }: TlsOptions = {}): { secureContext?: SecureContext; rejectUnauthorized?: false } {
  return {
    // Made once: a connection with `ca` would read all of its certificates anew.
    ...(ca !== undefined && { secureContext: createSecureContext({ ca }) }),
    ...(insecureSkipVerify && { rejectUnauthorized: false }),
  }
}

/** What to do about a certificate that is not trusted. */
export const trustHint = 'name the authority (ca, --ca FILE), or take any certificate (insecureSkipVerify, --insecure-skip-verify)'
