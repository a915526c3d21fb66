import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = dirname(fileURLToPath(import.meta.url))

/** Which folders' values, and which folders' types alone, each folder may import. */
const rules: Record<string, { values: string[]; types: string[] }> = {
  search: { values: [], types: [] },
  profiler: { values: [], types: [] },
  trials: { values: [], types: ['search', 'profiler'] },
  reports: { values: ['trials', 'search'], types: ['profiler'] },
  tuner: { values: ['search', 'profiler', 'trials', 'reports'], types: [] },
}

const sources = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((f) => /\.tsx?$/.test(f) && !/node_modules/.test(f))
    .map((f) => join(folder, f))

const isTest = (file: string) => /\.(test|bench|contract|k8s-test)\.tsx?$/.test(file)

describe.each(Object.entries(rules))('%s/', (folder, allowed) => {
  const files = sources(folder)

  test('imports only what the design allows', () => {
    const broken: string[] = []
    for (const file of files.filter((f) => !isTest(f))) {
      const text = readFileSync(join(root, file), 'utf8')
      for (const [, typeOnly, from] of text.matchAll(/(?:^|\n)\s*(?:import|export)\s+(type\s)?[^'"]*?from\s+['"](\.[^'"]+)['"]/g)) {
        const target = relative(root, resolve(root, dirname(file), from!)).split('/')[0]!
        const fine = target === folder || allowed.values.includes(target) || (typeOnly !== undefined && allowed.types.includes(target))
        if (!fine) broken.push(`${file} imports ${from}`)
      }
    }
    expect(broken).toEqual([])
  })

  test('keeps files under 400 lines', () => {
    const long = files.filter((f) => readFileSync(join(root, f), 'utf8').split('\n').length > 400)
    expect(long).toEqual([])
  })
})

test('search/ has no clock, no I/O and no randomness of its own', () => {
  const impure = sources('search')
    .filter((f) => !isTest(f) && !f.includes('/bench/'))
    .filter((f) => /Math\.random|Date\.now|new Date\(|performance\.now|from 'node:|process\./.test(readFileSync(join(root, f), 'utf8')))
  expect(impure).toEqual([])
})
