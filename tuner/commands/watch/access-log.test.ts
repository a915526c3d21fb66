import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fieldsWith, formatOf, type LogFormat, requestOf, usualFields } from './access-log.ts'

const at = Date.parse('2026-11-23T13:30:21Z') / 1000
const lines: readonly (readonly [
  what: string,
  format: LogFormat,
  line: string,
  latencyMs: number,
  atS?: number,
])[] = [
  [
    'nginx, time behind',
    'combined',
    '10.0.0.1 - - [23/Nov/2026:14:30:21 +0100] "POST /v2/x HTTP/1.1" 200 153 "-" "curl/8 (a b)" 0.012',
    12,
  ],
  [
    'nginx, rt=',
    'combined',
    '::1 - bob [23/Nov/2026:13:30:21 +0000] "POST /v2/x HTTP/1.1" 200 153 "-" "curl" rt=1.5 uct="0.1"',
    1500,
  ],
  [
    'Apache %D',
    'combined',
    '10.0.0.1 - - [23/Nov/2026:13:30:21 +0000] "POST /v2/x HTTP/1.1" 200 - "-" "curl" 12345',
    12.345,
  ],
  [
    'Apache common with %D',
    'combined',
    '10.0.0.1 - - [23/Nov/2026:13:30:21 +0000] "POST /v2/x HTTP/1.1" 200 53 9000',
    9,
  ],
  [
    'Envoy',
    'envoy',
    '[2026-11-23T13:30:21.000Z] "POST /v2/x HTTP/2" 200 - 154 0 226 100 "10.0.35.28" "agent" "id" "host" "up"',
    226,
    at + 0.226,
  ],
  [
    'Istio',
    'envoy',
    '[2026-11-23T13:30:21.000Z] "POST /v2/x HTTP/1.1" 200 - via_upstream - "-" 154 99 226 100 "-" "agent"',
    226,
    at + 0.226,
  ],
  [
    'JSON, nginx',
    'json',
    '{"time":"2026-11-23T13:30:21+00:00","request_time":"0.012","status":"200","request":"POST /v2/x HTTP/1.1"}',
    12,
  ],
  [
    'JSON, Envoy',
    'json',
    '{"start_time":"2026-11-23T13:30:21Z","duration":226,"response_code":200,"path":"/v2/x"}',
    226,
    at + 0.226,
  ],
  [
    'Apache, a quote within',
    'combined',
    '::1 - - [23/Nov/2026:13:30:21 +0000] "POST /v2/x HTTP/1.1 \\"b" 200 53 9000',
    9,
    at,
  ],
  [
    'JSON, a field that is null',
    'json',
    `{"ts":${at},"request_time":null,"latency_ms":7,"status":200,"uri":"/v2/x"}`,
    7,
  ],
  [
    'JSON, seconds since 1970',
    'json',
    `{"ts":${at},"latency_ms":3.5,"status":200,"uri":"/v2/x"}`,
    3.5,
  ],
]

for (const [what, format, line, latencyMs, atS = at] of lines)
  test(what, () => {
    expect(formatOf([line], usualFields)).toBe(format)
    const request = requestOf(line, format, usualFields)!
    expect(request).toMatchObject({ status: 200, path: '/v2/x' })
    expect(request.latencyMs).toBeCloseTo(latencyMs, 9)
    expect(request.atS).toBeCloseTo(atS, 6)
  })

test('fields and units of one’s own, and the version', () => {
  const fields = fieldsWith(['latency=took:us', 'time=when', 'status=code', 'path=route'], 'model')
  const line = '{"when":"2026-11-23T13:30:21Z","took":12000,"code":503,"route":"/a","model":"7"}'
  expect(requestOf(line, 'json', fields)).toEqual({
    atS: at,
    latencyMs: 12,
    status: 503,
    path: '/a',
    version: '7',
  })
  expect(() => fieldsWith(['speed=x'], undefined)).toThrow('--field speed=x names no field')
  expect(() => fieldsWith(['constructor=x'], undefined)).toThrow('names no field')
})

test('lines without the time that a request took, and lines that are none, are no requests', () => {
  for (const line of [
    '10.0.0.1 - - [23/Nov/2026:13:30:21 +0000] "GET / HTTP/1.1" 200 153 "-" "curl"',
    '10.0.0.1 - - [99/Foo/2026:13:30:21 +0000] "GET / HTTP/1.1" 200 153 "-" "curl" 0.1',
    '{"time":"yesterday","request_time":1}',
    '{"time":"2026-11-23T13:30:21Z"}',
    '{"time":"2026-11-23T13:30:21Z","request_time":null}',
    '10.0.0.1 - - [23/Nov/2026:13:30:21 +0000] "GET / HTTP/1.1" 200 153 "-" "Firefox 120"',
    '[1,2]',
    '',
  ])
    expect(formatOf([line], usualFields), line).toBeUndefined()
  fc.assert(
    fc.property(
      fc.string(),
      (line) => formatOf([line], usualFields) === undefined || line.length > 10,
    ),
  )
})

test('lines that were made to keep their reader busy do not', () => {
  const many = 200_000
  for (const line of [
    `a b ${'['.repeat(many)}`,
    `a b [x] "${'y'.repeat(many)}`,
    `a b [x] "GET /" 200 1 ${'1 '.repeat(many)}x`,
    `[x] "${'y '.repeat(many)}`,
    `{"a":${'['.repeat(many)}`,
  ])
    expect(formatOf([line], usualFields)).toBeUndefined()
})
