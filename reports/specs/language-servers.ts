/** Servers of language models: their images, command lines, and what was tuned in the words of each. */
import { Knobs, unusedNote } from '../../trials/launchers/server-files/knobs.ts'
import { weightsToFill } from '../../trials/predictor/weights-to-fill.ts'
import type { LanguageServer } from '../figures.ts'
import { weightsPlace } from './model-storage.ts'
import type { Container, Serving, WholeContainer } from './serving.ts'

const port = 8000

type Flags = readonly (readonly [string, string])[]

interface Server {
  readonly image: string
  /** With the place of the weights in it. */
  readonly command: (weights: string) => readonly string[]
  /** Where it listens, under which name it serves, and that it counts, where it does not by itself. */
  readonly args: (model: string) => readonly string[]
  readonly requestsMetric: string
  /** What was tuned as its flags, without those that say what is served and where. */
  readonly flags: (knobs: Knobs, serving: Serving) => Flags
}

/** What they have in common: how many at once, tokens of a step, share of the GPU, longest sequence, GPUs. */
function tuned(knobs: Knobs, { resources: { gpu, gpuShare, gpus } }: Serving) {
  const quantization = knobs.value('quantization', 'quantize')
  return {
    sequences: knobs.number('maxNumSeqs', 'maxRunningRequests', 'batchSize', 'maxBatchSize'),
    tokens: knobs.number('maxNumBatchedTokens', 'chunkedPrefillSize', 'maxBatchPrefillTokens'),
    memory: knobs.number('gpuMemoryUtilization', 'memFractionStatic', 'cudaMemoryFraction') ?? (gpu && gpuShare < 1 ? gpuShare : undefined),
    length: knobs.number('maxModelLen', 'contextLength', 'maxTotalTokens', 'sequenceLength'),
    gpus: knobs.number('tensorParallelSize', 'tpSize', 'numShard') ?? (gpus > 1 ? gpus : undefined),
    quantization: quantization === undefined || quantization === 'none' ? undefined : String(quantization),
    dtype: dtypeOf(knobs.value('dtype', 'precision')),
  }
}

const given = (flags: readonly (readonly [string, number | string | undefined])[]): Flags =>
  flags.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const]))

const servers: Readonly<Record<LanguageServer, Server>> = {
  vllm: {
    // Its command line is the one that was modelled.
    image: 'vllm/vllm-openai:v0.11.0',
    command: (weights) => ['vllm', 'serve', weights],
    args: (model) => [`--port=${port}`, `--served-model-name=${model}`],
    requestsMetric: 'vllm:request_success_total',
    flags: (knobs, serving) => {
      const { sequences, tokens, memory, length, gpus, quantization, dtype } = tuned(knobs, serving)
      return given([
        ['max-num-seqs', sequences],
        ['max-num-batched-tokens', tokens],
        ['gpu-memory-utilization', memory],
        ['max-model-len', length],
        ['tensor-parallel-size', gpus],
        ['quantization', quantization],
        ['dtype', dtype],
      ])
    },
  },
  sglang: {
    image: 'lmsysorg/sglang:v0.5.4',
    command: (weights) => ['python3', '-m', 'sglang.launch_server', `--model-path=${weights}`],
    args: (model) => ['--host=0.0.0.0', `--port=${port}`, `--served-model-name=${model}`, '--enable-metrics'],
    requestsMetric: 'sglang:e2e_request_latency_seconds_count',
    flags: (knobs, serving) => {
      const { sequences, tokens, memory, length, gpus, quantization, dtype } = tuned(knobs, serving)
      return given([
        ['max-running-requests', sequences],
        ['chunked-prefill-size', tokens],
        ['mem-fraction-static', memory],
        ['context-length', length],
        ['tp-size', gpus],
        ['quantization', quantization],
        ['dtype', dtype],
      ])
    },
  },
  tgi: {
    image: 'ghcr.io/huggingface/text-generation-inference:3.3.6',
    command: (weights) => ['text-generation-launcher', `--model-id=${weights}`],
    args: (model) => ['--hostname=0.0.0.0', `--port=${port}`, `--served-model-name=${model}`],
    requestsMetric: 'tgi_request_success',
    flags: (knobs, serving) => {
      const { sequences, tokens, memory, length, gpus, quantization, dtype } = tuned(knobs, serving)
      return given([
        ['max-batch-size', sequences],
        ['max-batch-prefill-tokens', tokens],
        ['cuda-memory-fraction', memory],
        ['max-total-tokens', length],
        ['num-shard', gpus],
        // Its dtype is one of two, and not to be said beside a quantisation.
        quantization === undefined ? ['dtype', dtype === 'float32' || dtype === 'auto' ? undefined : dtype] : ['quantize', quantization],
      ])
    },
  },
}

/** What was tuned as the server's flags. */
export const languageFlags = (server: LanguageServer, knobs: Knobs, serving: Serving): Flags => servers[server].flags(knobs, serving)

/** The container before its flags: the user names the weights, or a placeholder stands for them. */
export function languageContainer(server: LanguageServer, model: string, modelUri: string | undefined): Container {
  const { image, command, args, requestsMetric } = servers[server]
  const weights = modelUri === undefined ? weightsToFill : weightsPlace(modelUri, server)
  return { image, command: command(weights), args: args(model), port, readyPath: '/health', requestsMetric }
}

/** With what was tuned. */
export function wholeLanguageContainer(server: LanguageServer, serving: Serving): WholeContainer {
  const { container, configuration } = serving
  const knobs = new Knobs(configuration)
  const flags = languageFlags(server, knobs, serving).map(([name, value]) => `--${name}=${value}`)
  const notes = [...(container.notes ?? []), ...unusedNote(knobs)]
  return { ...container, args: [...(container.args ?? []), ...flags], notes, sharedMemory: true }
}

function dtypeOf(precision: number | string | undefined): string | undefined {
  return precision === undefined ? undefined : ({ fp16: 'float16', bf16: 'bfloat16', fp32: 'float32' }[String(precision)] ?? 'auto')
}
