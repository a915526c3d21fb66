import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeFolder, makePrivateFolder } from './private-files.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-folders-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('all that is missing is made, closed to others where it is private, and what is there stays', () => {
  makePrivateFolder(join(folder, 'a/b/c'))
  for (const name of ['a', 'a/b', 'a/b/c'])
    expect([name, statSync(join(folder, name)).mode & 0o777]).toEqual([name, 0o700])
  makeFolder(join(folder, 'a/b'))
  makeFolder(join(folder, 'a/b/d/'))
  expect(statSync(join(folder, 'a/b/d')).isDirectory()).toBe(true)
})

test('what cannot be made is said', () => {
  writeFileSync(join(folder, 'file'), '')
  expect(() => makeFolder(join(folder, 'file/x'))).toThrow(/ENOTDIR/)
  expect(() => makeFolder(join(folder, 'x', 'a'.repeat(300)))).toThrow(/ENAMETOOLONG/)
})

test.runIf(process.platform === 'linux')(
  'also where the file system says no to a folder of a folder that is there',
  () => {
    expect(() => makeFolder('/proc/no/such')).toThrow(/ENOENT/)
  },
)
