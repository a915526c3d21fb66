/** TLS of a running server: the authorities to trust, and the client certificate to present. */
import { createSecureContext } from 'node:tls'
import { readText } from '../../profiler/bounded-reader.ts'
import type { TlsOptions } from '../../profiler/model/tls-options.ts'
import type { UrlTemplate } from '../../trials/launchers/template.ts'
import type { Context } from './context.ts'

/**
 * Reads the certificates of a file.
 * @throws an Error that names it
 */
export const readAuthority = (path: string): string =>
  readPem(path, "the authority's certificate", 'CERTIFICATE')

function readPem(path: string, what: string, kind: 'CERTIFICATE' | 'PRIVATE KEY'): string {
  let pem: string
  try {
    pem = readText(path, 'document')
  } catch (error) {
    throw new Error(`${what} cannot be read: ${(error as Error).message}`)
  }
  if (!new RegExp(`-----BEGIN [A-Z ]*${kind}-----`).test(pem))
    throw new Error(`${path} contains no ${kind.toLowerCase().replace('private ', '')}`)
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem))
    throw new Error(`${path} is encrypted: decrypt it with openssl pkey -in ${path} -out plain.key`)
  return pem
}

/**
 * Reads the client's own certificate and its key.
 * @param certPath of a PEM file
 * @param keyPath likewise
 * @throws an Error that names the file, or says that the two do not belong together
 */
export function readClientPair(
  certPath: string,
  keyPath: string,
): Required<Pick<TlsOptions, 'cert' | 'key'>> {
  const cert = readPem(certPath, "the client's certificate", 'CERTIFICATE')
  const key = readPem(keyPath, "the client's key", 'PRIVATE KEY')
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    throw new Error(`${certPath} and ${keyPath} do not match: ${(error as Error).message}`)
  }
  return { cert, key }
}

export const clientPairHint =
  'set both PEM files: tls: {cert: client.pem, key: client.key} (--cert, --key)'

/** Why certificate settings do not apply to a URL without TLS; undefined for a URL with TLS. */
export const explainMissingTls = (
  url: string | undefined,
): { readonly what: string; readonly hint: string } | undefined =>
  /^(https|grpcs):/i.test(url ?? '')
    ? undefined
    : {
        what: `${url} uses no TLS, so there is no certificate to check`,
        hint: 'use https://, or grpcs:// for a gRPC protocol',
      }

/** TLS settings of a predictor of kind url. Reports files that cannot be read. */
export function resolveTls({
  entries,
  report,
}: Pick<Context, 'entries' | 'report'>): UrlTemplate['tls'] {
  const { url, insecureSkipVerify, tls = {}, ca = tls.ca } = entries.predictor ?? {}
  const { cert, key } = tls
  const caSetting = tls.ca === undefined ? ['predictor', 'ca'] : ['predictor', 'tls', 'ca']
  const firstSetting =
    ca !== undefined
      ? caSetting
      : cert !== undefined || key !== undefined
        ? ['predictor', 'tls']
        : ['predictor', 'insecureSkipVerify']
  if (
    ca === undefined &&
    cert === undefined &&
    key === undefined &&
    insecureSkipVerify === undefined
  )
    return undefined
  const missingTls = explainMissingTls(url)
  if (missingTls !== undefined) report(firstSetting, missingTls.what, missingTls.hint)
  if (tls.ca !== undefined && entries.predictor?.ca !== undefined)
    report(caSetting, 'ca appears twice', 'use only one of ca and tls.ca')
  if ((cert === undefined) !== (key === undefined))
    report(
      ['predictor', 'tls', cert === undefined ? 'key' : 'cert'],
      `a ${cert === undefined ? 'key without its certificate' : 'certificate without its key'}`,
      clientPairHint,
    )
  const read = <T>(path: readonly string[], hint: string, make: () => T): T | undefined => {
    try {
      return make()
    } catch (error) {
      report([...path], (error as Error).message, hint)
      return undefined
    }
  }
  return {
    insecureSkipVerify,
    ...(ca !== undefined && {
      ca: read(caSetting, 'a PEM file of certificates', () => readAuthority(ca)),
      caPath: ca,
    }),
    ...(cert !== undefined &&
      key !== undefined && {
        ...read(['predictor', 'tls', 'cert'], clientPairHint, () => readClientPair(cert, key)),
        certPath: cert,
        keyPath: key,
      }),
  }
}
