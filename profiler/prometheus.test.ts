import { describe, expect, test } from 'vitest'
import {
  evaluateMetric,
  findMaxSeriesValue,
  formatMetric,
  hasMetric,
  listMetricNames,
  parseMetric,
} from './prometheus.ts'

const before = `# HELP queue_depth Requests that wait.
# TYPE queue_depth gauge
queue_depth{model="a"} 4
queue_depth{model="b"} 1 1700000000000
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{model_name="m",path="a\\"b}"} 1e3
vllm:prompt_tokens_total{model_name="n"} 10
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.1"} 5 # {trace="x}y"} 0.05 1700000000.1
wait_seconds_bucket{le="+Inf"} 10
wait_seconds_sum 2
wait_seconds_count 10
untyped_total 7
limit +Inf
`
const after = before
  .replace('{model="a"} 4', '{model="a"} 8')
  .replace('} 1e3', '} 1.5e3')
  .replace('"n"} 10', '"n"} 110')
  .replace('sum 2', 'sum 5')
  .replace('count 10', 'count 16')
  .replace('untyped_total 7', 'untyped_total 9')
const scrapes = [
  { atS: 10, text: before },
  { atS: 14, text: after },
]

test.each([
  ['a gauge is its mean over time, of several series the largest', { name: 'queue_depth' }, 6],
  [
    'an example of what was observed is no part of it',
    { name: 'wait_seconds_bucket', labels: { le: '0.1' } },
    0,
  ],
  ['by its labels one of them', { name: 'queue_depth', labels: { model: 'b' } }, 1],
  [
    'a counter grows so much a second, all series together',
    { name: 'vllm:prompt_tokens_total' },
    150,
  ],
  [
    'a label with quotes and braces',
    { name: 'vllm:prompt_tokens_total', labels: { path: 'a"b}' } },
    125,
  ],
  ['a histogram is the mean of what it observed meanwhile', { name: 'wait_seconds' }, 0.5],
  ['a counter by its name', { name: 'untyped_total' }, 0.5],
  ['infinite', { name: 'limit' }, Number.POSITIVE_INFINITY],
  ['not there', { name: 'queue' }, undefined],
  ['not with that label', { name: 'queue_depth', labels: { model: 'c' } }, undefined],
] as const)('%s', (_, asked, value) => expect(evaluateMetric(asked, [scrapes])).toBe(value))

test('a histogram without observations has no value', () => {
  expect(
    evaluateMetric({ name: 'wait_seconds' }, [[scrapes[0]!, { ...scrapes[0]!, atS: 12 }]]),
  ).toBeUndefined()
})

describe('a summary', () => {
  const page = (sum: number, count: number, p50: string, p99: string) =>
    `# TYPE request_us summary
request_us{model="m",quantile="0.5"} ${p50}
request_us{model="m",quantile="0.99"} ${p99}
request_us_sum{model="m"} ${sum}
request_us_count{model="m"} ${count}
`
  const looks = (...pages: string[]) => [pages.map((text, i) => ({ atS: i, text }))]
  const read = (labels?: Record<string, string>, ...pages: string[]) =>
    evaluateMetric({ name: 'request_us', labels }, looks(...pages))
  const [first, last] = [page(5000, 5, '900', '23340'), page(25000, 25, '1100', '23340')]

  test('is the mean of the observations in the window', () =>
    expect([read(undefined, first, last), read({ model: 'm' }, first, last)]).toEqual([1000, 1000]))

  test('a quantile that was named is that series', () =>
    expect(read({ quantile: '0.5' }, first, last)).toBe(1000))

  test('has no value without observations, or for a quantile of NaN', () => {
    expect(read(undefined, first, first)).toBeUndefined()
    const silent = page(0, 0, 'NaN', 'NaN')
    expect(read({ quantile: '0.99' }, silent, silent)).toBeUndefined()
  })

  test('one of quantiles alone has no mean: the largest of its series would be another figure', () => {
    const quantilesAlone = '# TYPE request_us summary\nrequest_us{quantile="0.5"} 7\n'
    expect(read(undefined, quantilesAlone, quantilesAlone)).toBeUndefined()
    expect(read({ quantile: '0.5' }, quantilesAlone, quantilesAlone)).toBe(7)
  })

  test('a counter that a restart resets continues from zero', () =>
    expect(read(undefined, first, page(2000, 1, '1', '1'))).toBe(2000))
})

test('a quantile of a histogram covers the observations in the window', () => {
  const page = (counts: readonly number[]) =>
    ['0.1', '0.5', '1', '+Inf'].map((le, i) => `wait_bucket{le="${le}"} ${counts[i]}\n`).join('')
  const read = (quantile: string, first: number[], last: number[]) =>
    evaluateMetric({ name: 'wait', labels: { quantile } }, [
      [first, last].map((counts, atS) => ({ atS, text: page(counts) })),
    ])
  // 10 in the window: 4 up to 0.1, 4 between 0.1 and 0.5, 2 between 0.5 and 1.
  const [first, last] = [
    [100, 100, 100, 100],
    [104, 108, 110, 110],
  ]
  expect(read('0.5', first, last)).toBeCloseTo(0.2)
  expect(read('0.9', first, last)).toBeCloseTo(0.75)
  expect(read('0.5', first, first)).toBeUndefined()
  expect(read('0.99', [0, 0, 0, 0], [0, 0, 0, 5])).toBe(1)
})

test.each([
  ['a series', { name: 'depth' }, true],
  ['what was observed', { name: 'wait' }, true],
  ['a type of which nothing was counted yet', { name: 'errors_total' }, true],
  ['other labels', { name: 'depth', labels: { m: 'b' } }, false],
  ['another name', { name: 'dept' }, false],
  ['a quantile of what has buckets', { name: 'wait', labels: { quantile: '0.9' } }, false],
] as const)('whether a page has it: %s', (_, asked, has) =>
  expect(
    hasMetric(asked, '# TYPE errors_total counter\ndepth{m="a"} 1\nwait_sum 0\nwait_count 0\n'),
  ).toBe(has),
)

describe('of several servers', () => {
  const page = (depth: number, tokens: number, sum: number, count: number) =>
    `# TYPE depth gauge\ndepth ${depth}\n# TYPE tokens counter\ntokens ${tokens}\n# TYPE wait histogram\nwait_sum ${sum}\nwait_count ${count}\n`
  const looks = (first: string, last: string) => [
    { atS: 0, text: first },
    { atS: 2, text: last },
  ]
  const one = looks(page(4, 100, 0, 0), page(6, 120, 1, 10))
  const other = looks(page(20, 900, 5, 40), page(40, 904, 14, 70))

  test('counters are summed, gauges take the largest, histograms combine observations', () => {
    const of = (name: string) => evaluateMetric({ name }, [one, other])
    expect([of('tokens'), of('depth'), of('wait')]).toEqual([12, 30, 0.25])
  })

  test('a missing counter counts as zero; a gauge that one server lacks has no value', () => {
    const idle = looks('', 'up 1\n')
    const of = (name: string) =>
      [idle, one].flatMap((first, i, all) => [evaluateMetric({ name }, [first, all[1 - i]!])])
    expect([of('tokens'), of('wait'), of('depth')]).toEqual([
      [10, 10],
      [0.1, 0.1],
      [undefined, undefined],
    ])
  })
})

test.each([
  ['queue_depth', { name: 'queue_depth' }],
  [
    'vllm:tokens{path="a\\"b",m="x, y"}',
    { name: 'vllm:tokens', labels: { path: 'a"b', m: 'x, y' } },
  ],
  ['queue depth', undefined],
  ['queue_depth 3', undefined],
  ['{m="a"}', undefined],
  ['a\nb', undefined],
  ['', undefined],
])('a series by its text: %j', (text, series) => expect(parseMetric(text)).toEqual(series))

test('a page of very many series is read', () => {
  const text = Array.from({ length: 150_000 }, (_, i) => `depth{i="${i}"} ${i % 7}`).join('\n')
  expect(findMaxSeriesValue(text, 'depth')).toBe(6)
})

test('formatting a series is the inverse of parsing it', () => {
  const series = { name: 'a', labels: { path: 'x"y\\z\n\\n', m: '1' } }
  expect(parseMetric(formatMetric(series))).toEqual(series)
})

test('metric names of a page, and readings by name', () => {
  expect(listMetricNames(before)).toContain('wait_seconds_sum')
  expect(formatMetric({ name: 'queue_depth', labels: { model: 'a' } })).toBe(
    'queue_depth{model="a"}',
  )
  expect(formatMetric({ name: 'queue_depth' })).toBe('queue_depth')
})
