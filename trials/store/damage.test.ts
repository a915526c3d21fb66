import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { LoadRun } from '../../profiler/model/load-run.ts'
import type { FinishedTrial } from '../types.ts'
import { Connection } from './connection.ts'
import { backUpStore, checkStore, type Damage, openReader, openStore } from './index.ts'
import { completeTrial } from './samples.contract.ts'
import { StoreError } from './store-error.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-damage-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const experiment = (id: string) => ({
  id,
  name: id,
  createdAt: '2026-11-20T10:00:00.000Z',
  spec: { model: 'bert', notes: 'long enough to need pages of its own '.repeat(100) },
  provenance: 'simulated' as const,
  seed: 1,
})
const window: LoadRun = {
  load: { kind: 'closed', connections: 1, durationS: 1 },
  sentMs: Float64Array.of(0),
  latencyMs: Float64Array.of(5),
  errorKinds: {},
  planned: 1,
  latenessP99Ms: 0,
  seconds: 1,
  elapsedS: 1,
  generatorCores: 0,
}
const ids = ['a', 'b', 'c']
const perExperiment = 8
const sound = join(folder, 'sound.db')
let bytes: Buffer
let truth: Awaited<ReturnType<typeof read>>

beforeAll(async () => {
  const store = await openStore(sound)
  for (const id of ids) {
    await store.create(experiment(id))
    for (let number = 1; number <= perExperiment; number++)
      await store.append(id, completeTrial(number))
    await store.finish(id, 'done', { verdict: 'good '.repeat(2000) })
  }
  await store.close()
  bytes = readFileSync(sound)
  truth = await read(openReader, copy())
})

let copies = 0
function copy(content: Uint8Array = bytes): string {
  const path = join(folder, `${++copies}.db`)
  writeFileSync(path, content)
  return path
}

async function sql(path: string, text: string): Promise<void> {
  const connection = await Connection.open(path, 100)
  await connection.runOutsideTransaction((statements) => statements.exec(text))
  await connection.close()
}

/** What is read of a store, by whom, and what that one was told. */
async function read(open: typeof openReader, path: string) {
  const damage: Damage[] = []
  const store = await open(path, (one) => damage.push(one))
  try {
    const list = await store.list()
    const trials: Record<string, readonly FinishedTrial[]> = {}
    for (const id of ids) trials[id] = (await store.load(id))?.trials ?? []
    return { list, trials, damage }
  } finally {
    await store.close()
  }
}
const forWriting = (path: string, onDamage?: (one: Damage) => void) =>
  openStore(path, { onDamage }) as unknown as ReturnType<typeof openReader>
const ways = [
  ['read', openReader],
  ['written', forWriting],
] as const
const numbers = (trials: readonly FinishedTrial[] | undefined) =>
  trials?.map((trial) => trial.number)
const all = Array.from({ length: perExperiment }, (_, i) => i + 1)

describe.each(ways)('a row that is damaged, in a store that is %s', (_, open) => {
  test.each([
    [
      'a trial whose text is no JSON',
      `UPDATE trials SET trial = substr(trial, 1, 40) WHERE experiment_id = 'a' AND number = 2`,
      /its text is not JSON/,
    ],
    [
      'a trial with a figure changed',
      `UPDATE trials SET trial = replace(trial, '"capacityRps":200', '"capacityRps":900') WHERE experiment_id = 'a' AND number = 2`,
      /changed since it was written/,
    ],
    [
      'a load point with a figure changed',
      `UPDATE load_points SET point = replace(point, '"offeredRps":100', '"offeredRps":101') WHERE experiment_id = 'a' AND trial_number = 2`,
      /changed since it was written/,
    ],
    [
      'a load point that is lost',
      `DELETE FROM load_points WHERE experiment_id = 'a' AND trial_number = 2 AND position = 1`,
      /changed since it was written/,
    ],
  ])('%s', async (_name, change, what) => {
    const path = copy()
    await sql(path, change)
    const { list, trials, damage } = await read(open, path)
    expect(damage).toEqual([
      { where: 'trial 2 of experiment a', what: expect.stringMatching(what) },
    ])
    expect(list.map((e) => e.id)).toEqual(ids)
    expect(numbers(trials.a)).toEqual(all.filter((n) => n !== 2))
    expect(numbers(trials.b)).toEqual(all)
  })

  test('an experiment whose specification is no JSON is left out, and the others are there', async () => {
    const path = copy()
    await sql(path, `UPDATE experiments SET spec = '{"model":' WHERE id = 'a'`)
    const { list, trials, damage } = await read(open, path)
    expect(damage.map((d) => d.where)).toEqual(['experiment a'])
    expect(list.map((e) => e.id)).toEqual(['b', 'c'])
    expect(numbers(trials.b)).toEqual(all)
  })

  test('an experiment whose stored result is damaged keeps its trials', async () => {
    const path = copy()
    await sql(path, `UPDATE experiments SET result = 'x' WHERE id = 'a'`)
    const { list, trials, damage } = await read(open, path)
    expect(damage.map((d) => d.where)).toEqual(['the stored result of experiment a'])
    expect(list).toHaveLength(3)
    expect(numbers(trials.a)).toEqual(all)
  })

  test('trials whose experiment is gone are named', async () => {
    const path = copy()
    await sql(path, `DELETE FROM experiments WHERE id = 'b'`)
    const { damage } = await read(open, path)
    expect(damage).toEqual([
      { where: 'experiment b', what: expect.stringContaining('8 of its trials') },
    ])
  })
})

/** Values of types that the tables refuse: only a file edited by other hands has them. */
async function withoutTypes(path: string, change: string): Promise<void> {
  const strict = (from: string, to: string) =>
    sql(
      path,
      `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '${from}', '${to}')`,
    )
  await strict(') STRICT', ') /*was*/')
  await sql(path, `PRAGMA ignore_check_constraints = ON; ${change}`)
  await strict(') /*was*/', ') STRICT')
}

describe('a value of another type', () => {
  test.each([
    [
      'bytes for a text',
      `UPDATE trials SET trial = CAST(trial AS BLOB) WHERE experiment_id = 'a' AND number = 8`,
      'trial 8 of experiment a',
    ],
    ['a number for a text', `UPDATE experiments SET name = 7 WHERE id = 'b'`, 'experiment b'],
    ['bytes for a name', `UPDATE experiments SET name = x'00ff' WHERE id = 'b'`, 'experiment b'],
    ['a fraction for a seed', `UPDATE experiments SET seed = 1e300 WHERE id = 'b'`, 'experiment b'],
    ['a text for a state', `UPDATE experiments SET state = 'x' WHERE id = 'b'`, 'experiment b'],
  ])('%s: its row is named, and the rest is there', async (_name, change, where) => {
    const path = copy()
    await withoutTypes(path, change)
    const { trials, damage } = await read(openReader, path)
    expect(damage.map((one) => one.where)).toContain(where)
    expect(numbers(trials.c)).toEqual(all)
  })
})

test('a trial number beyond all bounds takes neither memory nor time', async () => {
  const path = copy()
  await sql(
    path,
    `UPDATE trials SET number = 9007199254740991 WHERE experiment_id = 'a' AND number = 8; DELETE FROM experiments WHERE id = 'b'`,
  )
  const { trials } = await backUpStore(path, `${path}.copy`)
  expect(trials).toBe(7 + perExperiment)
})

test('of one that was cut off before its first row nothing can be read, which is said', async () => {
  const path = copy(bytes.subarray(0, 4_096))
  const attempts = [
    () => openReader(path),
    () => checkStore(path),
    () => backUpStore(path, `${path}.copy`),
    () => openStore(path),
  ]
  for (const attempt of attempts)
    await expect(attempt()).rejects.toMatchObject({
      fault: 'corrupt',
      message: expect.stringContaining('damaged'),
      hint: expect.stringContaining('--db'),
    })
})

test('what stands beside it as its log and is no file is refused', async () => {
  const path = copy()
  mkdirSync(`${path}-wal`)
  for (const open of [openReader, forWriting])
    await expect(open(path)).rejects.toMatchObject({ message: expect.stringContaining('folder') })
})

test('the number of a damaged trial stays taken: a resumed experiment goes on above it', async () => {
  const path = copy()
  await sql(
    path,
    `UPDATE trials SET trial = 'x' WHERE experiment_id = 'a' AND number = ${perExperiment}`,
  )
  const store = await openStore(path)
  await store.claim('a')
  expect(await store.progress('a')).toMatchObject({ lastNumber: perExperiment })
  await store.append('a', completeTrial(perExperiment + 1))
  expect(numbers((await store.load('a'))?.trials)).toEqual([...all.slice(0, -1), perExperiment + 1])
  await store.close()
})

test('a damaged window of an interrupted confirmation is named and left out, with those after it', async () => {
  const path = copy()
  const first = await openStore(path)
  await first.claim('a')
  const trial = { number: 9, configuration: {}, why: '', startedAt: '', state: 'running' } as const
  await first.start('a', trial)
  for (const position of [0, 1, 2]) await first.addWindow('a', 9, position, window)
  await first.close()
  await sql(path, `UPDATE confirmation_windows SET run = '{}' WHERE position = 1`)
  const damage: Damage[] = []
  const second = await openStore(path, { onDamage: (one) => damage.push(one) })
  expect((await second.progress('a')).running).toEqual([{ ...trial, windows: [window] }])
  await second.close()
  await sql(path, `UPDATE running_trials SET trial = '{}'`)
  const third = await openStore(path, { onDamage: (one) => damage.push(one) })
  expect((await third.progress('a')).running).toEqual([])
  await third.close()
  expect(damage.map(({ where }) => where)).toEqual([
    'window 2 of trial 9 of experiment a',
    'trial 9 of experiment a, which was running',
  ])
})

/** What stands in the folder of a store, and what it holds. */
const filesOf = (path: string) =>
  readdirSync(folder)
    .filter((name) => join(folder, name).startsWith(`${path}`))
    .map((name) => [name, readFileSync(join(folder, name)).toString('latin1')])

/**
 * Nothing that is wrong is shown, nothing is missing without being named, and nothing is written:
 * neither into the file nor beside it.
 */
async function staysConfined(content: Uint8Array): Promise<void> {
  const path = copy(content)
  const before = filesOf(path)
  const found = await read(openReader, path).catch((error: unknown) => error as Error)
  expect(filesOf(path)).toEqual(before)
  if (found instanceof Error) expect(found).toBeInstanceOf(StoreError)
  else {
    const { list, trials, damage } = found
    for (const id of ids) {
      for (const trial of trials[id]!)
        expect(trial).toEqual(truth.trials[id]!.find((t) => t.number === trial.number))
      if (trials[id]!.length < perExperiment) expect(damage).not.toEqual([])
    }
    if (list.length < ids.length) expect(damage).not.toEqual([])
    for (const { result: _, state: __, trials: ___, ...record } of list)
      expect(truth.list.find((e) => e.id === record.id)).toMatchObject(record)
    const check = await checkStore(path)
    expect(check.damage.length).toBeGreaterThanOrEqual(damage.length === 0 ? 0 : 1)
    const target = join(folder, `backup-${copies}.db`)
    const backup = await backUpStore(path, target)
    expect(backup.trials).toBe(ids.reduce((sum, id) => sum + trials[id]!.length, 0))
    expect((await checkStore(target)).damage).toEqual([])
    expect(filesOf(path)).toEqual(before)
  }
  // What is damaged within a row alone can be written to.
  const written = await openStore(path).then(
    (store) => store.close(),
    (error: unknown) => error,
  )
  if (written === undefined) return
  expect(written).toBeInstanceOf(StoreError)
  expect(filesOf(path)).toEqual(before)
}

describe('a file of which', () => {
  /** The first ones, which hold the roots, and some of the others. */
  const pages = () =>
    Array.from({ length: bytes.length / 4096 }, (_, page) => page).filter(
      (page) => page < 5 || page % 17 === 0,
    )
  const changed = (change: (damaged: Buffer) => void) => {
    const damaged = Buffer.from(bytes)
    change(damaged)
    return damaged
  }

  test('bits are flipped anywhere: what is shown is true, and what is lost is named', async () => {
    const flip = fc.tuple(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.nat(7))
    await fc.assert(
      fc.asyncProperty(fc.array(flip, { minLength: 1, maxLength: 3 }), (flips) =>
        staysConfined(
          changed((damaged) => {
            for (const [share, bit] of flips)
              damaged[Math.floor(share * damaged.length)]! ^= 1 << bit
          }),
        ),
      ),
      // `npm run soak` draws more.
      { numRuns: fc.readConfigureGlobal().numRuns ?? 5 },
    )
  })

  test.each([
    ['zeros', 0],
    ['garbage', 0xa5],
  ])('a page is %s', async (_, byte) => {
    for (const page of pages())
      await staysConfined(changed((damaged) => damaged.fill(byte, page * 4096, (page + 1) * 4096)))
  })

  test('the header of a page is damaged', async () => {
    for (const page of pages())
      await staysConfined(
        changed((damaged) => {
          damaged[page * 4096 + (page === 0 ? 16 : 3)]! ^= 0x41
        }),
      )
  })

  test('the end is cut off', async () => {
    for (const share of [0.05, 0.3, 0.6, 0.9, 0.99])
      await staysConfined(bytes.subarray(0, Math.floor(share * bytes.length)))
  })

  test('one leaf of trials is damaged: all others are there, and those on it are named', async () => {
    const connection = await Connection.open(sound, 100)
    const leaves = await connection.runOutsideTransaction((statements) =>
      statements.all<{ pageno: number }>(
        "SELECT pageno FROM dbstat WHERE name = 'trials' AND pagetype = 'leaf'",
      ),
    )
    await connection.close()
    for (const { pageno } of leaves.slice(0, 3)) {
      const damaged = changed((to) => to.fill(0, (pageno - 1) * 4096, pageno * 4096))
      const { list, trials, damage } = await read(openReader, copy(damaged))
      expect(list).toHaveLength(ids.length)
      const lost = ids.flatMap((id) => all.filter((n) => !numbers(trials[id])!.includes(n)))
      expect(lost.length).toBeGreaterThan(0)
      expect(lost.length).toBeLessThan(2 * perExperiment)
      const told = damage.map(({ where, what }) => `${where}: ${what}`).join()
      for (const number of lost) expect(told).toContain(`${number}`)
    }
  })

  test.each([
    ['the first 100 bytes', 0, 100],
    ['the file’s magic', 0, 16],
    ['the size of pages', 16, 18],
    ['the encoding of texts', 56, 60],
    ['the version', 60, 64],
    ['the program', 68, 72],
    ['the whole first page', 0, 4096],
  ])('the header is damaged in %s: it is damage, and every row is read', async (_, from, to) => {
    // No encoding is UTF-8 to SQLite.
    for (const byte of from === 56 ? [0x33] : [0, 0x33]) {
      const damaged = changed((it) => it.fill(byte, from, to))
      const path = copy(damaged)
      const { list, trials, damage } = await read(openReader, path)
      expect(list.map((e) => e.id)).toEqual(ids)
      for (const id of ids) expect(numbers(trials[id])).toEqual(all)
      expect(damage[0]!.what).toMatch(/damaged/)
      await expect(openStore(path)).rejects.toMatchObject({
        message: expect.stringMatching(/damaged/),
      })
      expect(readFileSync(path).equals(damaged)).toBe(true)
    }
  })

  test('a store of another version is not reported as damaged', async () => {
    const path = copy()
    await sql(path, 'PRAGMA user_version = 99; ALTER TABLE trials ADD COLUMN note TEXT')
    await expect(openReader(path)).rejects.toMatchObject({ fault: 'other-version' })
  })

  test('damage in it shows after it was opened: what can be read is read', async () => {
    const path = copy()
    const damage: Damage[] = []
    const reader = await openReader(path, (one) => damage.push(one))
    const damaged = changed((it) => it.fill(0, 3 * 4096, 4 * 4096))
    writeFileSync(path, damaged)
    await reader.list()
    for (const id of ids) await reader.load(id)
    await reader.close()
    expect(damage[0]?.what).toMatch(/damaged/)
  })
})

describe('a log that a crash left', () => {
  /** The files as a killed process leaves them. */
  async function crashed(): Promise<{ main: Buffer; log: Buffer }> {
    const path = copy()
    const store = await openStore(path)
    await store.create(experiment('d'))
    for (let n = 1; n <= 6; n++) await store.append('d', completeTrial(n))
    const [main, log] = [readFileSync(path), readFileSync(`${path}-wal`)]
    await store.close()
    return { main, log }
  }

  test.each([
    ['header', (log: Buffer) => log.fill(0, 0, 32)],
    ['first frame', (log: Buffer) => log.fill(0xa5, 32, 32 + 24 + 4096)],
    ['middle', (log: Buffer) => log.fill(0xa5, log.length / 2, log.length / 2 + 5000)],
    ['end', (log: Buffer) => log.fill(0, log.length - 2000)],
    ['whole', (log: Buffer) => log.fill(0xa5)],
  ])('damaged in its %s loses no trial that is in the file', async (_, change) => {
    const { main, log } = await crashed()
    change(log)
    for (const open of [openReader, forWriting]) {
      const path = copy(main)
      writeFileSync(`${path}-wal`, log)
      const opened = await open(path)
      expect(numbers((await opened.load('d'))?.trials)).toEqual([1, 2, 3, 4, 5, 6])
      await opened.close()
      if (open === openReader) {
        expect(readFileSync(path).equals(main)).toBe(true)
        expect(readFileSync(`${path}-wal`).equals(log)).toBe(true)
      }
    }
  })

  test('beside a damaged file stays with it', async () => {
    const { main, log } = await crashed()
    const path = copy(main.fill(0, 0, 4096))
    writeFileSync(`${path}-wal`, log.fill(0xa5, 0, 40))
    const before = filesOf(path)
    const { list } = await read(openReader, path)
    expect(list.map((one) => one.id)).toContain('d')
    await expect(openStore(path)).rejects.toMatchObject({ fault: 'no-database' })
    expect(filesOf(path)).toEqual(before)
  })
})

describe('care of a store', () => {
  test('check names every damaged row and changes nothing', async () => {
    const path = copy()
    await sql(path, `UPDATE trials SET trial = 'x' WHERE number IN (2, 3)`)
    const before = readFileSync(path)
    const { experiments, trials, damage } = await checkStore(path)
    expect([experiments, trials, damage.length]).toEqual([3, 18, 6])
    expect(readFileSync(path).equals(before)).toBe(true)
    expect((await checkStore(sound)).damage).toEqual([])
  })

  test('a backup is a sound store of what was whole, for its owner alone', async () => {
    const path = copy()
    await sql(
      path,
      `UPDATE trials SET trial = 'x' WHERE experiment_id = 'a' AND number = 2; UPDATE experiments SET spec = '' WHERE id = 'b'`,
    )
    const to = `${path}.copy`
    const { experiments, trials, damage } = await backUpStore(path, to)
    expect([experiments, trials]).toEqual([2, 15])
    expect(damage.map(({ where }) => where).sort()).toEqual([
      'experiment b',
      'trial 2 of experiment a',
    ])
    expect(await checkStore(to)).toEqual({ experiments: 2, trials: 15, damage: [] })
    expect(statSync(to).mode & 0o777).toBe(0o600)
  })

  test('a backup is taken while a transaction is open, and is never laid over a file', async () => {
    const path = copy()
    const store = await openStore(path)
    await store.create(experiment('d'))
    await store.append('d', completeTrial(1))
    const to = join(folder, 'backup.db')
    const [check] = await Promise.all([backUpStore(path, to), store.append('d', completeTrial(2))])
    expect(check.experiments).toBe(4)
    await store.close()
    const reader = await openReader(to)
    expect((await reader.load('d'))?.trials[0]).toEqual(completeTrial(1))
    await reader.close()
    await expect(backUpStore(path, to)).rejects.toMatchObject({
      message: expect.stringContaining('already exists'),
    })
  })
})
