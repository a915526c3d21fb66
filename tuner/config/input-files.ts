/** Reads the files that an experiment names: GPUs, architecture, prices, arrival trace, payload. */
import { existsSync } from 'node:fs'
import { getHint, readText } from '../../profiler/bounded-reader.ts'
import type { Arrivals } from '../../profiler/model/load.ts'
import type { PayloadOrder, PayloadSource } from '../../profiler/payload-source.ts'
import { PayloadError } from '../../profiler/profiler-errors.ts'
import { isConversations } from '../../profiler/protocols/conversations.ts'
import { loadTokenCounter } from '../../profiler/protocols/tokenizer.ts'
import type { WarmUp } from '../../profiler/protocols/warm-up-requests.ts'
import type { Architecture } from '../../trials/devices/architecture.ts'
import type { Gpu } from '../../trials/devices/catalogue.ts'
import { parseGpus, readArchitecture } from '../../trials/devices/custom-devices.ts'
import { defaultPriceBook, type PriceBook } from '../../trials/prices/book.ts'
import { parsePriceBook } from '../../trials/prices/parse-book.ts'
import {
  explainUnknownRates,
  findProviderBook,
  providerNames,
} from '../../trials/prices/providers.ts'
import { sequenceNames } from '../../trials/servers/language-knobs.ts'
import { YamlFileError } from '../../trials/yaml.ts'
import { type Context, type SettingsContext, shortenPath } from './context.ts'
import { defaults } from './names.ts'
import { readLengths } from './recorded-lengths.ts'
import { resolveClasses } from './settings/class-settings.ts'
import { readTrace } from './trace.ts'
import { detectPayloadKind, guessPayloadKind, resolveContentType } from './values/payload.ts'
import { resolvePrompts } from './values/prompts.ts'
import { UnitError } from './values/units.ts'
import type { Path } from './yaml-file.ts'

/** @returns undefined if the file is unusable, which is reported */
export function resolveGpus({
  entries: { gpuCatalogue: path },
  report,
  host,
}: SettingsContext): readonly Gpu[] | undefined {
  if (path === undefined) return []
  try {
    return parseGpus(readText(path, 'document'), shortenPath(path, host))
  } catch (error) {
    if (error instanceof YamlFileError)
      for (const problem of error.problems) report(['gpuCatalogue'], `GPU file ${problem}`, '')
    else
      report(
        ['gpuCatalogue'],
        `cannot read the GPU file: ${(error as Error).message}`,
        getHint(error) ??
          'write YAML: NAME: {memoryGiB: 16, bandwidthGBs: 500, peakTflops: {fp32: 20, fp16: 80}}',
      )
    return undefined
  }
}

/**
 * Resolves the architecture of a file of dimensions.
 * @returns undefined if the file is unusable, which is reported
 */
export function resolveArchitecture(
  { report, host }: SettingsContext,
  path: string,
  name: string,
): Architecture | undefined {
  const at = ['model', 'architecture']
  try {
    return readArchitecture(path, shortenPath(path, host), name)
  } catch (error) {
    if (error instanceof YamlFileError)
      for (const problem of error.problems) report(at, `architecture file ${problem}`, '')
    else
      report(
        at,
        `cannot read the architecture file: ${(error as Error).message}`,
        getHint(error) ?? 'use the config.json of a transformer, or its dimensions in YAML',
      )
    return undefined
  }
}

export function resolvePrices({ entries: { prices }, report, own, host }: Context): PriceBook {
  if (prices === undefined) return defaultPriceBook
  const provider = findProviderBook(prices)
  if (provider !== undefined) return provider
  try {
    return parsePriceBook(readText(prices, 'document'), shortenPath(prices, host), own.gpus)
  } catch (error) {
    if (error instanceof YamlFileError)
      for (const problem of error.problems) report(['prices'], `price book ${problem}`, '')
    else
      report(
        ['prices'],
        `cannot read the price book: ${(error as Error).message}`,
        explainUnknownRates(prices) ??
          getHint(error) ??
          `check the path, use a provider (${providerNames.join(', ')}), or leave it out for on-demand list prices`,
      )
    return defaultPriceBook
  }
}

/** @returns the arrivals, and the items and bodies of a trace */
export function resolveArrivals({ entries, report, host }: Context): {
  arrivals: Arrivals
  order?: PayloadOrder
} {
  const arrivals = entries.load.arrivals
  if (arrivals.kind === 'on-off')
    return { arrivals: { kind: 'on-off', onS: arrivals.on / 1000, offS: arrivals.off / 1000 } }
  if (arrivals.kind !== 'trace') return { arrivals }
  try {
    const { atMs, order, readAs } = readTrace(
      arrivals.file,
      shortenPath(arrivals.file, host),
      arrivals.unit,
    )
    return { arrivals: { kind: 'trace', atMs, readAs }, order }
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    report(['load', 'arrivals'], error.message, error.hint)
    return { arrivals: { kind: 'trace', atMs: [] } }
  }
}

/**
 * Whether the maximum sequence length is tuned. All configurations then get the same requests, and
 * reject those that are too long.
 */
const isSequenceLengthTuned = ({ space = {}, pin = {} }: Context['entries']): boolean =>
  sequenceNames.some(
    (name) =>
      Object.hasOwn(space, name) && !Object.hasOwn(pin, name) && space[name]!.values?.length !== 1,
  )

/** Settings that recorded conversations determine themselves. */
const promptLengthKeys = [
  'inputTokens',
  'outputTokens',
  'sharedPrefixTokens',
  'prefixes',
  'classes',
  'lengths',
  'items',
] as const

/**
 * @param order items and bodies of the arrival trace
 * @param streamed whether the requests are prompts of a language model
 */
export function resolvePayload(
  context: Context,
  order: PayloadOrder | undefined,
  streamed: boolean,
): PayloadSource {
  const { entries, report, host } = context
  const payload = entries.load.payload ?? {}
  const { items, count, tokenizer } = payload
  const { seed } = entries
  const at: Path = ['load', 'payload']
  const tryReadLengths = (file: string) => {
    if (payload.inputTokens !== undefined || payload.outputTokens !== undefined)
      report([...at, 'lengths'], 'both recorded and sampled lengths', 'use only one of them')
    try {
      return readLengths(file, shortenPath(file, host))
    } catch (error) {
      if (!(error instanceof UnitError)) throw error
      report([...at, 'lengths'], error.message, error.hint)
      return undefined
    }
  }
  const path = payload.file === 'generated' ? undefined : payload.file
  const conversationsPath =
    streamed && path !== undefined && isConversations(path) ? path : undefined
  if (
    payload.conversations !== undefined &&
    payload.turns === undefined &&
    conversationsPath === undefined
  )
    report(
      [...at, 'conversations'],
      'conversations without turns',
      'add turns, such as turns: 1..6',
    )
  if (payload.turns !== undefined && payload.lengths !== undefined)
    report([...at, 'turns'], 'both turns and recorded lengths', 'use only one of them')
  const recorded = payload.lengths === undefined ? undefined : tryReadLengths(payload.lengths)
  if (tokenizer !== undefined)
    try {
      loadTokenCounter(tokenizer)
    } catch (error) {
      if (!(error instanceof PayloadError)) throw error
      report(
        [...at, 'tokenizer'],
        error.message,
        error.hint ?? 'use another file, or none: then one word counts as one token',
      )
    }
  const generatedCount = count ?? (streamed ? defaults.promptCount : defaults.payloadCount)
  const classes =
    payload.classes && resolveClasses(context, payload.classes, payload, generatedCount, streamed)
  const prompts = resolvePrompts(payload, { recorded, classes, file: conversationsPath })
  if (items !== undefined && order?.items !== undefined)
    report([...at, 'items'], 'the trace already sets the items per request', 'use only one of them')
  if (entries.backend === 'simulated' && (items ?? order?.items) !== undefined)
    report(
      [...at, 'items'],
      'requests to a simulated predictor have one item',
      'leave the items out, or use --backend local',
    )
  const common = { seed, ...(items && { items }), ...(order && { order }) }
  for (const key of conversationsPath === undefined ? [] : promptLengthKeys)
    if (payload[key] !== undefined)
      report(
        [...at, key],
        `both ${key} and recorded conversations`,
        'recorded conversations have fixed lengths: use only one of them',
      )
  if (path === undefined || conversationsPath !== undefined)
    return {
      kind: 'generated',
      count: generatedCount,
      ...(prompts && { prompts }),
      ...(streamed && isSequenceLengthTuned(entries) && { keepOverlongPrompts: true }),
      ...common,
    }
  if (prompts !== undefined)
    report(at, 'a file of prompts has its own lengths', 'use only one of them')
  const kind = resolvePayloadKind(context, [...at, 'file'], path)
  if (kind !== 'file') return { kind, path, ...(count !== undefined && { count }), ...common }
  if (count !== undefined)
    report(
      [...at, 'count'],
      'a file that is the whole request has no count of bodies',
      'use only one of them',
    )
  if (items !== undefined || order?.items !== undefined)
    report(
      [...at, 'file'],
      `${shortenPath(path, host)} contains whole requests, so their items cannot be set`,
      'use texts (.txt) or a folder of images',
    )
  const contentType = resolveContentType(path, entries.predictor?.contentType)
  return { kind, path, ...(contentType && { contentType }), ...(order && { order }) }
}

/** Kind of a payload file; `file` for an unusable one, which is reported. */
function resolvePayloadKind(
  { report, host }: Context,
  at: Path,
  path: string,
): ReturnType<typeof detectPayloadKind> {
  if (host.isReadOnly && !existsSync(path)) return guessPayloadKind(path)
  try {
    return detectPayloadKind(path)
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    report(at, error.message, error.hint)
    return 'file'
  }
}

/** Warm-up requests; undefined if none are configured. */
export function resolveWarmUp(context: Context): WarmUp | undefined {
  const { entries, report } = context
  const warmUp = entries.load.warmUp
  if (warmUp === undefined) return undefined
  const at: Path = ['load', 'warmUp']
  if (entries.backend === 'simulated')
    report(at, 'a simulated predictor is always warm', 'leave it out, or use --backend local')
  const { requests, atOnce, payload } = warmUp
  if (requests === undefined && payload === undefined)
    report(at, 'no warm-up requests', 'set their number: warmUp: 100')
  const common = {
    ...(requests !== undefined && { requests }),
    ...(atOnce !== undefined && { atOnce }),
  }
  if (payload === undefined) return common
  const kind = resolvePayloadKind(context, at, payload)
  const contentType = resolveContentType(payload, entries.predictor?.contentType)
  const source: PayloadSource =
    kind === 'file'
      ? { kind, path: payload, ...(contentType && { contentType }) }
      : { kind, path: payload, seed: entries.seed }
  return { ...common, payload: source }
}
