/**
 * GPUs and architectures of the user's own, in YAML (or JSON: a Hugging Face config.json is read as
 * it is).
 */
import { z } from 'zod'
import { readText } from '../../profiler/bounded-reader.ts'
import { parseYaml } from '../yaml.ts'
import type { Architecture } from './architecture.ts'
import type { Gpu } from './catalogue.ts'
import { processOf } from './device-physics.ts'
import { isOnnxFile } from './onnx/graph-architecture.ts'
import { readGraphArchitecture } from './onnx/graph-file.ts'

/**
 * What a user knows beside the catalogue and the architectures by name. Plain data: it crosses
 * process boundaries.
 */
export interface OwnDevices {
  readonly gpus: readonly Gpu[]
  readonly architectures: readonly Architecture[]
}

const positive = z.number('expected a number').positive('expected a number above 0')
const whole = z.int('expected a whole number').positive('expected a whole number above 0')

const gpuSchema = z.strictObject({
  memoryGiB: positive,
  bandwidthGBs: positive,
  peakTflops: z.strictObject(
    {
      fp32: positive,
      tf32: positive.optional(),
      fp16: positive.optional(),
      bf16: positive.optional(),
      int8: positive.optional(),
      fp8: positive.optional(),
    },
    {
      error: ({ code }) =>
        code === 'invalid_type'
          ? 'expected the dense TFLOP/s of each precision: { fp32: 20, fp16: 80 }'
          : undefined,
    },
  ),
  generation: z.string().optional(),
  multiprocessors: whole.optional(),
  boostMhz: positive.optional(),
  l2MiB: positive.optional(),
  tdpWatts: positive.optional(),
  aliases: z.array(z.string()).default([]),
})

/**
 * Reads `NAME: { memoryGiB, bandwidthGBs, peakTflops: { fp32, fp16, ... } }`; what is left out gets
 * the figures of a GPU of its size today.
 * @throws YamlFileError naming every problem with its line
 */
export function parseGpus(text: string, fileName: string): Gpu[] {
  const read = parseYaml(text, fileName, z.record(z.string(), gpuSchema))
  return Object.entries(read).map(([name, gpu]) => completed(name, gpu))
}

/** What a datasheet must tell; the rest may be guessed. */
type Datasheet = Pick<Gpu, 'memoryGiB' | 'bandwidthGBs' | 'peakTflops'> &
  Partial<Omit<Gpu, 'name' | 'bare'>>

/** A GPU of which some figures are those of a GPU of its size. */
export function completed(name: string, sheet: Datasheet): Gpu {
  const { multiprocessors, boostMhz, l2MiB, tdpWatts, peakTflops } = sheet
  const bare = [multiprocessors, boostMhz, l2MiB, tdpWatts, sheet.generation].includes(undefined)
  const generation = sheet.generation ?? 'Ada'
  const processNm = sheet.generation === undefined ? unknownProcessNm : undefined
  return {
    name,
    generation,
    ...(processNm && { processNm }),
    aliases: sheet.aliases ?? [],
    multiprocessors: multiprocessors ?? Math.max(1, Math.round(peakTflops.fp32! / 0.6)),
    boostMhz: boostMhz ?? 1800,
    memoryGiB: sheet.memoryGiB,
    bandwidthGBs: sheet.bandwidthGBs,
    l2MiB: l2MiB ?? 32,
    tdpWatts: tdpWatts ?? (thriftyWatts(sheet) * processOf({ name, generation, processNm })) / 12,
    peakTflops,
    ...(bare && { bare }),
  }
}

/** Between the processes of the catalogue, 16 to 3 nm. */
const unknownProcessNm = 8

/**
 * Board power times 12 nm over its process, which is what bounds operations per second: W ∝
 * bandwidth^0.44 × fp32 peak^0.61, by least squares over the catalogue's GPUs; one left out is met
 * to 25 % (both tested).
 */
export const thriftyWatts = ({
  bandwidthGBs,
  peakTflops,
}: Pick<Gpu, 'bandwidthGBs' | 'peakTflops'>): number =>
  3.0 * bandwidthGBs ** 0.441 * peakTflops.fp32! ** 0.61

/** What need not be there; many files have `null` for it. */
const told = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined)

/** How the weights of a file are quantised. */
const quantizationSchema = told(
  z.looseObject({
    quant_method: told(z.string()),
    load_in_4bit: told(z.boolean()),
    load_in_8bit: told(z.boolean()),
  }),
)

/** Files of bitsandbytes before 0.41 have its settings alone. */
const quantizationMethod = (
  quantization: z.output<typeof quantizationSchema>,
): string | undefined =>
  quantization?.quant_method ??
  (quantization?.load_in_4bit || quantization?.load_in_8bit ? 'bitsandbytes' : undefined)

/** Dimensions as Hugging Face names them; other keys of its config.json are ignored. */
const architectureSchema = z
  .object({
    model_type: z.string().optional(),
    architectures: z.array(z.string()).optional(),
    hidden_size: whole,
    num_hidden_layers: whole,
    num_attention_heads: whole,
    intermediate_size: whole,
    vocab_size: whole,
    max_position_embeddings: told(whole),
    num_key_value_heads: told(whole),
    head_dim: told(whole),
    embedding_size: told(whole),
    tie_word_embeddings: told(z.boolean()),
    multi_query: told(z.boolean()),
    new_decoder_architecture: told(z.boolean()),
    type_vocab_size: told(z.int()),
    num_local_experts: told(whole),
    num_experts: told(whole),
    n_routed_experts: told(whole),
    num_experts_per_tok: told(whole),
    moe_intermediate_size: told(whole),
    shared_expert_intermediate_size: told(whole),
    n_shared_experts: told(z.int('expected a whole number')),
    kv_lora_rank: told(whole),
    compress_ratios: told(z.array(z.number())),
    layer_types: told(z.array(z.string())),
    first_k_dense_replace: told(z.int()),
    moe_layer_freq: told(z.union([z.int(), z.array(z.int())])),
    decoder_sparse_step: told(z.int()),
    mlp_only_layers: told(z.array(z.int())),
    interleave_moe_layer_step: told(z.int()),
    intermediate_size_mlp: told(whole),
    quantization_config: quantizationSchema,
  })
  // Other keys are kept only to recognise layers that are not attention.
  .loose()
  .superRefine((config, context) => {
    if (config.hidden_size % config.num_attention_heads !== 0 && config.head_dim === undefined)
      context.addIssue({
        code: 'custom',
        path: ['hidden_size'],
        message: `is not a multiple of num_attention_heads (${config.num_attention_heads}); add head_dim`,
        input: config.hidden_size,
      })
    if (config.max_position_embeddings === undefined && generates(config))
      context.addIssue({
        code: 'custom',
        path: ['max_position_embeddings'],
        message: 'expected the maximum number of tokens',
        input: undefined,
      })
    const experts = expertsOf(config)
    if (experts !== undefined && !(config.num_experts_per_tok! <= experts))
      context.addIssue({
        code: 'custom',
        path: ['num_experts_per_tok'],
        message: `expected the number of experts per token, at most ${experts}`,
        input: config.num_experts_per_tok,
      })
    for (const path of ['kv_lora_rank', 'compress_ratios'] as const)
      if (config[path] !== undefined)
        context.addIssue({
          code: 'custom',
          path: [path],
          message: 'attention over a compressed cache (MLA) is not modelled',
          input: config[path],
        })
  })

/**
 * Keys of published configurations whose presence says that some layers are not attention over a
 * full cache, or that layers differ in size: Qwen3-Next, Jamba, Bamba, Zamba, Nemotron-H and -NAS,
 * Granite 4, MiniMax, Kimi Linear, LFM2, RecurrentGemma, RWKV, Falcon-H1, Gemma 3n.
 */
const unmodelledKeys: readonly (readonly [key: RegExp, layers: string])[] = [
  [
    /^(full_attention_interval|linear_(attn_config|conv_.*|(key|value|num)_.*))$/,
    'linear attention layers',
  ],
  [
    /^(attn_type_list|full_attn_idxs|attn_layer_(period|offset|indices))$/,
    'layers without attention (hybrid model)',
  ],
  [
    /^(mamba|ssm)_|^(state_size|time_step_rank|hybrid_(layer_ids|override_pattern)|mb_per_layer|layers_block_type|_?block_types?)$/,
    'state space layers (Mamba, recurrent)',
  ],
  [
    /^(conv_L_cache|conv_dim|lru_width|attention_hidden_size|rescale_every)$/,
    'recurrent or convolution layers',
  ],
  [
    /^(block_configs|num_key_value_heads_per_layer|num_query_heads_per_layer)$/,
    'layers of different sizes',
  ],
  [/^num_kv_shared_layers$/, 'layers that share the cache of another layer'],
  [/^cross_attention_layers$/, 'layers that attend to images'],
  [/^is_encoder_decoder$/, 'an encoder and a decoder in one model'],
]

/**
 * What of a configuration the device model cannot count, by the key that says so. A key with a
 * value of nothing (null, false, 0, an empty list) says nothing, and a period of 1 means every layer.
 */
function unmodelledLayers(
  config: Readonly<Record<string, unknown>>,
): { readonly key: string; readonly layers: string }[] {
  const types = Array.isArray(config.layer_types) ? (config.layer_types as unknown[]) : []
  const other = types.find((type) => !/^((full|sliding|chunked)_)?attention$/.test(String(type)))
  if (other !== undefined) return [{ key: 'layer_types', layers: `layers of ${other}` }]
  const isSaid = (value: unknown) =>
    value !== undefined &&
    value !== null &&
    value !== false &&
    value !== 0 &&
    !(Array.isArray(value) && value.length === 0)
  const everyLayer = ['full_attention_interval', 'attn_layer_period']
  const found = Object.keys(config).flatMap((key) => {
    const [, layers] = unmodelledKeys.find(([pattern]) => pattern.test(key)) ?? []
    if (layers === undefined || !isSaid(config[key])) return []
    if (everyLayer.includes(key) && config[key] === 1) return []
    return [{ key, layers }]
  })
  // One sentence names the model's kind; a dozen keys of the same kind add nothing.
  return found.filter(({ layers }, i) => found.findIndex((one) => one.layers === layers) === i)
}
/** What a file is refused for before its dimensions are looked for, whatever they are called. */
const modelledSchema = z.looseObject({}).superRefine((config, context) => {
  if (config.peft_type !== undefined)
    context.addIssue({
      code: 'custom',
      path: ['peft_type'],
      message: 'an adapter has no dimensions of its own: use the config.json of its base model',
      input: config.peft_type,
    })
  for (const { key, layers } of unmodelledLayers(config))
    context.addIssue({
      code: 'custom',
      path: [key],
      message: `${layers} are not modelled`,
      input: config[key],
    })
})

/** Under these a model of texts and images, or speech, has the one that generates. */
const languageKeys = ['text_config', 'llm_config', 'language_config', 'thinker_config'] as const
const nested = z.looseObject({}).optional()
const nestedSchema = z.looseObject({
  text_config: nested,
  llm_config: nested,
  language_config: nested,
  thinker_config: nested,
  quantization_config: quantizationSchema,
})

/** Path of the language model's dimensions within a document: [] where it is no part of another. */
function findLanguagePath(document: Readonly<Record<string, unknown>>): string[] {
  for (const key of languageKeys) {
    const part = document[key]
    if (typeof part === 'object' && part !== null)
      return [key, ...findLanguagePath(part as Readonly<Record<string, unknown>>)]
  }
  return []
}

/**
 * Dimensions as older families call them, by the names that most have: GPT-2, DistilBERT, Nomic.
 * A feed-forward part whose width is not given is four times as wide (GPT-2, Falcon, Bloom).
 */
const otherNames: Readonly<Record<string, readonly string[]>> = {
  hidden_size: ['n_embd', 'n_embed', 'dim'],
  num_hidden_layers: ['n_layer', 'n_layers'],
  num_attention_heads: ['n_head', 'n_heads'],
  intermediate_size: ['n_inner', 'hidden_dim', 'ffn_hidden_size'],
  max_position_embeddings: ['n_positions', 'n_ctx'],
}
const fourTimesWide = ['gpt2', 'gpt_bigcode', 'gptj', 'falcon', 'bloom']

/** Checks the part of a file at a path, so that problems have the lines of the whole. */
function parsePart<T>(
  text: string,
  fileName: string,
  path: readonly string[],
  part: z.ZodType<T>,
): T {
  const whole = path.reduceRight<z.ZodType>((inner, key) => z.object({ [key]: inner }), part)
  const document: unknown = parseYaml(text, fileName, whole)
  return path.reduce((found, key) => (found as Record<string, unknown>)[key], document) as T
}

/** With the common names beside a family's own; what the file says itself goes first. */
function withCommonNames(config: unknown): unknown {
  if (typeof config !== 'object' || config === null || Array.isArray(config)) return config
  const said = config as Readonly<Record<string, unknown>>
  const common = Object.entries(otherNames).flatMap(([name, others]) => {
    const other = others.find((key) => said[key] !== undefined && said[key] !== null)
    return said[name] === undefined && other !== undefined ? [[name, said[other]] as const] : []
  })
  const named: Readonly<Record<string, unknown>> = { ...said, ...Object.fromEntries(common) }
  return named.intermediate_size === undefined &&
    fourTimesWide.includes(String(said.model_type)) &&
    typeof named.hidden_size === 'number'
    ? { ...named, intermediate_size: 4 * named.hidden_size }
    : named
}

/** Mixtral's names, Qwen's and OLMoE's, DeepSeek's and GLM's. */
const expertsOf = (config: z.output<typeof architectureSchema>): number | undefined =>
  config.num_local_experts ?? config.num_experts ?? config.n_routed_experts

/** What every token goes through beside its experts: Qwen's names, DeepSeek's and GLM's. */
function sharedOf(config: z.output<typeof architectureSchema>): {
  readonly sharedIntermediate?: number
} {
  const width =
    config.shared_expert_intermediate_size ??
    (config.n_shared_experts ?? 0) * (config.moe_intermediate_size ?? 0)
  return width > 0 ? { sharedIntermediate: width } : {}
}

/**
 * Layers of a mixture of experts whose feed-forward part is an ordinary one: the first (DeepSeek,
 * GLM), listed ones and all but each n-th (Qwen), all but each n-th (Llama 4).
 */
function countDenseLayers(config: z.output<typeof architectureSchema>): number {
  const { moe_layer_freq: frequency, num_hidden_layers: layers } = config
  const step =
    config.decoder_sparse_step ??
    config.interleave_moe_layer_step ??
    (typeof frequency === 'number' ? frequency : 1)
  const hasExperts = (layer: number): boolean =>
    Array.isArray(frequency)
      ? frequency[layer] !== 0
      : layer >= (config.first_k_dense_replace ?? 0) &&
        !config.mlp_only_layers?.includes(layer) &&
        (layer + (typeof frequency === 'number' ? 0 : 1)) % Math.max(1, step) === 0
  return Array.from({ length: layers }, (_, layer) => layer).filter((layer) => !hasExperts(layer))
    .length
}

const encoderTypes = [
  'bert',
  'roberta',
  'distilbert',
  'albert',
  'electra',
  'camembert',
  'xlm-roberta',
  'mpnet',
  'deberta',
  'deberta-v2',
  'modernbert',
  'nomic_bert',
  'xlm',
  'clip_text_model',
]

const encoderClass = /For(MaskedLM|PreTraining|(Sequence|Token)Classification|QuestionAnswering)$/

/**
 * By what `architectures` names: a CausalLM generates, a MaskedLM does not. A model alone, or a
 * classifier, is an encoder by its `model_type`, or as it has token types as BERT has.
 */
function generates(
  config: Pick<
    z.output<typeof architectureSchema>,
    'model_type' | 'architectures' | 'num_key_value_heads' | 'type_vocab_size'
  >,
): boolean {
  const { model_type: type, architectures = [] } = config
  if (architectures.some((name) => name.endsWith('ForCausalLM'))) return true
  if (architectures.some((name) => name.endsWith('ForMaskedLM'))) return false
  if (type !== undefined && encoderTypes.includes(type)) return false
  if (config.num_key_value_heads !== undefined) return true
  if (config.type_vocab_size !== undefined || architectures.some((name) => encoderClass.test(name)))
    return false
  return type !== undefined
}

/**
 * The architecture of a file: an ONNX graph, or a transformer's dimensions.
 * @param shown the file's name in errors
 * @throws YamlFileError, DeviceModelError, BoundError
 */
export const architectureFile = (path: string, shown: string, name: string): Architecture =>
  isOnnxFile(path)
    ? readGraphArchitecture(path)
    : parseArchitecture(readText(path, 'document'), shown, name)

/** Falcon and BigCode say so where all heads share one; newer ones of Falcon's have several. */
const countKvHeads = (config: z.output<typeof architectureSchema>): number =>
  config.multi_query && !config.new_decoder_architecture
    ? 1
    : (config.num_key_value_heads ?? config.num_attention_heads)

/**
 * Reads a transformer's dimensions, of one that takes images too those of its language model.
 * @throws YamlFileError naming every missing or wrong dimension with its line
 */
export function parseArchitecture(text: string, fileName: string, name: string): Architecture {
  const document = parseYaml(text, fileName, nestedSchema)
  const path = findLanguagePath(document)
  parsePart(text, fileName, path, modelledSchema)
  const config = parsePart(text, fileName, path, z.preprocess(withCommonNames, architectureSchema))
  const common = {
    name,
    layers: config.num_hidden_layers,
    hidden: config.hidden_size,
    heads: config.num_attention_heads,
    intermediate: config.intermediate_size,
    vocabulary: config.vocab_size,
    maxSequenceLength: config.max_position_embeddings ?? 512,
  }
  if (!generates(config))
    return {
      kind: 'encoder',
      ...common,
      embedding: config.embedding_size,
      sharedLayers: config.model_type === 'albert',
    }
  const experts = expertsOf(config)
  const denseLayers = experts === undefined ? 0 : countDenseLayers(config)
  const quantizedBy = quantizationMethod(document.quantization_config ?? config.quantization_config)
  return {
    kind: 'decoder',
    ...common,
    ...(quantizedBy !== undefined && { quantizedBy }),
    ...(experts !== undefined && {
      intermediate: config.moe_intermediate_size ?? config.intermediate_size,
      experts: {
        count: experts,
        active: config.num_experts_per_tok!,
        ...sharedOf(config),
        ...(denseLayers > 0 && {
          denseLayers,
          denseIntermediate: config.intermediate_size_mlp ?? config.intermediate_size,
        }),
      },
    }),
    kvHeads: countKvHeads(config),
    headSize: config.head_dim ?? config.hidden_size / config.num_attention_heads,
    tiedEmbeddings: config.tie_word_embeddings,
  }
}
