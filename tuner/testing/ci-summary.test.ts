/** What CI says of a run, from what vitest itself writes of one. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { startVitest } from 'vitest/node'

const script = fileURLToPath(new URL('../../.ci/summary.mjs', import.meta.url))
let folder: string
beforeEach(() => {
  // Below the repository, where vitest is found.
  folder = mkdtempSync(join(fileURLToPath(new URL('.', import.meta.url)), '.summary-'))
  mkdirSync(join(folder, 'results'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const closing = (status = '0') => {
  const { stdout, status: code } = spawnSync(process.execPath, [script, 'results', status], {
    cwd: folder,
    encoding: 'utf8',
  })
  return { code, lines: stdout.trimEnd().split('\n') }
}
/** Runs test files, by name, and leaves what vitest says of them. */
async function ran(files: Readonly<Record<string, string>>, results = 'unit.json'): Promise<void> {
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, name), `import { expect, test } from 'vitest'\n${text}`)
  const exitCode = process.exitCode
  const quiet = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    const outputFile = join(folder, 'results', results)
    const include = Object.keys(files)
    const vitest = await startVitest('test', [], {
      config: false,
      root: folder,
      watch: false,
      include,
      reporters: ['json'],
      outputFile,
    })
    await vitest.close()
  } finally {
    quiet.mockRestore()
    process.exitCode = exitCode
  }
}

test('all passed: the slowest files, and the counts last', async () => {
  await ran({
    'slow.test.js': `test('sleeps', () => new Promise((done) => setTimeout(done, 300))); test.skip('not here', () => {})`,
    'quick.test.js': `test('adds', () => expect(1 + 1).toBe(2))`,
  })
  const { code, lines } = closing()
  expect(lines).toEqual([
    'slowest files:',
    expect.stringMatching(/^ +0\.[3-9] s {2}slow\.test\.js$/),
    expect.stringMatching(/^ +0\.\d s {2}quick\.test\.js$/),
    '2 passed, 0 failed, 1 skipped',
  ])
  expect(code).toBe(0)
})

test('a failed test is named with the beginning of why, each line to a sane width; a file that does not load too', async () => {
  await ran({
    'wrong.test.js': `test('says why', () => { throw new Error(['first line', 'x'.repeat(1000), ...Array(40).fill('and on')].join('\\n')) })`,
    'broken.test.js': `throw new Error('no such thing')`,
  })
  const { code, lines } = closing('1')
  const from = lines.indexOf('FAILED wrong.test.js > says why')
  expect(lines[from + 1]).toBe('    Error: first line')
  expect(lines[from + 2]).toBe(`    ${'x'.repeat(200)}…`)
  expect(lines[from + 15]).toBe('    and on')
  expect(lines[from + 16]).toMatch(/^ {4}… and \d+ more lines$/)
  expect(lines[lines.indexOf('FAILED broken.test.js') + 1]).toContain('no such thing')
  expect(lines.at(-1)).toBe('0 passed, 2 failed, 0 skipped')
  expect(code).toBe(1)
})

test('a second look at files that failed: what passes alone is told, what fails again has failed', async () => {
  const shaky = `test('shaky', () => expect(WHICH).toBe(2)); test('steady', () => {})`
  const wrong = `test('wrong', () => expect(1).toBe(2))`
  await ran({
    'shaky.test.js': shaky.replace('WHICH', '1'),
    'wrong.test.js': wrong,
    'good.test.js': `test('good', () => {})`,
  })
  expect(closing('failed-files').lines.sort()).toEqual(['shaky.test.js', 'wrong.test.js'])
  await ran({ 'shaky.test.js': shaky.replace('WHICH', '2'), 'wrong.test.js': wrong }, 'again.json')
  const { code, lines } = closing('1')
  expect(lines).toContain('failed at first, passed alone: shaky.test.js > shaky')
  expect(lines.filter((line) => line.startsWith('FAILED'))).toEqual([
    'FAILED wrong.test.js > wrong',
  ])
  expect(lines.at(-1)).toBe('3 passed, 1 failed, 0 skipped')
  expect(code).toBe(1)
})

test('nothing ran: what came before the tests failed', () => {
  rmSync(join(folder, 'results'), { recursive: true })
  expect(closing('1')).toEqual({
    code: 1,
    lines: [
      'no test failed: lint, types, installation, or an "Unhandled" error outside of a test, see above',
      '0 passed, 1 failed, 0 skipped',
    ],
  })
  expect(closing('0').code).toBe(1)
})
