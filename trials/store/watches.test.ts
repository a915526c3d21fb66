import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Connection } from './connection.ts'
import { backUpStore, checkStore } from './maintenance.ts'
import { openStore } from './sqlite-store.ts'
import type { Damage } from './stored-rows.ts'
import { deleteWatch, readWatches, saveWatch } from './watches.ts'

let folder: string
let path: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'watches-'))
  path = join(folder, 'tune.db')
  const store = await openStore(path)
  await store.create({
    id: 'e',
    name: 'e',
    createdAt: '2026-11-20T10:00:00.000Z',
    spec: {},
    provenance: 'simulated',
    seed: 1,
  })
  await store.close()
})
afterEach(() => rmSync(folder, { recursive: true }))

const at = '2026-11-20T10:00:00.000Z'

test('kept by name, the later in the place of the earlier, and dropped by name', async () => {
  expect(await readWatches(path)).toEqual(new Map())
  await saveWatch(path, 'shop', { windows: 1 }, at)
  await saveWatch(path, 'bank', { windows: 2 }, at)
  await saveWatch(path, 'shop', { windows: 3 }, at)
  expect([...(await readWatches(path))]).toEqual([
    ['bank', { windows: 2 }],
    ['shop', { windows: 3 }],
  ])
  await deleteWatch(path, 'shop')
  expect([...(await readWatches(path)).keys()]).toEqual(['bank'])
})

test('a damaged one is named, left out and not copied; the others stay', async () => {
  for (const name of ['a', 'b', 'c']) await saveWatch(path, name, { name, windows: 5 }, at)
  const connection = await Connection.open(path, 100)
  await connection.runOutsideTransaction((sql) =>
    sql.exec(
      `UPDATE watches SET state = substr(state, 1, 9) WHERE name = 'a'; UPDATE watches SET state = replace(state, '5', '6') WHERE name = 'b'`,
    ),
  )
  await connection.close()
  const damage: Damage[] = []
  expect([...(await readWatches(path, (one) => damage.push(one))).keys()]).toEqual(['c'])
  expect(damage.map(({ where }) => where)).toEqual(['watch a', 'watch b'])
  expect((await checkStore(path)).damage).toEqual(damage)
  const copy = `${path}.copy`
  expect((await backUpStore(path, copy)).damage).toEqual(damage)
  expect((await checkStore(copy)).damage).toEqual([])
  expect((await readWatches(copy)).get('c')).toEqual({ name: 'c', windows: 5 })
})
