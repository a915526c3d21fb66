/**
 * What load testers write, in one form: at a load, a server in a configuration answered so many
 * requests a second with such a latency.
 */
import type { LatencyMetric } from '../../profiler/model/latency-metrics.ts'
import { type Source, TableError } from '../../trials/table-text.ts'

export interface ImportOptions {
  /** Which latency the limit is of. */
  readonly metric: LatencyMetric
  readonly percentile: number
  /** Absent: every latency is taken, unless the tool says that its own limits are not kept. */
  readonly limitMs?: number
  /** Of one server with its GPU, $; the files say nothing of prices. */
  readonly pricePerHour: number
  /** Share of requests that may fail. */
  readonly maxErrorRate: number
}

export interface ToolPoint {
  /** 'runs.csv:12'. */
  readonly where: string
  /** How the server was set up, as far as the file says. */
  readonly configuration: Readonly<Record<string, string | number>>
  /** What load it was put under. */
  readonly load: Readonly<Record<string, string | number>>
  readonly ratePerSecond: number
  readonly latencyMs: number
  /** Share of requests that failed, where the file says. */
  readonly errorRate?: number
  /** What is assumed of the figures because the file does not say it. */
  readonly assumption?: string
  /** What the file says of failures where it does not count them: 'its checks: 6 of 12 failed'. */
  readonly failureHint?: string
  /** All of them, failed ones too, where the file says. */
  readonly requests?: number
  /** How long the load lasted, where the file says. */
  readonly seconds?: number
  /** What was served, where the file says. */
  readonly model?: string
  /** The tool's own word on limits it was given. */
  readonly keepsOwnLimits?: boolean
}

/**
 * One tool's files: `read` gives undefined for a file of another, and throws TableError for one of
 * its own that lacks something.
 */
export interface ToolReader {
  readonly tool: string
  /** Its servers answer in tokens. */
  readonly language?: true
  read(source: Source, options: ImportOptions): readonly ToolPoint[] | undefined
}

/**
 * A figure as tools print it: 12.5, '1,234.50'; of several models '294.0, [177.0,117.0]', the
 * first.
 * @throws TableError for what is no number
 */
export function figure(cell: string | number | undefined, what: string, where: string): number {
  const text = String(cell ?? '').trim()
  const first = /^([\d.]+), ?\[.*\]$/.exec(text)?.[1] ?? text
  const plain = /^\d{1,3}(,\d{3})+(\.\d+)?$/.test(first) ? first.replaceAll(',', '') : first
  const value = plain === '' ? Number.NaN : Number(plain)
  if (!Number.isFinite(value))
    throw new TableError([{ where, what: `${what} is '${text}', not a number` }])
  return value
}

/** One of the columns or keys of a file; without it, what there is of the kind. */
export function wanted<T>(
  found: T | undefined,
  name: string,
  file: string,
  there: readonly string[],
): T {
  if (found !== undefined) return found
  const hint = there.length > 0 ? `it has ${there.join(', ')}` : undefined
  throw new TableError([{ where: file, what: `no ${name}`, ...(hint ? { hint } : {}) }])
}

/** What `read` makes of each; where it throws TableErrors, all of them together. */
export function each<T, Read>(all: readonly T[], read: (one: T, at: number) => Read): Read[] {
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

/** An entry of a JSON file that has to be an object. Throws TableError. */
export function entry<T extends object>(value: T | undefined, where: string): T {
  if (typeof value === 'object') return value
  throw new TableError([{ where, what: `it is ${JSON.stringify(value) ?? 'null'}, not an object` }])
}

/**
 * JSON whose nulls are as good as absent, and so are NaN and Infinity, which Python's json.dump
 * writes for what was not measured.
 * @throws SyntaxError
 */
const parseKnown = (text: string): unknown =>
  JSON.parse(
    text.replace(/"(?:\\.|[^"\\])*"|-?\b(?:NaN|Infinity)\b/g, (token) =>
      token.startsWith('"') ? token : 'null',
    ),
    (_key, value) => value ?? undefined,
  )

const documents = new WeakMap<Source, unknown>()

/** The JSON of a file, as `parseKnown` reads it; parsed once, whoever asks. Throws SyntaxError. */
export function jsonOf(source: Source): unknown {
  if (!documents.has(source)) documents.set(source, parseKnown(source.text))
  return documents.get(source)
}

/** Of each line its JSON object; undefined where the file is one document. */
export function jsonLinesOf({ text }: Source): unknown[] | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  if (lines.length < 2 || !lines.every((line) => /^\s*\{.*\}\s*$/.test(line))) return undefined
  return lines.map(parseKnown)
}

/** What the files leave open, in words for a person: unknown failures, and what is assumed. */
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

/** How many requests there were, and which share of them failed; nothing where neither is told. */
export const failures = (
  failed: number,
  good: number,
): Pick<ToolPoint, 'errorRate' | 'requests'> =>
  failed + good > 0 ? { errorRate: failed / (failed + good), requests: failed + good } : {}
