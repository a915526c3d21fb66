/** MLServer in a container: what was tuned in its environment, which its own image reads. */
import { describeUnused } from '../../../trials/servers/knobs.ts'
import type { ServerContainer, Serving } from '../serving.ts'
import { resolveBatchSizeKnobs } from './batching-knobs.ts'

export const mlserverImage = 'seldonio/mlserver:1.7.1'

const ports = { http: 8080, grpc: 8081, metrics: 8082 } as const

/** @param folder with the model's model-settings.json */
export function buildMlserverContainer(serving: Serving, folder: string): ServerContainer {
  const { knobs, notes } = resolveBatchSizeKnobs(serving)
  const delayMs = knobs.number('maxDelayMs')
  const tuned: Readonly<Record<string, number | undefined>> = {
    MLSERVER_PARALLEL_WORKERS: knobs.number('parallelWorkers', 'instances', 'workers'),
    MLSERVER_MODEL_MAX_BATCH_SIZE: knobs.number('batchSize', 'maxBatchSize'),
    // MLServer takes seconds.
    MLSERVER_MODEL_MAX_BATCH_TIME:
      knobs.number('maxBatchTime') ?? (delayMs === undefined ? undefined : delayMs / 1000),
  }
  const variables = Object.entries(tuned).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as const],
  )
  return {
    ...serving.container,
    // The image's own command starts it on this folder.
    env: {
      MLSERVER_MODELS_DIR: folder,
      MLSERVER_HTTP_PORT: String(ports.http),
      MLSERVER_GRPC_PORT: String(ports.grpc),
      MLSERVER_METRICS_PORT: String(ports.metrics),
      MLSERVER_MODEL_NAME: serving.model,
      ...Object.fromEntries(variables),
    },
    tunedEnv: variables.map(([name]) => name),
    port: ports.http,
    grpcPort: ports.grpc,
    metrics: { port: ports.metrics, path: '/metrics' },
    notes: [
      ...describeUnused(knobs),
      ...notes,
      "the model's own model-settings.json names its runtime, and overrides these variables",
    ],
    sharedMemory: true,
  }
}
