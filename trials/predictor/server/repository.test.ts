import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { chooseVersions } from './repository.ts'

const base = mkdtempSync(join(tmpdir(), 'versions-'))
for (const version of ['1', '2', '10', 'notes']) mkdirSync(join(base, version))
writeFileSync(join(base, '11'), 'a file, no version')
const plain = mkdtempSync(join(tmpdir(), 'plain-'))
writeFileSync(join(plain, 'model.json'), '{}')
afterAll(() => {
  rmSync(base, { recursive: true })
  rmSync(plain, { recursive: true })
})

const numbers = async (policy: string, path: string | undefined = base) =>
  (await chooseVersions(path, policy)).map(({ version }) => version)

describe('version policies', () => {
  test('latest, by number and not by letter', async () => {
    expect(await chooseVersions(base, 'latest')).toEqual([
      { version: '10', path: join(base, '10') },
    ])
    expect(await numbers('latest:2')).toEqual(['2', '10'])
    expect(await numbers('latest:9')).toEqual(['1', '2', '10'])
  })

  test('all and specific, in ascending order', async () => {
    expect(await numbers('all')).toEqual(['1', '2', '10'])
    expect(await numbers('specific:10,1,1')).toEqual(['1', '10'])
  })

  test('a version that is not there is named', async () => {
    await expect(chooseVersions(base, 'specific:1,7,8')).rejects.toThrow(
      /version 7, 8 of .* there is 1, 2, 10/,
    )
  })

  test('without version folders there is version 1', async () => {
    expect(await chooseVersions(plain, 'latest')).toEqual([{ version: '1', path: plain }])
    expect(await chooseVersions(join(plain, 'model.json'), 'all')).toEqual([
      { version: '1', path: join(plain, 'model.json') },
    ])
    expect(await chooseVersions(undefined, 'latest')).toEqual([{ version: '1' }])
  })

  test('a path that is not there is named', async () => {
    await expect(chooseVersions(join(base, 'nowhere'), 'latest')).rejects.toThrow(
      /nowhere': it does not exist/,
    )
  })
})
