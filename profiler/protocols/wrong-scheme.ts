/**
 * Detects a wrong scheme of a server that does not answer: http for a TLS server, https for a
 * server without TLS or one that requires a client certificate, gRPC for a server without HTTP/2.
 */

import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:tls'
import { clientCertificateHint, requiresClientCertificate } from '../load/tls.ts'
import type { Problem } from '../profiler-errors.ts'
import { parseServerAddress } from '../server-address.ts'
import { get } from './http.ts'

/** Longest handshake or request, ms. Assumed. */
const probeTimeoutMs = 2000

/** Result of a TLS handshake. */
type Handshake = 'TLS' | 'no TLS' | 'client certificate required'

/**
 * Describes what the server speaks, and which scheme to use. Undefined where the scheme is right,
 * or where that is unknown. Rejects only when the signal aborts.
 */
export async function diagnoseScheme(
  url: string,
  signal: AbortSignal,
): Promise<Problem | undefined> {
  const [, scheme = ''] = /^(https?|grpcs?):/i.exec(url) ?? []
  const httpUrl = url.replace(/^grpc/i, 'http')
  const address = parseServerAddress(httpUrl)
  if (scheme === '' || address === undefined) return undefined
  const isSecure = /s$/i.test(scheme)
  const otherUrl = url.replace(scheme, isSecure ? scheme.slice(0, -1) : `${scheme}s`)
  const handshake = await tryTlsHandshake(httpUrl, signal)
  signal.throwIfAborted()
  if (isSecure && handshake === 'no TLS')
    return { what: `${url} does not use TLS`, hint: `write ${otherUrl}` }
  if (!isSecure && (handshake === 'TLS' || handshake === 'client certificate required'))
    return {
      what: `${url} speaks TLS`,
      hint: `write ${otherUrl}. A server that tune starts must serve without TLS`,
    }
  if (handshake === 'client certificate required')
    return {
      what: `${url} rejects clients without a certificate that it trusts`,
      hint: clientCertificateHint,
    }
  if (
    !scheme.startsWith('grpc') ||
    !(await answersHttp1(httpUrl, signal)) ||
    (await answersHttp2(address.origin, signal))
  )
    return undefined
  return {
    what: `${url} answers HTTP/1.1 but not HTTP/2, which gRPC needs`,
    hint: 'is this its gRPC port? For its HTTP API use --url http://... and another --protocol',
  }
}

/**
 * Tries a TLS handshake, whatever the server's certificate, and a request after it: under TLS 1.3 a
 * server requires the client certificate after the client has finished the handshake.
 */
function tryTlsHandshake(url: string, signal: AbortSignal): Promise<Handshake | undefined> {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(port || (url.startsWith('https') ? 443 : 80)),
      rejectUnauthorized: false,
      ALPNProtocols: ['h2', 'http/1.1'],
    })
    let isSecured = false
    const end = (handshake: Handshake | undefined) => {
      signal.removeEventListener('abort', stop)
      socket.destroy()
      resolve(handshake)
    }
    const stop = () => end(undefined)
    signal.addEventListener('abort', stop, { once: true })
    socket.setTimeout(probeTimeoutMs, () => end(isSecured ? 'TLS' : undefined))
    socket.once('secureConnect', () => {
      isSecured = true
      socket.write('HEAD / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n')
    })
    socket.once('data', () => end('TLS'))
    socket.once('close', () => end(isSecured ? 'TLS' : undefined))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      const description = `${error.code} ${error.message}`
      if (requiresClientCertificate(description)) end('client certificate required')
      else if (isSecured || /alert/i.test(description)) end('TLS')
      else end(/wrong.version.number/i.test(description) ? 'no TLS' : undefined)
    })
  })
}

async function answersHttp1(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    await get(
      url,
      { tls: { insecureSkipVerify: true } },
      AbortSignal.any([signal, AbortSignal.timeout(probeTimeoutMs)]),
    )
    return true
  } catch {
    signal.throwIfAborted()
    return false
  }
}

function answersHttp2(origin: string, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const session = connectHttp2(origin, { rejectUnauthorized: false })
    const end = (answers: boolean) => {
      signal.removeEventListener('abort', stop)
      clearTimeout(timer)
      session.destroy()
      resolve(answers)
    }
    const stop = () => end(false)
    const timer = setTimeout(stop, probeTimeoutMs)
    signal.addEventListener('abort', stop, { once: true })
    session.once('remoteSettings', () => end(true))
    session.on('error', stop)
    session.once('close', stop)
  })
}
