/**
 * Servers of language models by stated versions: how each is started, and what is tuned in the
 * words of each. Trials and specs read the same.
 */
import { isMap, parseDocument } from 'yaml'
import { gpuCatalogue } from '../devices/catalogue.ts'
import type { SpeculativeMethod } from '../predictor/llm/speculative-methods.ts'
import type { Knobs } from './knobs.ts'
import { OwnSettings, SettingsFileError } from './own-settings.ts'
import { languageServers } from './server-kinds.ts'
import { draftFlags, draftsOf, needsDraftModel, told, trtllmDrafts } from './drafts.ts'

export type LanguageServer = (typeof languageServers)[number]
export const isLanguageServer = (name: string): name is LanguageServer =>
  (languageServers as readonly string[]).includes(name)

/**
 * 'org/name' or 'hf://org/name': servers of language models fetch it by themselves. Undefined for
 * anything else.
 */
export const hubName = (uri: string): string | undefined =>
  /^(?:hf:\/\/)?([\w.-]+\/[\w.-]+)$/.exec(uri)?.[1]

/** Without a value: a switch. */
type Flags = readonly (readonly [name: string, value?: string])[]
/** As it stands on a command line. */
export const flagText = ([name, value]: Flags[number]): string =>
  value === undefined ? `--${name}` : `--${name}=${value}`
type Setting = number | string | boolean
/** What a server reads in a file alone: names and values, or groups of them. */
type Options = Readonly<Record<string, Setting | Readonly<Record<string, Setting>>>>

/** GPUs that a server is given, and what holds where nothing of it was tuned. */
interface HeldGpus {
  readonly gpus: number
  /** Their name in the catalogue, where it is known. */
  readonly gpu?: string
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
  /**
   * On which address it listens where that is not every one by itself, and under which name it
   * serves.
   */
  readonly serves: (place: {
    readonly host?: string
    readonly port: number | string
    readonly model: string
  }) => readonly string[]
  /** What was tuned as its flags, without those that say what is served and where. */
  readonly flags: (knobs: Knobs, held: HeldGpus) => Flags
  /** What has no flag: the file of it, and the flag that names that file. */
  readonly file?: {
    readonly name: string
    readonly flag: string
    /** What was tuned. */
    readonly options: (knobs: Knobs, held: HeldGpus) => Options
    /** What holds where neither the user's own file nor the tuning says otherwise. */
    readonly usual: Options
    /** Where an option stands whose flag a group of the file takes the place of. */
    readonly grouped: Readonly<Record<string, readonly [group: string, option: string]>>
  }
  /** Methods of speculative decoding that it has. */
  readonly drafts: Readonly<Partial<Record<SpeculativeMethod, unknown>>>
  /** It calls its model by the folder of the weights, or their name on the Hub, and by no other. */
  readonly namesByFolder?: true
  /** Where it counts for Prometheus, where that is not /metrics. */
  readonly metricsPath?: string
}

/** What servers call the tokens of prompt and answer together. */
export const sequenceNames = [
  'maxModelLen',
  'contextLength',
  'maxTotalTokens',
  'maxSeqLen',
  'sequenceLength',
] as const

/** Tokens of prompt and answer together; undefined where that was not tuned. */
export const longestSequence = (knobs: Knobs): number | undefined => knobs.number(...sequenceNames)

/**
 * What they have in common: how many at once, tokens of a step, share of the GPU, longest sequence,
 * GPUs, types.
 */
function tuned(knobs: Knobs, { gpus, share, length }: HeldGpus) {
  const cache = knobs.value('kvCacheDtype')
  const stages = knobs.number('pipelineParallelSize', 'ppSize')
  const copies = knobs.number('dataParallelSize', 'dpSize')
  // What is left of the GPUs for one copy of a stage.
  const split = Math.max(1, Math.floor(gpus / ((stages ?? 1) * (copies ?? 1))))
  return {
    sequences: knobs.number('maxNumSeqs', 'maxRunningRequests', 'batchSize', 'maxBatchSize'),
    tokens: knobs.number(
      'maxNumBatchedTokens',
      'chunkedPrefillSize',
      'maxBatchPrefillTokens',
      'maxNumTokens',
    ),
    memory:
      knobs.number(
        'gpuMemoryUtilization',
        'memFractionStatic',
        'cudaMemoryFraction',
        'freeGpuMemoryFraction',
        'kvCacheFreeGpuMemoryFraction',
      ) ?? share,
    length: longestSequence(knobs) ?? length,
    gpus:
      knobs.number('tensorParallelSize', 'tpSize', 'numShard') ?? (split > 1 ? split : undefined),
    stages,
    copies,
    dtype: dtypeOf(knobs.value('dtype', 'precision')),
    cache: cache === undefined || cache === 'auto' ? undefined : String(cache),
  }
}

/** Whether something was switched on or off; undefined where it was not tuned. */
function switched(knobs: Knobs, name: string): boolean | undefined {
  const value = knobs.value(name)
  return value === undefined ? undefined : !['off', 'false', '0'].includes(String(value))
}

/** Of what the server makes of 16-bit weights as it loads, or is told that they are. */
function quantizationOf(knobs: Knobs): string | undefined {
  const quantization = knobs.value('quantization', 'quantize')
  return quantization === undefined || quantization === 'none' ? undefined : String(quantization)
}

/** Where Marlin's kernels of 4-bit weights run. */
const marlinGenerations: readonly string[] = ['Ampere', 'Ada', 'Hopper', 'Blackwell']

/**
 * vLLM and SGLang take `awq` and `gptq` for an order to use the kernels of those names, many times
 * slower than Marlin's (override_quantization_method of their awq_marlin.py and gptq_marlin.py),
 * which are what is modelled.
 */
function kernelsOf(knobs: Knobs, { gpu }: HeldGpus): string | undefined {
  const quantization = quantizationOf(knobs)
  if (quantization !== 'awq' && quantization !== 'gptq') return quantization
  const generation = gpuCatalogue.find(({ name }) => name === gpu)?.generation
  return generation !== undefined && marlinGenerations.includes(generation)
    ? `${quantization}_marlin`
    : quantization
}

/** vLLM's name of the cache's type in the words of a server that has others. */
const cacheWord = <T extends string | undefined>(
  words: Readonly<Record<string, string>>,
  cache: T,
) => (cache === undefined ? cache : (words[cache] ?? cache))

const given = (flags: readonly (readonly [string, number | string | undefined])[]): Flags =>
  flags.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)] as const]))

/** A switch of argparse's BooleanOptionalAction. */
const onOff = (name: string, on: boolean | undefined): Flags =>
  on === undefined ? [] : [[on ? name : `no-${name}`]]

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
      const { sequences, tokens, memory, length, gpus, stages, copies, dtype, cache } = tuned(
        knobs,
        held,
      )
      return [
        ...given([
          ['max-num-seqs', sequences],
          ['max-num-batched-tokens', tokens],
          ['gpu-memory-utilization', memory],
          ['max-model-len', length],
          ['tensor-parallel-size', gpus],
          ['pipeline-parallel-size', stages],
          ['data-parallel-size', copies],
          ['quantization', kernelsOf(knobs, held)],
          ['dtype', dtype],
          ['kv-cache-dtype', cache],
          ...(told(draftFlags.vllm, draftsOf(knobs)) ?? []),
        ]),
        ...onOff('enable-prefix-caching', switched(knobs, 'enablePrefixCaching')),
        ...onOff('enable-chunked-prefill', switched(knobs, 'enableChunkedPrefill')),
      ]
    },
    drafts: draftFlags.vllm,
  },
  sglang: {
    image: 'lmsysorg/sglang:v0.5.4',
    install: "pip install 'sglang==0.5.4'",
    command: (weights) => ['python3', '-m', 'sglang.launch_server', `--model-path=${weights}`],
    serves: ({ host = '0.0.0.0', port, model }) => [
      `--host=${host}`,
      `--port=${port}`,
      `--served-model-name=${model}`,
      '--enable-metrics',
    ],
    flags: (knobs, held) => {
      const { sequences, tokens, memory, length, gpus, stages, copies, dtype, cache } = tuned(
        knobs,
        held,
      )
      return [
        ...given([
          ['max-running-requests', sequences],
          ['chunked-prefill-size', switched(knobs, 'enableChunkedPrefill') === false ? -1 : tokens],
          ['mem-fraction-static', memory],
          ['context-length', length],
          ['tp-size', gpus],
          ['pp-size', stages],
          ['dp-size', copies],
          ['quantization', kernelsOf(knobs, held)],
          ['dtype', dtype],
          ['kv-cache-dtype', cacheWord({ fp8: 'fp8_e4m3' }, cache)],
          ...(told(draftFlags.sglang, draftsOf(knobs)) ?? []),
        ]),
        ...(switched(knobs, 'enablePrefixCaching') === false
          ? ([['disable-radix-cache']] as const)
          : []),
      ]
    },
    drafts: draftFlags.sglang,
  },
  tgi: {
    image: 'ghcr.io/huggingface/text-generation-inference:3.3.6',
    install:
      'text-generation-inference 3.3.6 has no package: build it from its sources, or run tune in its image',
    command: (weights) => ['text-generation-launcher', `--model-id=${weights}`],
    serves: ({ host = '0.0.0.0', port, model }) => [
      `--hostname=${host}`,
      `--port=${port}`,
      `--served-model-name=${model}`,
    ],
    flags: (knobs, held) => {
      const { sequences, tokens, memory, length, gpus, dtype, cache } = tuned(knobs, held)
      const quantization = quantizationOf(knobs)
      return given([
        ['max-batch-size', sequences],
        ['max-batch-prefill-tokens', tokens],
        ['cuda-memory-fraction', memory],
        ['max-total-tokens', length],
        ['num-shard', gpus],
        // Its dtype is one of two, and not to be said beside a quantisation.
        quantization === undefined
          ? ['dtype', dtype === 'float32' || dtype === 'auto' ? undefined : dtype]
          : ['quantize', quantization],
        ['kv-cache-dtype', cacheWord({ fp8: 'fp8_e4m3fn', fp8_e4m3: 'fp8_e4m3fn' }, cache)],
        ...(told(draftFlags.tgi, draftsOf(knobs)) ?? []),
      ])
    },
    drafts: draftFlags.tgi,
  },
  'tensorrt-llm': {
    image: 'nvcr.io/nvidia/tensorrt-llm/release:1.2.1',
    install:
      'pip install tensorrt_llm==1.2.1 (it needs CUDA 13 and OpenMPI), or run tune in its image',
    command: (weights) => ['trtllm-serve', 'serve', weights],
    // It answers to any name.
    serves: ({ host = '0.0.0.0', port }) => [`--host=${host}`, `--port=${port}`],
    // Weights are quantised before: their files say how.
    flags: (knobs, held) => {
      const { sequences, tokens, memory, length, gpus, stages } = tuned(knobs, held)
      return given([
        ['max_batch_size', sequences],
        ['max_num_tokens', tokens],
        ['kv_cache_free_gpu_memory_fraction', memory],
        ['max_seq_len', length],
        ['tp_size', gpus],
        ['pp_size', stages],
      ])
    },
    file: {
      name: 'trtllm.yaml',
      flag: 'extra_llm_api_options',
      options: (knobs, held) => {
        const { memory, dtype, cache } = tuned(knobs, held)
        const reuse = switched(knobs, 'enablePrefixCaching')
        const chunked = switched(knobs, 'enableChunkedPrefill')
        return {
          ...(chunked !== undefined && { enable_chunked_prefill: chunked }),
          ...(dtype !== undefined && { dtype }),
          ...((cache !== undefined || reuse !== undefined) && {
            kv_cache_config: {
              ...(cache !== undefined && { dtype: cacheWord({ fp8_e4m3: 'fp8' }, cache) }),
              ...(reuse !== undefined && { enable_block_reuse: reuse }),
              // In some versions a group of the file takes the place of all that flags say of it.
              ...(memory !== undefined && { free_gpu_memory_fraction: memory }),
            },
          }),
          ...told(trtllmDrafts, draftsOf(knobs)),
        }
      },
      usual: {
        // Without it a prompt of more tokens than a step has is refused.
        enable_chunked_prefill: true,
        // Without it nothing is counted for Prometheus.
        return_perf_metrics: true,
      },
      grouped: {
        kv_cache_free_gpu_memory_fraction: ['kv_cache_config', 'free_gpu_memory_fraction'],
      },
    },
    drafts: trtllmDrafts,
    namesByFolder: true,
    metricsPath: '/prometheus/metrics',
  },
}

/**
 * What was tuned as a server takes it: its arguments, and the file that it reads, if any, below a
 * folder.
 * @param folder where the file will lie
 */
export function tunedStart(
  server: LanguageServer,
  knobs: Knobs,
  held: HeldGpus,
  folder: string,
  own = new OwnSettings(),
) {
  const { flags, file } = languagePrograms[server]
  const set = flags(knobs, held)
  if (file === undefined) return { args: set.map(flagText), files: [], replaced: [] }
  const args = [...set, [file.flag, `${folder}/${file.name}`] as const].map(flagText)
  const options = file.options(knobs, held)
  const given = own.file(`--${file.flag}`)
  const contents = given
    ? mergeYaml(given, set, options, file)
    : yamlOf({ ...file.usual, ...options })
  return { args, files: [{ path: file.name, contents }], replaced: [`--${file.flag}`] }
}

/**
 * The user's file with the tuned options set. What stands in it of the flags is set there too: it
 * goes before them.
 * @throws SettingsFileError
 */
function mergeYaml(
  { path, text }: { readonly path: string; readonly text: string },
  flags: Flags,
  options: Options,
  { usual, grouped }: Pick<NonNullable<LanguageProgram['file']>, 'usual' | 'grouped'>,
): string {
  const document = parseDocument(text)
  const [fault] = document.errors
  if (fault !== undefined || !(document.contents === null || isMap(document.contents)))
    throw new SettingsFileError(`${path} is not a YAML mapping: ${fault?.message ?? text}`)
  for (const [name, text] of flags) {
    const value = text === undefined ? true : asNumber(text)
    if (document.has(name)) document.set(name, value)
    const [group, option] = grouped[name] ?? []
    if (group !== undefined && isMap(document.get(group))) document.setIn([group, option], value)
  }
  for (const [name, value] of Object.entries(usual))
    if (!document.has(name)) document.set(name, value)
  for (const [name, value] of Object.entries(options)) {
    if (typeof value !== 'object') {
      document.set(name, value)
      continue
    }
    if (document.has(name) && !isMap(document.get(name)))
      throw new SettingsFileError(`${path}: ${name} is not a mapping`)
    for (const [inner, each] of Object.entries(value)) document.setIn([name, inner], each)
  }
  return document.toString({ lineWidth: 0 })
}

const asNumber = (text: string): string | number =>
  text !== '' && Number.isFinite(Number(text)) ? Number(text) : text

/** Why a server cannot draft as it was tuned, and what to do; undefined where it can. */
export function draftsFault(
  server: LanguageServer,
  method: string,
  model: string | undefined,
): { readonly what: string; readonly hint: string } | undefined {
  const methods = Object.keys(languagePrograms[server].drafts)
  if (!methods.includes(method))
    return {
      what: `${server} does not support speculativeMethod ${method}`,
      hint: `use ${methods.join(' or ')}, or another server`,
    }
  if (needsDraftModel(method) && model === undefined)
    return {
      what: `speculativeMethod ${method} needs a draft model`,
      hint: 'pin its name on the Hub, or its folder: speculativeModel: ORG/NAME',
    }
  return undefined
}

/** Two levels of YAML; a text as JSON has it, which is one of its forms. */
const yamlOf = (options: Options): string =>
  Object.entries(options)
    .map(([name, value]) => {
      if (typeof value !== 'object') return `${name}: ${JSON.stringify(value)}\n`
      return `${name}:\n${Object.entries(value)
        .map(([inner, each]) => `  ${inner}: ${JSON.stringify(each)}\n`)
        .join('')}`
    })
    .join('')

function dtypeOf(precision: number | string | undefined): string | undefined {
  return precision === undefined
    ? undefined
    : ({ fp16: 'float16', bf16: 'bfloat16', fp32: 'float32' }[String(precision)] ?? 'auto')
}
