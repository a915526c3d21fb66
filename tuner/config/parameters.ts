/**
 * The parameters with standard names, and how an entry of the experiment file becomes a parameter.
 */
import type {
  CategoricalParameter,
  Category,
  OrdinalParameter,
  Parameter,
  Scale,
} from '../../search/types.ts'
import { findGpu, type Gpu, precisions, sharings } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { computeGpuFeatures } from '../../trials/devices/gpu-features.ts'
import { suggestNames } from '../../trials/near-names.ts'
import { flashAttentions, kvCacheTypes } from '../../trials/predictor/llm/gguf/gguf-knobs.ts'
import { speculativeMethods } from '../../trials/predictor/llm/speculative-methods.ts'
import { kvCacheDtypes, quantizations } from '../../trials/predictor/llm/step-model.ts'
import type { ParameterEntry } from './schema/parameter-schema.ts'
import { listGeometricValues, listPowersOfTwo } from './values/shorthand.ts'
import { parseDurationMs, parseMemoryMiB, UnitError } from './values/units.ts'

/**
 * A parameter that the built-in predictor, the launchers and the price book understand by its name.
 */
interface KnownParameter {
  readonly name: string
  readonly what: string
  readonly category: Category
  readonly scale: Scale
  readonly monotone?: 'up'
  /** Sets how many requests are served concurrently. */
  readonly concurrency?: true
  /** Values are whole numbers. */
  readonly whole?: boolean
  /** 'a..b' means the powers of two in the range, and its ends. */
  readonly powers?: boolean
  readonly min?: number
  readonly max?: number
  /** Text forms such as '25%' or '4GiB'. */
  readonly parse?: (text: string) => number
  /** Allowed values; empty: any name. */
  readonly names?: readonly string[]
}

const parsePercentage = (text: string) =>
  /^[\d.]+\s*%$/.test(text) ? Number.parseFloat(text) : Number.NaN

export const knownParameters: readonly KnownParameter[] = [
  {
    name: 'cpuCores',
    what: 'CPU cores',
    category: 'resource',
    scale: 'log',
    monotone: 'up',
    min: 0.1,
    max: 10_000,
  },
  {
    name: 'memoryMiB',
    what: 'memory, MiB',
    category: 'resource',
    scale: 'log',
    monotone: 'up',
    powers: true,
    min: 1,
    max: 2 ** 40,
    parse: parseMemoryMiB,
  },
  { name: 'gpu', what: "GPU model, or 'none'", category: 'resource', scale: 'linear', names: [] },
  {
    name: 'migProfile',
    what: "MIG profile, or 'none'",
    category: 'resource',
    scale: 'linear',
    names: [],
  },
  {
    name: 'gpuMemoryPercent',
    what: 'share of one GPU, %',
    category: 'resource',
    scale: 'log',
    monotone: 'up',
    min: 0.1,
    max: 100,
    parse: parsePercentage,
  },
  {
    name: 'gpus',
    what: 'GPUs per replica',
    category: 'resource',
    scale: 'log',
    whole: true,
    min: 1,
    max: 10_000,
  },
  {
    name: 'prefillReplicas',
    what: 'prefill servers per replica, which only process prompts; needs decodeReplicas; 0: none',
    category: 'resource',
    scale: 'linear',
    whole: true,
    min: 0,
    max: 1000,
  },
  {
    name: 'decodeReplicas',
    what: 'decode servers per replica, which only generate answers; needs prefillReplicas; 0: none',
    category: 'resource',
    scale: 'linear',
    whole: true,
    min: 0,
    max: 1000,
  },
  {
    name: 'decodeGpus',
    what: 'GPUs per decode server, if different from the GPUs of a prefill server (gpus)',
    category: 'resource',
    scale: 'log',
    whole: true,
    min: 1,
    max: 10_000,
  },
  {
    name: 'batchSize',
    what: 'maximum batch size',
    category: 'server',
    scale: 'log',
    concurrency: true,
    whole: true,
    powers: true,
    min: 1,
    max: 1_000_000,
  },
  {
    name: 'maxDelayMs',
    what: 'maximum wait for a batch to fill, ms',
    category: 'server',
    scale: 'linear',
    min: 0,
    parse: parseDurationMs,
  },
  {
    name: 'queueLimit',
    what: 'maximum waiting requests',
    category: 'server',
    scale: 'log',
    whole: true,
    powers: true,
    min: 1,
    max: 1_000_000_000,
  },
  {
    name: 'instances',
    what: 'model instances per predictor',
    category: 'server',
    scale: 'log',
    concurrency: true,
    whole: true,
    min: 1,
    max: 10_000,
  },
  {
    name: 'cpuThreads',
    what: 'threads per instance for computing on CPU',
    category: 'server',
    scale: 'log',
    whole: true,
    min: 1,
    max: 10_000,
  },
  {
    name: 'sequenceLength',
    what: 'tokens per text',
    category: 'server',
    scale: 'log',
    whole: true,
    powers: true,
    min: 1,
    max: 10_000_000,
  },
  {
    name: 'imageSize',
    what: 'edge length of an image, pixels',
    category: 'server',
    scale: 'log',
    whole: true,
    min: 8,
    max: 100_000,
  },
  {
    name: 'maxNumSeqs',
    what: 'maximum concurrent sequences of a language model',
    category: 'server',
    scale: 'log',
    concurrency: true,
    whole: true,
    powers: true,
    min: 1,
  },
  {
    name: 'maxNumBatchedTokens',
    what: 'maximum tokens per step of a language model',
    category: 'server',
    scale: 'log',
    whole: true,
    powers: true,
    min: 16,
  },
  {
    name: 'maxModelLen',
    what: 'maximum sequence length of a language model, tokens',
    category: 'server',
    scale: 'log',
    whole: true,
    powers: true,
    min: 32,
  },
  {
    name: 'gpuMemoryUtilization',
    what: 'language models: share of the memory of each GPU that the server may use, 0-1',
    category: 'server',
    scale: 'linear',
    min: 0.05,
    max: 1,
  },
  {
    name: 'kvCacheType',
    what: 'number format of the KV cache of a GGUF model',
    category: 'server',
    scale: 'linear',
    names: kvCacheTypes,
  },
  {
    name: 'flashAttention',
    what: 'flash attention of a GGUF model',
    category: 'server',
    scale: 'linear',
    names: flashAttentions,
  },
  {
    name: 'gpuLayers',
    what: 'GGUF models: layers on the GPU',
    category: 'server',
    scale: 'linear',
    whole: true,
    min: 0,
    max: 1000,
  },
  {
    name: 'precision',
    what: 'number format of the computation',
    category: 'server',
    scale: 'linear',
    names: precisions,
  },
  {
    name: 'quantization',
    what: 'quantization of the weights of a language model',
    category: 'server',
    scale: 'linear',
    names: quantizations,
  },
  {
    name: 'kvCacheDtype',
    what: 'number format of the KV cache of a language model',
    category: 'server',
    scale: 'linear',
    names: kvCacheDtypes,
  },
  {
    name: 'enablePrefixCaching',
    what: 'whether a language model caches the prefixes of prompts',
    category: 'server',
    scale: 'linear',
    names: ['on', 'off'],
  },
  {
    name: 'speculativeTokens',
    what: 'draft tokens per sequence and step of a language model (speculative decoding); 0: none',
    category: 'server',
    scale: 'linear',
    whole: true,
    min: 0,
    max: 64,
  },
  {
    name: 'speculativeMethod',
    what: 'source of the draft tokens: earlier text (n-grams), a smaller model, or a trained layer (EAGLE-3)',
    category: 'server',
    scale: 'linear',
    names: speculativeMethods,
  },
  {
    name: 'speculativeModel',
    what: 'draft model: its name on the Hub or its folder; if simulated, also the name of an architecture',
    category: 'server',
    scale: 'linear',
    names: [],
  },
  {
    name: 'sharing',
    what: 'how processes share a GPU',
    category: 'resource',
    scale: 'linear',
    names: sharings,
  },
]

export const findKnownParameter = (name: string): KnownParameter | undefined =>
  knownParameters.find((known) => known.name === name)

/**
 * A problem with an entry: the key ('values', 'min', ... or '' for the whole entry), what is wrong,
 * and what to do.
 */
interface Fault {
  readonly at: string
  readonly what: string
  readonly hint: string
}

/**
 * Builds a parameter from an entry, without its condition (`when`), which depends on other
 * parameters.
 * @returns the parameter, or every fault of the entry.
 */
export function buildParameter(
  name: string,
  entry: ParameterEntry,
  ownGpus: readonly Gpu[] = [],
): { parameter?: Parameter; faults: Fault[] } {
  const knownParameter = findKnownParameter(name)
  const faults: Fault[] = []
  const base = {
    name,
    category: entry.category ?? knownParameter?.category ?? 'env',
    monotone: entry.monotone ?? knownParameter?.monotone,
    concurrency: entry.concurrency ?? knownParameter?.concurrency,
  }
  const readNumber = (value: number | string, at: string): number => {
    const read = typeof value === 'number' ? value : parseText(value, knownParameter)
    const fault = checkNumber(read, value, knownParameter)
    if (fault) faults.push({ at, ...fault })
    return read
  }
  const finish = (parameter: Parameter) => (faults.length > 0 ? { faults } : { parameter, faults })

  if (entry.values !== undefined) {
    for (const key of ['min', 'max', 'step', 'factor'] as const)
      if (entry[key] !== undefined)
        faults.push({
          at: key,
          what: `both '${key}' and 'values'`,
          hint: 'use either values or a range',
        })
    const texts = entry.values.filter(
      (value) => typeof value === 'string' && Number.isNaN(parseText(value, knownParameter)),
    )
    const isCategorical =
      knownParameter?.names !== undefined ||
      entry.kind === 'categorical' ||
      (entry.kind === undefined && knownParameter === undefined && texts.length > 0)
    if (isCategorical)
      return finish({ ...base, ...buildCategorical(name, entry, knownParameter, ownGpus, faults) })
    if (entry.features)
      faults.push({
        at: 'features',
        what: 'features for numbers',
        hint: 'features apply to names (kind: categorical), because numbers already have an order',
      })
    return finish({
      ...base,
      ...buildOrdinal(
        entry.values.map((value) => readNumber(value, 'values')),
        entry,
        knownParameter,
        faults,
      ),
    })
  }

  if (entry.min === undefined || entry.max === undefined) {
    const missing =
      entry.min === undefined && entry.max === undefined
        ? 'values'
        : entry.min === undefined
          ? 'min'
          : 'max'
    return {
      faults: [
        ...faults,
        {
          at: '',
          what: `'${missing}' is missing`,
          hint: 'write [1, 2, 4], 1..32, or {kind: int, min: 1, max: 32}',
        },
      ],
    }
  }
  if (knownParameter?.names !== undefined || entry.kind === 'categorical')
    return {
      faults: [
        {
          at: '',
          what: 'a range of names',
          hint: `list them: [${knownParameter?.names?.slice(0, 3).join(', ') || 'a, b, c'}]`,
        },
      ],
    }
  const min = readNumber(entry.min, 'min')
  const max = readNumber(entry.max, 'max')
  if (min > max)
    faults.push({ at: 'min', what: `min ${min} is above max ${max}`, hint: 'swap them' })
  const scale = entry.scale ?? knownParameter?.scale ?? 'linear'
  if (entry.scale === 'log' && min <= 0)
    faults.push({
      at: 'scale',
      what: `a log scale that starts at ${min}`,
      hint: 'a log scale needs min above 0',
    })
  if (faults.length > 0) return { faults }

  const integers =
    Number.isInteger(min) && Number.isInteger(max) && Number.isInteger(entry.step ?? 1)
  const kind = entry.kind ?? (integers ? 'int' : 'float')
  if ((kind === 'int' || knownParameter?.whole) && !integers)
    faults.push({
      at: '',
      what: 'min, max and step must be whole numbers',
      hint: knownParameter?.whole ? '' : 'or use kind: float',
    })
  const roundValues = (values: number[]) =>
    kind === 'int' ? [...new Set(values.map(Math.round))] : values
  if (entry.factor !== undefined && min <= 0)
    faults.push({ at: 'min', what: `a factor with min ${min}`, hint: 'a factor needs min above 0' })
  if (faults.length > 0) return { faults }
  if (entry.factor !== undefined)
    return finish({
      ...base,
      ...buildOrdinal(
        roundValues(listGeometricValues(min, max, entry.factor)),
        entry,
        knownParameter,
        faults,
      ),
    })
  if (knownParameter?.powers && entry.step === undefined && entry.kind === undefined)
    return finish({
      ...base,
      ...buildOrdinal(listPowersOfTwo(min, max), entry, knownParameter, faults),
    })
  return finish({
    ...base,
    kind: kind === 'float' ? 'float' : 'int',
    min,
    max,
    step: entry.step,
    scale: min > 0 ? scale : 'linear',
  })
}

function buildOrdinal(
  values: readonly number[],
  entry: ParameterEntry,
  known: KnownParameter | undefined,
  faults: Fault[],
): Pick<OrdinalParameter, 'kind' | 'values' | 'scale'> {
  const twice = values.find((value, i) => values.indexOf(value) < i && !Number.isNaN(value))
  if (twice !== undefined)
    faults.push({ at: 'values', what: `${twice} appears twice`, hint: 'list each value once' })
  const sorted = values.toSorted((a, b) => a - b)
  if (entry.scale === 'log' && sorted[0]! <= 0)
    faults.push({
      at: 'scale',
      what: `a log scale with the value ${sorted[0]}`,
      hint: 'a log scale needs values above 0',
    })
  return {
    kind: 'ordinal',
    values: sorted,
    scale: sorted[0]! > 0 ? (entry.scale ?? known?.scale ?? 'linear') : 'linear',
  }
}

function buildCategorical(
  name: string,
  entry: ParameterEntry,
  known: KnownParameter | undefined,
  ownGpus: readonly Gpu[],
  faults: Fault[],
): Pick<CategoricalParameter, 'kind' | 'values' | 'features'> {
  const values = (entry.values ?? []).map(String)
  const names =
    name === 'gpu' ? values.map((value) => resolveGpuName(value, ownGpus, faults)) : values
  if (known?.names && known.names.length > 0)
    for (const value of names.filter((value) => !known.names?.includes(value)))
      faults.push({
        at: 'values',
        what: `unknown ${name} '${value}'`,
        hint: suggestNames(value, known.names),
      })
  const twice = names.find((value, i) => names.indexOf(value) !== i)
  if (twice !== undefined)
    faults.push({ at: 'values', what: `${twice} appears twice`, hint: 'list each value once' })
  if (entry.features)
    for (const value of names.filter(
      (value) =>
        entry.features?.[value]?.length !== entry.features?.[names[0]!]?.length ||
        !entry.features?.[value],
    ))
      faults.push({
        at: 'features',
        what: `no features for ${value}, or a different number than for the others`,
        hint: 'use the same number of features for every value',
      })
  if (faults.length > 0) return { kind: 'categorical', values: names }
  return {
    kind: 'categorical',
    values: names,
    features: entry.features ?? (name === 'gpu' ? computeGpuFeatures(names, ownGpus) : undefined),
  }
}

function resolveGpuName(value: string, ownGpus: readonly Gpu[], faults: Fault[]): string {
  if (value === 'none') return value
  try {
    return findGpu(value, ownGpus).name
  } catch (error) {
    if (!(error instanceof DeviceModelError)) throw error
    faults.push({ at: 'values', what: `unknown GPU '${value}'`, hint: error.hint ?? '' })
    return value
  }
}

/** NaN if the text is no number of this parameter. */
function parseText(text: string, known: KnownParameter | undefined): number {
  const number = text.trim() === '' ? Number.NaN : Number(text)
  if (Number.isFinite(number) || !known?.parse) return number
  try {
    return known.parse(text)
  } catch (error) {
    if (error instanceof UnitError) return Number.NaN
    throw error
  }
}

/** '1-32' probably means a range. */
function suggestRange(written: number | string): string | undefined {
  const [, min, max] = /^\s*([\d.]+)\s*[-–]\s*([\d.]+)\s*$/.exec(String(written)) ?? []
  return min === undefined ? undefined : `write ${min}..${max} for a range`
}

function checkNumber(
  value: number,
  written: number | string,
  known: KnownParameter | undefined,
): { what: string; hint: string } | undefined {
  if (!Number.isFinite(value))
    return {
      what: `'${written}' is not a number`,
      hint:
        suggestRange(written) ??
        (known?.parse
          ? `${known.what}, e.g. ${known.name === 'memoryMiB' ? '4GiB' : '25'}`
          : 'use kind: categorical for names'),
    }
  if (known?.whole && !Number.isInteger(value))
    return { what: `${value} is not a whole number`, hint: `${known.name}: ${known.what}` }
  if (known?.min !== undefined && value < known.min)
    return {
      what: `${value} is below ${known.min}`,
      hint: `${known.name}: ${known.what}, ${known.min} or more`,
    }
  if (known?.max !== undefined && value > known.max)
    return {
      what: `${value} is above ${known.max}`,
      hint: `${known.name}: ${known.what}, at most ${known.max}`,
    }
  return undefined
}
