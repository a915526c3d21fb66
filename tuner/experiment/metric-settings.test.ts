import { expect, test } from 'vitest'
import { experimentFromDocument } from './load-experiment.ts'
import { machine, problemLines, useWorkspace } from './testing/workspace.ts'

const { loadFile } = useWorkspace()
const withMetrics = (metrics: string, protocol = 'json') =>
  `model: m\nslo: 50ms\npredictor: {url: "http://h:1", protocol: ${protocol}${protocol === 'json' ? ', path: /p' : ''}}\nmetrics: ${metrics}\n`

test('a name, an object, a list of both; read again as they were kept', () => {
  const one = { name: 'queue_depth', from: '/metrics' }
  expect(loadFile(withMetrics('queue_depth')).metrics).toEqual([one])
  const bound = { name: 'cache', labels: { gpu: '0' }, max: 0.9, from: 'http://h:2/metrics' }
  const experiment = loadFile(withMetrics('[queue_depth, {name: cache, labels: {gpu: 0}, max: 0.9, from: "http://h:2/metrics"}]'))
  expect(experiment.metrics).toEqual([one, bound])
  const kept = JSON.parse(JSON.stringify(experiment.document))
  expect(experimentFromDocument(kept, 'm-1', { cwd: '/', machine }).metrics).toEqual([one, bound])
  expect(loadFile('model: bert\nslo: 50ms\n').metrics).toEqual([])
})

test('what cannot be read is named with its place', () => {
  expect(problemLines(() => loadFile(withMetrics('{max: 1}')))).toEqual([
    expect.stringMatching(/^e\.yaml:4:\d+ .*expected a list of metrics, or of \{name, labels, max, from\}/),
  ])
  expect(problemLines(() => loadFile(withMetrics('queue_depth', 'grpc-v2')))).toEqual([
    expect.stringContaining('a gRPC port has no /metrics'),
  ])
  expect(problemLines(() => loadFile('model: bert\nslo: 50ms\nbackend: simulated\nmetrics: queue_depth\n'))).toEqual([
    expect.stringContaining('not read with backend simulated'),
  ])
})
