import { expect, test } from 'vitest'
import { loadExperimentDocument } from './load-experiment.ts'
import { fillSecrets } from './secret-values.ts'
import { machine, problemLines, useWorkspace } from './testing/workspace.ts'
import type { Experiment } from './types.ts'

const workspace = useWorkspace()

const text = `
model: m
slo: 50ms
predictor:
  command: [serve, '--port=\${port}', --token, planted-arg, '--db=postgres://u:planted-user@db/x']
  env: { API_KEY: planted-env, HF_TOKEN: '\${env:PLANTED}', MAX_TOKENS: 512 }
  files: { conf.yaml: "batch: \${maxBatchSize}\\npassword: planted-file\\n" }
  protocol: json
  path: /predict
  body: '{"text": "{{text}}", "api_key": "planted-body"}'
space: { maxBatchSize: [1, 2] }
`
const command = ({ predictor }: Experiment) => {
  if (predictor.kind !== 'command') throw new Error('no command')
  return predictor
}
const resumed = (document: unknown) =>
  loadExperimentDocument(JSON.parse(JSON.stringify(document)), 'm-1', {
    cwd: workspace.path(),
    machine,
  })

test('what is written out in a file is a reference everywhere but where predictors are started', () => {
  process.env.PLANTED = 'planted-variable-${port}'
  const experiment = workspace.loadFile(text)
  expect(JSON.stringify(experiment)).not.toContain('planted')
  const { command: argv, env, files, body } = command(fillSecrets(experiment))
  expect(argv).toEqual([
    'serve',
    '--port=${port}',
    '--token',
    'planted-arg',
    '--db=postgres://u:planted-user@db/x',
  ])
  // A value from outside is no template.
  expect(env).toEqual({
    API_KEY: 'planted-env',
    HF_TOKEN: 'planted-variable-$${port}',
    MAX_TOKENS: '512',
  })
  expect(files?.[0]?.template).toBe('batch: ${maxBatchSize}\npassword: planted-file\n')
  expect(body).toBe('{"text": "{{text}}", "api_key": "planted-body"}')
})

test('a stored experiment has them from the file and the environment again, or says what is missing', () => {
  process.env.PLANTED = 'planted-variable'
  const { document } = workspace.loadFile(text)
  expect(command(fillSecrets(resumed(document)))).toEqual(
    command(fillSecrets(workspace.loadFile(text))),
  )
  workspace.write('e.yaml', text.replace('API_KEY: planted-env, ', ''))
  delete process.env.PLANTED
  expect(problemLines(() => fillSecrets(resumed(document)))).toEqual([
    `\${file://${workspace.path('e.yaml')}#/predictor/env/API_KEY} the secret is no longer there`,
    '$PLANTED the secret is not set',
  ])
})

test('what was given on the command line is asked for by a variable', () => {
  const experiment = workspace.load({
    model: 'm',
    slo: '50ms',
    url: 'http://u:planted-flag@127.0.0.1:1/?sig=planted-sig&b=1',
    protocol: 'oip-v2',
  })
  expect(JSON.stringify(experiment)).not.toContain('planted')
  expect(fillSecrets(experiment).predictor).toMatchObject({
    url: 'http://u:planted-flag@127.0.0.1:1/?sig=planted-sig&b=1',
  })
  const again = resumed(experiment.document)
  expect(problemLines(() => fillSecrets(again)).map((line) => line.split(' ')[0])).toEqual([
    '$TUNE_SECRET_PREDICTOR_URL',
    '$TUNE_SECRET_PREDICTOR_URL_2',
  ])
  Object.assign(process.env, {
    TUNE_SECRET_PREDICTOR_URL: 'u:planted-flag',
    TUNE_SECRET_PREDICTOR_URL_2: 'planted-sig',
  })
  expect(fillSecrets(again).predictor).toEqual(fillSecrets(experiment).predictor)
})

test('headers, all but the harmless; a token in a file of its own', () => {
  workspace.write('token.txt', 'planted-token\n')
  const experiment = workspace.loadFile(`
model: m
slo: 50ms
predictor:
  url: http://127.0.0.1:1
  headers: { X-Tenant: planted-tenant, Authorization: 'Bearer \${file:token.txt}', Accept: application/json }
`)
  expect(JSON.stringify(experiment)).not.toContain('planted')
  const headers = {
    'X-Tenant': 'planted-tenant',
    Authorization: 'Bearer planted-token',
    Accept: 'application/json',
  }
  expect(fillSecrets(experiment).predictor).toMatchObject({ headers })
  expect(fillSecrets(resumed(experiment.document)).predictor).toMatchObject({ headers })
})

test('a pod template: variables by name, arguments, and never names of Kubernetes itself', () => {
  const experiment = workspace.loadFile(`
model: m
slo: 50ms
backend: kubernetes
predictor: { protocol: oip-v2 }
space: { cpuCores: [1] }
kubernetes:
  pod:
    spec:
      imagePullSecrets: [{ name: registry-login }]
      tolerations: [{ key: nvidia.com/gpu, operator: Exists }]
      containers:
        - name: server
          image: own:1
          args: [--api-key, planted-arg]
          env:
            - { name: DB_PASSWORD, value: planted-env }
            - { name: TOKEN, valueFrom: { secretKeyRef: { name: login, key: token } } }
`)
  const shown = JSON.stringify(experiment)
  expect(shown).not.toContain('planted')
  expect(shown).toContain('"secretKeyRef":{"name":"login","key":"token"}')
  expect(shown).toContain('"key":"nvidia.com/gpu"')
  expect(JSON.stringify(fillSecrets(experiment).kubernetes)).toContain('planted-env')
})

test('a secret is not tuned, and what refuses it does not repeat it', () => {
  const tuned = text.replace('space: {', 'space: { apiToken: [planted-choice, planted-other], ')
  const lines = problemLines(() => workspace.loadFile(tuned)).join('\n')
  expect(lines).toContain('the values of apiToken contain a secret')
  expect(lines).not.toContain('planted')
})

test('secrets of what a run is sent to are kept nowhere, from the command line and from a file', () => {
  const model = { model: 'bert', slo: '50ms', backend: 'simulated' }
  const flagged = workspace.load({
    ...model,
    out: 'results, otlp=http://u:planted-flag@h:9090/write?token=planted-token',
  })
  expect(flagged.outDir).toBe(workspace.path('results'))
  expect(JSON.stringify(flagged)).not.toContain('planted')
  expect(fillSecrets(flagged).outputs).toEqual([
    { kind: 'otlp', url: 'http://u:planted-flag@h:9090/write?token=planted-token' },
  ])
  const filed = workspace.loadFile(
    'model: bert\nslo: 50ms\nsend: {otlp: {url: "https://h/write", headers: {X-Scope-OrgID: planted-tenant}}}\n',
  )
  expect(JSON.stringify(filed.document)).not.toContain('planted')
  expect(fillSecrets(resumed(filed.document)).outputs).toEqual([
    { kind: 'otlp', url: 'https://h/write', headers: { 'X-Scope-OrgID': 'planted-tenant' } },
  ])
})
