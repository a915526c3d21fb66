import {
  Client,
  credentials,
  logVerbosity,
  Metadata,
  type ServiceError,
  setLogVerbosity,
  status,
} from '@grpc/grpc-js'
import { getMaxAnswerBytes } from '../bounded-reader.ts'
import type { HttpTarget } from '../model/target.ts'
import type { TlsOptions } from '../model/tls-options.ts'
import { isSocketUrl } from '../server-address.ts'
import { answerTooLarge } from './answer-reader.ts'
import { AnswerSampler } from './answer-sampler.ts'
import { convertBodies, type OnRequestEnd, type Sender } from './sender.ts'

/** HTTP/2 connections, each with as many concurrent requests as the server allows. Assumed. */
const defaultConnections = 4
/** Longest wait for open connections, ms; later ones open with their first call. Assumed. */
const connectMs = 1000

/** Sends unary gRPC calls with pre-serialized messages over a few connections. */
export class GrpcSender implements Sender {
  private readonly clients: readonly Client[]
  private readonly messages: readonly Buffer[]
  private readonly metadata: Metadata
  private readonly sampler: AnswerSampler

  constructor(private readonly target: HttpTarget) {
    this.clients = Array.from({ length: target.connections ?? defaultConnections }, () =>
      createGrpcClient(target.url, target.tls, target.headers),
    )
    this.messages = convertBodies(target, ({ body }) => Buffer.from(body as Uint8Array))
    this.sampler = new AnswerSampler(target)
    this.metadata = buildGrpcMetadata(target.headers)
  }

  async connect(): Promise<void> {
    await Promise.all(
      this.clients.map(
        (client) =>
          new Promise<void>((resolve) =>
            client.waitForReady(Date.now() + connectMs, () => resolve()),
          ),
      ),
    )
  }

  send(index: number, onEnd: OnRequestEnd): { abandon(): void } {
    let isAbandoned = false
    const bodyIndex = index % this.messages.length
    const isSampled = this.sampler.claimSample(bodyIndex)
    const call = this.clients[index % this.clients.length]!.makeUnaryRequest(
      this.target.path,
      identity,
      identity,
      this.messages[bodyIndex]!,
      this.metadata,
      // The server may abandon a call after its deadline.
      { deadline: Date.now() + this.target.timeoutMs },
      (error: ServiceError | null, answer?: Buffer) => {
        if (isAbandoned) return
        if (error !== null) onEnd(classifyGrpcError(error))
        else if (this.target.expect !== undefined && !answer?.includes(this.target.expect))
          onEnd('bad answer')
        else {
          if (isSampled && answer !== undefined) this.sampler.addSample(bodyIndex, answer)
          onEnd(undefined)
        }
      },
    )
    return {
      abandon: () => {
        isAbandoned = true
        call.cancel()
      },
    }
  }

  takeSamples() {
    return this.sampler.takeSamples()
  }

  async close(): Promise<void> {
    for (const client of this.clients) client.close()
  }
}

const identity = (message: Buffer): Buffer => message

/**
 * Creates a client with its own connection. `url`: http://host:port, https:// for TLS, or
 * unix:/run/x.sock. Requests are unlimited in size, answers are bounded.
 * @param headers Host, or :authority, becomes the authority of the calls, by which gateways route
 * @throws Error for a `ca` that is no PEM
 */
export function createGrpcClient(
  url: string,
  { ca, cert, key, insecureSkipVerify }: TlsOptions = {},
  headers: Readonly<Record<string, string>> = {},
): Client {
  setLogVerbosity(logVerbosity.NONE) // A protocol violation of the server is an error of the call, not a line on stderr.
  const { hostname, host, port, protocol } = new URL(url)
  const isSecure = protocol === 'https:'
  const checks = insecureSkipVerify
    ? { rejectUnauthorized: false, checkServerIdentity: () => undefined }
    : {}
  const toPem = (text: string | undefined) => (text === undefined ? null : Buffer.from(text))
  const channelCredentials = isSecure
    ? credentials.createSsl(toPem(ca), toPem(key), toPem(cert), checks)
    : credentials.createInsecure()
  // Without a port grpc-js uses 443 for both schemes.
  const address = isSocketUrl(url) ? url : port === '' ? `${hostname}:${isSecure ? 443 : 80}` : host
  const authority = Object.entries(headers).find(([name]) => isAuthority(name))?.[1]
  return new Client(address, channelCredentials, {
    ...(authority !== undefined && { 'grpc.default_authority': authority }),
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_http_proxy': 0,
    // Transparent retries only, for calls that no server has accepted
    // (https://github.com/grpc/proposal/blob/master/A6-client-retries.md).
    'grpc.enable_retries': 1,
    'grpc.service_config_disable_resolution': 1,
    'grpc.max_receive_message_length': getMaxAnswerBytes(),
    'grpc.max_send_message_length': -1,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.min_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1000,
  })
}

const isAuthority = (header: string): boolean => /^(host|:authority)$/i.test(header)

/** Converts headers to metadata, without the authority, which belongs to the connection. */
export function buildGrpcMetadata(headers: Readonly<Record<string, string>>): Metadata {
  const metadata = new Metadata()
  // Values of '-bin' keys are bytes, base64-encoded in transit.
  for (const [name, value] of Object.entries(headers))
    if (!isAuthority(name))
      metadata.set(name, name.endsWith('-bin') ? Buffer.from(value, 'base64') : value)
  return metadata
}

/** Classifies a failed call: by HTTP's name of the same error, else as 'grpc RESOURCE_EXHAUSTED'. */
export function classifyGrpcError({
  code,
  details,
}: Pick<ServiceError, 'code' | 'details'>): string {
  if (/certificate|self.signed|SSL|wrong version number/i.test(details)) return 'tls'
  if (/ECONNREFUSED/.test(details)) return 'refused'
  if (/ECONNRESET|RST_STREAM|Connection dropped|EPIPE/.test(details)) return 'reset'
  if (/ENOTFOUND|EAI_AGAIN|Name resolution failed/.test(details)) return 'no such host'
  if (code === status.DEADLINE_EXCEEDED) return 'timeout'
  if (/Received message larger than max/.test(details)) return answerTooLarge
  return `grpc ${formatGrpcStatus(code)}`
}

/** Formats a gRPC status code by its name; servers may send unknown codes, or none. */
export const formatGrpcStatus = (code: number): string =>
  Number.isNaN(code) ? 'status without a number' : (status[code] ?? String(code))
