import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { applyChange } from './annotations.ts'
import { Connection } from './connection.ts'
import {
  annotate,
  checkStore,
  type Damage,
  deleteExperiments,
  openReader,
  openStore,
} from './index.ts'
import { completeTrial } from './samples.contract.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-annotations-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
/** A store with two experiments of three trials each, both done. */
async function stored(): Promise<string> {
  const path = join(folder, `${++files}.db`)
  const store = await openStore(path)
  for (const id of ['bert-1', 'gpt-2']) {
    const spec = { model: id, words: 'secret words '.repeat(500) }
    await store.create({
      id,
      name: id,
      createdAt: '2026-11-20T10:00:00.000Z',
      spec,
      provenance: 'simulated',
      seed: 1,
    })
    for (const number of [1, 2, 3]) await store.append(id, completeTrial(number))
    await store.finish(id, 'done', { verdict: 'good' })
  }
  await store.close()
  return path
}

async function annotationsIn(path: string, damage: Damage[] = []) {
  const reader = await openReader(path, (one) => damage.push(one))
  try {
    return Object.fromEntries(
      [...(await reader.annotations())].map(([id, all]) => [id, Object.fromEntries(all)]),
    )
  } finally {
    await reader.close()
  }
}

describe('notes and tags', () => {
  test('stand beside an experiment and its trials, and change by what is given alone', async () => {
    const path = await stored()
    await annotate(
      path,
      { experimentId: 'bert-1' },
      { note: 'after the driver update', addTags: ['nightly', 'a100'] },
    )
    await annotate(path, { experimentId: 'bert-1', trial: 2 }, { addTags: ['odd'] })
    const after = await annotate(
      path,
      { experimentId: 'bert-1' },
      { removeTags: ['a100'], archived: true },
    )
    expect(after).toEqual({
      note: 'after the driver update',
      tags: ['nightly'],
      archivedAt: expect.stringMatching(/^\d{4}-/),
    })
    expect(await annotationsIn(path)).toEqual({ 'bert-1': { 0: after, 2: { tags: ['odd'] } } })
    const back = await annotate(path, { experimentId: 'bert-1' }, { note: '', archived: false })
    expect(back).toEqual({ tags: ['nightly'] })
  })

  test('are in the list of experiments, and nothing else of them changes', async () => {
    const path = await stored()
    const before = await listed(path)
    const annotation = await annotate(path, { experimentId: 'gpt-2' }, { note: 'n' })
    expect(await listed(path)).toEqual(
      before.map((one) => (one.id === 'gpt-2' ? { ...one, annotation } : one)),
    )
  })

  test.each([
    [{ experimentId: 'none' }, /no experiment none/],
    [{ experimentId: 'bert-1', trial: 9 }, /has no trial 9/],
  ])('%j is refused by name', async (place, message) => {
    await expect(annotate(await stored(), place, { note: 'x' })).rejects.toMatchObject({
      message: expect.stringMatching(message),
    })
  })

  test('every tag that cannot be kept is named, and nothing is changed', async () => {
    const path = await stored()
    const refused = annotate(
      path,
      { experimentId: 'bert-1' },
      { note: 'x', addTags: ['fine', 'a,b', ' ', 'x'.repeat(65), 'red\u001b[31m'] },
    )
    await expect(refused).rejects.toMatchObject({
      fault: 'not-kept',
      message: expect.stringMatching(/a,b.*empty.*xxx.*65.*red/),
    })
    expect(await annotationsIn(path)).toEqual({})
  })

  test('adding a tag and taking it off again leaves what there was; tags are a set in order', () => {
    const tag = fc.stringMatching(/^[a-z0-9äß][a-z0-9 ]{0,8}[a-z0-9]$/)
    fc.assert(
      fc.property(fc.uniqueArray(tag, { maxLength: 8 }), tag, (tags, one) => {
        fc.pre(!tags.includes(one))
        const before = applyChange(undefined, { addTags: tags }, '')
        const added = applyChange(before, { addTags: [one, one] }, '')
        expect(new Set(added.tags)).toEqual(new Set([...tags, one]))
        expect(added.tags).toEqual([...added.tags].sort((a, b) => a.localeCompare(b, 'en')))
        expect(applyChange(added, { removeTags: [one] }, '')).toEqual(before)
      }),
    )
  })

  test('of a damaged row are named and left out; those beside it stay', async () => {
    const path = await stored()
    await annotate(path, { experimentId: 'bert-1' }, { note: 'one' })
    await annotate(path, { experimentId: 'gpt-2' }, { note: 'two' })
    await sql(path, `UPDATE annotations SET annotation = replace(annotation, 'one', 'own')`)
    const damage: Damage[] = []
    expect(await annotationsIn(path, damage)).toEqual({ 'gpt-2': { 0: { note: 'two', tags: [] } } })
    expect(damage).toEqual([
      {
        where: 'the annotation of experiment bert-1',
        what: expect.stringContaining('changed since it was written'),
      },
    ])
    expect((await checkStore(path)).damage).toEqual(damage)
  })

  test('are read from a file whose first page is gone, in their last form', async () => {
    const path = await stored()
    for (const note of ['first', 'second', 'third'])
      await annotate(path, { experimentId: 'bert-1', trial: 3 }, { note, addTags: [note] })
    await sql(path, 'PRAGMA wal_checkpoint(TRUNCATE)')
    const before = await annotationsIn(path)
    const bytes = readFileSync(path).fill(0, 0, 4096)
    writeFileSync(path, bytes)
    expect(await annotationsIn(path)).toEqual(before)
    expect(before['bert-1']![3]!.note).toBe('third')
  })
})

describe('an experiment that is deleted', () => {
  test('goes with its trials and notes, leaves the others, and does not come back from the free pages', async () => {
    const path = await stored()
    await annotate(path, { experimentId: 'bert-1', trial: 1 }, { note: 'gone with it' })
    await annotate(path, { experimentId: 'gpt-2' }, { note: 'stays' })
    await deleteExperiments(path, ['bert-1'])
    expect((await listed(path)).map(({ id, trials }) => [id, trials])).toEqual([['gpt-2', 3]])
    expect(await annotationsIn(path)).toEqual({ 'gpt-2': { 0: { note: 'stays', tags: [] } } })
    expect(readFileSync(path).includes('gone with it')).toBe(false)
    const { damage } = await checkStore(path)
    expect(damage).toEqual([])
    const bytes = readFileSync(path).fill(0, 0, 100)
    writeFileSync(path, bytes)
    expect((await listed(path)).map(({ id }) => id)).toEqual(['gpt-2'])
  })

  test('one that is unknown among several keeps all of them', async () => {
    const path = await stored()
    await expect(deleteExperiments(path, ['bert-1', 'none'])).rejects.toMatchObject({
      fault: 'unknown-experiment',
    })
    expect(await listed(path)).toHaveLength(2)
  })

  test('one that a process runs stays, and who runs it is said', async () => {
    const path = await stored()
    const store = await openStore(path)
    await store.claim('gpt-2')
    await expect(deleteExperiments(path, ['bert-1', 'gpt-2'])).rejects.toMatchObject({
      fault: 'owned-elsewhere',
      message: expect.stringContaining(`process ${process.pid}`),
    })
    await store.close()
    expect(await listed(path)).toHaveLength(2)
  })
})

async function listed(path: string) {
  const reader = await openReader(path)
  try {
    return await reader.list()
  } finally {
    await reader.close()
  }
}

async function sql(path: string, text: string): Promise<void> {
  const connection = await Connection.open(path, 100)
  await connection.runOutsideTransaction((statements) => statements.exec(text))
  await connection.close()
}
