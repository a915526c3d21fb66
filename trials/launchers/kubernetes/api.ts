/**
 * Requests to a cluster's API server: the address and credentials of @kubernetes/client-node, with
 * retries, deadlines and a count. Bodies go as they are: the client's typed models would drop what
 * a user misspelt before the server could refuse it.
 */
import http from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeConfig } from '@kubernetes/client-node'
import { BoundError, parseUntrustedJson, readAnswer } from '../../../profiler/bounded-reader.ts'

/** The API server refused a request, in its own words. */
export class ApiError extends Error {
  constructor(
    /** HTTP status; 0: no answer at all. */
    readonly status: number,
    /** Machine-readable, e.g. 'AlreadyExists', 'Forbidden'. */
    readonly reason: string,
    message: string,
    readonly hint?: string,
    /**
     * How long the server wants to be left alone, ms (Retry-After, as API Priority and Fairness
     * sends it with 429).
     */
    readonly retryAfterMs?: number,
  ) {
    super(message)
    this.name = 'ApiError'
  }
}

type Query = Readonly<Record<string, string | number | boolean | undefined>>

interface RequestOptions {
  readonly query?: Query
  readonly body?: unknown
  readonly signal?: AbortSignal
  /** Not asked again, whatever the answer: for what is nice to know. */
  readonly once?: boolean
}

/** Times in ms; shorter in tests. */
export interface Patience {
  /** One request. */
  readonly requestMs: number
  /**
   * How long a server that is away or overloaded is asked again: an API server restarts in less.
   */
  readonly retryMs: number
  readonly firstBackoffMs: number
  /** Both of a server that has not answered yet: it may be the wrong address. */
  readonly firstContactMs: number
}

const defaultPatience: Patience = {
  requestMs: 20_000,
  retryMs: 60_000,
  firstBackoffMs: 250,
  firstContactMs: 5_000,
}
const longestBackoffMs = 5_000
/**
 * What one tuner asks of a server that others share: as much as kubectl's own limit a second, and a
 * third of its burst.
 */
const [requestsPerSecond, requestsAtOnce] = [50, 100]
/** Credentials are looked up again after this long: tokens expire, certificates are renewed. */
const credentialsMs = 60_000

interface Connection {
  readonly headers: Readonly<Record<string, string>>
  readonly agent: http.Agent | https.Agent
  readonly readAt: number
}

export class Api {
  /** Requests sent so far, retries and streams included. */
  requests = 0
  private connection: Connection | undefined
  /** The server has answered once, so that its address is right. */
  private answered = false
  private readonly pace = new Pace(requestsPerSecond, requestsAtOnce)

  constructor(
    readonly config: KubeConfig,
    /** Where trials run. */
    readonly namespace: string,
    private readonly patience: Patience = defaultPatience,
    /** Where the server's address is from, for messages. */
    private readonly origin?: string,
  ) {}

  get server(): string {
    return this.config.getCurrentCluster()!.server
  }

  /**
   * One request, its answer parsed. Servers that are away, overloaded or failing are asked again
   * with backoff.
   * @throws ApiError with the server's message; the signal's reason
   */
  async request<T>(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    options: RequestOptions = {},
  ): Promise<T> {
    const startedMs = performance.now()
    for (let attempt = 1; ; attempt++) {
      options.signal?.throwIfAborted()
      try {
        const response = await this.send(method, path, options, this.within('requestMs'))
        return documentOf<T>(await textOf(response, this.patience.requestMs), `${method} ${path}`)
      } catch (error) {
        options.signal?.throwIfAborted()
        if (!(error instanceof ApiError)) throw error
        // An earlier try got through, and its answer was lost on the way.
        if (error.reason === 'AlreadyExists' && attempt > 1 && method === 'POST')
          return this.request('GET', `${path}/${nameIn(options.body)}`, options)
        if (error.status === 404 && attempt > 1 && method === 'DELETE') return {} as T
        const pauseMs = pauseBefore(attempt, this.patience.firstBackoffMs, error)
        const until = startedMs + this.within('retryMs')
        if (options.once || !isPassing(error) || performance.now() + pauseMs > until) throw error
        await sleep(pauseMs, undefined, { signal: options.signal }).catch(() =>
          options.signal?.throwIfAborted(),
        )
      }
    }
  }

  /**
   * An answer that goes on: a watch, a log that is followed. Not retried. The caller reads it to
   * its end or destroys it.
   */
  stream(path: string, query: Query, signal: AbortSignal): Promise<http.IncomingMessage> {
    return this.send('GET', path, { query, signal })
  }

  /**
   * Connects a local socket to a port of a pod, through the API server. Resolves with what ends it.
   */
  async forward(pod: string, port: number, socket: Duplex): Promise<() => void> {
    const { PortForward } = await import('./client.ts')
    const { PassThrough } = await import('node:stream')
    const problems = new PassThrough()
    problems.on('data', () => socket.destroy())
    this.requests++
    const connection = await new PortForward(this.config, true).portForward(
      this.namespace,
      pod,
      [port],
      socket,
      problems,
      socket,
    )
    if (typeof connection === 'function')
      throw new TypeError('a forwarded port came back restartable')
    connection.onclose = () => socket.destroy()
    connection.onerror = () => socket.destroy()
    return () => connection.close()
  }

  private within(limit: 'requestMs' | 'retryMs'): number {
    const { firstContactMs, [limit]: ms } = this.patience
    return this.answered ? ms : Math.min(ms, firstContactMs)
  }

  close(): void {
    this.connection?.agent.destroy()
    this.connection = undefined
  }

  private async send(
    method: string,
    path: string,
    { query = {}, body, signal }: RequestOptions,
    timeoutMs?: number,
  ): Promise<http.IncomingMessage> {
    const url = new URL(this.server.replace(/\/$/, '') + path)
    for (const [key, value] of Object.entries(query))
      if (value !== undefined) url.searchParams.set(key, String(value))
    const { headers, agent } = await this.connect()
    signal?.throwIfAborted()
    await this.pace.turn(signal)
    this.requests++
    const text = body === undefined ? undefined : JSON.stringify(body)
    // RFC 7386.
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
      const request = (url.protocol === 'https:' ? https : http).request(
        url,
        {
          method,
          agent,
          headers: {
            accept: 'application/json',
            ...headers,
            ...(text !== undefined && {
              'content-type': contentType,
              'content-length': Buffer.byteLength(text),
            }),
          },
        },
        resolve,
      )
      request.on('error', (error) =>
        reject(
          signal?.aborted
            ? signal.reason
            : new ApiError(
                0,
                'Unreachable',
                `the API server ${this.server}${this.origin === undefined ? '' : ` (${this.origin})`} does not answer: ${error.message || codeOf(error)}`,
                unreachableHint,
              ),
        ),
      )
      // Without an error: when an answer is complete and not yet read, the socket is the agent's
      // again, and an error would end the process.
      const abort = () => request.destroy()
      signal?.addEventListener('abort', abort, { once: true })
      // The request's own timeout begins once it is connected, which it may never be.
      const timer =
        timeoutMs === undefined
          ? undefined
          : setTimeout(
              () => request.destroy(new Error(`no answer within ${timeoutMs / 1000} s`)),
              timeoutMs,
            )
      request.on('response', () => clearTimeout(timer))
      request.on('close', () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
      })
      request.end(text)
    })
    this.answered = true
    if (response.statusCode! >= 200 && response.statusCode! < 300) return response
    throw refusal(response, await textOf(response, this.patience.requestMs), `${method} ${path}`)
  }

  private async connect(): Promise<Connection> {
    const known = this.connection
    if (known && performance.now() - known.readAt < credentialsMs) return known
    const options: https.RequestOptions = {}
    try {
      await this.config.applyToHTTPSOptions(options)
    } catch (error) {
      throw new ApiError(
        0,
        'NoCredentials',
        `${this.origin ?? this.server} cannot be used: ${(error as Error).message}`,
        'check that kubectl get pods works with it, and that the program in its user section runs',
      )
    }
    const { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername, auth } = options
    const tls = { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername, keepAlive: true }
    const cluster = this.config.getCurrentCluster()!
    const direct = () =>
      cluster.server.startsWith('http:')
        ? new http.Agent({ keepAlive: true })
        : new https.Agent(tls)
    const headers = Object.fromEntries(
      Object.entries(options.headers ?? {}).map(([name, value]) => [name, String(value)]),
    )
    if (auth) headers.Authorization = `Basic ${Buffer.from(auth).toString('base64')}`
    const agent = cluster.proxyUrl ? (options.agent as https.Agent) : direct()
    this.connection = { headers, agent, readAt: performance.now() }
    return this.connection
  }
}

/** So many at once, and then so many a second, in the order in which they came. */
export class Pace {
  private free: number
  private countedMs = performance.now()

  constructor(
    private readonly perSecond: number,
    private readonly atOnce: number,
  ) {
    this.free = atOnce
  }

  /** Resolves when it is the caller's turn. @throws the signal's reason */
  async turn(signal?: AbortSignal): Promise<void> {
    const nowMs = performance.now()
    this.free =
      Math.min(this.atOnce, this.free + ((nowMs - this.countedMs) / 1000) * this.perSecond) - 1
    this.countedMs = nowMs
    if (this.free >= 0) return
    await sleep((-this.free / this.perSecond) * 1000, undefined, { signal }).catch(() =>
      signal?.throwIfAborted(),
    )
  }
}

const unreachableHint = 'check that the cluster runs and that KUBECONFIG points to it'

/** Of several addresses that were tried in vain Node gives codes and no message. */
const codeOf = (error: Error): string => String((error as NodeJS.ErrnoException).code ?? error.name)

const isPassing = ({ status, reason }: ApiError): boolean =>
  (status === 0 && reason === 'Unreachable') || status === 429 || status >= 500

/**
 * ms before try `attempt` + 1: doubling, spread so that many clients do not come back at once, and
 * never sooner than the server said.
 */
export function pauseBefore(attempt: number, firstMs: number, error: unknown): number {
  const backoffMs =
    Math.min(longestBackoffMs, firstMs * 2 ** (attempt - 1)) * (0.75 + Math.random() / 2)
  const askedMs = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0
  return askedMs > backoffMs ? askedMs * (1 + Math.random() / 4) : backoffMs
}

/** 'pods "x" is forbidden: exceeded quota: ...' of a Status object, or what else came. */
const refusal = (response: http.IncomingMessage, text: string, what: string): ApiError => {
  const status = response.statusCode ?? 0
  const told = parsed(text)
  const message =
    told?.message ??
    `${response.statusMessage ?? 'no message'}${text ? `: ${text.slice(0, 300)}` : ''}`
  const seconds = Number(response.headers['retry-after'])
  const retryAfterMs = seconds > 0 ? seconds * 1000 : undefined
  return new ApiError(
    status,
    told?.reason ?? '',
    `${message} (${what}, status ${status})`,
    hintFor(status),
    retryAfterMs,
  )
}

const hintFor = (status: number): string | undefined => {
  if (status === 401) return 'check whether the credentials in KUBECONFIG have expired'
  if (status === 403)
    return 'grant tune these permissions: deploy/base/rbac.yaml lists the exact verbs'
  return undefined
}

const parsed = (text: string): { message?: string; reason?: string } | undefined => {
  try {
    return JSON.parse(text) as { message?: string; reason?: string }
  } catch {
    return undefined // a proxy's page, not the API server's Status
  }
}

/** @throws ApiError for one that breaks off, takes longer than that, or is longer than any answer may be */
const textOf = async (response: http.IncomingMessage, mostMs: number): Promise<string> => {
  const timer = setTimeout(
    () => response.destroy(new Error(`no complete answer within ${mostMs / 1000} s`)),
    mostMs,
  )
  try {
    return await readAnswer(response)
  } catch (error) {
    response.destroy()
    if (error instanceof BoundError)
      throw new ApiError(0, 'TooLarge', `the answer has ${error.message}`, error.hint)
    throw new ApiError(0, 'Unreachable', `the answer is incomplete: ${(error as Error).message}`)
  } finally {
    clearTimeout(timer)
  }
}

function documentOf<T>(text: string, what: string): T {
  try {
    return parseUntrustedJson(text) as T
  } catch (error) {
    const shown =
      error instanceof BoundError ? `JSON ${error.message}` : `invalid JSON: ${text.slice(0, 100)}`
    throw new ApiError(0, 'NotKubernetes', `${what} was answered with ${shown}`, unreachableHint)
  }
}

const nameIn = (body: unknown): string =>
  (body as { metadata?: { name?: string } } | undefined)?.metadata?.name ?? ''
