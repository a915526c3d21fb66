import { expect, test } from 'vitest'
import { loadExperimentDocument } from './load-experiment.ts'
import { fillSecrets } from './secret-values.ts'
import { machine, problemLines, useWorkspace } from './testing/workspace.ts'
import type { Experiment } from './types.ts'

const { loadFile, path, write } = useWorkspace()
const withPrepare = (
  prepare: string,
  command = 'serve --engine ${prepared}/engine --port ${port}',
) => `
model: m
slo: 50ms
predictor:
  command: ${command}
  protocol: json
  path: /predict
  prepare: ${prepare}
space: { precision: { values: [fp16, int8], category: server } }
`
const stepOf = ({ predictor }: Experiment) =>
  predictor.kind === 'command' ? predictor.prepare : undefined

test('a command in short, and all of it, read again as it was kept', () => {
  expect(stepOf(loadFile(withPrepare("python3 build.py '${precision}' ${prepared}")))).toEqual({
    command: ['python3', 'build.py', '${precision}', '${prepared}'],
  })
  write('data/a', '')
  const long = '{command: [build, "${precision}"], env: {LEVEL: 3}, inputs: [data], timeout: 90m}'
  const experiment = loadFile(withPrepare(long))
  const step = {
    command: ['build', '${precision}'],
    env: { LEVEL: '3' },
    inputs: [path('data')],
    timeoutS: 5400,
  }
  expect(stepOf(experiment)).toEqual(step)
  const kept = JSON.parse(JSON.stringify(experiment.document))
  expect(stepOf(loadExperimentDocument(kept, 'm-1', { cwd: '/', machine }))).toEqual(step)
})

test('a parameter that reaches the step alone reaches something; one that differs from trial to trial is refused', () => {
  expect(stepOf(loadFile(withPrepare('build ${precision} ${prepared}')))).toBeDefined()
  expect(problemLines(() => loadFile(withPrepare('build ${precision} ${port} ${nosuch}')))).toEqual(
    [
      expect.stringMatching(/^e\.yaml:8:\d+ .*\$\{port\} differs in every trial/),
      expect.stringMatching(/^e\.yaml:8:\d+ .*unknown placeholder \$\{nosuch\}/),
    ],
  )
})

test('what cannot be is named with its place', () => {
  expect(
    problemLines(() =>
      loadFile(withPrepare('{command: build, inputs: [gone]}', 'serve ${port} ${precision}')),
    ),
  ).toEqual([expect.stringMatching(/^e\.yaml:8:\d+ no file or folder .*gone/)])
  expect(problemLines(() => loadFile(withPrepare('build').replace(/ {2}prepare.*\n/, '')))).toEqual(
    [
      expect.stringMatching(/precision \(server\) never reaches the predictor/),
      expect.stringMatching(/unknown placeholder \$\{prepared\}/),
    ],
  )
  const url = 'model: m\nslo: 50ms\npredictor: {url: "http://h:1", prepare: build}\n'
  expect(problemLines(() => loadFile(url))).toEqual([
    expect.stringContaining("'prepare' does not apply to a url predictor"),
  ])
})

test('its secrets are references until it is run', () => {
  const experiment = loadFile(
    withPrepare(
      '{command: [build, --token, planted-word, "${precision}"], env: {API_KEY: planted-env}}',
    ),
  )
  expect(JSON.stringify(experiment)).not.toContain('planted')
  expect(stepOf(fillSecrets(experiment))).toMatchObject({
    command: ['build', '--token', 'planted-word', '${precision}'],
    env: { API_KEY: 'planted-env' },
  })
})
