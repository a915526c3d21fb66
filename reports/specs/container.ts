/** The server of a serving as one container, for pods and Compose services alike. */
import { modelFolder, resolveStorage } from './model-storage.ts'
import { describeImage, weightsRemedy } from './placeholders.ts'
import { completeLanguageContainer } from './servers/language.ts'
import { buildMlserverContainer } from './servers/mlserver.ts'
import { buildTfservingContainer, tfservingProgram } from './servers/tfserving.ts'
import { buildTritonContainer } from './servers/triton.ts'
import type { ServerContainer, Serving } from './serving.ts'

/**
 * Builds the container of a server, with the tuned values in the server's own flags, variables and
 * files. If weights are missing, the container exits at once with the reason.
 * @param backend Triton's backend of the model
 */
export function buildContainer(serving: Serving, backend?: string): ServerContainer {
  const container = buildServer(serving, backend)
  return serving.deployed.weights === 'missing' && serving.deployed.server !== 'builtin'
    ? refuseToStart(container)
    : container
}

function buildServer(serving: Serving, backend: string | undefined): ServerContainer {
  const { container, deployed, evidence } = serving
  const folder = resolveStorage(serving)?.path ?? modelFolder
  switch (deployed.server) {
    case 'tfserving':
      return {
        ...buildTfservingContainer(serving, {
          restPort: 8501,
          grpcPort: 8500,
          modelName: serving.model,
          basePath: folder,
          configFolder: '/etc/tuned',
        }),
        command: [tfservingProgram],
      }
    case 'triton':
      return buildTritonContainer(serving, { http: 8000, grpc: 8001, folder }, backend, false)
    case 'mlserver':
      return buildMlserverContainer(serving, folder)
    case 'vllm':
    case 'sglang':
    case 'tgi':
    case 'tensorrt-llm':
      return completeLanguageContainer(deployed.server, serving)
    default:
      return {
        ...container,
        notes: [
          ...(container.notes ?? []),
          ...describeImage(container.image, evidence.measured.image),
        ],
        sharedMemory: false,
      }
  }
}

/**
 * TensorFlow Serving or Triton as a platform's container, which starts the server and chooses its
 * ports and the folder of the model.
 */
export const buildPlatformContainer = (
  serving: Serving,
  places: { readonly http: number; readonly grpc: number; readonly folder: string },
  backend: string | undefined,
): ServerContainer =>
  serving.deployed.server === 'tfserving'
    ? {
        ...buildTfservingContainer(serving, {
          restPort: places.http,
          grpcPort: places.grpc,
          modelName: serving.name,
          basePath: places.folder,
          configFolder: '/etc/tfs',
        }),
        readyPath: `/v1/models/${serving.name}`,
        livePath: undefined,
      }
    : {
        ...buildTritonContainer(serving, places, backend, true),
        readyPath: '/v2/health/ready',
        livePath: '/v2/health/live',
      }

/** Makes a container exit at once with the reason; its command stays readable as arguments. */
const refuseToStart = (container: ServerContainer): ServerContainer => ({
  ...container,
  command: [
    'sh',
    '-c',
    `echo 'no model weights. ${weightsRemedy}' >&2; exit 1`,
    ...(container.command ?? []),
  ],
})
