/**
 * Requests to a cluster's API server: the address and credentials of @kubernetes/client-node, with
 * retries, deadlines and a count. Bodies are sent as they are: the client's typed models would drop
 * misspelt fields before the server could reject them.
 */
import http from 'node:http'
import https from 'node:https'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { KubeConfig } from '@kubernetes/client-node'
import { BoundError, parseUntrustedJson, readAnswer } from '../../../../profiler/bounded-reader.ts'

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
     * Requested delay before a retry, ms (Retry-After, which API Priority and Fairness sends with
     * 429).
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
  /** Never retried: for optional information. */
  readonly once?: boolean
}

/** Times in ms; shorter in tests. */
export interface ApiTimeouts {
  /** Limit of one request. */
  readonly requestMs: number
  /**
   * How long to retry while the server is unreachable or overloaded; an API server restarts in
   * less.
   */
  readonly retryMs: number
  readonly firstBackoffMs: number
  /** Both limits before the server's first answer, while its address may be wrong. */
  readonly firstContactMs: number
}

const defaultTimeouts: ApiTimeouts = {
  requestMs: 20_000,
  retryMs: 60_000,
  firstBackoffMs: 250,
  firstContactMs: 5_000,
}
/** Upper limit of the exponential back-off between attempts, ms. Assumed. */
const maxBackoffMs = 5_000
/** Client-side rate limit: the rate of kubectl's own limit, and a third of its burst. */
const [requestsPerSecond, requestBurst] = [50, 100]
/** Credentials are read again after this time: tokens expire, and certificates are renewed. */
const credentialsLifetimeMs = 60_000

interface Connection {
  readonly headers: Readonly<Record<string, string>>
  readonly agent: http.Agent | https.Agent
  readonly readAt: number
}

export class Api {
  /** Requests sent so far, retries and streams included. */
  requests = 0
  private connection: Connection | undefined
  /** Whether the server has answered before, so that its address is right. */
  private answered = false
  private readonly rateLimiter = new RateLimiter(requestsPerSecond, requestBurst)

  constructor(
    readonly config: KubeConfig,
    /** Namespace of the trials. */
    readonly namespace: string,
    private readonly timeouts: ApiTimeouts = defaultTimeouts,
    /** Source of the server's address, for messages. */
    private readonly origin?: string,
  ) {}

  get server(): string {
    return this.config.getCurrentCluster()!.server
  }

  /**
   * Sends a request and parses the answer. Retries with backoff while the server is unreachable,
   * overloaded or failing.
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
        const response = await this.send(method, path, options, this.limitMs('requestMs'))
        return parseDocument<T>(
          await readBody(response, this.timeouts.requestMs),
          `${method} ${path}`,
        )
      } catch (error) {
        options.signal?.throwIfAborted()
        if (!(error instanceof ApiError)) throw error
        // An earlier attempt succeeded, but its answer was lost.
        if (error.reason === 'AlreadyExists' && attempt > 1 && method === 'POST')
          return this.request('GET', `${path}/${getObjectName(options.body)}`, options)
        if (error.status === 404 && attempt > 1 && method === 'DELETE') return {} as T
        const pauseMs = computeBackoffMs(attempt, this.timeouts.firstBackoffMs, error)
        const until = startedMs + this.limitMs('retryMs')
        if (options.once || !isRetryable(error) || performance.now() + pauseMs > until) throw error
        await sleep(pauseMs, undefined, { signal: options.signal }).catch(() =>
          options.signal?.throwIfAborted(),
        )
      }
    }
  }

  /**
   * A streamed answer: a watch, or a followed log. Not retried. The caller reads it to its end or
   * destroys it.
   */
  stream(path: string, query: Query, signal: AbortSignal): Promise<http.IncomingMessage> {
    return this.send('GET', path, { query, signal })
  }

  /**
   * Connects a local socket to a port of a pod, through the API server. Resolves with a function
   * that closes the connection.
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

  private limitMs(limit: 'requestMs' | 'retryMs'): number {
    const { firstContactMs, [limit]: ms } = this.timeouts
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
    await this.rateLimiter.acquire(signal)
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
                `the API server ${this.server}${this.origin === undefined ? '' : ` (${this.origin})`} does not answer: ${error.message || describeErrorCode(error)}`,
                unreachableHint,
              ),
        ),
      )
      // Without an error: once an unread answer is complete, the socket belongs to the agent again,
      // and an error would end the process.
      const abort = () => request.destroy()
      signal?.addEventListener('abort', abort, { once: true })
      // Node's own timeout starts only once the request is connected.
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
    throw createApiError(
      response,
      await readBody(response, this.timeouts.requestMs),
      `${method} ${path}`,
    )
  }

  private async connect(): Promise<Connection> {
    const cached = this.connection
    if (cached && performance.now() - cached.readAt < credentialsLifetimeMs) return cached
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

/** A token bucket: a burst, then a fixed rate, in order of arrival. */
export class RateLimiter {
  private tokens: number
  private refilledMs = performance.now()

  constructor(
    private readonly perSecond: number,
    private readonly burst: number,
  ) {
    this.tokens = burst
  }

  /**
   * Resolves when the caller may send.
   * @throws the signal's reason
   */
  async acquire(signal?: AbortSignal): Promise<void> {
    const nowMs = performance.now()
    this.tokens =
      Math.min(this.burst, this.tokens + ((nowMs - this.refilledMs) / 1000) * this.perSecond) - 1
    this.refilledMs = nowMs
    if (this.tokens >= 0) return
    await sleep((-this.tokens / this.perSecond) * 1000, undefined, { signal }).catch(() =>
      signal?.throwIfAborted(),
    )
  }
}

const unreachableHint = 'check that the cluster runs and that KUBECONFIG points to it'

/** After failing with several addresses, Node reports a code without a message. */
const describeErrorCode = (error: Error): string =>
  String((error as NodeJS.ErrnoException).code ?? error.name)

const isRetryable = ({ status, reason }: ApiError): boolean =>
  (status === 0 && reason === 'Unreachable') || status === 429 || status >= 500

/**
 * Exponential backoff with jitter before attempt `attempt` + 1, ms; never shorter than the server's
 * Retry-After.
 */
export function computeBackoffMs(attempt: number, firstMs: number, error: unknown): number {
  const backoffMs =
    Math.min(maxBackoffMs, firstMs * 2 ** (attempt - 1)) * (0.75 + Math.random() / 2)
  const askedMs = error instanceof ApiError ? (error.retryAfterMs ?? 0) : 0
  return askedMs > backoffMs ? askedMs * (1 + Math.random() / 4) : backoffMs
}

/**
 * Creates an error with the message of the Status object, or with the start of any other answer.
 */
const createApiError = (response: http.IncomingMessage, text: string, what: string): ApiError => {
  const status = response.statusCode ?? 0
  const parsedStatus = parseStatus(text)
  const message =
    parsedStatus?.message ??
    `${response.statusMessage ?? 'no message'}${text ? `: ${text.slice(0, 300)}` : ''}`
  const seconds = Number(response.headers['retry-after'])
  const retryAfterMs = seconds > 0 ? seconds * 1000 : undefined
  return new ApiError(
    status,
    parsedStatus?.reason ?? '',
    `${message} (${what}, status ${status})`,
    findHint(status),
    retryAfterMs,
  )
}

const findHint = (status: number): string | undefined => {
  if (status === 401) return 'check whether the credentials in KUBECONFIG have expired'
  if (status === 403)
    return 'grant tune these permissions: deploy/base/rbac.yaml lists the exact verbs'
  return undefined
}

const parseStatus = (text: string): { message?: string; reason?: string } | undefined => {
  try {
    return JSON.parse(text) as { message?: string; reason?: string }
  } catch {
    return undefined // a proxy's page, not the API server's Status
  }
}

/** @throws ApiError for an incomplete, late or too large answer */
const readBody = async (response: http.IncomingMessage, mostMs: number): Promise<string> => {
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

function parseDocument<T>(text: string, what: string): T {
  try {
    return parseUntrustedJson(text) as T
  } catch (error) {
    const shown =
      error instanceof BoundError ? `JSON ${error.message}` : `invalid JSON: ${text.slice(0, 100)}`
    throw new ApiError(0, 'NotKubernetes', `${what} was answered with ${shown}`, unreachableHint)
  }
}

const getObjectName = (body: unknown): string =>
  (body as { metadata?: { name?: string } } | undefined)?.metadata?.name ?? ''
