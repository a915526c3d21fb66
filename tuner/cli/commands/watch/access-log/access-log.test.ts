import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { selectQuantile } from '../../../../../profiler/statistics/percentile.ts'
import {
  describeFormat,
  type LoggedRequest,
  LogSample,
  type LogShape,
  parseFieldFlags,
  parseRequest,
} from './index.ts'

const startS = Date.parse('2026-11-23T13:30:00Z') / 1000
const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ')

/** One request: it took 120 to 126 ms and ended at `atS`. */
class Played {
  readonly atS: number
  readonly s: number
  constructor(i: number) {
    this.atS = startS + i
    this.s = (120 + (i % 7)) / 1000
  }
  get ms() {
    return Math.round(this.s * 1e3)
  }
  get us() {
    return Math.round(this.s * 1e6)
  }
  get ns() {
    return Math.round(this.s * 1e9)
  }
  get iso() {
    return new Date(this.atS * 1000).toISOString()
  }
  get startIso() {
    return new Date((this.atS - this.s) * 1000).toISOString()
  }
  /** '23/Nov/2026:13:30:21' */
  get clf() {
    const [date = '', time = ''] = this.iso.split('T')
    const [year, month, day] = date.split('-')
    return `${day}/${months[Number(month) - 1]}/${year}:${time.slice(0, 8)}`
  }
  /** Up to the agent. */
  get combined() {
    return `${this.common} "-" "python-requests/2.31 (a b)"`
  }
  get common() {
    return `10.4.0.9 - bob [${this.clf} +0000] "POST /v2/x HTTP/1.1" 200 321`
  }
}
type Write = (one: Played) => string

const play = (write: Write, count = 100) =>
  Array.from({ length: count }, (_, i) => write(new Played(i)))

function read(lines: readonly string[], field: readonly string[] = [], shape?: LogShape) {
  const fields = parseFieldFlags(field, undefined)
  const sample = new LogSample(fields, shape)
  for (const line of lines) sample.add(line)
  const format = sample.recognise('access.log', fields)
  const requests = lines.flatMap((line) => parseRequest(line, format, fields) ?? [])
  return { name: describeFormat(format), format, requests }
}

const p99 = (requests: readonly LoggedRequest[]) =>
  selectQuantile(Float64Array.from(requests, ({ latencyMs }) => latencyMs!).sort(), 0.99)

const json =
  (fields: (one: Played) => object): Write =>
  (one) =>
    JSON.stringify(fields(one))
const caddy = (one: Played) => ({
  ...{ level: 'info', ts: one.atS, logger: 'http.log.access.log0', msg: 'handled request' },
  request: { method: 'POST', host: 'models.example', uri: '/v2/x' },
  ...{ duration: one.s + 1e-9, size: 321, status: 200 },
})
const envoyJson = (one: Played) => ({
  ...{ start_time: one.startIso, method: 'POST', path: '/v2/x', response_code: 200 },
  ...{ response_flags: '-', bytes_received: 5, duration: one.ms, upstream_service_time: '9' },
})
const ingress = (one: Played, alternative = '[] ', id = '') =>
  `${one.combined} 540 ${one.s.toFixed(3)} [ml-bert-8000] ${alternative}10.8.1.17:8000 321 ${(one.s - 0.001).toFixed(3)} 200${id}`
const nginx: Write = (one) => `${one.combined} ${one.s.toFixed(3)}`

describe('formats that state their unit', () => {
  const rows: readonly (readonly [what: string, write: Write, name: string])[] = [
    ['nginx combined', nginx, 'nginx combined, $request_time in s'],
    [
      'nginx combined, quoted',
      (one) => `${one.combined} "10.0.0.1" "${one.s.toFixed(3)}"`,
      'nginx combined, $request_time in s',
    ],
    [
      'nginx rt=',
      (one) => `${one.combined} rt=${one.s.toFixed(3)} uct="0.001" urt="0.100"`,
      'nginx with $request_time beside upstream times in s',
    ],
    [
      'nginx request_time=',
      (one) => `${one.combined} request_time=${one.s.toFixed(3)}`,
      'nginx with a named $request_time in s',
    ],
    ['ingress-nginx', (one) => ingress(one), 'ingress-nginx, $request_time in s'],
    ['… request id', (one) => ingress(one, '[] ', ' 0a1b'), 'ingress-nginx, $request_time in s'],
    ['… of old', (one) => ingress(one, ''), 'ingress-nginx, $request_time in s'],
    [
      '… a second try',
      (one) =>
        `${one.combined} 540 ${one.s.toFixed(3)} [a-b-80] [] 10.8.1.17:8000, 10.8.1.18:8000 0, 321 0.001, 0.100 502, 200 0a1b`,
      'ingress-nginx, $request_time in s',
    ],
    [
      'Traefik CLF',
      (one) => `${one.combined} 42 "bert@docker" "http://10.0.0.5:80" ${one.ms}ms`,
      'Traefik CLF, duration with its unit',
    ],
    ['gunicorn', (one) => `${one.combined} ${one.s.toFixed(6)}`, 'gunicorn, %(L)s in s'],
    ['morgan', (one) => `${one.combined} ${one.ms}.412 ms`, 'combined, last with its unit'],
    ['unit in a name', (one) => `${one.common} took_us=${one.us}`, 'combined, took_us in us'],
    [
      'Envoy',
      (one) =>
        `[${one.startIso}] "POST /v2/x HTTP/2" 200 - 154 0 ${one.ms} 100 "10.0.35.28" "agent" "id" "host" "10.8.1.17:80"`,
      'Envoy or Istio, %DURATION% in ms',
    ],
    [
      'Istio',
      (one) =>
        `[${one.startIso}] "POST /v2/x HTTP/1.1" 200 - via_upstream - "-" 154 99 ${one.ms} 100 "-" "agent" "id" "host" "up" out - a b - default`,
      'Envoy or Istio, %DURATION% in ms',
    ],
    [
      'HAProxy',
      (one) =>
        `Nov 23 13:30:21 lb haproxy[14389]: 10.0.1.2:33317 [${one.clf}.000] http-in static/srv1 10/0/30/69/${one.ms} 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "POST /v2/x HTTP/1.1"`,
      'HAProxy, Ta in ms',
    ],
    [
      'AWS ALB',
      (one) =>
        `https ${one.iso.replace('Z', '000Z')} app/lb/50dc 192.168.131.39:2817 10.0.0.1:80 0.001 ${(one.s - 0.001).toFixed(3)} 0.000 200 200 34 366 "POST https://www.example.com:443/v2/x HTTP/1.1" "curl" - -`,
      'AWS load balancer, sum of its three times in s',
    ],
    [
      'TorchServe',
      (one) =>
        `${one.iso.slice(0, 19)},000 [INFO ] W-9000-bert_1.0 ACCESS_LOG - /127.0.0.1:5432 "POST /v2/x HTTP/1.1" 200 ${one.ms}`,
      'TorchServe ACCESS_LOG, time in ms',
    ],
    [
      'BentoML',
      (one) =>
        `${one.iso.slice(0, 19)}+0000 [INFO] [api_server:1] 127.0.0.1:5432 (scheme=http,method=POST,path=/v2/x,type=application/json,length=5) (status=200,type=application/json,length=9) ${one.ms}.000ms (trace=1,span=2,sampled=0)`,
      'BentoML, duration with its unit',
    ],
    [
      'Ray Serve',
      (one) =>
        `INFO ${one.iso.slice(0, 19).replace('T', ' ')},000 default_App 1a2b 3c4d -- POST /v2/x 200 ${one.ms}.0ms`,
      'Ray Serve, duration with its unit',
    ],
    [
      'Gin',
      (one) =>
        `[GIN] ${one.iso.slice(0, 10).replaceAll('-', '/')} - ${one.iso.slice(11, 19)} | 200 |   ${one.ms}.412ms |       10.0.0.7 | POST     "/v2/x"`,
      'Gin, duration with its unit',
    ],
    [
      'Heroku',
      (one) =>
        `${one.iso} heroku[router]: at=info method=POST path="/v2/x" dyno=web.1 connect=0ms service=${one.ms}ms status=200 bytes=321`,
      'Heroku router, service with its unit',
    ],
    [
      'logfmt',
      (one) => `time=${one.iso} level=info path=/v2/x status=200 duration=${one.ms}ms`,
      'logfmt, duration with its unit',
    ],
    ['Caddy', json(caddy), 'Caddy JSON, duration in s'],
    [
      'Caddy, durations as text',
      json((one) => ({ ...caddy(one), duration: `${one.ms}.5ms` })),
      'Caddy JSON, duration in s',
    ],
    [
      'Traefik JSON',
      json((one) => ({
        ...{ Duration: one.ns, OriginDuration: one.ns - 5, DownstreamStatus: 200 },
        ...{ RequestPath: '/v2/x', time: one.iso, RouterName: 'bert@docker' },
      })),
      'Traefik JSON, Duration in ns',
    ],
    ['Envoy JSON', json(envoyJson), 'Envoy or Istio JSON, duration in ms'],
    [
      'nginx JSON',
      json((one) => ({
        ...{ time_iso8601: one.iso, remote_addr: '10.0.0.7', request: 'POST /v2/x HTTP/1.1' },
        ...{ status: '200', body_bytes_sent: '321', request_time: one.s.toFixed(3) },
      })),
      'nginx JSON, $request_time in s',
    ],
    [
      'Elastic Common Schema',
      json((one) => ({
        ...{ '@timestamp': one.iso, event: { duration: one.ns }, url: { path: '/v2/x' } },
        http: { response: { status_code: 200 } },
      })),
      'Elastic Common Schema, event.duration in ns',
    ],
    [
      'Kong',
      json((one) => ({
        ...{ started_at: (one.atS - one.s) * 1000, latencies: { request: one.ms, proxy: 9 } },
        ...{ request: { uri: '/v2/x' }, response: { status: 200 } },
      })),
      'Kong JSON, latencies.request in ms',
    ],
    [
      'Google Cloud',
      json((one) => ({
        timestamp: one.iso,
        httpRequest: { status: 200, latency: `${one.s}s`, requestUrl: 'https://x.example/v2/x' },
      })),
      'json, httpRequest.latency with its unit',
    ],
    ...(
      [
        ['duration_ms', (one) => one.ms],
        ['latencySeconds', (one) => one.s],
        ['request_time_us', (one) => one.us],
        ['elapsedMilliseconds', (one) => one.ms],
        ['durationNs', (one) => one.ns],
      ] satisfies readonly (readonly [string, (one: Played) => number])[]
    ).map(
      ([name, value]) =>
        [
          name,
          json((one) => ({ ts: one.atS, [name]: value(one), status: 200, uri: '/v2/x' })),
          `json, ${name} in ${/ms|milli/i.test(name) ? 'ms' : /seconds/i.test(name) ? 's' : name.slice(-2).toLowerCase()}`,
        ] as const,
    ),
    [
      'Docker',
      (one) => JSON.stringify({ log: `${nginx(one)}\n`, stream: 'stdout', time: one.iso }),
      'nginx combined, $request_time in s',
    ],
    ['CRI', (one) => `${one.iso} stdout F ${nginx(one)}`, 'nginx combined, $request_time in s'],
    [
      'CRI around JSON',
      (one) => `${one.iso} stdout F ${json(caddy)(one)}`,
      'Caddy JSON, duration in s',
    ],
    [
      'kubectl --prefix --timestamps',
      (one) => `[pod/istio/proxy] ${one.iso} ${json(envoyJson)(one)}`,
      'Envoy or Istio JSON, duration in ms',
    ],
  ]
  test.each(rows)('%s', (_, write, name) => {
    const { name: recognised, requests } = read(play(write))
    expect(recognised).toBe(name)
    expect(requests).toHaveLength(100)
    const latencyMs = p99(requests)
    expect(latencyMs).toBeGreaterThanOrEqual(125.9)
    expect(latencyMs).toBeLessThan(127)
    const isLocal = requests[0]!.isLocalTime
    requests.forEach((request, i) => {
      expect(request).toMatchObject({ status: 200, path: '/v2/x' })
      // Whole seconds that are an accept's are that much later.
      if (!isLocal) expect(Math.abs(request.atS - startS - i)).toBeLessThan(0.01)
    })
  })
})

describe('what does not say its unit or its column is asked for', () => {
  const rows: readonly (readonly [what: string, write: Write, error: RegExp])[] = [
    [
      'Apache %D',
      (one) => `${one.combined} ${one.us}`,
      /does not name the unit of the value last .*120000/,
    ],
    [
      '%{ms}T behind common',
      (one) => `${one.common} ${one.ms}`,
      /does not name the unit of the value last/,
    ],
    ['Apache %T', (one) => `${one.combined} ${one.ms % 2}`, /does not name the unit/],
    ['morgan, bare', (one) => `${one.combined} ${one.ms}.412`, /does not name the unit/],
    ['any decimals', (one) => `${one.combined} ${one.s}`, /does not name the unit/],
    [
      'rt= of whole numbers',
      (one) => `${one.combined} rt=${one.us}`,
      /does not name the unit of the value rt/,
    ],
    [
      'two numbers',
      (one) => `${one.combined} ${one.s.toFixed(3)} 0.100`,
      /several fields .*: 1, last/,
    ],
    [
      'JSON duration',
      json((one) => ({ time: one.iso, duration: one.s, status: 200 })),
      /does not name the unit of duration \(0.12, 0.121, 0.122\)/,
    ],
    [
      'JSON request_time',
      json((one) => ({ time: one.iso, request_time: one.s, status: 200 })),
      /does not name the unit of request_time/,
    ],
    [
      'JSON took',
      json((one) => ({ time: one.iso, took: one.ms, status: 200 })),
      /does not name the unit/,
    ],
    [
      'pino-http',
      json((one) => ({ time: one.atS * 1000, res: { statusCode: 200 }, responseTime: one.ms })),
      /does not name the unit of responseTime/,
    ],
    [
      'Caddy of whole numbers, ms or ns',
      json((one) => ({ ...caddy(one), duration: one.ns })),
      /does not name the unit of duration/,
    ],
    [
      'Envoy with a fraction',
      json((one) => ({ ...envoyJson(one), duration: one.s })),
      /does not name the unit of duration/,
    ],
    [
      'two latencies',
      json((one) => ({ time: one.iso, latency_ms: one.ms, duration_ms: 3 * one.ms })),
      /several fields .*latency_ms, duration_ms/,
    ],
    [
      'logfmt',
      (one) => `time=${one.iso} path=/a status=200 took=${one.s}`,
      /does not name the unit of took/,
    ],
    [
      'two formats',
      (one) => (one.ms % 2 ? nginx(one) : json((each) => ({ ts: each.atS, took_ms: 1 }))(one)),
      /several formats/,
    ],
    [
      'uvicorn',
      () => 'INFO:     127.0.0.1:5432 - "POST /v2/x HTTP/1.1" 200 OK',
      /does not contain request durations: its lines are uvicorn/,
    ],
    [
      'combined',
      (one) => one.combined,
      /does not contain request durations: its lines are combined/,
    ],
    [
      'an agent that ends with a number',
      (one) => `${one.common} "-" "Firefox 120"`,
      /does not contain request durations/,
    ],
    ['upstream only', json((one) => ({ ts: one.atS, upstream_time_ms: 1 })), /request durations/],
    ['prose', () => 'started in 126 ms', /no line in a known format: started/],
  ]
  test.each(rows)('%s', (_, write, error) => {
    expect(() => read(play(write))).toThrow(error)
  })
})

describe('--field', () => {
  const p99Of = (write: Write, field: readonly string[], shape?: LogShape) =>
    p99(read(play(write), field, shape).requests)

  test('names the unit of a value behind a combined line, by its place or, if it is alone, any name', () => {
    expect(p99Of((one) => `${one.combined} ${one.us}`, ['latency=last:us'])).toBeCloseTo(126)
    expect(p99Of((one) => `${one.combined} ${one.us}`, ['latency=D:us'])).toBeCloseTo(126)
    expect(p99Of((one) => `${one.combined} 9 ${one.ms} 7`, ['latency=2:ms'])).toBeCloseTo(126)
    expect(() =>
      read(
        play((one) => `${one.combined} 9 ${one.ms}`),
        ['latency=D:ms'],
      ),
    ).toThrow(/no duration in the field D/)
  })

  test('names fields of JSON, nested ones too', () => {
    const { requests } = read(
      play(
        json((one) => ({ at: { when: one.iso }, a: { took: one.us }, code: 503, to: '/a?b' })),
        1,
      ),
      ['latency=a.took:us', 'time=at.when', 'status=code', 'path=to'],
    )
    expect(requests).toEqual([
      { atS: startS, latencyMs: 120, status: 503, path: '/a?b', isLocalTime: false },
    ])
  })

  test('without a unit takes that of the name, the values or the format, or asks', () => {
    expect(p99Of(json(caddy), ['latency=duration'])).toBeCloseTo(126)
    const plain = json((one) => ({ ts: one.atS, a_ms: one.ms, b: one.ms, status: 200 }))
    expect(p99Of(plain, ['latency=b:ms'])).toBeCloseTo(126)
    expect(() => p99Of(plain, ['latency=b'])).toThrow(/does not name the unit of b/)
  })

  test('warns where the format is known to be in another unit', () => {
    expect(read(play(json(caddy)), ['latency=duration:ms']).format.warning).toMatch(
      /Caddy JSON, duration, in s, but --field sets ms/,
    )
  })

  test('is refused where it is none', () => {
    const parse = (...given: string[]) => parseFieldFlags(given, undefined)
    expect(() => parse('speed=x')).toThrow('--field speed=x does not name a field')
    expect(() => parse('constructor=x')).toThrow('does not name a field')
    expect(() => parse('latency=took:min')).toThrow(/min is not a unit/)
    expect(() => parse('time=ts:ms')).toThrow(/only latency has a unit/)
    expect(() => parse('latency=a:s', 'latency=b:s')).toThrow(/appears twice/)
  })

  test('--log-format settles which of two formats is meant', () => {
    const mixed: Write = (one) =>
      one.ms % 2 ? json((each) => ({ ts: each.atS, took_ms: 1, status: 200 }))(one) : nginx(one)
    expect(p99Of(mixed, [], 'combined')).toBeCloseTo(126)
  })
})

test('lines of an application between those of a known format are no requests', () => {
  const app = '{"level":"info","logger":"tls","ts":1795440600,"msg":"finished","duration":3}'
  const { name, requests } = read([...play(json(caddy)), app])
  expect(name).toBe('Caddy JSON, duration in s')
  expect(requests).toHaveLength(100)
})

test('connections that ended before an answer fail as their end says; other statuses are none', () => {
  const [, caddyLine = ''] = play(json((one) => ({ ...caddy(one), status: 0 })))
  const statusOf = (lines: readonly string[]) => read(lines).requests.map(({ status }) => status)
  expect(statusOf([...play(json(caddy), 1), caddyLine])).toEqual([200, 499])
  const envoy = (flags: string) =>
    play(
      json((one) => ({ ...envoyJson(one), response_code: 0, response_flags: flags })),
      1,
    )
  expect(statusOf(envoy('DC'))).toEqual([499])
  expect(statusOf(envoy('UC'))).toEqual([599])
  expect(
    statusOf(
      play(
        json((one) => ({ ts: one.atS, took_ms: 1, status: 0 })),
        1,
      ),
    ),
  ).toEqual([])
  expect(
    statusOf(
      play(
        json((one) => ({ ts: one.atS, took_ms: 1 })),
        1,
      ),
    ),
  ).toEqual([undefined])
})

test('any text is refused or read as figures, and none keeps its reader busy', () => {
  const attempt = (line: string) => {
    try {
      return read([line]).requests
    } catch (error) {
      return (error as Error).name
    }
  }
  fc.assert(
    fc.property(fc.string(), (line) => {
      expect(attempt(line)).toBe('UserError')
    }),
  )
  const many = 200_000
  for (const line of [
    `a b ${'['.repeat(many)}`,
    `a b [x] "${'y'.repeat(many)}`,
    `a b [23/Nov/2026:13:30:21 +0000] "GET /" 200 1 ${'1 '.repeat(many)}x`,
    `a b [23/Nov/2026:13:30:21 +0000] "GET /" 200 1 ${'a'.repeat(many)}`,
    `[x] "${'y '.repeat(many)}`,
    `{"a":${'['.repeat(many)}`,
    'a=b '.repeat(many),
    `2026-11-23T13:30:21+0000 [INFO] [a] b (scheme=h,method=P,path=${',a'.repeat(many)}`,
  ])
    expect(attempt(line)).toBe('UserError')
}, 60_000)
