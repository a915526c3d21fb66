import { expect, test } from 'vitest'
import { loadExperimentDocument } from './load-experiment.ts'
import { fillSecrets } from './secret-values.ts'
import { machine, problemLines, useWorkspace } from './testing/workspace.ts'
import type { Experiment } from './types.ts'

const { load, loadFile } = useWorkspace()
const withUrls = (urls: string, rest = '') => `
model: m
slo: 50ms
predictor:
  urls: ${urls}
  protocol: json
  path: /predict
${rest}`
const urlsOf = ({ predictor }: Experiment) =>
  predictor.kind === 'url' ? [predictor.url, predictor.urls] : undefined

test('several servers with their weights, in short and in full, read again as they were kept', () => {
  const both = [
    { url: 'http://a:1', weight: 3 },
    { url: 'http://b:2/ml', weight: 1 },
  ]
  const experiment = loadFile(withUrls('[http://a:1 x3, {url: "http://b:2/ml"}]'))
  expect(urlsOf(experiment)).toEqual(['http://a:1', both])
  const kept = JSON.parse(JSON.stringify(experiment.document))
  expect(urlsOf(loadExperimentDocument(kept, 'm-1', { cwd: '/', machine }))).toEqual([
    'http://a:1',
    both,
  ])
  expect(
    urlsOf(
      load({
        model: 'm',
        slo: '50ms',
        protocol: 'json',
        path: '/p',
        urls: ['http://a:1 x3', 'http://b:2/ml'],
      }),
    ),
  ).toEqual(['http://a:1', both])
})

test('one is one; a flag with one URL takes the place of all, and keeps how they are asked', () => {
  expect(urlsOf(loadFile(withUrls('[http://a:1]')))).toEqual(['http://a:1', undefined])
  const experiment = loadFile(withUrls('[http://a:1, http://b:2]'), { url: 'http://c:3' })
  expect(urlsOf(experiment)).toEqual(['http://c:3', undefined])
  expect(experiment.predictor).toMatchObject({ path: '/predict' })
})

test('what cannot be is named with its place', () => {
  expect(problemLines(() => loadFile(withUrls('[http://a:1, b:2]')))).toEqual([
    expect.stringMatching(/^e\.yaml:5:\d+ 'b:2' is not an http URL/),
  ])
  expect(problemLines(() => loadFile(withUrls('[http://a:1 x0]')))).toEqual([
    expect.stringMatching(/^e\.yaml:5:\d+ .*not a URL with a weight/),
  ])
  expect(problemLines(() => loadFile(withUrls('[{url: "http://a:1", weight: -1}]')))).toEqual([
    expect.stringMatching(/^e\.yaml:5:\d+ .*weight above 0/),
  ])
  expect(
    problemLines(() =>
      loadFile(withUrls('[http://a:1]').replace('  urls', '  url: http://c:3\n  urls')),
    ),
  ).toEqual([expect.stringContaining('both url and urls')])
})

test('user and password in one of them are a reference until it is asked', () => {
  const experiment = loadFile(withUrls('[http://a:1, "http://u:planted-pass@b:2 x2"]'))
  expect(JSON.stringify(experiment)).not.toContain('planted')
  expect(urlsOf(fillSecrets(experiment))?.[1]).toEqual([
    { url: 'http://a:1', weight: 1 },
    { url: 'http://u:planted-pass@b:2', weight: 2 },
  ])
})

test.each([
  ['comand: serve ${port}', "unknown key 'predictor.comand'"],
  ['server: tfservin', 'predictor.server'],
  ['url: [http://a:1]', 'predictor.url'],
  ['command: "serve \'${port}"', 'unclosed'],
])('one typo is one error: %s', (wrong, what) => {
  const text = `model: m\nslo: 50ms\npredictor:\n  ${wrong}\n  protocol: json\n  path: /predict\nspace: {workers: {values: [1, 2], category: server}}\n`
  expect(problemLines(() => loadFile(text))).toEqual([expect.stringContaining(what)])
})
