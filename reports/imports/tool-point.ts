/**
 * Results of load testers in one form: the rate and latency of a configuration under a load.
 * Helpers for their readers, which collect all faults of a file.
 */
import type { LatencyMetric } from '../../profiler/model/latency-metrics.ts'
import { type Source, TableError } from '../../trials/table-text.ts'

export interface ImportOptions {
  /** The latency that the limit applies to. */
  readonly metric: LatencyMetric
  readonly percentile: number
  /**
   * Absent: every latency is accepted, unless the tool reports that its own limits are violated.
   */
  readonly limitMs?: number
  /** Price of one server with its GPU, $ per hour; the files have no prices. */
  readonly pricePerHour: number
  /** Share of requests that may fail. */
  readonly maxErrorRate: number
}

export interface ToolPoint {
  /** 'runs.csv:12'. */
  readonly where: string
  /** Parameters of the server, as far as the file has them. */
  readonly configuration: Readonly<Record<string, string | number>>
  /** Parameters of the load. */
  readonly load: Readonly<Record<string, string | number>>
  readonly ratePerSecond: number
  readonly latencyMs: number
  /** Share of requests that failed where the file has it. */
  readonly errorRate?: number
  /** An assumption about the figures that the file does not settle. */
  readonly assumption?: string
  /** A hint at failures where the file does not count them: 'of its checks 6 of 12 failed'. */
  readonly failureHint?: string
  /** Number of requests, failed ones included, where the file has it. */
  readonly requests?: number
  /** How long the load lasted where the file has it. */
  readonly seconds?: number
  /** What was served where the file has it. */
  readonly model?: string
  /** Whether the tool reports that limits given to it are met. */
  readonly meetsOwnLimits?: boolean
}

/**
 * Reader of one tool's files. `read` returns undefined for a file of another tool, and throws
 * TableError for one of its own that is incomplete.
 */
export interface ToolReader {
  readonly tool: string
  /** The tool measures language model servers. */
  readonly language?: true
  read(source: Source, options: ImportOptions): readonly ToolPoint[] | undefined
}

/**
 * Parses a figure as tools print it: 12.5, '1,234.50'; of several models '294.0, [177.0,117.0]',
 * the first.
 * @throws TableError for what is no number
 */
export function parseFigure(
  cell: string | number | undefined,
  what: string,
  where: string,
): number {
  const text = String(cell ?? '').trim()
  const first = /^([\d.]+), ?\[.*\]$/.exec(text)?.[1] ?? text
  const plain = /^\d{1,3}(,\d{3})+(\.\d+)?$/.test(first) ? first.replaceAll(',', '') : first
  const value = plain === '' ? Number.NaN : Number(plain)
  if (!Number.isFinite(value))
    throw new TableError([{ where, what: `${what} is '${text}', not a number` }])
  return value
}

/**
 * Requires a column or key that must be there.
 * @throws TableError that lists the alternatives in `there`
 */
export function requireFound<T>(
  found: T | undefined,
  name: string,
  file: string,
  there: readonly string[],
): T {
  if (found !== undefined) return found
  const hint = there.length > 0 ? `it has ${there.join(', ')}` : undefined
  throw new TableError([{ where: file, what: `no ${name}`, ...(hint ? { hint } : {}) }])
}

/**
 * Maps all items with `read`.
 * @throws TableError with the problems of all items together
 */
export function mapCollectingErrors<T, Read>(
  all: readonly T[],
  read: (one: T, at: number) => Read,
): Read[] {
  const problems: TableError['problems'][number][] = []
  const found = Array.from(all).flatMap((one, i) => {
    try {
      return [read(one, i)]
    } catch (error) {
      if (!(error instanceof TableError)) throw error
      problems.push(...error.problems)
      return []
    }
  })
  if (problems.length > 0) throw new TableError(problems)
  return found
}

/**
 * Requires an entry of a JSON file that has to be an object.
 * @throws TableError
 */
export function requireObject<T extends object>(value: T | undefined, where: string): T {
  if (typeof value === 'object') return value
  throw new TableError([{ where, what: `it is ${JSON.stringify(value) ?? 'null'}, not an object` }])
}

/**
 * JSON whose nulls are as good as absent, and so are NaN and Infinity, which Python's json.dump
 * writes for what was not measured.
 * @throws SyntaxError
 */
const parseJsonText = (text: string): unknown =>
  JSON.parse(
    text.replace(/"(?:\\.|[^"\\])*"|-?\b(?:NaN|Infinity)\b/g, (token) =>
      token.startsWith('"') ? token : 'null',
    ),
    (_key, value) => value ?? undefined,
  )

const parsedJson = new WeakMap<Source, unknown>()

/**
 * Parses the JSON of a file, as `parseKnown` reads it; parsed once, whoever asks.
 * @throws SyntaxError
 */
export function parseJson(source: Source): unknown {
  if (!parsedJson.has(source)) parsedJson.set(source, parseJsonText(source.text))
  return parsedJson.get(source)
}

/** Parses the JSON object of each line; undefined if the file is one document. */
export function parseJsonLines({ text }: Source): unknown[] | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  if (lines.length < 2 || !lines.every((line) => /^\s*\{.*\}\s*$/.test(line))) return undefined
  return lines.map(parseJsonText)
}

/** Notes on what the files leave open: failures that are not counted, and assumptions. */
export function describeUnknowns(
  loads: readonly { readonly tool: string; readonly point: ToolPoint }[],
): string[] {
  const failures = loads
    .filter(({ point }) => point.errorRate === undefined)
    .map(
      ({ tool, point: { failureHint } }) =>
        `${tool} does not say how many requests failed${failureHint === undefined ? '' : ` (${failureHint})`}`,
    )
  const assumptions = loads.flatMap(({ point }) => point.assumption ?? [])
  return [...new Set([...failures, ...assumptions])]
}

/** Number of requests and share of failed ones; empty if the file counts none. */
export const toErrorRate = (
  failed: number,
  good: number,
): Pick<ToolPoint, 'errorRate' | 'requests'> =>
  failed + good > 0 ? { errorRate: failed / (failed + good), requests: failed + good } : {}

/** Text as a number where it is one. */
export const parseIfNumeric = (text: string): string | number =>
  text.trim() !== '' && Number.isFinite(Number(text)) ? Number(text) : text
