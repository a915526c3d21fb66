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
const quantizationSchema = told(z.looseObject({ quant_method: told(z.string()) }))

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
    quantization_config: quantizationSchema,
  })
  .superRefine((config, context) => {
    if (config.hidden_size % config.num_attention_heads !== 0 && config.head_dim === undefined)
      context.addIssue({
        code: 'custom',
        path: ['hidden_size'],
        message: `is no multiple of num_attention_heads (${config.num_attention_heads}); give head_dim`,
        input: config.hidden_size,
      })
    if (config.max_position_embeddings === undefined && generates(config))
      context.addIssue({
        code: 'custom',
        path: ['max_position_embeddings'],
        message: 'expected how many tokens it takes',
        input: undefined,
      })
    const experts = expertsOf(config)
    if (experts !== undefined && !(config.num_experts_per_tok! <= experts))
      context.addIssue({
        code: 'custom',
        path: ['num_experts_per_tok'],
        message: `expected how many of the ${experts} experts a token goes through`,
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
    const others = config.layer_types?.find(
      (type) => !/^(full|sliding|chunked)_attention$/.test(type),
    )
    if (others !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['layer_types'],
        message: `layers of ${others} are not modelled`,
        input: others,
      })
  })
/** A model of texts and images names that which generates so. */
const nestedSchema = z.looseObject({
  text_config: z.looseObject({}).optional(),
  quantization_config: quantizationSchema,
})

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
]

/** By `model_type`, else by whether `architectures` names a CausalLM. */
const generates = (
  config: Pick<
    z.output<typeof architectureSchema>,
    'model_type' | 'architectures' | 'num_key_value_heads'
  >,
): boolean =>
  config.model_type === undefined
    ? (config.architectures ?? []).some((a) => a.endsWith('ForCausalLM')) ||
      config.num_key_value_heads !== undefined
    : !encoderTypes.includes(config.model_type)

/**
 * The architecture of a file: an ONNX graph, or a transformer's dimensions.
 * @param shown the file's name in errors
 * @throws YamlFileError, DeviceModelError, BoundError
 */
export const architectureFile = (path: string, shown: string, name: string): Architecture =>
  isOnnxFile(path)
    ? readGraphArchitecture(path)
    : parseArchitecture(readText(path, 'document'), shown, name)

/**
 * Reads a transformer's dimensions, of one that takes images too those of its language model.
 * @throws YamlFileError naming every missing or wrong dimension with its line
 */
export function parseArchitecture(text: string, fileName: string, name: string): Architecture {
  const document = parseYaml(text, fileName, nestedSchema)
  const config = document.text_config
    ? parseYaml(text, fileName, z.object({ text_config: architectureSchema })).text_config
    : parseYaml(text, fileName, architectureSchema)
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
  const quantizedBy = (document.quantization_config ?? config.quantization_config)?.quant_method
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
      },
    }),
    kvHeads: config.num_key_value_heads ?? config.num_attention_heads,
    headSize: config.head_dim ?? config.hidden_size / config.num_attention_heads,
    tiedEmbeddings: config.tie_word_embeddings,
  }
}
