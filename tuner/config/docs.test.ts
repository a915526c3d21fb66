import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { loadExperiment } from './load-experiment.ts'
import { createExperimentJsonSchema, experimentFileSchema } from './schema/experiment-schema.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const machine = { cpuCores: 2, gpus: [] }

let cwd: string
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'tune-docs-'))
})
afterAll(() => rmSync(cwd, { recursive: true }))

describe('docs/reference/experiment-file.md', () => {
  const page = read('docs/reference/experiment-file.md')

  test.each(
    [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text]) => [
      text!.split('\n').slice(0, 3).join(' / '),
      text!,
    ]),
  )('its example loads: %s', (_, text) => {
    writeFileSync(join(cwd, 'e.yaml'), text)
    expect(
      loadExperiment({ cwd, machine, file: 'e.yaml' }).space.parameters.length,
    ).toBeGreaterThan(1)
  })
})

/** But those whose model is a file that a script writes first. */
const examples = readdirSync(join(root, 'examples'), { recursive: true, encoding: 'utf8' }).filter(
  (name) => /\.ya?ml$/.test(name) && /^model:(?! \.\/)/m.test(read(join('examples', name))),
)
test.each(examples)('examples/%s loads', (name) => {
  const { file, cwd } = { file: basename(name), cwd: join(root, 'examples', dirname(name)) }
  const { predictor, space } = loadExperiment({ cwd, machine: { cpuCores: 4, gpus: [] }, file })
  // A server that runs already is measured as it is.
  expect(space.parameters.length > 0).toBe(predictor.kind !== 'url')
})

describe('examples/experiment.yaml', () => {
  const text = read('examples/experiment.yaml')

  test('loads', () => {
    const experiment = loadExperiment({ cwd: root, machine, file: 'examples/experiment.yaml' })
    expect(experiment).toMatchObject({
      name: 'bert-on-shared-gpus',
      devicesUsed: 'emulated',
      pins: { cpuCores: 2 },
    })
  })

  test('has every key of the schema, set or in a comment', () => {
    const absent = Object.keys(experimentFileSchema.shape).filter(
      (key) => !new RegExp(`^(# )?${key}:`, 'm').test(text),
    )
    expect(absent).toEqual([])
  })

  test('pleases an editor that has the JSON Schema, and a typo does not', () => {
    const validate = new Ajv2020({ strict: false }).compile(createExperimentJsonSchema())
    const written = parse(text)
    expect(validate(written), JSON.stringify(validate.errors)).toBe(true)
    expect(validate({ ...written, modle: 'bert' })).toBe(false)
    expect(validate({ ...written, budget: { max_trials: 3 } })).toBe(false)
  })
})
