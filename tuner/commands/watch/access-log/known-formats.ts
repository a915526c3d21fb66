/** Formats whose fields say by themselves which one is the latency, and in which unit. */
import type { TimeUnit } from '../../../config/time-unit.ts'
import { type LogLine, type LogShape, lookUpField } from './log-record.ts'

export interface KnownFormat {
  readonly name: string
  readonly shape: LogShape
  /** Absent: each value states its own, as in 126ms. */
  readonly unit?: TimeUnit
  /** The field with the latency; undefined where a line is none of the format. */
  readonly findLatency: (line: LogLine) => string | undefined
  /** Whether these latencies can be what the format writes; absent: whatever they are. */
  readonly accepts?: (values: readonly unknown[]) => boolean
  /** Other servers write lines like these: every line with a latency must be of the format. */
  readonly isWeak?: boolean
  /** Its time is when the request began. */
  readonly isStampedAtStart?: boolean
}

/** A value with a fraction is no count of milliseconds, microseconds or nanoseconds. */
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

const has = (line: LogLine, ...names: string[]): boolean =>
  names.every((name) => lookUpField(line.record, name) !== undefined)
const count = (line: LogLine, names: readonly string[]): number =>
  names.filter((name) => has(line, name)).length
const behind = ({ record }: LogLine): string => String(record.behind ?? '')

const isList = (text = '', item: RegExp): boolean =>
  text.split(',').every((each) => each === '-' || item.test(each))

/** "agent" 540 0.126 [upstream] [alternative] 10.8.1.17:8000 321 0.125 200 request-id */
function isIngressNginx(line: LogLine): boolean {
  const [, rest] = /^\d+ \d+\.\d{3} \[[^\]]*\] (?:\[[^\]]*\] )?(.+)$/.exec(behind(line)) ?? []
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

/** Names behind which nginx users put $request_time: its documentation has rt beside uct and urt. */
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

/** The only number behind a combined line, with so many decimals. */
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

const given =
  (field: string, is: (line: LogLine) => boolean = () => true) =>
  (line: LogLine): string | undefined =>
    has(line, field) && is(line) ? field : undefined

/** In the order in which they are tried. */
export const knownFormats: readonly KnownFormat[] = [
  {
    ...{ name: 'ingress-nginx, $request_time', shape: 'combined', unit: 's' },
    findLatency: given('2', isIngressNginx),
  },
  {
    ...{ name: 'Traefik CLF, duration', shape: 'combined' },
    findLatency: given('last', (line) => /^\d+ "[^"]*" "[^"]*" \d+ms$/.test(behind(line))),
  },
  {
    ...{ name: 'nginx with $request_time beside upstream times', shape: 'combined', unit: 's' },
    findLatency: (line) =>
      count(line, nginxUpstreamNames) > 0 ? findPadded(line, nginxTimeNames) : undefined,
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
    findLatency: given('duration'),
  },
  {
    ...{ name: 'HAProxy, Ta', shape: 'haproxy', unit: 'ms', isStampedAtStart: true },
    findLatency: given('Ta'),
  },
  {
    ...{ name: 'AWS load balancer, sum of its three times', shape: 'aws-elb', unit: 's' },
    findLatency: given('duration'),
  },
  {
    ...{ name: 'TorchServe ACCESS_LOG, time', shape: 'torchserve', unit: 'ms' },
    findLatency: given('duration'),
  },
  { ...{ name: 'BentoML, duration', shape: 'bentoml' }, findLatency: given('duration') },
  { ...{ name: 'Ray Serve, duration', shape: 'ray-serve' }, findLatency: given('duration') },
  { ...{ name: 'Gin, duration', shape: 'gin' }, findLatency: given('duration') },
  {
    ...{ name: 'Heroku router, service', shape: 'logfmt' },
    findLatency: given('service', (line) => has(line, 'dyno', 'connect')),
  },
  {
    ...{ name: 'Caddy JSON, duration', shape: 'json', unit: 's' },
    findLatency: given(
      'duration',
      (line) =>
        has(line, 'request.uri') &&
        (line.record.msg === 'handled request' ||
          String(line.record.logger).startsWith('http.log.access')),
    ),
    accepts: hasFraction,
  },
  {
    ...{ name: 'Traefik JSON, Duration', shape: 'json', unit: 'ns' },
    findLatency: given(
      'Duration',
      (line) =>
        count(line, [
          ...['OriginDuration', 'OriginStatus', 'DownstreamStatus', 'Overhead', 'RouterName'],
          ...['StartUTC', 'StartLocal', 'RequestPath', 'RetryAttempts', 'entryPointName'],
        ]) >= 2,
    ),
    accepts: areWhole,
  },
  {
    ...{ name: 'Envoy or Istio JSON, duration', shape: 'json', unit: 'ms', isStampedAtStart: true },
    findLatency: given(
      'duration',
      (line) =>
        has(line, 'response_code') &&
        count(line, [
          ...['start_time', 'response_flags', 'response_code_details', 'bytes_received'],
          ...['upstream_cluster', 'upstream_host', 'upstream_service_time'],
        ]) >= 2,
    ),
    accepts: areWhole,
  },
  {
    ...{ name: 'nginx JSON, $request_time', shape: 'json', unit: 's' },
    findLatency: given('request_time', (line) => count(line, nginxVariables) >= 2),
    accepts: hasFraction,
  },
  {
    ...{ name: 'Elastic Common Schema, event.duration', shape: 'json', unit: 'ns' },
    findLatency: given(
      'event.duration',
      (line) => has(line, 'ecs.version') || has(line, 'http.response.status_code'),
    ),
    accepts: areWhole,
  },
  {
    ...{ name: 'Kong JSON, latencies.request', shape: 'json', unit: 'ms', isStampedAtStart: true },
    findLatency: given('latencies.request', (line) => has(line, 'latencies.proxy')),
  },
]
