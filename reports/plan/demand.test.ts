import { expect, test } from 'vitest'
import {
  computeMeanRps,
  createSteadyDemand,
  DemandError,
  findPeakRps,
  parseDayTable,
  repeatPeriod,
  sumPeriodSeconds,
} from './demand.ts'
import { parseTraceDemand } from './trace-demand.ts'

const read = (text: string) => parseTraceDemand(text, 't.csv')
const problem = (make: () => unknown): string => {
  try {
    make()
  } catch (error) {
    if (error instanceof DemandError) return `${error.message} (${error.hint})`
    throw error
  }
  return 'it was read'
}

test('hours of a day are in quarters: a peak between two of them is refused and not rounded away, and so is a rate without end', () => {
  expect(findPeakRps(parseDayTable('0-8.25:10, 8.25-8.5:9000, 8.5-24:10'))).toBe(9000)
  expect(problem(() => parseDayTable('0-8:10, 8-8.1:9000, 8.1-24:10'))).toMatch(
    /hour 8.1 is not a multiple of a quarter of an hour/,
  )
  expect(problem(() => parseDayTable(`0-12:10, 12-24:${'9'.repeat(400)}`))).toMatch(
    /has no usable rate/,
  )
})

test('a first row that is no heading counts: what is wrong with it is told, with its line', () => {
  expect(
    problem(() =>
      read('2026-13-01T00:00:00Z,5000\n2026-10-01T01:00:00Z,2\n2026-10-01T02:00:00Z,3\n'),
    ),
  ).toMatch(/^t.csv:1: '2026-13-01T00:00:00Z,5000' is not a timestamp and a rate/)
  expect(problem(() => read('time,rate\n\n0,1\n60,x\n'))).toMatch(
    /^t.csv:4: '60,x' is not a timestamp and a rate/,
  )
  expect(read('timestamp,requests_per_second\n0,1\n60,2\n').spans).toHaveLength(2)
})

test.each([
  ['time,rpm', '600', '1200'],
  ['time,requests_per_minute', '600', '1200'],
  ['Time,req/min', '600', '1200'],
  ['minute,RequestCountPerMinute', '600', '1200'],
  ['Time,rps', '10', '20'],
  ['Time,{app="parrot"}', '10', '20'],
  ['Time,parrot', '10 req/s', '0.02 K req/s'],
  ['Time,parrot', '600 rpm', '1.2K req/min'],
  ['Time,k', '10', '20 requests per second'],
])('the unit of %j is that of its heading or its cells: %s', (heading, one, two) => {
  const quoted = heading.replace(/,(.*)/, (_, name: string) => `,"${name.replaceAll('"', '""')}"`)
  expect(read(`${quoted}\n2026/01/01 00:00:00,${one}\n2026/01/01 01:00:00,${two}\n`).spans).toEqual(
    [
      { rps: 10, seconds: 3600 },
      { rps: 20, seconds: 3600 },
    ],
  )
})

test('a unit other than requests per second is said where the trace is named', () =>
  expect(read('time,rpm\n0,600\n60,900\n').what).toContain("'rpm' is read as requests in 1 min"))

test.each(['RequestCount', 'requests', 'count', 'Sum', 'request_count', 'hits'])(
  'a count over no known time is refused: %s',
  (name) =>
    expect(problem(() => read(`time,${name}\n0,600\n60,900\n`))).toMatch(
      /^t.csv:1: '\w+' counts requests, but does not name the period \(rename the column/,
    ),
)

test('a cell of another unit is no rate', () =>
  expect(problem(() => read('time,load\n0,12 ms\n60,13 ms\n'))).toMatch(
    /is not a timestamp and a rate/,
  ))

test('an answer of Prometheus is one series, whose gaps are no zeros; several are refused', () => {
  const answer = (...series: [number, string][][]) =>
    JSON.stringify({
      status: 'success',
      data: { resultType: 'matrix', result: series.map((values) => ({ metric: {}, values })) },
    })
  const series: [number, string][] = [
    [1767225600, '10.5'],
    [1767225660, 'NaN'],
    [1767225720, '20'],
  ]
  expect(read(answer(series)).spans).toEqual([
    { rps: 10.5, seconds: 120 },
    { rps: 20, seconds: 120 },
  ])
  expect(problem(() => read(answer(series, series)))).toMatch(
    /t.csv has 2 series, but a trace has one \(add/,
  )
  expect(problem(() => read('{"Datapoints": []}'))).toMatch(
    /is JSON, but not an answer of Prometheus/,
  )
})

test('a third column is not passed over: it may be the rate', () => {
  expect(problem(() => read('time,p99_ms,rps\n0,12,900\n60,13,950\n'))).toMatch(
    /^t.csv:2: '0,12,900' has 3 columns, but a trace has 2/,
  )
  expect(problem(() => read('0:1\n60:2\n'))).toMatch(/'60:2' has 1 column, but a trace has 2/)
  expect(read('0,1,\r\n60,2,\r\n').spans.map(({ rps }) => rps)).toEqual([1, 2])
})

test('byte order mark, CRLF and quotes are read, one that never closes is told', () => {
  expect(read('\uFEFF"time","rps"\r\n"0","1"\r\n"60","2"\r\n').spans.map(({ rps }) => rps)).toEqual(
    [1, 2],
  )
  expect(() => read('time,rps\n0,1\n60,"2\n')).toThrow(
    /^t.csv:3: a quote is opened and never closed/,
  )
  expect(problem(() => read('0,5\n'))).toMatch(/t.csv has one row/)
})

test('a time without a rate, as monitoring exports it, leaves the one before, and is told', () => {
  const { spans, what } = read('time,rps\n0,1\n60,\n120,NaN\n180,2\n240,3\n')
  expect(spans).toEqual([
    { rps: 1, seconds: 180 },
    { rps: 2, seconds: 60 },
    { rps: 3, seconds: 60 },
  ])
  expect(what).toBe(
    'the trace t.csv (3 rates over 5 min; 2 rows without a rate, filled with the rate before)',
  )
  expect(problem(() => read('0,1\n,\nx,NaN\n60,2\n'))).toMatch(
    /^t.csv:3: 'x,NaN' is not a timestamp and a rate/,
  )
})

test('decimal commas beside semicolons are read, and that is told', () => {
  const { spans, what } = read('time;rps\n0;1,5\n60;2\n')
  expect(spans.map(({ rps }) => rps)).toEqual([1.5, 2])
  expect(what).toMatch(/; commas are read as decimal points: 1,5 means 1\.5\)$/)
})

test('a rate that is held for long where rows are missing is told', () => {
  const every = (minutes: readonly number[]) =>
    minutes.map((minute) => `${minute * 60},5\n`).join('')
  expect(read(every([0, 5, 10, 15, 375, 380])).what).toBe(
    'the trace t.csv (6 rates over 6.42 h; one lasts 6 h, most last 5 min)',
  )
  expect(read(every([0, 5, 10, 15, 60])).what).toBe('the trace t.csv (5 rates over 1.75 h)')
})

test('milliseconds, microseconds and nanoseconds since 1970 are the same time', () => {
  const seconds = read('1767225600,1\n1767229200,2\n')
  for (const zeros of ['000', '000000', '000000000'])
    expect(read(`1767225600${zeros},1\n1767229200${zeros},2\n`), zeros).toMatchObject({
      spans: seconds.spans,
      beginsAtS: 1767225600,
    })
})

test('times without a zone are what clocks show, whichever zone this machine is in; those with one are absolute', () => {
  const zone = process.env.TZ
  try {
    for (const TZ of ['UTC', 'America/New_York', 'Asia/Kolkata']) {
      process.env.TZ = TZ
      // In New York there is no half past two on that day.
      const naive = read('2026-03-08 01:30:00,1\n2026-03-08 02:30:00,2\n2026-03-08 03:30,3\n')
      expect(naive).toMatchObject({
        beginsAtS: Date.parse('2026-03-08T01:30:00Z') / 1000,
        isLocalTime: true,
      })
      expect(naive.spans.map(({ seconds }) => seconds)).toEqual([3600, 3600, 3600])
    }
  } finally {
    if (zone === undefined) delete process.env.TZ
    else process.env.TZ = zone
  }
  const zoned = read(
    '2026-10-25T02:00:00+02:00,1\n2026-10-25 02:00:00+0100,2\n2026-10-25T02:00:00Z,3\n',
  )
  expect(zoned.spans.map(({ seconds }) => seconds)).toEqual([3600, 3600, 3600])
  expect(zoned).not.toHaveProperty('isLocalTime')
  expect(problem(() => read('2026-10-25T02:00:00,1\n2026-10-25T02:00:00,2\n'))).toMatch(
    /t.csv:2: the time does not increase.*add the offset/,
  )
  expect(problem(() => read('Oct 1 2026,1\nOct 2 2026,2\n'))).toMatch(/not a timestamp and a rate/)
})

test('a period is taken as often as it needs to last some time, its peak and mean as they are', () => {
  const short = read('0,10\n20,100\n')
  const long = repeatPeriod(short, 7200)
  expect(sumPeriodSeconds(long)).toBe(7200)
  expect([findPeakRps(long), computeMeanRps(long)]).toEqual([
    findPeakRps(short),
    computeMeanRps(short),
  ])
  const day = createSteadyDemand(5)
  expect(repeatPeriod(day, 7200)).toBe(day)
})
