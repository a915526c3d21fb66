/** The HTTP side of the predictor: routes of both protocols, health and metrics. */
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { isRecord } from '../../../profiler/plain-record.ts'
import { OutOfMemoryError } from '../engine.ts'
import { createOipMetadata } from '../protocol/oip-http.ts'
import type { TensorProtocol } from '../protocol/spoken.ts'
import { RequestError } from '../protocol/tensors.ts'
import { createTfServingMetadata, createTfServingStatus } from '../protocol/tfserving-http.ts'
import { createRequestTimeouts } from '../request-timeouts.ts'
import { SettingsError } from '../settings.ts'
import type { PredictorMetrics } from './metrics.ts'
import type { ModelRepository } from './repository.ts'

export const serverName = 'tune-predictor'
export const serverVersion = '0.1.0'
const extensions = ['binary_tensor_data']

interface ServerOptions {
  readonly maxBodyBytes: number
  readonly requestTimeoutS: number
  /** Reloads with other settings. Absent: settings are fixed. */
  readonly load?: (values: Readonly<Record<string, string>>) => Promise<void>
}

/**
 * No route has a schema, and loading fastify's schema compilers would take a third of its start.
 */
const disableSchemas = (): never => {
  throw new Error('routes of the predictor have no schemas')
}

/** Creates the server with routes over a repository. It does not listen yet. */
export function createServer(
  repository: ModelRepository,
  metrics: PredictorMetrics,
  { maxBodyBytes, requestTimeoutS, load }: ServerOptions,
): FastifyInstance {
  const timeouts = createRequestTimeouts(requestTimeoutS)
  const app = fastify({
    logger: false,
    bodyLimit: maxBodyBytes,
    http: timeouts,
    requestTimeout: timeouts.requestTimeout,
    forceCloseConnections: 'idle',
    routerOptions: { caseSensitive: true },
    schemaController: {
      compilersFactory: { buildValidator: disableSchemas, buildSerializer: disableSchemas },
    },
  })
  app.removeAllContentTypeParsers()
  // Bodies stay bytes: CPU workers decode them.
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) =>
    sendError(reply, error, repository),
  )
  app.setNotFoundHandler((request, reply) => {
    reply.code(404)
    return { error: `no route ${request.method} ${request.url}; see /v2 and /v1/models/MODEL` }
  })
  addOipRoutes(app, repository)
  addTfServingRoutes(app, repository)
  if (load) addControlRoute(app, repository, load)
  app.get('/metrics', async (_request, reply) => {
    reply.header('content-type', metrics.registry.contentType)
    return metrics.registry.metrics()
  })
  return app
}

function sendError(
  reply: FastifyReply,
  error: Error & { statusCode?: number },
  repository: ModelRepository,
) {
  const status = error instanceof RequestError ? error.status : (error.statusCode ?? 500)
  if (status === 429 || status === 503) reply.header('retry-after', repository.retryAfterSeconds)
  if (repository.draining) reply.header('connection', 'close')
  reply.code(status).send({ error: error.message })
}

interface OipParams {
  readonly model: string
  readonly version?: string
}

function addOipRoutes(app: FastifyInstance, repository: ModelRepository): void {
  const readiness = (ready: boolean, reply: FastifyReply) => {
    reply.code(ready ? 200 : 503)
    return { ready }
  }
  app.get('/v2', async () => ({ name: serverName, version: serverVersion, extensions }))
  app.get('/v2/health/live', async () => ({ live: true }))
  app.get('/v2/health/ready', async (_request, reply) => readiness(repository.ready, reply))
  for (const base of ['/v2/models/:model', '/v2/models/:model/versions/:version']) {
    app.get<{ Params: OipParams }>(base, async ({ params }) => {
      const { info, host } = repository.find(params.model, params.version)
      const { loaded } = host
      return createOipMetadata(info, repository.versions, `tune_${loaded.name}`, {
        provenance: loaded.provenance,
        device: loaded.device,
        versions: loaded.info.versions,
        memory_mib: Math.round(loaded.info.memoryMiB),
        sequence_length: info.sequenceLength,
      })
    })
    app.get<{ Params: OipParams }>(`${base}/ready`, async ({ params }, reply) => {
      repository.checkName(params.model)
      if (!repository.ready) return readiness(false, reply)
      repository.find(params.model, params.version)
      return readiness(true, reply)
    })
    app.post<{ Params: OipParams }>(`${base}/infer`, (request, reply) =>
      infer(
        repository,
        'oip-v2',
        request.params,
        request,
        reply,
        readInferenceHeaderLength(request),
      ),
    )
  }
}

/** Adds Triton's explicit model control: one load after the other. */
function addControlRoute(
  app: FastifyInstance,
  repository: ModelRepository,
  load: NonNullable<ServerOptions['load']>,
): void {
  let last: Promise<void> = Promise.resolve()
  app.post<{ Params: OipParams }>('/v2/repository/models/:model/load', async ({ params, body }) => {
    repository.checkName(params.model)
    const values = readParameters(body)
    const loading = last.then(() => load(values))
    last = loading.catch(() => undefined)
    try {
      await loading
    } catch (error) {
      if (error instanceof SettingsError) throw new RequestError(400, error.message)
      // 507, insufficient storage (RFC 4918, section 11.5).
      throw error instanceof OutOfMemoryError ? new RequestError(507, error.message) : error
    }
    return {}
  })
}

function readParameters(body: unknown): Readonly<Record<string, string>> {
  const given = body === undefined ? {} : parseJson(String(body))
  const { parameters = {} } = isRecord(given) ? given : {}
  if (!isRecord(parameters))
    throw new RequestError(
      400,
      'parameters: pass settings by name, e.g. {"parameters": {"BATCH_SIZE": 8}}',
    )
  return Object.fromEntries(
    Object.entries(parameters).map(([name, value]) => [name, String(value)]),
  )
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new RequestError(400, `the body is not JSON: ${(error as Error).message}`)
  }
}

const tfServingPath = /^([^/:]+)(?:\/versions\/([^/:]+))?(?:\/(metadata)|:(\w+))?$/

function addTfServingRoutes(app: FastifyInstance, repository: ModelRepository): void {
  const parse = (request: FastifyRequest) => {
    const [, model, version, metadata, verb] =
      tfServingPath.exec((request.params as { '*': string })['*']) ?? []
    if (model === undefined)
      throw new RequestError(
        404,
        `malformed path ${request.url}; expected /v1/models/MODEL[/versions/V][/metadata|:predict]`,
      )
    return { model, version, metadata, verb }
  }
  app.get('/v1/models/*', async (request) => {
    const { model, version, metadata, verb } = parse(request)
    if (verb !== undefined) throw new RequestError(404, `:${verb} needs POST`)
    if (metadata) return createTfServingMetadata(repository.find(model, version).info)
    if (version !== undefined)
      return createTfServingStatus([repository.find(model, version).info.version])
    repository.find(model)
    return createTfServingStatus(repository.versions)
  })
  app.post('/v1/models/*', (request, reply) => {
    const { model, version, metadata, verb } = parse(request)
    if (metadata || verb !== 'predict')
      throw new RequestError(404, `POST ${request.url} is not supported; use :predict`)
    return infer(repository, 'tfserving', { model, version }, request, reply)
  })
}

async function infer(
  repository: ModelRepository,
  protocol: TensorProtocol,
  { model, version }: OipParams,
  request: FastifyRequest,
  reply: FastifyReply,
  headerLength?: number,
): Promise<FastifyReply> {
  const served = repository.find(model, version)
  const encoding = request.headers['content-encoding']
  if (encoding !== undefined && encoding !== 'identity')
    throw new RequestError(
      415,
      `content-encoding '${encoding}' is not supported; send the body uncompressed`,
    )
  const bytes = request.body as Buffer | undefined
  if (bytes === undefined) throw new RequestError(400, 'the request has no body')
  // Text travels cheaply to a worker; bytes are copied out of the buffer that the socket may share.
  const body = headerLength === undefined ? bytes.toString('utf8') : new Uint8Array(bytes)
  const answer = await served.infer(protocol, body, headerLength)
  reply.header('content-type', answer.contentType)
  if (answer.headerLength !== undefined)
    reply.header('inference-header-content-length', answer.headerLength)
  return reply.send(
    typeof answer.body === 'string'
      ? answer.body
      : Buffer.from(answer.body.buffer, answer.body.byteOffset, answer.body.byteLength),
  )
}

/** Bytes of the JSON that leads a request's binary tensors; undefined if it has none. */
function readInferenceHeaderLength({ headers }: FastifyRequest): number | undefined {
  const value = headers['inference-header-content-length']
  if (value === undefined) return undefined
  if (typeof value !== 'string' || !/^\d+$/.test(value))
    throw new RequestError(
      400,
      `Inference-Header-Content-Length must be a number of bytes, not '${value}'`,
    )
  return Number(value)
}
