import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { spec } from './run.ts'

test.each([
  { modelUri: 's3://key:planted@bucket/model' },
  { modelUri: 'https://host/model?X-Amz-Signature=planted0123456789' },
  { image: 'https://user:planted@registry.internal/image' },
])('a secret in %o is refused before anything is read, and not repeated', async (flags) => {
  const refused = spec(undefined, { db: 'none.db', target: 'kubernetes', ...flags })
  await expect(refused).rejects.toThrow(/^--(model-uri|image) contains a secret: .*\[secret\]/)
  await expect(refused).rejects.not.toThrow('planted')
})

test('a place that cannot be written is refused before anything is read, and nothing is left where one can', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tune-spec-'))
  try {
    const file = join(folder, 'file')
    writeFileSync(file, '')
    const ask = (flags: object) =>
      spec(undefined, { db: join(folder, 'none.db'), target: 'kubernetes', ...flags })
    for (const out of [join(file, 'specs'), file, '/dev/null', 'a'.repeat(300), ''])
      await expect(ask({ out })).rejects.toMatchObject({
        message: expect.stringMatching(/^--out "/),
        exitCode: 2,
      })
    await expect(ask({ patch: '/dev/null', write: true })).rejects.toThrow(
      '--patch /dev/null: is not a file',
    )
    await expect(ask({ patch: join(folder, 'missing.yaml') })).rejects.toThrow('missing.yaml')
    await expect(ask({ out: join(folder, 'new', 'specs') })).rejects.toThrow('none.db')
    expect(readdirSync(folder)).toEqual(['file'])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test.each([
  [{ write: true }, /^--write applies only to --patch/],
  [{ container: 'server' }, /^--container applies only to --patch/],
  [{ patch: 'a.yaml', out: 'specs' }, /^--out does not apply to --patch/],
  [{ patch: 'a.yaml', autoscaler: 'keda' }, /^--autoscaler does not apply to --patch/],
])('%o is refused before anything is read', async (flags, message) => {
  const asked = spec(undefined, { db: 'none.db', target: 'kubernetes', ...flags })
  await expect(asked).rejects.toMatchObject({
    message: expect.stringMatching(message),
    exitCode: 2,
  })
})
