/**
 * Whether a server that does not answer is asked by the wrong scheme: http where it speaks TLS,
 * https where it does not, gRPC where it has no HTTP/2.
 */
import { connect as connectHttp2 } from 'node:http2'
import { connect } from 'node:tls'
import { serverAddress } from '../server-address.ts'
import { get } from './http.ts'

const patienceMs = 2000

/**
 * What it speaks and what to write, undefined where the scheme is right or nothing can be told.
 * Rejects only when the signal aborts.
 */
export async function otherScheme(
  url: string,
  signal: AbortSignal,
): Promise<{ readonly what: string; readonly hint: string } | undefined> {
  const [, scheme = ''] = /^(https?|grpcs?):/i.exec(url) ?? []
  const asHttp = url.replace(/^grpc/i, 'http')
  const address = serverAddress(asHttp)
  if (scheme === '' || address === undefined) return undefined
  const secure = /s$/i.test(scheme)
  const other = url.replace(scheme, secure ? scheme.slice(0, -1) : `${scheme}s`)
  const handshake = await tlsAt(asHttp, signal)
  signal.throwIfAborted()
  if (secure && handshake === 'no TLS')
    return { what: `${url} speaks no TLS`, hint: `write ${other}` }
  if (!secure && handshake === 'TLS')
    return {
      what: `${url} speaks TLS`,
      hint: `write ${other}; a server that a command starts is asked without TLS: start it so`,
    }
  if (
    !scheme.startsWith('grpc') ||
    !(await answersHttp1(asHttp, signal)) ||
    (await answersHttp2(address.origin, signal))
  )
    return undefined
  return {
    what: `${url} answers HTTP/1.1 and no HTTP/2, which gRPC is made of`,
    hint: 'is that its port of gRPC? Over HTTP it is asked by --url http://... and another --protocol',
  }
}

/** What comes of a TLS handshake, whatever the certificate. */
function tlsAt(url: string, signal: AbortSignal): Promise<'TLS' | 'no TLS' | undefined> {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(port || (url.startsWith('https') ? 443 : 80)),
      rejectUnauthorized: false,
      ALPNProtocols: ['h2', 'http/1.1'],
    })
    const end = (what: 'TLS' | 'no TLS' | undefined) => {
      signal.removeEventListener('abort', stop)
      socket.destroy()
      resolve(what)
    }
    const stop = () => end(undefined)
    signal.addEventListener('abort', stop, { once: true })
    socket.setTimeout(patienceMs, stop)
    socket.once('secureConnect', () => end('TLS'))
    socket.on('error', (error: NodeJS.ErrnoException) =>
      // An alert is said in TLS (a certificate of the client is asked for); other bytes are not.
      end(
        /alert/i.test(`${error.code} ${error.message}`)
          ? 'TLS'
          : /wrong.version.number/i.test(`${error.code} ${error.message}`)
            ? 'no TLS'
            : undefined,
      ),
    )
  })
}

async function answersHttp1(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    await get(
      url,
      { tls: { insecureSkipVerify: true } },
      AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]),
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
      clearTimeout(late)
      session.destroy()
      resolve(answers)
    }
    const stop = () => end(false)
    const late = setTimeout(stop, patienceMs)
    signal.addEventListener('abort', stop, { once: true })
    session.once('remoteSettings', () => end(true))
    session.on('error', stop)
    session.once('close', stop)
  })
}
