/**
 * Parses the URL of a server: host and port, or a unix socket, and the base path of the server's
 * own paths.
 */

export interface ServerAddress {
  /** http://host:port, https://host:port or unix:/run/x.sock: the `url` of a target. */
  readonly origin: string
  /** Value of the Host header. */
  readonly host: string
  /** Path of the unix socket on which the server listens. */
  readonly socketPath?: string
  /** Base path: '/' or '/ml/prod'. */
  readonly path: string
  /** Query that is sent with every request: '' or '?version=2'. */
  readonly query: string
}

/**
 * unix:/run/x.sock, unix:///run/x.sock, and a path behind a further colon:
 * unix:/run/x.sock:/ml/prod (as nginx and Docker write them).
 */
const plainSocket = /^unix:(?:\/\/(?=\/))?([^:?]+)(?::(\/[^?]*))?(\?.*)?$/i
/** http+unix://%2Frun%2Fx.sock/ml/prod */
const encodedSocket = /^http\+unix:\/\/([^/?]+)(\/[^?]*)?(\?.*)?$/i

/** Hint for a gRPC URL with a path. */
export const pathlessHint =
  'gRPC has no base paths: a gateway routes by host, port or metadata (headers)'

export const socketHint =
  'write a socket as unix:/run/model.sock, with a path as unix:/run/model.sock:/ml'

/** Whether a URL names a unix socket. */
export const isSocketUrl = (url: string): boolean => /^(unix|http\+unix):/i.test(url)

/** Whether a URL says that its server speaks gRPC. */
export const isGrpcUrl = (url: string): boolean => /^grpcs?:\/\//i.test(url)

/**
 * Parses an http, https or gRPC URL, or a socket; undefined for anything else. The origin of a gRPC
 * URL has the scheme http or https.
 */
export function parseServerAddress(url: string): ServerAddress | undefined {
  if (isSocketUrl(url)) return parseSocketAddress(url)
  const overHttp = isGrpcUrl(url) ? url.replace(/^grpc/i, 'http') : url
  if (!URL.canParse(overHttp)) return undefined
  const { protocol, origin, host, pathname, search } = new URL(overHttp)
  return /^https?:$/.test(protocol) ? { origin, host, path: pathname, query: search } : undefined
}

function parseSocketAddress(url: string): ServerAddress | undefined {
  const [, plain, plainPath = '', plainQuery = ''] = plainSocket.exec(url) ?? []
  if (plain !== undefined) return buildSocketAddress(plain, plainPath, plainQuery)
  const [, encodedSocketPath, path = '', query = ''] = encodedSocket.exec(url) ?? []
  return encodedSocketPath === undefined
    ? undefined
    : buildSocketAddress(decodeURIComponent(encodedSocketPath), path, query)
}

const buildSocketAddress = (socketPath: string, path: string, query: string): ServerAddress => ({
  origin: `unix:${socketPath}`,
  host: 'localhost',
  socketPath,
  path: path || '/',
  query,
})

/** Formats the URL of a path of a server, which `parseServerAddress` can parse again. */
export const formatUrl = (
  { origin, socketPath }: Pick<ServerAddress, 'origin' | 'socketPath'>,
  path: string,
): string => (socketPath === undefined ? `${origin}${path}` : `${origin}:${path}`)

/** Formats the URL for HTTP clients, which take a socket as a separate option. */
export const formatHttpUrl = ({ origin, host, socketPath, path, query }: ServerAddress): string =>
  `${socketPath === undefined ? origin : `http://${host}`}${path}${query}`

/**
 * Resolves one of the server's own paths below the base path of its URL. A user may give a URL that
 * includes a part of the server's own paths (http://host/v1 for the OpenAI protocol), or the whole
 * call. The overlap of its end with the beginning of the call's path is then removed.
 * @param callPath path of the inference call
 * @param serverPath the path to resolve
 */
export function resolveServerPath(
  { path: base, query }: ServerAddress,
  callPath: string,
  serverPath: string,
): string {
  const [path = '', pathQuery] = serverPath.split(/\?(.*)/s)
  const encodedPath = new URL(path, 'http://localhost').pathname
  const search =
    pathQuery === undefined ? query : `?${pathQuery}${query === '' ? '' : `&${query.slice(1)}`}`
  return `${removeOverlap(base.replace(/\/+$/, ''), callPath)}${encodedPath}${search}`
}

/** Removes from a path its longest end that is a beginning of the call's path. */
function removeOverlap(base: string, callPath: string): string {
  const baseParts = base.split('/').slice(1)
  const callParts = new URL(callPath.split('?')[0]!, 'http://localhost').pathname
    .split('/')
    .slice(1)
  for (let length = Math.min(baseParts.length, callParts.length); length > 0; length--) {
    const from = baseParts.length - length
    if (baseParts.slice(from).every((part, i) => part === callParts[i]))
      return baseParts
        .slice(0, from)
        .map((part) => `/${part}`)
        .join('')
  }
  return base
}
