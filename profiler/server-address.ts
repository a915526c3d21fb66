/**
 * Where a server is reached: host and port or a unix socket, and the path below which all of its
 * own paths are.
 */

export interface ServerAddress {
  /** http://host:port, https://host:port or unix:/run/x.sock: the `url` of a target. */
  readonly origin: string
  /** What requests name as their host. */
  readonly host: string
  /** Of a server that listens on a unix socket. */
  readonly socketPath?: string
  /** '/' or '/ml/prod'. */
  readonly path: string
  /** '' or '?version=2': goes with every request. */
  readonly query: string
}

/**
 * unix:/run/x.sock, unix:///run/x.sock, and a path behind a further colon:
 * unix:/run/x.sock:/ml/prod (as nginx and Docker write them).
 */
const plainSocket = /^unix:(?:\/\/(?=\/))?([^:?]+)(?::(\/[^?]*))?(\?.*)?$/i
/** http+unix://%2Frun%2Fx.sock/ml/prod */
const encodedSocket = /^http\+unix:\/\/([^/?]+)(\/[^?]*)?(\?.*)?$/i

/** Of gRPC. */
export const pathlessHint =
  'gRPC has no base paths: a gateway routes by host, port or metadata (headers)'

export const socketHint =
  'a socket is written unix:/run/model.sock, with a path behind it unix:/run/model.sock:/ml'

/** Whether a URL names a unix socket. */
export const namesSocket = (url: string): boolean => /^(unix|http\+unix):/i.test(url)

/** Whether a URL says that its server speaks gRPC. */
export const namesGrpc = (url: string): boolean => /^grpcs?:\/\//i.test(url)

/**
 * Undefined for what is neither an http or https URL, nor one of gRPC, whose origin is that of its
 * HTTP/2, nor a socket.
 */
export function serverAddress(url: string): ServerAddress | undefined {
  if (namesSocket(url)) return socketAddress(url)
  const overHttp = namesGrpc(url) ? url.replace(/^grpc/i, 'http') : url
  if (!URL.canParse(overHttp)) return undefined
  const { protocol, origin, host, pathname, search } = new URL(overHttp)
  return /^https?:$/.test(protocol) ? { origin, host, path: pathname, query: search } : undefined
}

function socketAddress(url: string): ServerAddress | undefined {
  const [, plain, plainPath = '', plainQuery = ''] = plainSocket.exec(url) ?? []
  if (plain !== undefined) return ofSocket(plain, plainPath, plainQuery)
  const [, encoded, path = '', query = ''] = encodedSocket.exec(url) ?? []
  return encoded === undefined ? undefined : ofSocket(decodeURIComponent(encoded), path, query)
}

const ofSocket = (socketPath: string, path: string, query: string): ServerAddress => ({
  origin: `unix:${socketPath}`,
  host: 'localhost',
  socketPath,
  path: path || '/',
  query,
})

/** A path of a server, as a URL that `serverAddress` reads. */
export const hrefOf = (
  { origin, socketPath }: Pick<ServerAddress, 'origin' | 'socketPath'>,
  path: string,
): string => (socketPath === undefined ? `${origin}${path}` : `${origin}:${path}`)

/** The URL by which HTTP clients ask: theirs have no sockets. */
export const httpUrlOf = ({ origin, host, socketPath, path, query }: ServerAddress): string =>
  `${socketPath === undefined ? origin : `http://${host}`}${path}${query}`

/**
 * A server's own path, below the path of its URL. A URL that goes on into the server's own paths
 * (http://host/v1 of the OpenAI protocol, or that of the whole call) names the server all the same:
 * what its end has in common with the beginning of the call's path is not said twice.
 * @param callPath of the inference call, by which that is known
 */
export function pathBelow(
  { path: base, query }: ServerAddress,
  callPath: string,
  own: string,
): string {
  const [path = '', ownQuery] = own.split(/\?(.*)/s)
  const encoded = new URL(path, 'http://localhost').pathname
  const search =
    ownQuery === undefined ? query : `?${ownQuery}${query === '' ? '' : `&${query.slice(1)}`}`
  return `${withoutEnd(base.replace(/\/+$/, ''), callPath)}${encoded}${search}`
}

/** A path without the longest end that another path begins with. */
function withoutEnd(base: string, callPath: string): string {
  const given = base.split('/').slice(1)
  const call = new URL(callPath.split('?')[0]!, 'http://localhost').pathname.split('/').slice(1)
  for (let length = Math.min(given.length, call.length); length > 0; length--) {
    const from = given.length - length
    if (given.slice(from).every((part, i) => part === call[i]))
      return given
        .slice(0, from)
        .map((part) => `/${part}`)
        .join('')
  }
  return base
}
