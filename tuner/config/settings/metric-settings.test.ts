import { describe, expect, test } from 'vitest'
import { loadExperimentDocument } from '../load-experiment.ts'
import { machine, problemLines, useWorkspace } from '../testing/workspace.ts'

const { loadFile } = useWorkspace()
const withMetrics = (metrics: string, protocol = 'json') =>
  `model: m\nslo: 50ms\npredictor: {url: "http://h:1", protocol: ${protocol}${protocol === 'json' ? ', path: /p' : ''}}\nmetrics: ${metrics}\n`

test('a name, an object, a list of both; read again as they were kept', () => {
  const one = { name: 'queue_depth', from: '/metrics' }
  expect(loadFile(withMetrics('queue_depth')).metrics).toEqual([one])
  const bound = { name: 'cache', labels: { gpu: '0' }, max: 0.9, from: 'http://h:2/metrics' }
  const experiment = loadFile(
    withMetrics(
      '[queue_depth, {name: cache, labels: {gpu: 0}, max: 0.9, from: "http://h:2/metrics"}]',
    ),
  )
  expect(experiment.metrics).toEqual([one, bound])
  const kept = JSON.parse(JSON.stringify(experiment.document))
  expect(loadExperimentDocument(kept, 'm-1', { cwd: '/', machine }).metrics).toEqual([one, bound])
  expect(loadFile('model: bert\nslo: 50ms\n').metrics).toEqual([])
})

describe('a metric to rank by', () => {
  const ranked = (metrics: string, more = '') =>
    `${withMetrics(metrics)}objective: max-metric\n${more}`
  const two = '[{name: depth, labels: {m: a}}, {name: depth, labels: {m: b}}, served_total]'

  test('is the only one, or is named, with its labels where several have the name; read again as it was kept', () => {
    expect(loadFile(ranked('depth')).objective).toEqual({ kind: 'max-metric', metric: 'depth' })
    expect(loadFile(ranked(two, 'objectiveMetric: served_total\n')).objective).toMatchObject({
      metric: 'served_total',
    })
    const experiment = loadFile(ranked(two, `objectiveMetric: 'depth{m="b"}'\n`))
    expect(experiment.objective).toEqual({ kind: 'max-metric', metric: 'depth{m="b"}' })
    const kept = JSON.parse(JSON.stringify(experiment.document))
    expect(loadExperimentDocument(kept, 'm-1', { cwd: '/', machine }).objective).toEqual(
      experiment.objective,
    )
  })

  test.each([
    [ranked('depth', 'objectiveMetric: dept\n'), 'e.yaml:6:18 metrics do not include dept'],
    [ranked(two, 'objectiveMetric: depth\n'), 'e.yaml:6:18 several metrics have the name depth'],
    [ranked(two), 'e.yaml:5:12 max-metric needs a metric'],
    [
      `${withMetrics('depth')}objectiveMetric: depth\n`,
      'e.yaml:5:18 the objective price-per-request does not use a metric',
    ],
  ])('%j', (text, line) => {
    const [first, ...more] = problemLines(() => loadFile(text))
    expect(first).toMatch(new RegExp(`^${line}`))
    expect(more).toEqual([])
  })

  test('what is wrong with metrics themselves is told once', () => {
    expect(
      problemLines(() => loadFile(ranked('{max: 1}', 'objectiveMetric: depth\n'))),
    ).toHaveLength(1)
  })
})

test('a text names a series and its bound, and so does a flag', () => {
  const long = [
    { name: 'depth', labels: { m: 'a<=b' }, max: 2.5, from: '/metrics' },
    { name: 'up', from: '/metrics' },
  ]
  expect(loadFile(withMetrics(`['depth{m="a<=b"} <= 2.5', up]`)).metrics).toEqual(long)
  expect(
    loadFile(withMetrics('other'), { metric: ['depth{m="a<=b"}<=2.5', 'up'] }).metrics,
  ).toEqual(long)
  const elsewhere = { name: 'depth', labels: { m: 'a from b' }, max: 2.5, from: ':8002/metrics' }
  expect(
    loadFile(withMetrics('other', 'grpc-v2'), {
      metric: ['depth{m="a from b"} <= 2.5 from :8002/metrics'],
    }).metrics,
  ).toEqual([elsewhere])
  expect(problemLines(() => loadFile(withMetrics("'depth from :http'")))).toEqual([
    "e.yaml:4:10 metrics.from: expected a path, ':8002/metrics' or a URL",
  ])
  for (const wrong of ['queue depth', "[up, 'depth <= many']", "'depth <='", "'depth{'"])
    expect(problemLines(() => loadFile(withMetrics(wrong)))).toEqual([
      expect.stringMatching(/^e\.yaml:4:\d+ .*expected a metric such as queue_depth/),
    ])
})

test('what cannot be read is named with its place', () => {
  expect(problemLines(() => loadFile(withMetrics('{max: 1}')))).toEqual([
    expect.stringMatching(
      /^e\.yaml:4:\d+ .*expected a metric such as queue_depth, .*or a list of these/,
    ),
  ])
  expect(problemLines(() => loadFile(withMetrics('queue_depth', 'grpc-v2')))).toEqual([
    expect.stringContaining('a gRPC port does not serve /metrics'),
  ])
  expect(
    loadFile(withMetrics('{name: queue_depth, from: ":8002/metrics"}', 'grpc-v2')).metrics[0]!.from,
  ).toBe(':8002/metrics')
  expect(
    problemLines(() => loadFile(withMetrics('{name: queue_depth, from: ":port/metrics"}'))),
  ).toEqual([
    expect.stringMatching(
      /^e\.yaml:4:\d+ metrics\.from: expected a path, ':8002\/metrics' or a URL/,
    ),
  ])
  const inCluster =
    'model: bert\nslo: 50ms\nbackend: kubernetes\nmetrics: {name: queue_depth, from: ":8002"}\n'
  expect(loadFile(inCluster).metrics).toEqual([{ name: 'queue_depth', from: ':8002' }])
  expect(
    problemLines(() => loadFile(`${inCluster}kubernetes: {loadFrom: port-forward}\n`)),
  ).toEqual([
    expect.stringMatching(
      /^e\.yaml:4:\d+ .*port forwarding reaches only the port of the predictor, not :8002/,
    ),
  ])
  expect(
    problemLines(() =>
      loadFile('model: bert\nslo: 50ms\nbackend: simulated\nmetrics: queue_depth\n'),
    ),
  ).toEqual([expect.stringContaining('backend simulated cannot read metrics')])
})
