/** The predictor's settings: one table for flags, environment variables, help and checks. */
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { precisions, type Sharing, sharings } from '../devices/catalogue.ts'
import { countCpuInstances } from '../resources.ts'
import { type EngineName, engineNames } from './engines/engine-registry.ts'
import { type LlmEngineName, llmEngineNames } from './llm/engine-profile.ts'
import {
  flashAttentions,
  ggufSequences,
  kvCacheTypes,
  maxGgufSequences,
} from './llm/gguf/gguf-knobs.ts'
import { llmDefaults } from './llm/serving-limits.ts'
import { type SpeculativeMethod, speculativeMethods } from './llm/speculative-methods.ts'
import {
  type KvCacheDtype,
  kvCacheDtypes,
  type Quantization,
  quantizations,
} from './llm/step-model.ts'
import { weightsToFill } from './weights-to-fill.ts'

/** Parses a number; other text is unchanged, for the error message. */
const parseNumber = (value: unknown) =>
  typeof value === 'string' && value.trim() !== '' && !Number.isNaN(Number(value))
    ? Number(value)
    : value
const createNumberSetting = (from: number, to: number) => {
  const range = `must be a number from ${from} to ${to}`
  return z.preprocess(
    parseNumber,
    z
      .number({ error: ({ input }) => `${range}, not '${input}'` })
      .min(from, range)
      .max(to, range),
  )
}
const createIntegerSetting = (from: number, to: number) => {
  const range = `must be a whole number from ${from} to ${to}`
  const message = ({ input }: { input?: unknown }) => `${range}, not '${input}'`
  return z.preprocess(
    parseNumber,
    z.number({ error: message }).int(range).min(from, range).max(to, range),
  )
}
const word = z.string().min(1, 'must not be empty')
const flag = z.preprocess(
  (value) =>
    ['true', 'on', '1', true].some((on) => on === value)
      ? true
      : ['false', 'off', '0', ''].some((off) => off === value)
        ? false
        : value,
  z.boolean("must be 'true' or 'false'"),
)

interface Setting {
  readonly help: string
  /** Shown in the help; absent for words and yes/no. */
  readonly unit?: string
  readonly schema: z.ZodType
}

/** Key: environment variable; its flag is the kebab form (BATCH_SIZE, --batch-size). */
const table = {
  MODEL: {
    help: 'name under which the model is served',
    schema: word.regex(/^[^/:\s]+$/, 'must not contain a slash, colon or space').default('bert'),
  },
  ENGINE: {
    help: `inference engine: ${engineNames.join(', ')}`,
    schema: z.enum(engineNames).default('tfjs'),
  },
  MODEL_PATH: {
    help: 'path of your own model, or a folder of version folders 1, 2, ...',
    schema: word.optional(),
  },
  MODEL_VERSION_POLICY: {
    help: 'versions to serve: latest, latest:N, all, specific:1,3',
    schema: z
      .string()
      .regex(
        /^(latest(:[1-9]\d*)?|all|specific:\d+(,\d+)*)$/,
        'must be latest, latest:N, all or specific:V,V',
      )
      .default('latest'),
  },
  HOST: { help: 'address to listen on', schema: word.default('127.0.0.1') },
  PORT: {
    help: 'port to listen on; 0: any free port',
    schema: createIntegerSetting(0, 65535).default(8000),
  },
  GRPC_PORT: {
    help: 'port for gRPC, for both protocols; 0: any free port; default: no gRPC',
    schema: createIntegerSetting(0, 65535).optional(),
  },
  CPU_CORES: {
    help: 'CPU workers that decode, tokenise and resize',
    unit: 'threads',
    schema: createIntegerSetting(1, 256).default(1),
  },
  BATCH_SIZE: {
    help: 'maximum batch size',
    unit: 'items',
    schema: createIntegerSetting(1, 4096).default(1),
  },
  MAX_DELAY_MS: {
    help: 'maximum time that a request waits for a batch to fill while an engine is free',
    unit: 'ms',
    schema: createNumberSetting(0, 60_000).default(2),
  },
  QUEUE_LIMIT: {
    help: 'maximum waiting items; further requests get status 429',
    unit: 'items',
    schema: createIntegerSetting(1, 1_000_000).default(1000),
  },
  GPU: { help: 'GPU to use or to emulate, e.g. T4; none: CPU', schema: word.optional() },
  GPU_CATALOGUE: { help: 'emulated: YAML file of your own GPUs', schema: word.optional() },
  ARCHITECTURE_FILE: {
    help: 'emulated: dimensions of the model, a Hugging Face config.json or YAML',
    schema: word.optional(),
  },
  GPU_MEMORY_PERCENT: {
    help: 'share of the GPU',
    unit: '%',
    schema: createNumberSetting(0.1, 100).default(100),
  },
  GPU_SHARING: {
    help: `how the GPU is shared: ${sharings.join(', ')}`,
    schema: z.enum(sharings).default('time-slice'),
  },
  MIG_PROFILE: {
    help: 'hardware slice of the GPU instead of a share, e.g. 1g.5gb; none: no slice',
    schema: word.optional(),
  },
  INSTANCES: {
    help: 'engine instances, each with its own weights; default: CPU_CORES without GPU, else 1',
    schema: createIntegerSetting(1, 64).optional(),
  },
  CPU_THREADS: {
    help: 'threads per engine instance for computing on CPU; default: CPU_CORES / INSTANCES without GPU, else 1',
    unit: 'threads',
    schema: createIntegerSetting(1, 256).optional(),
  },
  MAX_NUM_SEQS: {
    help: `language models: maximum concurrent sequences; default: ${llmDefaults.maxNumSeqs}, for gguf ${ggufSequences}`,
    schema: createIntegerSetting(1, 4096).optional(),
  },
  MAX_NUM_BATCHED_TOKENS: {
    help: 'language models: maximum tokens per step',
    unit: 'tokens',
    schema: createIntegerSetting(16, 131_072).default(llmDefaults.maxNumBatchedTokens),
  },
  MAX_MODEL_LEN: {
    help: 'language models: maximum length of a sequence, prompt and answer together',
    unit: 'tokens',
    schema: createIntegerSetting(32, 1_048_576).default(llmDefaults.maxModelLen),
  },
  GPU_MEMORY_UTILIZATION: {
    help: 'language models: share of the memory of each GPU to use',
    schema: createNumberSetting(0.05, 1).default(llmDefaults.gpuMemoryUtilization),
  },
  TENSOR_PARALLEL_SIZE: {
    help: 'language models: GPUs over which every layer is split',
    unit: 'GPUs',
    schema: createIntegerSetting(1, 16).default(1),
  },
  QUANTIZATION: {
    help: `language models: quantization of the weights: ${quantizations.join(', ')}`,
    schema: z.enum(quantizations).default(llmDefaults.quantization),
  },
  KV_CACHE_DTYPE: {
    help: `language models: number format of the KV cache: ${kvCacheDtypes.join(', ')}`,
    schema: z.enum(kvCacheDtypes).default(llmDefaults.kvCacheDtype),
  },
  SPECULATIVE_TOKENS: {
    help: 'language models: draft tokens per sequence and step; 0: none',
    unit: 'tokens',
    schema: createIntegerSetting(0, 64).default(llmDefaults.speculativeTokens),
  },
  SPECULATIVE_METHOD: {
    help: `language models: speculative decoding method: ${speculativeMethods.join(', ')}`,
    schema: z.enum(speculativeMethods).default(llmDefaults.speculativeMethod),
  },
  SPECULATIVE_MODEL: {
    help: 'language models: draft model for method draft, e.g. llama-3.2-1b',
    schema: word.optional(),
  },
  SPECULATIVE_ACCEPTANCE: {
    help: 'language models: probability that a draft token is accepted, 0-1; default: depends on the method',
    schema: createNumberSetting(0, 1).optional(),
  },
  EMULATED_SERVER: {
    help: `language models: server whose scheduler and host overhead are emulated: ${llmEngineNames.join(', ')}`,
    schema: z.enum(llmEngineNames).default(llmDefaults.engine),
  },
  ENABLE_PREFIX_CACHING: {
    help: 'language models: reuse the KV cache of prompt prefixes seen before',
    schema: flag.default(true),
  },
  KV_CACHE_TYPE: {
    help: `gguf: number format of the KV cache: ${kvCacheTypes.join(', ')}`,
    schema: z.enum(kvCacheTypes).default('f16'),
  },
  FLASH_ATTENTION: {
    help: `gguf: flash attention: ${flashAttentions.join(', ')}`,
    schema: z.enum(flashAttentions).default('auto'),
  },
  GPU_LAYERS: {
    help: 'gguf: layers on the GPU; default: all with --gpu, else none',
    unit: 'layers',
    schema: createIntegerSetting(0, 1000).optional(),
  },
  SEQUENCE_LENGTH: {
    help: 'length in tokens to which a text is truncated or padded',
    unit: 'tokens',
    schema: createIntegerSetting(2, 131_072).default(128),
  },
  PRECISION: {
    help: 'number format of the engine; default: fp32, for language models fp16',
    schema: z.enum(precisions).optional(),
  },
  MODEL_CONTROL: {
    help: 'emulated: none, or explicit to change settings while it serves: POST /v2/repository/models/MODEL/load {"parameters": {"BATCH_SIZE": 8}}',
    schema: z.enum(['none', 'explicit']).default('none'),
  },
  WARM_UP_BATCH: {
    help: 'size of the warm-up batch before ready; 0: none; default: BATCH_SIZE',
    unit: 'items',
    schema: createIntegerSetting(0, 4096).optional(),
  },
  SEED: {
    help: 'seed of random weights and of the outputs of the emulated engine',
    schema: createIntegerSetting(0, 2 ** 31 - 1).default(0),
  },
  MAX_BODY_MIB: {
    help: 'maximum size of a request body',
    unit: 'MiB',
    schema: createNumberSetting(0.001, 1024).default(64),
  },
  REQUEST_TIMEOUT_S: {
    help: 'maximum time to receive a request, headers and body; then its connection is closed',
    unit: 's',
    schema: createNumberSetting(0.1, 3600).default(30),
  },
  DRAIN_TIMEOUT_MS: {
    help: 'maximum time to finish requests in flight after SIGTERM',
    unit: 'ms',
    schema: createIntegerSetting(0, 3_600_000).default(10_000),
  },
  EXIT_WITH_PARENT: {
    help: 'stop when standard input ends, so that no process survives a killed parent',
    schema: flag.default(false),
  },
} as const satisfies Readonly<Record<string, Setting>>

type Key = keyof typeof table
const keys = Object.keys(table) as Key[]
const schema = z.object(
  Object.fromEntries(keys.map((key) => [key, table[key].schema])) as {
    [K in Key]: (typeof table)[K]['schema']
  },
)

type RawSettings = z.infer<typeof schema>

/** Settings of language models only. */
interface LlmSettings {
  readonly precision: NonNullable<RawSettings['PRECISION']>
  readonly quantization: Quantization
  readonly kvCacheDtype: KvCacheDtype
  readonly speculative: {
    /** 0: none. */
    readonly tokens: number
    readonly method: SpeculativeMethod
    readonly model?: string
    readonly acceptance?: number
  }
  /** The server that is emulated. */
  readonly engine: LlmEngineName
  readonly maxSequences: number
  readonly maxBatchedTokens: number
  readonly maxModelLength: number
  /** 0-1. */
  readonly gpuMemoryUtilization: number
  readonly tensorParallel: number
  readonly prefixCaching: boolean
  readonly kvCacheType: RawSettings['KV_CACHE_TYPE']
  readonly flashAttention: RawSettings['FLASH_ATTENTION']
  /** Absent: all where there is a GPU. */
  readonly gpuLayers?: number
}

/** Effective settings. Names as in the table, in camel case. */
export interface Settings {
  readonly model: string
  readonly engine: EngineName
  readonly modelPath?: string
  readonly versionPolicy: string
  readonly host: string
  readonly port: number
  /** Absent: no gRPC. */
  readonly grpcPort?: number
  readonly cpuCores: number
  readonly batchSize: number
  readonly maxDelayMs: number
  readonly queueLimit: number
  readonly gpu?: string
  readonly gpuCatalogue?: string
  readonly architectureFile?: string
  readonly gpuMemoryPercent: number
  readonly gpuSharing: Sharing
  readonly migProfile?: string
  readonly instances: number
  readonly cpuThreads: number
  readonly sequenceLength: number
  readonly precision: NonNullable<RawSettings['PRECISION']>
  readonly llm: LlmSettings
  readonly modelControl: RawSettings['MODEL_CONTROL']
  readonly warmUpBatch: number
  readonly seed: number
  readonly maxBodyMiB: number
  readonly requestTimeoutS: number
  readonly drainTimeoutMs: number
  readonly exitWithParent: boolean
}

/** All invalid settings at once. */
export class SettingsError extends Error {
  constructor(readonly faults: readonly string[]) {
    super(faults.join('\n'))
    this.name = 'SettingsError'
  }
}

const findKey = (name: string) => keys.find((key) => toKebabCase(key) === name)
/**
 * Whether a token is an unknown flag. The word after it counts as its value, not as a fault of its
 * own.
 */
const isUnknownFlag = (token?: { kind: string; name?: string }) =>
  token?.kind === 'option' && findKey(token.name ?? '') === undefined
const toKebabCase = (key: string) => key.toLowerCase().replace(/_/g, '-')

/**
 * Reads settings from flags, which take precedence, and environment variables.
 * @returns undefined for --help
 * @throws SettingsError
 */
export function readSettings(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Settings | undefined {
  const { values, tokens } = parseArgs({
    args: [...args],
    options: createParseOptions(),
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  if (values.help === true) return undefined
  const faults: string[] = []
  const raw: Record<string, unknown> = {}
  for (const key of keys) if (env[key] !== undefined) raw[key] = env[key]
  for (const [i, token] of tokens.entries()) {
    const afterUnknown = isUnknownFlag(tokens[i - 1])
    if (token.kind === 'positional' && !afterUnknown)
      faults.push(
        `unexpected argument '${token.value}'; write settings as flags, e.g. --model bert`,
      )
    if (token.kind !== 'option') continue
    const key = findKey(token.name)
    if (!key) faults.push(`unknown flag '${token.rawName}'; --help lists all flags`)
    else if (token.value === undefined && key !== 'EXIT_WITH_PARENT')
      faults.push(`--${token.name} needs a value`)
    else raw[key] = token.value ?? true
  }
  const checked = schema.safeParse(raw)
  if (!checked.success)
    for (const { path, message } of checked.error.issues)
      faults.push(`--${toKebabCase(String(path[0]))} (${String(path[0])}): ${message}`)
  if (checked.success && checked.data.ENGINE === 'emulated' && hasNoGpu(checked.data))
    faults.push('--gpu (GPU): the emulated engine needs a GPU to emulate, e.g. T4')
  if (
    checked.success &&
    checked.data.ENGINE !== 'emulated' &&
    checked.data.MODEL_CONTROL === 'explicit'
  )
    faults.push(
      '--model-control (MODEL_CONTROL): only the emulated engine can change settings while it serves',
    )
  if (
    checked.success &&
    checked.data.ENGINE === 'gguf' &&
    (checked.data.MAX_NUM_SEQS ?? 0) > maxGgufSequences
  )
    faults.push(
      `--max-num-seqs (MAX_NUM_SEQS): llama.cpp supports at most ${maxGgufSequences} sequences`,
    )
  if (checked.success && checked.data.MODEL_PATH === weightsToFill)
    faults.push(
      `--model-path (MODEL_PATH): ${weightsToFill} is a placeholder: the spec was written without --model-uri, so it has no weights; set the path of their folder or file`,
    )
  if (faults.length > 0 || !checked.success) throw new SettingsError(faults)
  return convertSettings(checked.data)
}

const createParseOptions = () =>
  Object.fromEntries([
    ...keys.map(
      (key) =>
        [toKebabCase(key), { type: key === 'EXIT_WITH_PARENT' ? 'boolean' : 'string' }] as const,
    ),
    ['help', { type: 'boolean', short: 'h' }] as const,
  ])

const hasNoGpu = ({ GPU }: RawSettings) => GPU === undefined || GPU === 'none'

/** Chooses the number of instances. By default, a language model has one on any number of cores. */
const chooseInstances = (raw: RawSettings): number =>
  raw.INSTANCES ?? (hasNoGpu(raw) && raw.ENGINE !== 'gguf' ? countCpuInstances(raw.CPU_CORES) : 1)

const convertSettings = (raw: RawSettings): Settings => ({
  model: raw.MODEL,
  engine: raw.ENGINE,
  modelPath: raw.MODEL_PATH,
  versionPolicy: raw.MODEL_VERSION_POLICY,
  host: raw.HOST,
  port: raw.PORT,
  grpcPort: raw.GRPC_PORT,
  cpuCores: raw.CPU_CORES,
  batchSize: raw.BATCH_SIZE,
  maxDelayMs: raw.MAX_DELAY_MS,
  queueLimit: raw.QUEUE_LIMIT,
  gpu: hasNoGpu(raw) ? undefined : raw.GPU,
  gpuCatalogue: raw.GPU_CATALOGUE,
  architectureFile: raw.ARCHITECTURE_FILE,
  gpuMemoryPercent: raw.GPU_MEMORY_PERCENT,
  gpuSharing: raw.GPU_SHARING,
  migProfile: raw.MIG_PROFILE === 'none' ? undefined : raw.MIG_PROFILE,
  instances: chooseInstances(raw),
  cpuThreads:
    raw.CPU_THREADS ??
    (hasNoGpu(raw) ? Math.max(1, Math.floor(raw.CPU_CORES / chooseInstances(raw))) : 1),
  sequenceLength: raw.SEQUENCE_LENGTH,
  precision: raw.PRECISION ?? 'fp32',
  llm: {
    precision: raw.PRECISION ?? llmDefaults.precision,
    quantization: raw.QUANTIZATION,
    kvCacheDtype: raw.KV_CACHE_DTYPE,
    speculative: {
      tokens: raw.SPECULATIVE_TOKENS,
      method: raw.SPECULATIVE_METHOD,
      model: raw.SPECULATIVE_MODEL,
      acceptance: raw.SPECULATIVE_ACCEPTANCE,
    },
    engine: raw.EMULATED_SERVER,
    maxSequences:
      raw.MAX_NUM_SEQS ?? (raw.ENGINE === 'gguf' ? ggufSequences : llmDefaults.maxNumSeqs),
    maxBatchedTokens: raw.MAX_NUM_BATCHED_TOKENS,
    maxModelLength: raw.MAX_MODEL_LEN,
    gpuMemoryUtilization: raw.GPU_MEMORY_UTILIZATION,
    tensorParallel: raw.TENSOR_PARALLEL_SIZE,
    prefixCaching: raw.ENABLE_PREFIX_CACHING,
    kvCacheType: raw.KV_CACHE_TYPE,
    flashAttention: raw.FLASH_ATTENTION,
    gpuLayers: raw.GPU_LAYERS,
  },
  modelControl: raw.MODEL_CONTROL,
  warmUpBatch: raw.WARM_UP_BATCH ?? raw.BATCH_SIZE,
  seed: raw.SEED,
  maxBodyMiB: raw.MAX_BODY_MIB,
  requestTimeoutS: raw.REQUEST_TIMEOUT_S,
  drainTimeoutMs: raw.DRAIN_TIMEOUT_MS,
  exitWithParent: raw.EXIT_WITH_PARENT,
})

/** Formats the help text. */
export function formatSettingsHelp(): string {
  const lines = keys.map((key) => {
    const { help, schema, ...rest } = table[key] as Setting
    const fallback = schema.safeParse(undefined)
    const defaultText =
      fallback.success && fallback.data !== undefined
        ? ` (default ${fallback.data}${rest.unit ? ` ${rest.unit}` : ''})`
        : rest.unit
          ? ` (${rest.unit})`
          : ''
    return `  --${toKebabCase(key).padEnd(21)} ${help}${defaultText}`
  })
  return [
    'Serves a model over the Open Inference Protocol v2 and the TensorFlow Serving API, REST and gRPC.',
    '',
    'Examples:',
    '  tune predictor --model bert --engine emulated --gpu T4 --batch-size 8 --port 8000',
    '  MODEL=bert-tiny CPU_CORES=2 PORT=0 tune predictor',
    '',
    'Every flag is also an environment variable: --batch-size is BATCH_SIZE. Flags win.',
    '',
    ...lines,
    '',
    'Exit codes: 0 drained, 1 failure, 2 wrong settings, 12 out of device memory, 98 port in use.',
  ].join('\n')
}
