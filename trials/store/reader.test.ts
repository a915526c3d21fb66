import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { TrialStore } from '../types.ts'
import { openReader, openStore, type StoreReader } from './index.ts'
import { completeTrial } from './samples.contract.ts'

const bert = {
  id: 'bert-7f3a',
  name: 'bert',
  createdAt: '2026-11-20T10:00:00.000Z',
  spec: { model: 'bert' },
  provenance: 'emulated',
  seed: 1,
} as const

describe('a store read while it is written', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tune-reader-'))
  let store: TrialStore
  let reader: StoreReader
  let n = 0
  beforeEach(async () => {
    const path = join(folder, `${n++}.db`)
    store = await openStore(path)
    await store.create(bert)
    reader = await openReader(path)
    return async () => {
      await reader.close()
      await store.close()
    }
  })
  afterEach(() => n === 3 && rmSync(folder, { recursive: true, force: true }))

  test('sees what is committed, and that something was', async () => {
    const before = await reader.version()
    expect(await reader.version()).toBe(before)
    await store.append(bert.id, completeTrial(2))
    expect(await reader.version()).not.toBe(before)
    expect(await reader.numbers(bert.id, 0)).toEqual([2])
    await store.append(bert.id, completeTrial(1))
    expect(await reader.numbers(bert.id, 0)).toEqual([1, 2])
    expect(await reader.numbers(bert.id, 1)).toEqual([2])
    expect(await reader.trials(bert.id, 2, 9)).toEqual([completeTrial(2)])
  })

  test('knows the experiments as the store does', async () => {
    expect(await reader.experiment(bert.id)).toEqual({ ...bert, state: 'running' })
    expect(await reader.experiment('none')).toBeUndefined()
    await store.finish(bert.id, 'done', { worst: Number.POSITIVE_INFINITY })
    expect(await reader.list()).toEqual(await store.list())
  })

  test('refuses what is no store', async () => {
    const text = join(folder, 'text')
    writeFileSync(text, 'no database, however long it may be: '.repeat(100))
    await expect(openReader(text)).rejects.toMatchObject({ fault: 'no-database' })
    await expect(openReader(join(folder, 'missing.db'))).rejects.toMatchObject({
      fault: 'cannot-open',
    })
  })
})
