import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { type BoundError, readAnswer, readBytes, readLines, readText } from './bounded-reader.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-bounded-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
afterEach(() => vi.unstubAllEnvs())
const file = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

describe('a file', () => {
  test('is read without its byte order mark', () => {
    expect(readText(file('plain', 'größe: 1\n'), 'document')).toBe('größe: 1\n')
    expect(readText(file('mark', '\ufeffa: 1'), 'document')).toBe('a: 1')
    expect(readText(file('mark', '\ufeffa: 1'), 'document', 'kept')).toBe('\ufeffa: 1')
    expect(readText(file('empty', ''), 'document')).toBe('')
    const bytes = new Uint8Array(3_000_000).map((_, i) => i % 251)
    expect(readBytes(file('bytes', bytes), 'data').equals(bytes)).toBe(true)
  })

  test('that grows while it is read, or has no size, is read to its end', () => {
    expect(readText('/proc/self/status', 'document')).toContain('Pid:')
  })

  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  test.each([
    ['a device without end', '/dev/zero', /is a device/],
    ['a pipe nobody writes to', pipe, /is a pipe/],
    ['a folder', folder, /is a folder/],
  ])('%s is refused at once', (_, path, message) => {
    expect(() => readText(path, 'data')).toThrow(message)
  })

  test('over the limit of its type is rejected with the variable that raises the limit', () => {
    const path = file('long', 'x'.repeat(5 * 2 ** 20))
    expect(() => readText(path, 'document')).toThrow(/5 MiB.*limit of 4 MiB/)
    try {
      readText(path, 'document')
    } catch (error) {
      expect((error as BoundError).hint).toContain('TUNE_MAX_FILE_MIB=6')
    }
    vi.stubEnv('TUNE_MAX_FILE_MIB', '6')
    expect(readText(path, 'document')).toHaveLength(5 * 2 ** 20)
  })

  test.each([
    ['in UTF-16', Buffer.from('\ufeffa: 1', 'utf16le'), /UTF-16/],
    ['with a NUL byte', 'a: 1\nb: \0', /:2: a NUL byte/],
    ['in Latin-1', Buffer.from('a: 1\nb: 2\nc: gr\xfcn', 'latin1'), /:3: not UTF-8/],
    ['that ends within a character', Buffer.from('a: ü').subarray(0, 4), /:1: not UTF-8/],
  ])('%s is named with its line', (_, content, message) => {
    expect(() => readText(file('odd', content), 'document')).toThrow(message)
  })
})

test('an endless answer is rejected at the limit', async () => {
  let given = 0
  async function* endless() {
    for (;;) {
      given += 2 ** 16
      yield Buffer.alloc(2 ** 16)
    }
  }
  await expect(readAnswer(endless(), 2 ** 20)).rejects.toThrow(/more than 1 MiB/)
  expect(given).toBeLessThanOrEqual(2 ** 20 + 2 ** 16)
  vi.stubEnv('TUNE_MAX_ANSWER_MIB', '2')
  await expect(readAnswer(endless())).rejects.toMatchObject({
    hint: expect.stringContaining('TUNE_MAX_ANSWER_MIB=8'),
  })
})

describe('lines of a streamed answer', () => {
  const linesOf = async (parts: (string | Uint8Array)[], most?: number) => {
    async function* body() {
      for (const part of parts) yield Buffer.from(part)
    }
    const lines: string[] = []
    for await (const line of readLines(body(), most)) lines.push(line)
    return lines
  }
  test('are complete, however the answer is split', async () => {
    const [first, second] = [Buffer.from('ü').subarray(0, 1), Buffer.from('ü').subarray(1)]
    expect(await linesOf(['a', 'b\nc\n\n', first, second, '\nd'])).toEqual([
      'ab',
      'c',
      '',
      'ü',
      'd',
    ])
  })
  test('an endless line is rejected at the limit', async () => {
    await expect(linesOf(Array(20).fill('x'.repeat(100)), 1_000)).rejects.toThrow(/and no end/)
    expect(await linesOf(Array(20).fill(`${'x'.repeat(100)}\n`), 1_000)).toHaveLength(20)
  })
})
