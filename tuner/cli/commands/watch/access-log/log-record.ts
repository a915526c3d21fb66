/** Parses a line of a log into a record of fields. */
import { parseUntrustedJson } from '../../../../../profiler/bounded-reader.ts'
import { type LogRecord, parseTextLine, type TextShape, textShapes } from './text-shapes.ts'

/**
 * Syntaxes of a line, which decide how it splits into fields; `LogFormat` adds the latency field.
 */
export const logShapes = ['json', ...textShapes] as const
export type LogShape = 'json' | TextShape

export interface LogLine {
  readonly shape: LogShape
  readonly record: LogRecord
  /** Time stamp of the container runtime, syslog or kubectl, verbatim. */
  readonly loggedAt?: string
}

/** Prefixes that log shippers add to a line; the first group is the time, or empty. */
const prefixes: readonly RegExp[] = [
  // CRI: 2026-11-23T13:30:21.1Z stdout F ...
  /^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) [FP](?::\S*)? (.*)$/,
  // kubectl logs --prefix
  /^()\[pod\/\S+\] (.*)$/,
  // Heroku and syslog with a full time
  /^(?:<\d+>)?(?:\d+ )?(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (?:[^\s:]+ )?[\w./-]+(?:\[[\w.]*\])?: (.*)$/,
  // kubectl logs --timestamps
  /^(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)) (.*)$/,
  // docker compose
  /^()[\w.-]+ +\| (.*)$/,
  // syslog, whose time has neither year nor zone
  /^(?:<\d+>)?()[A-Z][a-z]{2} [ \d]\d [\d:]{8} (?:[^\s:]+ )?[^\s:]+: (.*)$/,
]
/** Maximum number of nested prefixes and JSON records around a line. */
const maxPrefixes = 3

/**
 * @param shapes syntaxes to accept
 * @returns undefined if the line has none of them
 */
export function parseLogLine(
  line: string,
  shapes: readonly LogShape[] = logShapes,
): LogLine | undefined {
  let text = line.trim()
  let loggedAt: string | undefined
  for (let i = 0; i <= maxPrefixes; i++) {
    const record = parseJsonRecord(text)
    const wrapped = record && findWrappedLine(record)
    if (wrapped !== undefined) {
      text = wrapped.trim()
      loggedAt ??= toText(record!.time) ?? toText(record!['@timestamp'])
      continue
    }
    const time = loggedAt === undefined ? {} : { loggedAt }
    if (record) return shapes.includes('json') ? { shape: 'json', record, ...time } : undefined
    const parsed = parseTextLine(text, shapes)
    if (parsed) return { ...parsed, ...time }
    const [, at, rest] = prefixes.find((prefix) => prefix.test(text))?.exec(text) ?? []
    if (rest === undefined) return undefined
    if (at) loggedAt ??= at
    text = rest.trim()
  }
  return undefined
}

const toText = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/**
 * Finds a wrapped line: Docker's JSON files and fluent-bit have it in `log`, Filebeat and Logstash
 * in `message`.
 */
function findWrappedLine({ log, message }: LogRecord): string | undefined {
  if (typeof log === 'string') return log
  return typeof message === 'string' && /^\s*\{"|\] "[A-Z]+ /.test(message) ? message : undefined
}

function parseJsonRecord(text: string): LogRecord | undefined {
  if (!text.startsWith('{')) return undefined
  try {
    const document = parseUntrustedJson(text)
    return typeof document === 'object' && document !== null && !Array.isArray(document)
      ? (document as LogRecord)
      : undefined
  } catch {
    return undefined
  }
}

/** The value of a key, or of a path such as 'request.uri'. */
export function lookUpField(record: LogRecord, name: string): unknown {
  if (Object.hasOwn(record, name)) return record[name]
  let value: unknown = record
  for (const key of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as LogRecord)[key]
  }
  return value
}

/** Levels of nested objects whose fields are listed. */
const maxDepth = 4

/** Lists every value that is no object, by its path. */
export const listFields = (record: LogRecord, depth = 1): [path: string, value: unknown][] =>
  Object.entries(record).flatMap(([key, value]): [string, unknown][] =>
    typeof value !== 'object' || value === null || Array.isArray(value)
      ? [[key, value]]
      : depth < maxDepth
        ? listFields(value as LogRecord, depth + 1).map(([path, inner]) => [
            `${key}.${path}`,
            inner,
          ])
        : [],
  )
