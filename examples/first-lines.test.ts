/**
 * Every example is read on a machine of two cores, and says in its first line what it needs beside
 * `tune`. One that runs as it stands has a test beside it that runs it; one that needs something
 * has one with a stand-in, unless it needs a cluster.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { loadExperiment } from '../tuner/config/load-experiment.ts'

const folder = fileURLToPath(new URL('.', import.meta.url))
const examples = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .flatMap(({ name }) =>
    readdirSync(join(folder, name))
      .filter((file) => file.endsWith('.yaml'))
      .map((file) => join(folder, name, file)),
  )
const experiments = examples.filter((file) => basename(file) !== 'task.yaml')
/** Its model is written by a script, or given by the user, beside it. */
const written = /no file or folder|no folder|needs the model's folder|no such file/
const testsBeside = (file: string) =>
  readdirSync(dirname(file)).filter((name) => name.endsWith('.test.ts'))

test('there are some', () => expect(examples.length).toBeGreaterThan(11))

test.each(examples)('%s says what it needs, and a test runs it', (file) => {
  const [first = ''] = readFileSync(file, 'utf8').split('\n')
  expect(first).toMatch(/^# (Needs .+\.|.*[Rr]uns as it stands\.)$/)
  if (!first.includes('Needs a cluster')) expect(testsBeside(file)).not.toEqual([])
})

test.each(experiments)('%s is read', (file) => {
  const read = () =>
    loadExperiment({
      file,
      flags: {},
      environment: {},
      cwd: dirname(file),
      machine: { cpuCores: 2, gpus: [] },
    })
  try {
    read()
  } catch (error) {
    expect((error as Error).message).toMatch(written)
  }
})
