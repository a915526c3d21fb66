import { createSecureContext, type SecureContext } from 'node:tls'
import type { TlsOptions } from '../model/tls-options.ts'

/**
 * Options of node:tls that check a server's certificate. Throws for a `ca`, `cert` or `key` that is
 * no PEM, or a pair that does not match.
 */
export function buildTlsOptions({ ca, cert, key, insecureSkipVerify }: TlsOptions = {}): {
  secureContext?: SecureContext
  rejectUnauthorized?: false
} {
  return {
    // Created once: a connection with `ca` would parse all certificates again.
    ...((ca !== undefined || cert !== undefined) && {
      secureContext: createSecureContext({ ca, cert, key }),
    }),
    ...(insecureSkipVerify && { rejectUnauthorized: false }),
  }
}

/**
 * Whether a server closed the connection for lack of a client certificate: by an alert of TLS 1.3,
 * or one of TLS 1.2 that only reports a failed handshake.
 */
export const requiresClientCertificate = (errorText: string): boolean =>
  /certificate.required|handshake.failure|alert bad certificate|ALERT_BAD_CERTIFICATE/i.test(
    errorText,
  )

/** Hint for a server that requires a client certificate. */
export const clientCertificateHint =
  'it requires a client certificate: --cert FILE --key FILE (predictor.tls: {cert, key} in an experiment file)'

/** Hint for a certificate that is not trusted. */
export const trustHint =
  'give its certificate authority (ca, --ca FILE), or accept any certificate (insecureSkipVerify, --insecure-skip-verify)'
