/** Custom GPUs and architectures, in YAML or JSON; a Hugging Face config.json is read as it is. */
import { z } from 'zod'
import { readText } from '../../profiler/bounded-reader.ts'
import { parseYaml } from '../yaml.ts'
import type { Architecture } from './architecture.ts'
import type { Gpu } from './catalogue.ts'
import { findProcessNm } from './device-physics.ts'
import { isOnnxFile } from './onnx/graph-architecture.ts'
import { readGraphArchitecture } from './onnx/graph-file.ts'

/** Devices that the user describes. Plain data: it crosses process boundaries. */
export interface CustomDevices {
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
 * Reads `NAME: { memoryGiB, bandwidthGBs, peakTflops: { fp32, fp16, ... } }`; missing figures are
 * estimated from the others.
 * @throws YamlFileError naming every problem with its line
 */
export function parseGpus(text: string, fileName: string): Gpu[] {
  const read = parseYaml(text, fileName, z.record(z.string(), gpuSchema))
  return Object.entries(read).map(([name, gpu]) => completeGpu(name, gpu))
}

/** Required figures of a datasheet; the rest may be estimated. */
type Datasheet = Pick<Gpu, 'memoryGiB' | 'bandwidthGBs' | 'peakTflops'> &
  Partial<Omit<Gpu, 'name' | 'bare'>>

/** Completes a datasheet with estimated figures. */
export function completeGpu(name: string, sheet: Datasheet): Gpu {
  const { multiprocessors, boostMhz, l2MiB, tdpWatts, peakTflops } = sheet
  const hasEstimatedFigures = [
    multiprocessors,
    boostMhz,
    l2MiB,
    tdpWatts,
    sheet.generation,
  ].includes(undefined)
  const generation = sheet.generation ?? 'Ada'
  const processNm = sheet.generation === undefined ? defaultProcessNm : undefined
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
    tdpWatts:
      tdpWatts ?? (estimateWatts(sheet) * findProcessNm({ name, generation, processNm })) / 12,
    peakTflops,
    ...(hasEstimatedFigures && { hasEstimatedFigures }),
  }
}

/** Assumed: the middle of the catalogue's process nodes, 16 to 3 nm. */
const defaultProcessNm = 8

/**
 * Board power scaled to a 12 nm process: W ∝ bandwidth^0.44 × fp32 peak^0.61, fitted by least
 * squares over the catalogue. The error for a left-out GPU is 25 % (both tested).
 */
export const estimateWatts = ({
  bandwidthGBs,
  peakTflops,
}: Pick<Gpu, 'bandwidthGBs' | 'peakTflops'>): number =>
  3.0 * bandwidthGBs ** 0.441 * peakTflops.fp32! ** 0.61

/** An optional key; many files have `null` for it. */
const optional = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined)

/** Quantisation of a file's weights. */
const quantizationSchema = optional(
  z.looseObject({
    quant_method: optional(z.string()),
    load_in_4bit: optional(z.boolean()),
    load_in_8bit: optional(z.boolean()),
  }),
)

/** bitsandbytes before 0.41 writes its settings without a method. */
const readQuantizationMethod = (
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
    max_position_embeddings: optional(whole),
    num_key_value_heads: optional(whole),
    head_dim: optional(whole),
    embedding_size: optional(whole),
    tie_word_embeddings: optional(z.boolean()),
    multi_query: optional(z.boolean()),
    new_decoder_architecture: optional(z.boolean()),
    type_vocab_size: optional(z.int()),
    num_local_experts: optional(whole),
    num_experts: optional(whole),
    n_routed_experts: optional(whole),
    num_experts_per_tok: optional(whole),
    moe_intermediate_size: optional(whole),
    shared_expert_intermediate_size: optional(whole),
    n_shared_experts: optional(z.int('expected a whole number')),
    kv_lora_rank: optional(whole),
    compress_ratios: optional(z.array(z.number())),
    layer_types: optional(z.array(z.string())),
    first_k_dense_replace: optional(z.int()),
    moe_layer_freq: optional(z.union([z.int(), z.array(z.int())])),
    decoder_sparse_step: optional(z.int()),
    mlp_only_layers: optional(z.array(z.int())),
    interleave_moe_layer_step: optional(z.int()),
    intermediate_size_mlp: optional(whole),
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
    if (config.max_position_embeddings === undefined && isGenerative(config))
      context.addIssue({
        code: 'custom',
        path: ['max_position_embeddings'],
        message: 'expected the maximum number of tokens',
        input: undefined,
      })
    const experts = countExperts(config)
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
 * Keys that indicate layers other than attention over a full cache, or layers of different sizes:
 * Qwen3-Next, Jamba, Bamba, Zamba, Nemotron-H and -NAS, Granite 4, MiniMax, Kimi Linear, LFM2,
 * RecurrentGemma, RWKV, Falcon-H1, Gemma 3n.
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
 * Lists layers that the device model cannot count, with the key that indicates them. Empty values
 * (null, false, 0, []) indicate nothing, and a period of 1 means every layer.
 */
function listUnmodelledLayers(
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
  const listUnmodelledLayers = Object.keys(config).flatMap((key) => {
    const [, layers] = unmodelledKeys.find(([pattern]) => pattern.test(key)) ?? []
    if (layers === undefined || !isSaid(config[key])) return []
    if (everyLayer.includes(key) && config[key] === 1) return []
    return [{ key, layers }]
  })
  // Report each kind of layer once.
  return listUnmodelledLayers.filter(
    ({ layers }, i) => listUnmodelledLayers.findIndex((one) => one.layers === layers) === i,
  )
}
/** Refuses files with unmodelled layers before their dimensions are read. */
const modelledSchema = z.looseObject({}).superRefine((config, context) => {
  if (config.peft_type !== undefined)
    context.addIssue({
      code: 'custom',
      path: ['peft_type'],
      message: 'an adapter has no dimensions of its own: use the config.json of its base model',
      input: config.peft_type,
    })
  for (const { key, layers } of listUnmodelledLayers(config))
    context.addIssue({
      code: 'custom',
      path: [key],
      message: `${layers} are not modelled`,
      input: config[key],
    })
})

/** Keys under which multimodal models describe their language model. */
const languageKeys = ['text_config', 'llm_config', 'language_config', 'thinker_config'] as const
const nested = z.looseObject({}).optional()
const nestedSchema = z.looseObject({
  text_config: nested,
  llm_config: nested,
  language_config: nested,
  thinker_config: nested,
  quantization_config: quantizationSchema,
})

/** Path of the language model's dimensions within a document; [] at the top level. */
function findLanguagePath(document: Readonly<Record<string, unknown>>): string[] {
  for (const key of languageKeys) {
    const part = document[key]
    if (typeof part === 'object' && part !== null)
      return [key, ...findLanguagePath(part as Readonly<Record<string, unknown>>)]
  }
  return []
}

/** Names of dimensions in older families (GPT-2, DistilBERT, Nomic), by the common name. */
const dimensionAliases: Readonly<Record<string, readonly string[]>> = {
  hidden_size: ['n_embd', 'n_embed', 'dim'],
  num_hidden_layers: ['n_layer', 'n_layers'],
  num_attention_heads: ['n_head', 'n_heads'],
  intermediate_size: ['n_inner', 'hidden_dim', 'ffn_hidden_size'],
  max_position_embeddings: ['n_positions', 'n_ctx'],
}
/** Families whose feed-forward part is four times as wide unless the file declares a width. */
const quadrupleWidthTypes = ['gpt2', 'gpt_bigcode', 'gptj', 'falcon', 'bloom']

/** Validates the part of a file at a path; problems keep the line numbers of the file. */
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

/** Adds common names for a family's own; common names in the file take precedence. */
function renameDimensions(config: unknown): unknown {
  if (typeof config !== 'object' || config === null || Array.isArray(config)) return config
  const declared = config as Readonly<Record<string, unknown>>
  const common = Object.entries(dimensionAliases).flatMap(([name, others]) => {
    const other = others.find((key) => declared[key] !== undefined && declared[key] !== null)
    return declared[name] === undefined && other !== undefined
      ? [[name, declared[other]] as const]
      : []
  })
  const namedDimensions: Readonly<Record<string, unknown>> = {
    ...declared,
    ...Object.fromEntries(common),
  }
  return namedDimensions.intermediate_size === undefined &&
    quadrupleWidthTypes.includes(String(declared.model_type)) &&
    typeof namedDimensions.hidden_size === 'number'
    ? { ...namedDimensions, intermediate_size: 4 * namedDimensions.hidden_size }
    : namedDimensions
}

/** Number of experts, as Mixtral, Qwen and OLMoE, DeepSeek and GLM name it. */
const countExperts = (config: z.output<typeof architectureSchema>): number | undefined =>
  config.num_local_experts ?? config.num_experts ?? config.n_routed_experts

/** Width of the shared experts, as Qwen, DeepSeek and GLM name it. */
function readSharedExperts(config: z.output<typeof architectureSchema>): {
  readonly sharedIntermediate?: number
} {
  const width =
    config.shared_expert_intermediate_size ??
    (config.n_shared_experts ?? 0) * (config.moe_intermediate_size ?? 0)
  return width > 0 ? { sharedIntermediate: width } : {}
}

/**
 * Number of dense layers in a mixture of experts: the first (DeepSeek, GLM), listed ones and all
 * but every n-th (Qwen), all but every n-th (Llama 4).
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
 * Whether the model generates text. `architectures` decides (CausalLM, MaskedLM). Other models are
 * encoders if their `model_type` is, or if they have token types as BERT has.
 */
function isGenerative(
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
 * Reads the architecture of a file: an ONNX graph, or a transformer's dimensions.
 * @param shown the file's name in errors
 * @throws YamlFileError, DeviceModelError, BoundError
 */
export const readArchitecture = (path: string, shown: string, name: string): Architecture =>
  isOnnxFile(path)
    ? readGraphArchitecture(path)
    : parseArchitecture(readText(path, 'document'), shown, name)

/**
 * Falcon and BigCode declare multi-query attention; newer Falcon models have several key-value
 * heads.
 */
const countKvHeads = (config: z.output<typeof architectureSchema>): number =>
  config.multi_query && !config.new_decoder_architecture
    ? 1
    : (config.num_key_value_heads ?? config.num_attention_heads)

/**
 * Reads the dimensions of a transformer; of a multimodal model, those of its language model.
 * @throws YamlFileError naming every missing or wrong dimension with its line
 */
export function parseArchitecture(text: string, fileName: string, name: string): Architecture {
  const document = parseYaml(text, fileName, nestedSchema)
  const path = findLanguagePath(document)
  parsePart(text, fileName, path, modelledSchema)
  const config = parsePart(text, fileName, path, z.preprocess(renameDimensions, architectureSchema))
  const common = {
    name,
    layers: config.num_hidden_layers,
    hidden: config.hidden_size,
    heads: config.num_attention_heads,
    intermediate: config.intermediate_size,
    vocabulary: config.vocab_size,
    maxSequenceLength: config.max_position_embeddings ?? 512,
  }
  if (!isGenerative(config))
    return {
      kind: 'encoder',
      ...common,
      embedding: config.embedding_size,
      sharedLayers: config.model_type === 'albert',
    }
  const experts = countExperts(config)
  const denseLayers = experts === undefined ? 0 : countDenseLayers(config)
  const quantizationMethod = readQuantizationMethod(
    document.quantization_config ?? config.quantization_config,
  )
  return {
    kind: 'decoder',
    ...common,
    ...(quantizationMethod !== undefined && { quantizationMethod }),
    ...(experts !== undefined && {
      intermediate: config.moe_intermediate_size ?? config.intermediate_size,
      experts: {
        count: experts,
        active: config.num_experts_per_tok!,
        ...readSharedExperts(config),
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
