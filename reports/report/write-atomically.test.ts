import {
  chmodSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { replaceAtomically } from './write-atomically.ts'

test('a file that is replaced keeps its mode, and a symbolic link stays one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tune-replace-'))
  try {
    const [file, link] = [join(folder, 'a.yaml'), join(folder, 'b.yaml')]
    writeFileSync(file, 'old')
    chmodSync(file, 0o640)
    symlinkSync('a.yaml', link)
    await replaceAtomically(link, 'new')
    expect(readFileSync(file, 'utf8')).toBe('new')
    expect(statSync(file).mode & 0o777).toBe(0o640)
    expect(lstatSync(link).isSymbolicLink()).toBe(true)
    expect(readdirSync(folder)).toEqual(['a.yaml', 'b.yaml'])
    await expect(replaceAtomically(join(folder, 'none'), 'x')).rejects.toThrow(
      /^cannot write .*none/,
    )
  } finally {
    rmSync(folder, { recursive: true })
  }
})
