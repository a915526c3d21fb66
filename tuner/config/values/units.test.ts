import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  formatDuration,
  formatPercentile,
  formatShare,
  parseCount,
  parseDurationMs,
  parseMemoryMiB,
  parseMoney,
  parsePercentile,
  parseRateRps,
  parseShare,
  UnitError,
} from './units.ts'

const hintOf = (parse: () => unknown): string => {
  try {
    parse()
  } catch (error) {
    if (error instanceof UnitError) return `${error.message}: ${error.hint}`
    throw error
  }
  throw new Error('was accepted')
}

describe('durations', () => {
  test.each([
    ['50ms', 50],
    ['2s', 2000],
    [' 1.5 s ', 1500],
    ['10m', 600_000],
    ['1h30m', 5_400_000],
    ['2h 5s', 7_205_000],
    ['250us', 0.25],
    ['1e3ms', 1000],
    ['50 milliseconds', 50],
    ['2 secs', 2000],
    ['5 minutes', 300_000],
    ['100\u03bcs', 0.1],
  ])('%s is %d ms', (text, ms) => expect(parseDurationMs(text)).toBeCloseTo(ms, 9))

  test('a bare number is refused, both readings offered', () => {
    expect(hintOf(() => parseDurationMs('50'))).toBe(
      "'50' has no unit: write 50ms for milliseconds, or 50s for seconds",
    )
    expect(hintOf(() => parseDurationMs(50))).toContain('50 has no unit')
  })

  test.each(['', 'fast', '50 parsecs', '-5ms', '0ms', 'NaN', 'Infinity', '1h-5m', '5m5'])(
    '%j is refused',
    (text) => expect(() => parseDurationMs(text)).toThrow(UnitError),
  )
  test.each([Number.NaN, Number.POSITIVE_INFINITY])('%d is refused', (value) =>
    expect(() => parseDurationMs(value)).toThrow(UnitError),
  )

  test('what is written is read back', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10 ** 9 }),
        (ms) => parseDurationMs(formatDuration(ms)) === ms,
      ),
    )
  })
})

test.each([
  ['500', 500],
  ['500 rps', 500],
  ['500/s', 500],
  ['30k/min', 500],
  ['2k', 2000],
  ['90 req/s', 90],
  ['600 rpm', 10],
  ['1K rps', 1000],
  ['90 requests/sec', 90],
  ['3 per second', 3],
  ['86400 requests per day', 1],
  [12.5, 12.5],
] as const)('rate %s', (text, rps) => expect(parseRateRps(text)).toBeCloseTo(rps, 9))
test.each(['0', '-1', 'many', '5 furlongs', '500/m', '5 tok/s', Number.NaN])(
  'rate %s is refused',
  (text) => expect(() => parseRateRps(text)).toThrow(UnitError),
)

test.each([
  ['20%', 0.2],
  ['0.2', 0.2],
  [0.05, 0.05],
  ['0%', 0],
  ['100%', 1],
] as const)('share %s', (text, share) => expect(parseShare(text)).toBeCloseTo(share, 12))
test.each(['20', '120%', '-1%', 'half'])('share %s is refused', (text) =>
  expect(() => parseShare(text)).toThrow(UnitError),
)
test('shares are written as they are read', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 1000 }),
      (n) => Math.abs(parseShare(formatShare(n / 1000)) - n / 1000) < 1e-12,
    ),
  )
})

test.each([
  ['$5', 5],
  ['5', 5],
  ['5 USD', 5],
  ['$2.50/hour', 2.5],
  [3, 3],
] as const)('money %s', (text, dollars) => expect(parseMoney(text)).toBe(dollars))
test.each(['-$5', '$0', '5 EUR', 'abc'])('money %s is refused', (text) =>
  expect(() => parseMoney(text)).toThrow(UnitError),
)

test.each([
  ['4GiB', 4096],
  ['512 MiB', 512],
  ['4Gi', 4096],
  ['1GB', 953.674316],
])('memory %s', (text, mib) => expect(parseMemoryMiB(text)).toBeCloseTo(mib, 5))
test('memory without a unit is refused', () =>
  expect(hintOf(() => parseMemoryMiB('4'))).toContain('4GiB or 4MiB'))

test.each([
  ['p99', 0.99],
  ['95', 0.95],
  [99.9, 0.999],
  ['p99.99', 0.9999],
  ['50%', 0.5],
] as const)('percentile %s', (text, value) => {
  expect(parsePercentile(text)).toBe(value)
  expect(parsePercentile(formatPercentile(value))).toBe(value)
})
test.each(['p0', 'p100', '101', 'median', ''])('percentile %j is refused', (text) =>
  expect(() => parsePercentile(text)).toThrow(UnitError),
)

test.each(['0.99', 0.99, 'p0.95'])('percentile %s may be a share, and is refused', (text) =>
  expect(hintOf(() => parsePercentile(text))).toMatch(
    /a share or a percentile below p1: write p9[59]$/,
  ),
)

test.each([
  ['20', 20],
  [1, 1],
] as const)('count %s', (text, value) => expect(parseCount(text, 1)).toBe(value))
test.each(['1.5', '', '-3', '0', 'ten', Number.NaN, 1e300])('count %s is refused', (text) =>
  expect(() => parseCount(text, 1)).toThrow(UnitError),
)
