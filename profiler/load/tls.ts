import { createSecureContext, type SecureContext } from 'node:tls'
import type { TlsOptions } from '../model/tls-options.ts'

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

/**
 * Whether a server broke the connection off for want of the client's certificate: by an alert of
 * TLS 1.3, or by one of TLS 1.2 that says no more than that they do not agree.
 */
export const asksForCertificate = (words: string): boolean =>
  /certificate.required|handshake.failure|alert bad certificate|ALERT_BAD_CERTIFICATE/i.test(words)

/** What to do about a server that wants to know its client. */
export const clientCertificateHint =
  "it asks for a certificate of the client's own: --cert FILE --key FILE (predictor.tls: {cert, key} in an experiment file)"

/** What to do about a certificate that is not trusted. */
export const trustHint =
  'name the authority (ca, --ca FILE), or take any certificate (insecureSkipVerify, --insecure-skip-verify)'
