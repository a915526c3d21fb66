/**
 * The gRPC side of the predictor: both inference services on one port, over the same repository and
 * batcher as HTTP.
 */
import { type AddressInfo, createServer } from 'node:net'
import {
  logVerbosity,
  Metadata,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  setLogVerbosity,
  status,
} from '@grpc/grpc-js'
import { loadCodec } from '../protocol/codec.ts'
import { decodeMessage, encodeMessage } from '../protocol/grpc/server-definitions.ts'
import { createMetadataMessage } from '../protocol/grpc/tfserving-grpc.ts'
import { createOipMetadata } from '../protocol/oip-http.ts'
import type { TensorProtocol } from '../protocol/spoken.ts'
import { RequestError } from '../protocol/tensors.ts'
import { GrpcDeadline } from './grpc-deadline.ts'
import { serverName, serverVersion } from './http-server.ts'
import type { ModelRepository } from './repository.ts'

export interface GrpcServer {
  readonly port: number
  /** Answers requests in flight for a moment, then closes every connection. */
  close(): Promise<void>
}

/** Listens on the port, 0 for any. Rejects with `code` 'EADDRINUSE' when it is taken. */
export async function startGrpcServer(
  repository: ModelRepository,
  host: string,
  port: number,
  {
    maxBodyBytes,
    requestTimeoutS,
  }: { readonly maxBodyBytes: number; readonly requestTimeoutS: number },
): Promise<GrpcServer> {
  await loadCodec('grpc-v2')
  setLogVerbosity(logVerbosity.NONE) // What fails is an error of the call or of the start.
  const deadline = new GrpcDeadline(requestTimeoutS)
  const server = new Server({
    'grpc.max_receive_message_length': maxBodyBytes,
    'grpc.max_send_message_length': -1,
    'grpc.max_connection_idle_ms': Math.max(minIdleMs, requestTimeoutS * 1000),
    interceptors: [deadline.interceptor],
  })
  add(server, '/inference.GRPCInferenceService/', openInferenceMethods(repository))
  add(server, '/tensorflow.serving.PredictionService/', createPredictionMethods(repository))
  add(server, '/tensorflow.serving.ModelService/', createModelMethods(repository))
  add(server, '/grpc.health.v1.Health/', createHealthMethods(repository))
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const listening = createServer((socket) => {
    deadline.watch(socket)
    injector.injectConnection(socket)
  })
  await new Promise<void>((resolve, reject) =>
    listening.once('error', reject).listen(port, host, resolve),
  )
  return {
    port: (listening.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        listening.close()
        const lastCall = setTimeout(() => server.forceShutdown(), 500)
        server.tryShutdown(() => {
          clearTimeout(lastCall)
          deadline.close()
          resolve()
        })
      }),
  }
}

/** Minimum time that an idle connection stays open. */
const minIdleMs = 60_000

/**
 * A method deals in bytes: its request and its reply.
 * @throws RequestError
 */
type Method = (request: Buffer) => Buffer | Promise<Buffer>

const codes: Readonly<Record<number, number>> = {
  400: status.INVALID_ARGUMENT,
  404: status.NOT_FOUND,
  429: status.RESOURCE_EXHAUSTED,
  503: status.UNAVAILABLE,
}

const passThrough = (bytes: Buffer): Buffer => bytes

function add(server: Server, service: string, methods: Readonly<Record<string, Method>>): void {
  const definitions = Object.keys(methods).map((name) => {
    const serialization = {
      requestSerialize: passThrough,
      requestDeserialize: passThrough,
      responseSerialize: passThrough,
      responseDeserialize: passThrough,
    }
    return [
      name,
      { path: service + name, requestStream: false, responseStream: false, ...serialization },
    ]
  })
  const handlers = Object.entries(methods).map(([name, method]) => [
    name,
    async ({ request }: ServerUnaryCall<Buffer, Buffer>, reply: sendUnaryData<Buffer>) => {
      try {
        reply(null, await method(request))
      } catch (error) {
        const code =
          error instanceof RequestError ? (codes[error.status] ?? status.INTERNAL) : status.INTERNAL
        reply({
          code,
          details: error instanceof Error ? error.message : String(error),
          metadata: new Metadata(),
        })
      }
    },
  ])
  server.addService(Object.fromEntries(definitions), Object.fromEntries(handlers))
}

/** @throws RequestError 400 for bytes that are no such message */
function read<T>(name: string, bytes: Buffer): T {
  try {
    return decodeMessage<T>(name, bytes)
  } catch (error) {
    throw new RequestError(400, `the message is not of type ${name}: ${(error as Error).message}`)
  }
}

async function infer(
  repository: ModelRepository,
  protocol: TensorProtocol,
  model: string,
  version: string | undefined,
  request: Buffer,
): Promise<Buffer> {
  // Copy: transferring this view would transfer its whole buffer.
  const { body } = await repository.find(model, version).infer(protocol, new Uint8Array(request))
  // A worker's reply comes as a plain array of bytes.
  return typeof body === 'string'
    ? Buffer.from(body)
    : Buffer.from(body.buffer, body.byteOffset, body.byteLength)
}

interface Named {
  readonly name: string
  readonly version: string
}

function openInferenceMethods(repository: ModelRepository): Record<string, Method> {
  const message = (name: string, value: object) => encodeMessage(`inference.${name}Response`, value)
  return {
    ServerLive: () => message('ServerLive', { live: true }),
    ServerReady: () => message('ServerReady', { ready: repository.ready }),
    ServerMetadata: () =>
      message('ServerMetadata', { name: serverName, version: serverVersion, extensions: [] }),
    ModelReady: (request) => {
      const { name, version } = read<Named>('inference.ModelReadyRequest', request)
      repository.checkName(name)
      if (repository.ready) repository.find(name, version || undefined)
      return message('ModelReady', { ready: repository.ready })
    },
    ModelMetadata: (request) => {
      const { name, version } = read<Named>('inference.ModelMetadataRequest', request)
      const { info, host } = repository.find(name, version || undefined)
      return message(
        'ModelMetadata',
        createOipMetadata(info, repository.versions, `tune_${host.loaded.name}`, {}),
      )
    },
    ModelInfer: (request) => {
      const { model_name: model, model_version: version } = read<{
        model_name: string
        model_version: string
      }>('inference.ModelSelector', request)
      return infer(repository, 'grpc-v2', model, version || undefined, request)
    },
  }
}

interface WithModelSpec {
  readonly model_spec: {
    readonly name: string
    readonly version: { readonly value: number } | null
  } | null
}

function decodeModelRequest(
  name: string,
  request: Buffer,
): { model: string; version: string | undefined } {
  const { model_spec: spec } = read<WithModelSpec>(name, request)
  if (!spec?.name) throw new RequestError(400, 'Missing ModelSpec')
  return { model: spec.name, version: spec.version ? String(spec.version.value) : undefined }
}

function createPredictionMethods(repository: ModelRepository): Record<string, Method> {
  return {
    Predict: (request) => {
      const { model, version } = decodeModelRequest('tensorflow.serving.ModelSelector', request)
      return infer(repository, 'tfserving-grpc', model, version, request)
    },
    GetModelMetadata: (request) => {
      const { model, version } = decodeModelRequest(
        'tensorflow.serving.GetModelMetadataRequest',
        request,
      )
      return createMetadataMessage(repository.find(model, version).info)
    },
  }
}

/**
 * HealthCheckResponse.ServingStatus:
 * https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */
const serving = { yes: 1, no: 2 }

/** Creates the methods for the health of the server (no name), or of a model, without Watch. */
function createHealthMethods(repository: ModelRepository): Record<string, Method> {
  return {
    Check: (request) => {
      const { service } = read<{ service: string }>('grpc.health.v1.HealthCheckRequest', request)
      if (
        service !== '' &&
        !service.startsWith('inference.') &&
        !service.startsWith('tensorflow.serving.')
      )
        repository.checkName(service)
      return encodeMessage('grpc.health.v1.HealthCheckResponse', {
        status: repository.ready ? serving.yes : serving.no,
      })
    },
  }
}

/** ModelVersionStatus.State of a version that serves. */
const available = 30

function createModelMethods(repository: ModelRepository): Record<string, Method> {
  return {
    GetModelStatus: (request) => {
      const { model, version } = decodeModelRequest(
        'tensorflow.serving.GetModelStatusRequest',
        request,
      )
      const found = repository.find(model, version)
      const versions = version === undefined ? repository.versions : [found.info.version]
      return encodeMessage('tensorflow.serving.GetModelStatusResponse', {
        model_version_status: versions.map((each) => ({
          version: Number(each),
          state: available,
          status: { error_code: 0 },
        })),
      })
    },
  }
}
