/** Names of the fields of a record: those that servers use, and those of `--field`. */

import { splitNameUnit, type TimeUnit, timeUnits } from '../../../../config/values/time-unit.ts'
import { exitCodes, UserError } from '../../../../exit-codes.ts'

/** Field names, in the order in which they are tried. */
export interface LogFields {
  /**
   * Value of `--field latency=NAME:UNIT`; absent: given by the format, or the only latency field.
   */
  readonly latency?: { readonly name: string; readonly unit?: TimeUnit }
  readonly time: readonly string[]
  readonly status: readonly string[]
  readonly path: readonly string[]
  readonly version: readonly string[]
}

const usualFields: LogFields = {
  time: [
    ...['time', 'timestamp', '@timestamp', 'ts', 'time_iso8601', 'time_local', 'msec'],
    ...['start_time', 'StartUTC', 'started_at', 'accept_date', 'datetime', 'date'],
  ],
  status: [
    ...['status', 'status_code', 'statusCode', 'response_code', 'DownstreamStatus'],
    ...['response.status', 'res.statusCode', 'http.response.status_code', 'http.status_code'],
    ...['httpRequest.status', 'http_status', 'StatusCode'],
  ],
  path: [
    ...['path', 'uri', 'request_uri', 'url', 'request.uri', 'request.path', 'request.url'],
    ...['RequestPath', 'req.url', 'url.path', 'httpRequest.requestUrl', 'http_path'],
    ...['x-envoy-original-path', 'x-envoy-origin-path', 'request', 'request_path', 'route'],
  ],
  version: [],
}

/** Fields with the start of the request instead of its end. */
export const startTimes = ['start_time', 'StartUTC', 'started_at', 'accept_date']

const fieldNames = ['latency', 'time', 'status', 'path', 'version'] as const
const latencyForm = `--field latency=NAME:UNIT, where UNIT is ${timeUnits.join(', ')}`

/**
 * The usual fields with those of `--field latency=took:us` before them.
 * @throws UserError
 */
export function parseFieldFlags(
  options: readonly string[],
  versionLabel: string | undefined,
): LogFields {
  let fields: LogFields = {
    ...usualFields,
    ...(versionLabel !== undefined && { version: [versionLabel] }),
  }
  for (const text of options) {
    const [, key, name = '', unit] = /^([a-z]+)=([^:]+)(?::(.*))?$/.exec(text) ?? []
    const field = fieldNames.find((each) => each === key)
    if (field === undefined)
      throw new UserError(
        `--field ${text} does not name a field`,
        `write ${fieldNames.join(', ')}: --field latency=took:us`,
        exitCodes.usage,
      )
    if (field !== 'latency') {
      if (unit !== undefined)
        throw new UserError(
          `--field ${text}: only latency has a unit`,
          `write --field ${field}=${name}`,
          exitCodes.usage,
        )
      fields = { ...fields, [field]: [name, ...fields[field]] }
      continue
    }
    if (fields.latency !== undefined)
      throw new UserError(
        '--field latency appears twice',
        'set only the field that contains the latency',
        exitCodes.usage,
      )
    const timeUnit = timeUnits.find((each) => each === unit)
    if (unit !== undefined && timeUnit === undefined)
      throw new UserError(
        `--field ${text}: ${unit} is not a unit of latency`,
        latencyForm,
        exitCodes.usage,
      )
    fields = { ...fields, latency: { name, ...(timeUnit && { unit: timeUnit }) } }
  }
  return fields
}

/** A name that contains one of these words is that of a latency. */
const latencyNames = new Set([
  ...['duration', 'latency', 'took', 'elapsed', 'taken', 'rt', 'responsetime', 'requesttime'],
])
/** So is a name with one of these words and 'time': request_time. */
const durationNames = new Set(['request', 'response', 'process', 'processing', 'total'])
const ignoredWords = new Set(['time', 'http', 'event', 'in', 'req', 'resp', ...durationNames])

/**
 * Whether a field is named as the time of a whole request: `duration_ms`, `request_time`, `took`;
 * not `upstream_time`.
 * @param path of a nested field: 'httpRequest.latency'
 */
export function parseLatencyName(path: string): { readonly unit?: TimeUnit } | undefined {
  const { words, unit } = splitNameUnit(path)
  const isLatency =
    words.some((word) => latencyNames.has(word)) ||
    (words.includes('time') && words.some((word) => durationNames.has(word)))
  if (!isLatency) return undefined
  if (!words.every((word) => latencyNames.has(word) || ignoredWords.has(word))) return undefined
  return unit === undefined ? {} : { unit }
}
