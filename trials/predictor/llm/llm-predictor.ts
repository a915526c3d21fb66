/** A language model that is emulated: real requests, modelled step times. */
import { splitWords } from '../../../profiler/protocols/tokenizer.ts'
import type { Decoder } from '../../devices/architecture.ts'
import { findGpu } from '../../devices/catalogue.ts'
import type { CustomDevices } from '../../devices/custom-devices.ts'
import type { RunningPredictor } from '../running-predictor.ts'
import type { Settings } from '../settings.ts'
import type { Completion, CompletionEngine } from './completion-engine.ts'
import { LlmEngine } from './llm-engine.ts'
import { computePrefixHashes } from './prompt.ts'
import type { Sequence } from './scheduler.ts'
import { serveCompletions } from './serve-completions.ts'
import { planLlmServer, planSpeculation } from './serving-limits.ts'

/**
 * Starts the simulated language model behind the OpenAI protocol. Its device is a model of a GPU;
 * its text is meaningless. Rejects with OutOfMemoryError if weights and cache do not fit, or with
 * the listen error, after cleaning up.
 */
export async function startLlmPredictor(
  settings: Settings,
  architecture: Decoder,
  own: CustomDevices,
): Promise<RunningPredictor> {
  const { llm } = settings
  if (settings.gpu === undefined)
    throw new Error('a language model needs a GPU to emulate: set --gpu, e.g. --gpu L4')
  const gpu = findGpu(settings.gpu, own.gpus)
  const {
    precision,
    quantization,
    kvCacheDtype,
    speculative,
    engine: emulated,
    tensorParallel,
    maxSequences,
    maxBatchedTokens,
    maxModelLength: requestedModelLength,
  } = llm
  const speculation = planSpeculation(speculative, architecture, own.architectures)
  const memoryShare = (llm.gpuMemoryUtilization * settings.gpuMemoryPercent) / 100
  const { limits, maxModelLength, memoryMiB, stepMs, hostMs } = planLlmServer(architecture, {
    engine: emulated,
    gpu,
    precision,
    quantization,
    kvCacheDtype,
    tensorParallel,
    maxSequences,
    maxBatchedTokens,
    maxModelLength: requestedModelLength,
    memoryShare,
    queueLimit: settings.queueLimit,
    prefixCaching: llm.prefixCaching,
    speculation,
  })
  const engine = new LlmEngine(limits, stepMs, hostMs)
  const scheduler = engine.scheduler
  const drafts =
    speculation === undefined
      ? ''
      : `; ${speculation.tokens} tokens drafted, acceptance ${speculation.acceptance} assumed`
  const described = `${gpu.name}${tensorParallel > 1 ? ` × ${tensorParallel}` : ''} (emulated${drafts})`
  return serveCompletions(
    new EmulatedCompletions(engine, described, maxModelLength, llm.prefixCaching),
    settings,
    [
      ['predictor_batches_total', 'Engine steps', () => engine.steps],
      [
        'predictor_items_total',
        'Sequences summed over all steps; items / batches is the mean batch',
        () => engine.stepSequences,
      ],
      ['predictor_waiting', 'Waiting sequences', () => scheduler.waiting],
      ['predictor_running', 'Running sequences', () => scheduler.running],
      ['predictor_cache_use', 'Share of the cache in use, 0-1', () => scheduler.cacheUse],
      [
        'predictor_preemptions_total',
        'Sequences preempted because the cache was full',
        () => scheduler.preemptions,
      ],
      [
        'predictor_accepted_draft_tokens_total',
        'Accepted draft tokens',
        () => scheduler.acceptedTokens,
      ],
      [
        'predictor_draftings_total',
        'Drafting steps, counted once per sequence',
        () => scheduler.draftings,
      ],
      [
        'predictor_prefix_hit_tokens_total',
        'Prompt tokens found in the cache',
        () => scheduler.prefixHitTokens,
      ],
      [
        'predictor_device_busy_seconds_total',
        'Busy time of the emulated devices',
        () => (tensorParallel * engine.busyMs) / 1000,
      ],
      [
        'predictor_device_memory_bytes',
        'Memory used on the emulated devices',
        () => tensorParallel * memoryMiB * 2 ** 20,
      ],
      ['predictor_devices', 'Emulated devices', () => tensorParallel],
    ],
  )
}

const vocabulary = [
  'the',
  'server',
  'answers',
  'with',
  'words',
  'that',
  'nobody',
  'computed',
  'for',
  'they',
  'are',
  'emulated',
]

/** A token is a word here, and answers always have the requested length. */
class EmulatedCompletions implements CompletionEngine<readonly string[]> {
  readonly provenance = 'emulated'

  constructor(
    private readonly engine: LlmEngine,
    readonly device: string,
    readonly maxModelLength: number,
    private readonly prefixCaching: boolean,
  ) {}

  read(text: string): readonly string[] {
    return splitWords(text)
  }

  add(words: readonly string[], { maxTokens, token }: Completion): (() => void) | undefined {
    let told = 0
    const sequence: Sequence = {
      promptTokens: words.length,
      outputTokens: maxTokens,
      prefix: this.prefixCaching ? computePrefixHashes(words) : [],
      token: (index, last) => {
        // One piece of all that a step made.
        const since = Array.from(
          { length: index + 1 - told },
          (_, i) => vocabulary[(told + i) % vocabulary.length],
        )
        const before = told === 0 ? '' : ' '
        told = index + 1
        token(before + since.join(' '), last ? 'length' : undefined, since.length)
      },
    }
    return this.engine.add(sequence) ? () => this.engine.remove(sequence) : undefined
  }

  waitUntilIdle(): Promise<void> {
    return this.engine.waitUntilIdle()
  }

  close(): void {
    this.engine.close()
  }
}
