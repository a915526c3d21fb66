import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { startVitest } from 'vitest/node'
import { SkippedReporter } from './skipped-reporter.ts'

test('what is skipped, or passes at a second try, has one line; what runs has none', async () => {
  // Below the repository, where vitest is found.
  const folder = mkdtempSync(join(fileURLToPath(new URL('.', import.meta.url)), '.skipped-'))
  const lines: string[] = []
  try {
    writeFileSync(
      join(folder, 'some.test.js'),
      `import { describe, test } from 'vitest'
       test('runs', () => {})
       test.skip('as root', () => {})
       let tries = 0
       test('shaky', { retry: 1 }, () => { tries += 1; if (tries === 1) throw new Error('once') })
       test('asks first', ({ skip }) => skip('no nginx'))
       describe.skip('browser (no chromium)', () => { test('a', () => {}); describe('deep', () => { test('b', () => {}) }) })`,
    )
    const vitest = await startVitest('test', [], {
      config: false,
      root: folder,
      watch: false,
      include: ['*.test.js'],
      reporters: [new SkippedReporter((line) => lines.push(line))],
    })
    await vitest.close()
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  expect(lines).toEqual([
    'passed when tried again: some.test.js: shaky',
    'skipped, 1 test: some.test.js: as root',
    'skipped, 1 test: some.test.js: asks first (no nginx)',
    'skipped, 2 tests: some.test.js: browser (no chromium)',
  ])
})
