import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadExperiment, loadExperimentDocument } from './load-experiment.ts'
import { ConfigError, type ExperimentDocument } from './types.ts'

const machine = { cpuCores: 4, gpus: [] }
const here = () => ({ cwd: '/', machine })

const own = `
model: {name: mine, path: model.bin}
slo: 50ms
predictor: {command: [python3, serve.py, --port, '\${port}'], cwd: ., protocol: json, path: /p, prepare: {command: [make], inputs: [model.bin]}}
space: {cpuCores: [1, 2]}
load: {payload: {file: requests.jsonl}}
`
const variants = `
model: bert
slo: 50ms
space: {cpuCores: [1, 2]}
variants: {small: {quality: 0.9, path: model.bin}, usual: {quality: 0.95}}
`

/** Kept by a store as JSON, in a folder that is gone by now. */
function storedOfGone(text: string): ExperimentDocument {
  const folder = mkdtempSync(join(tmpdir(), 'looked-at-'))
  try {
    writeFileSync(join(folder, 'model.bin'), 'weights')
    writeFileSync(join(folder, 'requests.jsonl'), '{"text": "a"}\n')
    const { document } = loadExperiment({ cwd: folder, machine, file: 'e.yaml', text })
    return JSON.parse(JSON.stringify(document)) as ExperimentDocument
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test.each([
  ['a command with a folder, a model, a payload and what prepares it', own, 4],
  ['variants by path', variants, 1],
])('%s: shown where its files are gone, and not started', (_, text, missing) => {
  const document = storedOfGone(text)
  const shown = loadExperimentDocument(document, 'e-1', { ...here(), isReadOnly: true })
  expect(shown.space.parameters.map(({ name }) => name)).toContain('cpuCores')
  expect(shown.document).toEqual(document)
  const started = () => loadExperimentDocument(document, 'e-1', here())
  expect(started).toThrow(ConfigError)
  try {
    started()
  } catch (error) {
    expect((error as ConfigError).problems).toHaveLength(missing)
  }
})
