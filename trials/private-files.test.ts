import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makePrivateFolder } from './private-files.ts'

test('a folder of trials is its owner’s alone, and so are those above it that were not there', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tune-private-'))
  const before = process.umask(0)
  try {
    const path = makePrivateFolder(join(folder, 'experiment', 'trials', '1'))
    for (const made of [path, join(folder, 'experiment')]) expect(statSync(made).mode & 0o777).toBe(0o700)
    expect(makePrivateFolder(path)).toBe(path)
  } finally {
    process.umask(before)
    rmSync(folder, { recursive: true })
  }
})
