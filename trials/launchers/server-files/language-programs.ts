/** Servers of language models by stated versions: how each is started, and what is tuned in the words of each. Trials and specs read the same. */
import type { Knobs } from './knobs.ts'

/** They fetch the Hub's models by themselves. */
export const languageServers = ['vllm', 'sglang', 'tgi'] as const
export type LanguageServer = (typeof languageServers)[number]
export const isLanguageServer = (name: string): name is LanguageServer => (languageServers as readonly string[]).includes(name)

/** 'org/name' or 'hf://org/name': servers of language models fetch it by themselves. Undefined for anything else. */
export const hubName = (uri: string): string | undefined => /^(?:hf:\/\/)?([\w.-]+\/[\w.-]+)$/.exec(uri)?.[1]

type Flags = readonly (readonly [string, string])[]

/** GPUs that a server is given, and what holds where nothing of it was tuned. */
interface HeldGpus {
  readonly gpus: number
  /** Of each one's memory, 0-1; absent: all of it, or no GPU. */
  readonly share?: number
  /** Longest sequence, prompt and answer; absent: the model's own. */
  readonly length?: number
}

interface LanguageProgram {
  /** Of the version whose arguments these are. */
  readonly image: string
  /** What brings that version's program to a machine. */
  readonly install: string
  /** With the place of the weights in it. */
  readonly command: (weights: string) => readonly string[]
  /** On which address it listens where that is not every one by itself, and under which name it serves. */
  readonly serves: (place: { readonly host?: string; readonly port: number | string; readonly model: string }) => readonly string[]
  /** What was tuned as its flags, without those that say what is served and where. */
  readonly flags: (knobs: Knobs, held: HeldGpus) => Flags
}

/** What servers call the tokens of prompt and answer together. */
export const sequenceNames = ['maxModelLen', 'contextLength', 'maxTotalTokens', 'sequenceLength'] as const

/** Tokens of prompt and answer together; undefined where that was not tuned. */
export const longestSequence = (knobs: Knobs): number | undefined => knobs.number(...sequenceNames)

/** What they have in common: how many at once, tokens of a step, share of the GPU, longest sequence, GPUs, types. */
function tuned(knobs: Knobs, { gpus, share, length }: HeldGpus) {
  const quantization = knobs.value('quantization', 'quantize')
  const cache = knobs.value('kvCacheDtype')
  return {
    sequences: knobs.number('maxNumSeqs', 'maxRunningRequests', 'batchSize', 'maxBatchSize'),
    tokens: knobs.number('maxNumBatchedTokens', 'chunkedPrefillSize', 'maxBatchPrefillTokens'),
    memory: knobs.number('gpuMemoryUtilization', 'memFractionStatic', 'cudaMemoryFraction') ?? share,
    length: longestSequence(knobs) ?? length,
    gpus: knobs.number('tensorParallelSize', 'tpSize', 'numShard') ?? (gpus > 1 ? gpus : undefined),
    quantization: quantization === undefined || quantization === 'none' ? undefined : String(quantization),
    dtype: dtypeOf(knobs.value('dtype', 'precision')),
    cache: cache === undefined || cache === 'auto' ? undefined : String(cache),
  }
}

const given = (flags: readonly (readonly [string, number | string | undefined])[]): Flags =>
  flags.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const]))

export const languagePrograms: Readonly<Record<LanguageServer, LanguageProgram>> = {
  vllm: {
    // Its command line is the one that was modelled.
    image: 'vllm/vllm-openai:v0.11.0',
    install: 'pip install vllm==0.11.0',
    command: (weights) => ['vllm', 'serve', weights],
    serves: ({ host, port, model }) => [
      ...(host === undefined ? [] : [`--host=${host}`]),
      `--port=${port}`,
      `--served-model-name=${model}`,
    ],
    flags: (knobs, held) => {
      const { sequences, tokens, memory, length, gpus, quantization, dtype, cache } = tuned(knobs, held)
      return given([
        ['max-num-seqs', sequences],
        ['max-num-batched-tokens', tokens],
        ['gpu-memory-utilization', memory],
        ['max-model-len', length],
        ['tensor-parallel-size', gpus],
        ['quantization', quantization],
        ['dtype', dtype],
        ['kv-cache-dtype', cache],
      ])
    },
  },
  sglang: {
    image: 'lmsysorg/sglang:v0.5.4',
    install: "pip install 'sglang==0.5.4'",
    command: (weights) => ['python3', '-m', 'sglang.launch_server', `--model-path=${weights}`],
    serves: ({ host = '0.0.0.0', port, model }) => [`--host=${host}`, `--port=${port}`, `--served-model-name=${model}`, '--enable-metrics'],
    flags: (knobs, held) => {
      const { sequences, tokens, memory, length, gpus, quantization, dtype, cache } = tuned(knobs, held)
      return given([
        ['max-running-requests', sequences],
        ['chunked-prefill-size', tokens],
        ['mem-fraction-static', memory],
        ['context-length', length],
        ['tp-size', gpus],
        ['quantization', quantization],
        ['dtype', dtype],
        ['kv-cache-dtype', cache],
      ])
    },
  },
  tgi: {
    image: 'ghcr.io/huggingface/text-generation-inference:3.3.6',
    install: 'text-generation-inference 3.3.6 has no package: build it from its sources, or run tune in its image',
    command: (weights) => ['text-generation-launcher', `--model-id=${weights}`],
    serves: ({ host = '0.0.0.0', port, model }) => [`--hostname=${host}`, `--port=${port}`, `--served-model-name=${model}`],
    flags: (knobs, held) => {
      const { sequences, tokens, memory, length, gpus, quantization, dtype, cache } = tuned(knobs, held)
      return given([
        ['max-batch-size', sequences],
        ['max-batch-prefill-tokens', tokens],
        ['cuda-memory-fraction', memory],
        ['max-total-tokens', length],
        ['num-shard', gpus],
        // Its dtype is one of two, and not to be said beside a quantisation.
        quantization === undefined ? ['dtype', dtype === 'float32' || dtype === 'auto' ? undefined : dtype] : ['quantize', quantization],
        ['kv-cache-dtype', cache],
      ])
    },
  },
}

function dtypeOf(precision: number | string | undefined): string | undefined {
  return precision === undefined ? undefined : ({ fp16: 'float16', bf16: 'bfloat16', fp32: 'float32' }[String(precision)] ?? 'auto')
}
