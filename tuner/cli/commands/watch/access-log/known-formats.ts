/** Log formats in which field and unit of the latency are known. */
import type { TimeUnit } from '../../../../config/values/time-unit.ts'
import { type LogLine, type LogShape, lookUpField } from './log-record.ts'

export interface KnownFormat {
  readonly name: string
  readonly shape: LogShape
  /** Absent: each value states its own, as in 126ms. */
  readonly unit?: TimeUnit
  /** Field with the latency; undefined if a line is not of this format. */
  readonly findLatency: (line: LogLine) => string | undefined
  /** Whether values are plausible for the format; absent: any are. */
  readonly accepts?: (values: readonly unknown[]) => boolean
  /** Other servers write similar lines, so every line with a latency must match. */
  readonly isWeak?: boolean
  /** Its time is when the request began. */
  readonly isStampedAtStart?: boolean
}

/** A value with a fraction is probably in seconds. */
const hasFraction = (values: readonly unknown[]): boolean =>
  values.some((value) => /\./.test(String(value)) || statesUnit(value))
const statesUnit = (value: unknown): boolean => /[a-zµ]$/.test(String(value))
const areWhole = (values: readonly unknown[]): boolean =>
  values.every((value) => /^\d+$/.test(String(value)))

/**
 * nginx pads seconds to three decimals, but so does morgan with milliseconds. A median below one
 * second is taken for seconds; above, either is plausible.
 */
const maxMedianS = 1
const areShortSeconds = (values: readonly unknown[]): boolean =>
  values.map(Number).sort((a, b) => a - b)[Math.floor(values.length / 2)]! < maxMedianS

const hasFields = (line: LogLine, ...names: string[]): boolean =>
  names.every((name) => lookUpField(line.record, name) !== undefined)
const countFields = (line: LogLine, names: readonly string[]): number =>
  names.filter((name) => hasFields(line, name)).length
const getTrailingText = ({ record }: LogLine): string => String(record.behind ?? '')

const isList = (text = '', item: RegExp): boolean =>
  text.split(',').every((each) => each === '-' || item.test(each))

/** "agent" 540 0.126 [upstream] [alternative] 10.8.1.17:8000 321 0.125 200 request-id */
function isIngressNginx(line: LogLine): boolean {
  const [, rest] =
    /^\d+ \d+\.\d{3} \[[^\]]*\] (?:\[[^\]]*\] )?(.+)$/.exec(getTrailingText(line)) ?? []
  if (rest === undefined) return false
  const [addresses, lengths, times, statuses, ...id] = rest.replace(/ ?[,:] /g, ',').split(' ')
  return (
    isList(addresses, /:/) &&
    isList(lengths, /^\d+$/) &&
    isList(times, /^\d+\.\d{3}$/) &&
    isList(statuses, /^\d{3}$/) &&
    id.length <= 1
  )
}

/**
 * Names behind which nginx users put $request_time: its documentation has rt beside uct and urt.
 */
const nginxTimeNames = ['request_time', 'rt', 'req_time', 'reqtime']
const nginxUpstreamNames = ['uct', 'uht', 'urt', 'upstream_response_time', 'upstream_time']
const nginxVariables = [
  ...['remote_addr', 'remote_user', 'time_local', 'time_iso8601', 'msec', 'body_bytes_sent'],
  ...['bytes_sent', 'request_length', 'request_method', 'request_uri', 'server_protocol'],
  ...['http_referer', 'http_referrer', 'http_user_agent', 'http_host', 'http_x_forwarded_for'],
  ...['upstream_addr', 'upstream_status', 'upstream_response_time', 'upstream_connect_time'],
]

const findPadded = (line: LogLine, names: readonly string[]): string | undefined =>
  names.find((name) => /^\d+\.\d{3}$/.test(String(line.record[name] ?? '')))

/** Finds the only number behind a combined line, with so many decimals. */
function findOnlyNumber(line: LogLine, decimals: number): string | undefined {
  const numbers = listBareValues(line)
  return numbers.length === 1 && new RegExp(`^\\d+\\.\\d{${decimals}}$`).test(numbers[0]![1])
    ? numbers[0]![0]
    : undefined
}

/** Values behind a combined line that have no name: numbers, and durations that state a unit. */
export function listBareValues({ record }: LogLine): [field: string, value: string][] {
  const values = (record.values ?? []) as readonly string[]
  return values.flatMap((value, i): [string, string][] =>
    /^\d+(?:\.\d+)?(?:ns|us|µs|μs|ms|s)?$/.test(value)
      ? [[i === values.length - 1 ? 'last' : String(i + 1), value]]
      : [],
  )
}

const findField =
  (field: string, is: (line: LogLine) => boolean = () => true) =>
  (line: LogLine): string | undefined =>
    hasFields(line, field) && is(line) ? field : undefined

/** Known formats, in the order in which they are tried. */
export const knownFormats: readonly KnownFormat[] = [
  {
    ...{ name: 'ingress-nginx, $request_time', shape: 'combined', unit: 's' },
    findLatency: findField('2', isIngressNginx),
  },
  {
    ...{ name: 'Traefik CLF, duration', shape: 'combined' },
    findLatency: findField('last', (line) =>
      /^\d+ "[^"]*" "[^"]*" \d+ms$/.test(getTrailingText(line)),
    ),
  },
  {
    ...{ name: 'nginx with $request_time beside upstream times', shape: 'combined', unit: 's' },
    findLatency: (line) =>
      countFields(line, nginxUpstreamNames) > 0 ? findPadded(line, nginxTimeNames) : undefined,
  },
  {
    ...{ name: 'nginx with a named $request_time', shape: 'combined', unit: 's', isWeak: true },
    findLatency: (line) => findPadded(line, nginxTimeNames),
    accepts: areShortSeconds,
  },
  {
    ...{ name: 'nginx combined, $request_time', shape: 'combined', unit: 's', isWeak: true },
    findLatency: (line) => findOnlyNumber(line, 3),
    accepts: areShortSeconds,
  },
  {
    ...{ name: 'gunicorn, %(L)s', shape: 'combined', unit: 's', isWeak: true },
    findLatency: (line) => findOnlyNumber(line, 6),
    accepts: areShortSeconds,
  },
  {
    ...{ name: 'Envoy or Istio, %DURATION%', shape: 'envoy', unit: 'ms', isStampedAtStart: true },
    findLatency: findField('duration'),
  },
  {
    ...{ name: 'HAProxy, Ta', shape: 'haproxy', unit: 'ms', isStampedAtStart: true },
    findLatency: findField('Ta'),
  },
  {
    ...{ name: 'AWS load balancer, sum of its three times', shape: 'aws-elb', unit: 's' },
    findLatency: findField('duration'),
  },
  {
    ...{ name: 'TorchServe ACCESS_LOG, time', shape: 'torchserve', unit: 'ms' },
    findLatency: findField('duration'),
  },
  { ...{ name: 'BentoML, duration', shape: 'bentoml' }, findLatency: findField('duration') },
  { ...{ name: 'Ray Serve, duration', shape: 'ray-serve' }, findLatency: findField('duration') },
  { ...{ name: 'Gin, duration', shape: 'gin' }, findLatency: findField('duration') },
  {
    ...{ name: 'Heroku router, service', shape: 'logfmt' },
    findLatency: findField('service', (line) => hasFields(line, 'dyno', 'connect')),
  },
  {
    ...{ name: 'Caddy JSON, duration', shape: 'json', unit: 's' },
    findLatency: findField(
      'duration',
      (line) =>
        hasFields(line, 'request.uri') &&
        (line.record.msg === 'handled request' ||
          String(line.record.logger).startsWith('http.log.access')),
    ),
    accepts: hasFraction,
  },
  {
    ...{ name: 'Traefik JSON, Duration', shape: 'json', unit: 'ns' },
    findLatency: findField(
      'Duration',
      (line) =>
        countFields(line, [
          ...['OriginDuration', 'OriginStatus', 'DownstreamStatus', 'Overhead', 'RouterName'],
          ...['StartUTC', 'StartLocal', 'RequestPath', 'RetryAttempts', 'entryPointName'],
        ]) >= 2,
    ),
    accepts: areWhole,
  },
  {
    ...{ name: 'Envoy or Istio JSON, duration', shape: 'json', unit: 'ms', isStampedAtStart: true },
    findLatency: findField(
      'duration',
      (line) =>
        hasFields(line, 'response_code') &&
        countFields(line, [
          ...['start_time', 'response_flags', 'response_code_details', 'bytes_received'],
          ...['upstream_cluster', 'upstream_host', 'upstream_service_time'],
        ]) >= 2,
    ),
    accepts: areWhole,
  },
  {
    ...{ name: 'nginx JSON, $request_time', shape: 'json', unit: 's' },
    findLatency: findField('request_time', (line) => countFields(line, nginxVariables) >= 2),
    accepts: hasFraction,
  },
  {
    ...{ name: 'Elastic Common Schema, event.duration', shape: 'json', unit: 'ns' },
    findLatency: findField(
      'event.duration',
      (line) => hasFields(line, 'ecs.version') || hasFields(line, 'http.response.status_code'),
    ),
    accepts: areWhole,
  },
  {
    ...{ name: 'Kong JSON, latencies.request', shape: 'json', unit: 'ms', isStampedAtStart: true },
    findLatency: findField('latencies.request', (line) => hasFields(line, 'latencies.proxy')),
  },
]
