import { mkdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { loadExperimentDocument } from './load-experiment.ts'
import { fillSecrets } from './secret-values.ts'
import { machine, problemLines, useWorkspace } from './testing/workspace.ts'
import type { Experiment } from './types.ts'

const { loadFile, path } = useWorkspace()
const withReconfigure = (
  reconfigure: string,
  command = 'serve --width ${width} --port ${port}',
) => `
model: m
slo: 50ms
predictor:
  command: ${command}
  protocol: json
  path: /predict
  reconfigure: ${reconfigure}
space: { limit: { values: [1, 2], category: server }, width: { values: [1, 2], category: server } }
`
const wordsOf = ({ predictor }: Experiment) =>
  predictor.kind === 'command' ? predictor.reconfigure : undefined

test('a command, split without a shell, read again as it was kept', () => {
  const words = ['curl', '-X', 'PUT', 'http://${host}:${port}/limit/${limit}']
  const experiment = loadFile(withReconfigure(words.join(' ')))
  expect(wordsOf(experiment)).toEqual(words)
  const kept = JSON.parse(JSON.stringify(experiment.document))
  expect(wordsOf(loadExperimentDocument(kept, 'm-1', { cwd: '/', machine }))).toEqual(words)
})

test('what sets nothing, or what is not known, is named with its place', () => {
  expect(problemLines(() => loadFile(withReconfigure('set ${port} ${nosuch} ${limit}')))).toEqual([
    expect.stringMatching(/^e\.yaml:8:\d+ .*reconfigure: unknown placeholder \$\{nosuch\}/),
  ])
  const everywhere = withReconfigure(
    'set ${port} ${limit}',
    'serve --width ${width} --limit ${limit} --port ${port}',
  )
  expect(problemLines(() => loadFile(everywhere))).toEqual([
    expect.stringMatching(
      /^e\.yaml:8:\d+ .*reconfigure: must set a parameter of category server that is set nowhere else/,
    ),
  ])
})

test('where another is told its values, or trials are elsewhere, it is refused', () => {
  const url = 'model: m\nslo: 50ms\npredictor: {url: "http://h:1", reconfigure: set}\n'
  expect(problemLines(() => loadFile(url))).toEqual([
    expect.stringContaining("'reconfigure' does not apply to a url predictor"),
  ])
  mkdirSync(path('half/1'), { recursive: true })
  const triton =
    'model: {path: half}\nslo: 50ms\npredictor: {server: triton, reconfigure: "set ${limit}"}\nspace: {limit: {values: [1, 2], category: server}}\n'
  expect(problemLines(() => loadFile(triton))).toEqual([
    expect.stringContaining('tune sets the values of Triton through its model control'),
  ])
})

test('its secrets are references until it is run', () => {
  const experiment = loadFile(withReconfigure('[set, --token, planted-word, "${limit}"]'))
  expect(JSON.stringify(experiment)).not.toContain('planted')
  expect(wordsOf(fillSecrets(experiment))).toEqual(['set', '--token', 'planted-word', '${limit}'])
})
