/** Every example is read on a machine of two cores, and says in its first line what it needs beside `tune`. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { loadExperiment } from '../tuner/experiment/load-experiment.ts'

const folder = fileURLToPath(new URL('.', import.meta.url))
const files = readdirSync(folder)
  .map((name) => `${folder}${name}/experiment.yaml`)
  .filter((file) => existsSync(file))
/** Its model is written by a script, or given by the user, beside it. */
const written = /no folder|needs the model's folder|no such file/

test('there are some', () => expect(files.length).toBeGreaterThan(8))

test.each(files)('%s', (file) => {
  expect(readFileSync(file, 'utf8').split('\n')[0]).toMatch(/^# (Needs .+\.|Runs as it stands\.)$/)
  const read = () => loadExperiment({ file, flags: {}, environment: {}, cwd: dirname(file), machine: { cpuCores: 2, gpus: [] } })
  try {
    read()
  } catch (error) {
    expect((error as Error).message).toMatch(written)
  }
})
