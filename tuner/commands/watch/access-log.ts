/**
 * Lines of access logs as requests: nginx and Apache with the request time, Envoy and Istio, JSON
 * lines.
 */
import { jsonFrom } from '../../../profiler/bounded-reader.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'

export interface LoggedRequest {
  /** When it was logged, seconds since 1970. */
  readonly atS: number
  readonly latencyMs: number
  readonly status: number
  readonly path: string
  readonly version?: string
}

export const logFormats = ['combined', 'envoy', 'json'] as const
export type LogFormat = (typeof logFormats)[number]

/**
 * Names of a JSON line's fields, in the order in which they are looked for; a time with its unit in
 * ms.
 */
export interface JsonFields {
  readonly time: readonly string[]
  readonly latency: readonly (readonly [field: string, ms: number])[]
  readonly status: readonly string[]
  readonly path: readonly string[]
  readonly version: readonly string[]
}

export const usualFields: JsonFields = {
  time: ['time', 'timestamp', '@timestamp', 'ts', 'time_iso8601', 'start_time', 'msec'],
  latency: [
    ['request_time', 1000],
    ['latency_ms', 1],
    ['duration_ms', 1],
    ['duration', 1],
    ['latency_s', 1000],
    ['duration_s', 1000],
  ],
  status: ['status', 'response_code', 'status_code'],
  path: ['path', 'uri', 'request_uri', 'url', 'request'],
  version: [],
}

const units: Readonly<Record<string, number>> = { us: 0.001, ms: 1, s: 1000 }

/** The usual fields with those of `--field latency=took:us` before them. @throws UserError */
export function fieldsWith(given: readonly string[], versionLabel: string | undefined): JsonFields {
  const fields = { ...usualFields, ...(versionLabel !== undefined && { version: [versionLabel] }) }
  for (const text of given) {
    const [, name = '', field = '', unit = 'ms'] =
      /^([a-z]+)=([^:]+)(?::(us|ms|s))?$/.exec(text) ?? []
    if (!Object.hasOwn(usualFields, name))
      throw new UserError(
        `--field ${text} names no field`,
        `write ${Object.keys(usualFields).join(', ')}: --field latency=took:us`,
        exitCodes.usage,
      )
    const key = name as keyof JsonFields
    if (key === 'latency') fields.latency = [[field, units[unit]!], ...fields.latency]
    else fields[key] = [field, ...fields[key]]
  }
  return fields
}

/** The request of a line; undefined where it is none of the format. */
export function requestOf(
  line: string,
  format: LogFormat,
  fields: JsonFields,
): LoggedRequest | undefined {
  const request =
    format === 'json' ? ofJson(line, fields) : format === 'envoy' ? ofEnvoy(line) : ofCombined(line)
  return request && Number.isFinite(request.atS) && request.latencyMs >= 0 && request.status > 0
    ? request
    : undefined
}

/** The format of a log by its first lines; undefined where it is none that is known. */
export const formatOf = (lines: readonly string[], fields: JsonFields): LogFormat | undefined =>
  logFormats.find((format) => lines.some((line) => requestOf(line, format, fields) !== undefined))

/**
 * 127.0.0.1 - - [23/Nov/2026:13:30:21 +0000] "GET /x HTTP/1.1" 200 12 "-" "agent" 0.012, or
 * rt=0.012 anywhere behind; of Apache's %D whole microseconds.
 */
function ofCombined(line: string): LoggedRequest | undefined {
  const found = /^[^[]*\[([^\]]+)\] "((?:[^"\\]|\\.)*)" (\d{3}) (?:\d+|-)(.*)$/.exec(line)
  if (!found) return undefined
  const [, time = '', request = '', status, rest = ''] = found
  // A number at the end of an agent's name is none: its quote was opened before.
  const behind = /(?:^|\s)(?:"(\d+(?:\.\d+)?)"|(\d+(?:\.\d+)?))\s*$/.exec(rest)
  const took =
    /\b(?:rt|request_time)="?(\d+(?:\.\d+)?)/.exec(rest)?.[1] ?? behind?.[1] ?? behind?.[2]
  if (took === undefined) return undefined
  return {
    atS: clfTime(time),
    latencyMs: Number(took) * (took.includes('.') ? 1000 : 0.001),
    status: Number(status),
    path: pathOf(request),
  }
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** '23/Nov/2026:13:30:21 +0100' */
function clfTime(text: string): number {
  const found = /^(\d\d)\/(\w{3})\/(\d{4}):(\d\d:\d\d:\d\d) ([+-]\d\d)(\d\d)$/.exec(text)
  if (!found) return Number.NaN
  const [, day, month = '', year, time, zone, minutes] = found
  return (
    Date.parse(
      `${year}-${String(months.indexOf(month) + 1).padStart(2, '0')}-${day}T${time}${zone}:${minutes}`,
    ) / 1000
  )
}

/**
 * [2026-11-23T13:30:21.120Z] "POST /x HTTP/2" 200 - 154 0 226 100 ...; Istio has three words behind
 * the flags. Logged at the end, stamped at the start.
 */
function ofEnvoy(line: string): LoggedRequest | undefined {
  const found =
    /^\[([^\]]+)\] "([^"]*)" (\d+) \S+ (?:[^\d"\s]\S* [^\d"\s]\S* (?:"[^"]*"|-) )?(\d+) (\d+) (\d+) /.exec(
      line,
    )
  if (!found) return undefined
  const [, time = '', request = '', status, , , took] = found
  const latencyMs = Number(took)
  return {
    atS: Date.parse(time) / 1000 + latencyMs / 1000,
    latencyMs,
    status: Number(status),
    path: pathOf(request),
  }
}

function ofJson(line: string, fields: JsonFields): LoggedRequest | undefined {
  const entry = recordOf(line)
  if (entry === undefined) return undefined
  const isThere = (name: string) =>
    entry[name] !== undefined && entry[name] !== null && entry[name] !== ''
  const first = (names: readonly string[]) => names.filter(isThere).map((name) => entry[name])[0]
  const latency = fields.latency.find(([field]) => isThere(field))
  const stamped = fields.time.find(isThere)
  if (latency === undefined || stamped === undefined) return undefined
  const latencyMs = Number(entry[latency[0]]) * latency[1]
  const version = first(fields.version)
  return {
    // Logged at the end: what is stamped at its start is that much later.
    atS: jsonTime(entry[stamped]) + (stamped === 'start_time' ? latencyMs / 1000 : 0),
    latencyMs,
    // Envoy writes 0 for a connection that broke before an answer.
    status: Number(first(fields.status) ?? 200) || 599,
    path: pathOf(String(first(fields.path) ?? '')),
    ...(version !== undefined && { version: String(version) }),
  }
}

function recordOf(line: string): Readonly<Record<string, unknown>> | undefined {
  if (!line.trimStart().startsWith('{')) return undefined
  try {
    const document = jsonFrom(line)
    return typeof document === 'object' && document !== null
      ? (document as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

/** ISO 8601, or seconds or milliseconds since 1970. */
function jsonTime(value: unknown): number {
  const number = Number(value)
  if (Number.isFinite(number) && value !== '') return number > 1e11 ? number / 1000 : number
  return Date.parse(String(value).replace(/(\d),(\d)/, '$1.$2')) / 1000 || clfTime(String(value))
}

/** Of a request's first line, 'POST /x HTTP/1.1'; a path stays what it is. */
const pathOf = (text: string): string => text.split(' ', 2)[1] ?? text
