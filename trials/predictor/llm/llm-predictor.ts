import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Counter, Gauge, Registry } from 'prom-client'
import type { Decoder } from '../../devices/architecture.ts'
import { findGpu, type Gpu } from '../../devices/catalogue.ts'
import type { RunningPredictor } from '../running-predictor.ts'
import type { Settings } from '../settings.ts'
import { LlmEngine } from './llm-engine.ts'
import { createLlmServer } from './llm-http.ts'
import { llmServer } from './serving-limits.ts'

/**
 * Starts the simulated language model behind the OpenAI protocol. Its device is a model of a GPU; what it says is no language.
 * Rejects with OutOfMemoryError where weights and cache do not fit, or with the listen error; nothing is left then.
 */
export async function startLlmPredictor(
  settings: Settings,
  architecture: Decoder,
  ownGpus: readonly Gpu[] = [],
): Promise<RunningPredictor> {
  const { llm } = settings
  if (settings.gpu === undefined) throw new Error('a language model needs a GPU to emulate: set --gpu, e.g. --gpu L4')
  const gpu = findGpu(settings.gpu, ownGpus)
  const { precision, quantization, tensorParallel, maxSequences, maxBatchedTokens, maxModelLength: asked } = llm
  const memoryShare = (llm.gpuMemoryUtilization * settings.gpuMemoryPercent) / 100
  const { limits, maxModelLength, memoryMiB, stepMs } = llmServer(architecture, {
    gpu,
    precision,
    quantization,
    tensorParallel,
    maxSequences,
    maxBatchedTokens,
    maxModelLength: asked,
    memoryShare,
    queueLimit: settings.queueLimit,
  })
  const engine = new LlmEngine(limits, stepMs)
  const metrics = metricsOf(settings.model, engine, memoryMiB, tensorParallel)
  const described = `${gpu.name}${tensorParallel > 1 ? ` × ${tensorParallel}` : ''} (emulated)`
  const { server, drain } = createLlmServer(engine, {
    model: settings.model,
    device: described,
    maxModelLength,
    maxBodyBytes: Math.round(settings.maxBodyMiB * 2 ** 20),
    requestTimeoutS: settings.requestTimeoutS,
    prefixCaching: llm.prefixCaching,
    metrics: () => metrics.registry.metrics(),
    onAnswer: metrics.answered,
  })
  server.listen({ host: settings.host, port: settings.port, backlog: 4096 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  let stopped: Promise<void> | undefined
  const stop = async () => {
    drain()
    let limit: NodeJS.Timeout | undefined
    await Promise.race([
      engine.drained(),
      new Promise((resolve) => {
        limit = setTimeout(resolve, settings.drainTimeoutMs)
      }),
    ])
    clearTimeout(limit)
    engine.close()
    const closed = new Promise((resolve) => server.close(resolve))
    server.closeIdleConnections()
    const lastCall = setTimeout(() => server.closeAllConnections(), 500)
    await closed
    clearTimeout(lastCall)
  }
  return {
    url: `http://${settings.host.includes(':') ? `[${settings.host}]` : settings.host}:${port}`,
    port,
    model: settings.model,
    device: described,
    provenance: 'emulated',
    died: new Promise(() => {}),
    stop: () => {
      stopped ??= stop()
      return stopped
    },
  }
}

/** The names of the tensor predictor's metrics where they mean the same. */
function metricsOf(model: string, engine: LlmEngine, memoryMiB: number, gpus: number) {
  const registry = new Registry()
  const registers = [registry]
  const requests = new Counter({
    name: 'predictor_requests_total',
    help: 'Requests answered, by HTTP status',
    labelNames: ['model', 'status'],
    registers,
  })
  const readyAt = performance.now()
  const figures: readonly (readonly [name: string, help: string, value: () => number])[] = [
    ['predictor_batches_total', 'Steps done', () => engine.steps],
    ['predictor_items_total', 'Sequences over all steps; items / batches is the mean batch', () => engine.stepSequences],
    ['predictor_waiting', 'Sequences that wait', () => engine.scheduler.waiting],
    ['predictor_running', 'Sequences under way', () => engine.scheduler.running],
    ['predictor_cache_use', 'Share of the cache in use, 0-1', () => engine.scheduler.cacheUse],
    ['predictor_preemptions_total', 'Sequences that had to start over for want of cache', () => engine.scheduler.preemptions],
    ['predictor_prefix_hit_tokens_total', 'Prompt tokens found in the cache', () => engine.scheduler.prefixHitTokens],
    ['predictor_device_busy_seconds_total', 'Time that the emulated devices computed', () => (gpus * engine.busyMs) / 1000],
    ['predictor_device_memory_bytes', 'Memory used on the emulated devices', () => gpus * memoryMiB * 2 ** 20],
    ['predictor_devices', 'Emulated devices', () => gpus],
    ['predictor_ready_seconds', 'Time since ready', () => (performance.now() - readyAt) / 1000],
  ]
  for (const [name, help, value] of figures) {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value())
      },
    })
  }
  return { registry, answered: (status: number) => requests.inc({ model, status }) }
}
