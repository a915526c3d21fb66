/** Extracts the request from a record: its time, latency, status and path. */
import {
  millisecondsPer,
  parseStatedDurationMs,
  type TimeUnit,
} from '../../../../config/values/time-unit.ts'
import { type LogFields, startTimes } from './fields.ts'
import { type KnownFormat, knownFormats } from './known-formats.ts'
import { type LogLine, type LogShape, lookUpField, parseLogLine } from './log-record.ts'
import type { LogRecord } from './text-shapes.ts'

/** How a log states latencies. JSON-serialisable, because a watch stores it between runs. */
export interface LogFormat {
  readonly shape: LogShape
  /** Name of a known format: lines of other formats are then ignored. */
  readonly known?: string
  /** Field of the latency; `unit` is absent if each value states its own. */
  readonly latency: { readonly field: string; readonly unit?: TimeUnit }
  /** Why the unit of the user seems wrong. */
  readonly warning?: string
}

export interface LoggedRequest {
  /** End of the request, seconds since 1970. */
  readonly atS: number
  /** Absent only for a failed request without a latency. */
  readonly latencyMs?: number
  /** Absent if the line has none. */
  readonly status?: number
  /** Absent if the line has none. */
  readonly path?: string
  readonly version?: string
  /** Whether its time has no zone, and was parsed in the zone of this machine. */
  readonly isLocalTime: boolean
}

/**
 * Statuses assumed if a connection ended before a response: the client disconnected (as nginx logs
 * it), or the server failed.
 */
const [clientClosed, serverFailed] = [499, 599]

/** @returns undefined if the line is not a request of the format */
export function parseRequest(
  text: string,
  format: LogFormat,
  fields: LogFields,
): LoggedRequest | undefined {
  const line = parseLogLine(text, [format.shape])
  if (line === undefined) return undefined
  const knownFormat = findKnownFormat(format.known)
  const latencyField = knownFormat ? knownFormat.findLatency(line) : format.latency.field
  const { record } = line
  const rawLatency = latencyField === undefined ? undefined : lookUpField(record, latencyField)
  const latencyMs = parseLatencyMs(rawLatency, format.latency.unit)
  const status = findStatus(record, fields.status)
  const isAnswered = (status ?? 200) < 400
  const time = findTime(line, fields)
  if (time === undefined || status === null || (latencyMs === undefined && isAnswered))
    return undefined
  const path = findPath(record, fields.path)
  const version = findValue(record, fields.version)
  const isAtStart =
    time.field !== undefined &&
    (knownFormat?.isStampedAtStart === true || startTimes.includes(time.field))
  return {
    atS: time.atS + (isAtStart ? (latencyMs ?? 0) / 1000 : 0),
    ...(latencyMs !== undefined && { latencyMs }),
    ...(status !== undefined && { status }),
    ...(path !== undefined && { path }),
    ...(version !== undefined && { version: String(version) }),
    isLocalTime: time.isLocal,
  }
}

export const findKnownFormat = (name: string | undefined): KnownFormat | undefined =>
  knownFormats.find((known) => known.name === name)

/** @param unit unit of a number without one; absent: such numbers are rejected */
export function parseLatencyMs(value: unknown, unit: TimeUnit | undefined): number | undefined {
  if (typeof value === 'number' || (typeof value === 'string' && /^[\d.]+(?:e-?\d+)?$/.test(value)))
    return unit !== undefined && Number(value) >= 0
      ? Number(value) * millisecondsPer[unit]
      : undefined
  return typeof value === 'string' ? parseStatedDurationMs(value.trim()) : undefined
}

const hasValue = (value: unknown): boolean => value !== undefined && value !== null && value !== ''

const findValue = (record: LogRecord, names: readonly string[]): unknown =>
  names.map((name) => lookUpField(record, name)).find(hasValue)

/**
 * Returns the first value from 100 to 599: fields named 'code' or 'status' may hold something else.
 * @returns undefined if the line has no such field, null if none of them is a status
 */
function findStatus(record: LogRecord, names: readonly string[]): number | undefined | null {
  const values = names.map((name) => lookUpField(record, name)).filter(hasValue)
  if (values.length === 0) return undefined
  const status = values.map(Number).find((each) => each >= 100 && each <= 599)
  if (status !== undefined) return status
  const { response_code, response_flags, termination_state, msg } = record
  // Envoy (response_code), HAProxy (termination_state) and Caddy (msg) log 0 or -1 if a connection
  // ended before a response. Envoy's DC, HAProxy's C and Caddy's 0 mean that the client ended it.
  const isProxyRecord =
    [response_code, termination_state].some(hasValue) || msg === 'handled request'
  if (!isProxyRecord || !values.some((value) => Number(value) <= 0)) return null
  const clientDisconnected = /^(?:DC|C)/.test(String(response_flags ?? termination_state ?? 'C'))
  return clientDisconnected ? clientClosed : serverFailed
}

function findPath(record: LogRecord, names: readonly string[]): string | undefined {
  const text = names
    .map((name) => lookUpField(record, name))
    .find((value) => typeof value === 'string' && value !== '') as string | undefined
  if (text === undefined) return undefined
  // The field may be a request line: 'POST /x HTTP/1.1'.
  const target = text.split(' ', 2)[1] ?? text
  return target.replace(/^[a-z]+:\/\/[^/?]*/, '') || '/'
}

interface LineTime {
  readonly atS: number
  readonly isLocal: boolean
  readonly field?: string
}

/**
 * Finds the time of a line. The prefix of the line gives it if the record has no time, or a time
 * without a zone.
 */
function findTime({ record, loggedAt }: LogLine, fields: LogFields): LineTime | undefined {
  const field = fields.time.find((name) => parseTime(lookUpField(record, name)) !== undefined)
  const lineTime = field === undefined ? undefined : parseTime(lookUpField(record, field))
  const prefix = loggedAt === undefined ? undefined : parseTime(loggedAt)
  if (lineTime === undefined || (lineTime.isLocal && prefix !== undefined)) return prefix
  return { ...lineTime, ...(field !== undefined && { field }) }
}

/** Plausible epoch seconds, 1990 to 2100. The same times in ms, µs and ns lie outside the range. */
const [minEpochS, maxEpochS] = [6.3e8, 4.1e9]

/** Parses an epoch in any unit, ISO 8601, or CLF. */
function parseTime(value: unknown): LineTime | undefined {
  if (!hasValue(value) || typeof value === 'object') return undefined
  const number = Number(value)
  if (Number.isFinite(number)) {
    const perSecond = [1, 1e3, 1e6, 1e9].find(
      (each) => number / each >= minEpochS && number / each < maxEpochS,
    )
    return perSecond === undefined ? undefined : { atS: number / perSecond, isLocal: false }
  }
  return parseClfTime(String(value)) ?? parseDate(String(value))
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** '23/Nov/2026:13:30:21 +0100', and HAProxy's '23/Nov/2026:13:30:21.655' */
function parseClfTime(text: string): LineTime | undefined {
  const match = /^(\d\d)\/(\w{3})\/(\d{4}):(\d\d:\d\d:\d\d(?:\.\d+)?)(?: ([+-]\d\d)(\d\d))?$/.exec(
    text,
  )
  if (!match) return undefined
  const [, day, name = '', year, clock, zone, minutes] = match
  const month = String(months.indexOf(name) + 1).padStart(2, '0')
  return parseDate(
    `${year}-${month}-${day}T${clock}${zone === undefined ? '' : `${zone}:${minutes}`}`,
  )
}

function parseDate(text: string): LineTime | undefined {
  // Gin has a dash between day and time, Python a comma before the milliseconds.
  const atS = Date.parse(text.replace(/(\d),(\d)/, '$1.$2').replace(' - ', ' ')) / 1000
  if (!(atS >= minEpochS && atS < maxEpochS)) return undefined
  return { atS, isLocal: !/(?:Z|UTC|GMT|[+-]\d\d:?\d\d)$/.test(text.trim()) }
}
