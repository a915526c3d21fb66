/** A language model that is computed: a GGUF file in llama.cpp. */
import { cpus } from 'node:os'
import type { RunningPredictor } from '../../running-predictor.ts'
import type { Settings } from '../../settings.ts'
import { serveCompletions } from '../serve-completions.ts'
import { GgufEngine } from './gguf-engine.ts'
import { type Llama, openContext, openModel, startLlama } from './llama-binding.ts'

/**
 * Starts a GGUF file's language model behind the OpenAI protocol, on CPU or, where a GPU is asked
 * for, on the GPU that llama.cpp finds. Rejects with OutOfMemoryError if weights and the cache
 * of all sequences do not fit, ModelError, the listen error, or Error where node-llama-cpp is
 * missing; nothing is left then.
 */
export async function startGgufPredictor(settings: Settings): Promise<RunningPredictor> {
  const { gpu, cpuThreads } = settings
  const llama = await startLlama({ gpu: gpu !== undefined, threads: cpuThreads })
  try {
    return await serve(llama, settings)
  } catch (error) {
    await llama.dispose()
    throw error
  }
}

async function serve(llama: Llama, settings: Settings): Promise<RunningPredictor> {
  const { llm, gpu, cpuThreads } = settings
  const model = await openModel(
    llama,
    settings.modelPath,
    gpu === undefined ? 0 : (llm.gpuLayers ?? 'max'),
  )
  const maxModelLength = Math.min(llm.maxModelLength, model.trainContextSize)
  const kvCache = llm.kvCacheType.toUpperCase()
  const context = await openContext(model, {
    contextSize: maxModelLength,
    sequences: llm.maxSequences,
    batchSize: llm.maxBatchedTokens,
    threads: cpuThreads,
    flashAttention: llm.flashAttention === 'auto' ? 'auto' : llm.flashAttention === 'on',
    experimentalKvCacheKeyType: kvCache,
    experimentalKvCacheValueType: kvCache,
    failedCreationRemedy: false,
  })
  const sequences = Array.from({ length: llm.maxSequences }, () => context.getSequence())
  const where =
    gpu === undefined
      ? `${cpus()[0]?.model.trim() || 'CPU'}, ${describeThreads(cpuThreads)}`
      : `${gpu}, ${model.gpuLayers} layers`
  const engine = new GgufEngine(model, sequences, {
    device: `${where} (llama.cpp${llama.gpu === false ? '' : `, ${llama.gpu}`})`,
    maxModelLength,
    batchSize: llm.maxBatchedTokens,
    queueLimit: settings.queueLimit,
    prefixCaching: llm.prefixCaching,
    dispose: () => llama.dispose(),
  })
  const memoryBytes =
    gpu === undefined
      ? () => process.memoryUsage.rss()
      : () => model.memoryUsage.vram + context.memoryUsage.vram
  return serveCompletions(engine, settings, [
    ['predictor_batches_total', 'Engine steps', () => engine.steps],
    [
      'predictor_items_total',
      'Sequences summed over all steps; items / batches is the mean batch',
      () => engine.stepSequences,
    ],
    ['predictor_waiting', 'Waiting sequences', () => engine.waiting],
    ['predictor_running', 'Running sequences', () => engine.running],
    ['predictor_cache_use', 'Share of the cache that holds tokens, 0-1', () => engine.cacheUse],
    [
      'predictor_prefix_hit_tokens_total',
      'Prompt tokens found in the cache',
      () => engine.prefixHitTokens,
    ],
    [
      'predictor_device_busy_seconds_total',
      'Time with at least one running sequence',
      () => engine.busyMs / 1000,
    ],
    [
      'predictor_device_memory_bytes',
      'Device memory of weights, cache and buffers; on CPU, memory of the process',
      memoryBytes,
    ],
    ['predictor_devices', 'Devices', () => 1],
  ])
}

const describeThreads = (threads: number) => `${threads} thread${threads === 1 ? '' : 's'}`
