import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FinishedTrial } from '../types.ts'
import { Connection } from './connection.ts'
import {
  backupStore,
  checkStore,
  type Damage,
  openReader,
  openStore,
  repairStore,
} from './index.ts'
import { completeTrial } from './samples.contract.ts'

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
const ids = ['a', 'b', 'c']
const perExperiment = 8
const sound = join(folder, 'sound.db')
let bytes: Buffer

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
})

let copies = 0
function copy(content: Uint8Array = bytes): string {
  const path = join(folder, `${++copies}.db`)
  writeFileSync(path, content)
  return path
}

async function sql(path: string, text: string): Promise<void> {
  const connection = await Connection.open(path, 100)
  await connection.direct((statements) => statements.exec(text))
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
      /its text is no JSON/,
    ],
    [
      'a trial with a figure changed',
      `UPDATE trials SET trial = replace(trial, '"capacityRps":200', '"capacityRps":900') WHERE experiment_id = 'a' AND number = 2`,
      /not what was written/,
    ],
    [
      'a load point with a figure changed',
      `UPDATE load_points SET point = replace(point, '"offeredRps":100', '"offeredRps":101') WHERE experiment_id = 'a' AND trial_number = 2`,
      /not what was written/,
    ],
    [
      'a load point that is lost',
      `DELETE FROM load_points WHERE experiment_id = 'a' AND trial_number = 2 AND position = 1`,
      /not what was written/,
    ],
    [
      'a trial without a digest that lost its state',
      `UPDATE trials SET digest = NULL, trial = json_remove(trial, '$.state') WHERE experiment_id = 'a' AND number = 2`,
      /its state is/,
    ],
    [
      'a trial without a digest whose measurement is a list',
      `UPDATE trials SET digest = NULL, trial = json_set(trial, '$.measurement', json('[]')) WHERE experiment_id = 'a' AND number = 2`,
      /measurement/,
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

describe.each(ways)('a value of another type, in a store that is %s', (_, open) => {
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
    const { trials, damage } = await read(open, path)
    expect(damage.map((one) => one.where)).toContain(where)
    expect(numbers(trials.c)).toEqual(all)
  })
})

test('a trial number beyond all bounds takes neither memory nor time', async () => {
  const path = copy()
  await sql(
    path,
    `UPDATE trials SET number = 9007199254740991, digest = NULL, trial = json_set(trial, '$.number', 9007199254740991)
    WHERE experiment_id = 'a' AND number = 8; DELETE FROM experiments WHERE id = 'b'`,
  )
  const repaired = await repairStore(path)
  expect(repaired.damage.map((one) => one.what).join()).toMatch(/1, 2|8, 9, 10/)
})

test('of one that was cut off before its first whole experiment nothing can be saved, and nobody is sent to repair it', async () => {
  const path = copy(bytes.subarray(0, 6_000))
  for (const open of [openReader, checkStore, repairStore]) {
    const refused = open(path)
    await expect(refused).rejects.toMatchObject({
      message: expect.stringContaining('nothing can be saved'),
      hint: expect.stringContaining('--db'),
    })
    await expect(refused).rejects.not.toMatchObject({
      hint: expect.stringContaining('store repair'),
    })
  }
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
  expect(await store.lastNumber('a')).toBe(perExperiment)
  await store.append('a', completeTrial(perExperiment + 1))
  expect(numbers((await store.load('a'))?.trials)).toEqual([...all.slice(0, -1), perExperiment + 1])
  await store.close()
})

test('a store of version 1 with a document that is no JSON is read, migrated and written', async () => {
  const old = readFileSync(join(dirname(fileURLToPath(import.meta.url)), 'fixtures', 'v1.db'))
  old.write('X', old.indexOf('{"number":2'))
  const path = copy(old)
  const damage: Damage[] = []
  for (const open of [openReader, forWriting]) {
    damage.length = 0
    const store = await open(path, (one) => damage.push(one))
    expect(numbers((await store.load('bert-7f3a'))?.trials)).toEqual([1, 3, 4])
    expect(damage.map((d) => d.where)).toEqual(['trial 2 of experiment bert-7f3a'])
    await store.close()
  }
})

/** Nothing that is wrong is shown, and nothing is missing without being named. */
async function confined(path: string, open: typeof openReader): Promise<void> {
  const { list, trials, damage } = await read(open, path)
  const truth = await read(openReader, sound)
  for (const id of ids) {
    for (const trial of trials[id]!)
      expect(trial).toEqual(truth.trials[id]!.find((t) => t.number === trial.number))
    if (trials[id]!.length < perExperiment) expect(damage).not.toEqual([])
  }
  if (list.length < ids.length) expect(damage).not.toEqual([])
  for (const { result: _, state: __, trials: ___, ...record } of list)
    expect(truth.list.find((e) => e.id === record.id)).toMatchObject(record)
}

describe('a file with flipped bits', () => {
  const flip = fc.tuple(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), fc.nat(7))

  test.each(ways)(
    'anywhere, %s: what is shown is true, and what is lost is named',
    async (_, open) => {
      await fc.assert(
        fc.asyncProperty(fc.array(flip, { minLength: 1, maxLength: 3 }), async (flips) => {
          const damaged = Buffer.from(bytes)
          for (const [share, bit] of flips) damaged[Math.floor(share * damaged.length)]! ^= 1 << bit
          await confined(copy(damaged), open)
        }),
        { numRuns: 40 },
      )
    },
  )

  test.each(ways)('in the header of the file and of its pages, %s', async (_, open) => {
    for (let page = 0; page < bytes.length / 4096; page++) {
      const damaged = Buffer.from(bytes)
      damaged[page * 4096 + (page === 0 ? 16 : 3)]! ^= 0x41
      await confined(copy(damaged), open)
    }
  })

  test.each(ways)('a page of it overwritten, %s', async (_, open) => {
    for (let page = 0; page < bytes.length / 4096; page++) {
      const damaged = Buffer.from(bytes)
      damaged.fill(0xa5, page * 4096, (page + 1) * 4096)
      await confined(copy(damaged), open)
    }
  })

  test('a new experiment runs in it, and the damaged file is kept', async () => {
    const damaged = Buffer.from(bytes)
    damaged.fill(0xa5, 0, 4096)
    const path = copy(damaged)
    const told: Damage[] = []
    const store = await openStore(path, { onDamage: (one) => told.push(one) })
    await store.create(experiment('d'))
    await store.append('d', completeTrial(1))
    expect((await store.list()).map((e) => e.id)).toEqual(['a', 'b', 'c', 'd'])
    await store.close()
    expect(told[0]).toEqual({ where: path, what: expect.stringContaining(`${path}.damaged`) })
    expect(readFileSync(`${path}.damaged`).equals(damaged)).toBe(true)
  })

  test.each([
    ['header', 20],
    ['first frame', 32 + 24 + 2000],
    ['first salt', 32 + 9],
    ['page number', 32 + 4],
    ['later frame', 32 + 5 * (24 + 4096) + 500],
  ])(
    'or with one in the log beside it, in its %s: what SQLite would drop is saved or named',
    async (_name, at) => {
      const path = copy()
      const store = await openStore(path)
      await store.create(experiment('d'))
      for (let n = 1; n <= 6; n++) await store.append('d', completeTrial(n))
      const log = readFileSync(`${path}-wal`)
      const main = readFileSync(path)
      await store.close()
      log[at]! ^= 4
      for (const open of [openReader, forWriting]) {
        const crashed = copy(main)
        writeFileSync(`${crashed}-wal`, log)
        const damage: Damage[] = []
        const opened = await open(crashed, (one) => damage.push(one))
        const kept = (await opened.load('d'))?.trials ?? []
        expect(damage[0]?.what).toMatch(/log/)
        expect(kept.length + damage.length).toBeGreaterThanOrEqual(6)
        expect(kept).toEqual(kept.map((trial) => completeTrial(trial.number)))
        await opened.close()
      }
    },
  )

  test('a log whose last transaction is torn is no damage', async () => {
    const path = copy()
    const store = await openStore(path)
    await store.create(experiment('d'))
    await store.append('d', completeTrial(1))
    const log = readFileSync(`${path}-wal`)
    const main = readFileSync(path)
    await store.close()
    log.fill(0, log.length - 2000)
    const crashed = copy(main)
    writeFileSync(`${crashed}-wal`, log)
    const damage: Damage[] = []
    const reader = await openReader(crashed, (one) => damage.push(one))
    expect((await reader.load('d'))?.trials).toEqual([])
    expect(damage).toEqual([])
    await reader.close()
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

  test('repair leaves a sound store of what was whole', async () => {
    const path = copy()
    await sql(
      path,
      `UPDATE trials SET trial = 'x' WHERE experiment_id = 'a' AND number = 2; UPDATE experiments SET spec = '' WHERE id = 'b'`,
    )
    expect(await repairStore(path)).toMatchObject({
      kept: `${path}.damaged`,
      experiments: 2,
      trials: 15,
    })
    expect(await checkStore(path)).toEqual({ experiments: 2, trials: 15, damage: [] })
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test('a store whose experiment a live process runs is not repaired under its feet', async () => {
    const path = copy()
    const store = await openStore(path)
    await store.create(experiment('running'))
    // This process counts as another one would: it lives.
    await sql(
      path,
      `UPDATE experiments SET owner = json_set(owner, '$.pid', 1, '$.startedAt', 'x', '$.host', 'elsewhere') WHERE id = 'running'`,
    )
    await store.close()
    await expect(repairStore(path)).rejects.toMatchObject({ fault: 'owned-elsewhere' })
    expect(existsSync(`${path}.damaged`)).toBe(false)
  })

  test('a backup is taken while a transaction is open, and is never laid over a file', async () => {
    const path = copy()
    const store = await openStore(path)
    await store.create(experiment('d'))
    await store.append('d', completeTrial(1))
    const to = join(folder, 'backup.db')
    const [check] = await Promise.all([backupStore(path, to), store.append('d', completeTrial(2))])
    expect(check.experiments).toBe(4)
    await store.close()
    const reader = await openReader(to)
    expect((await reader.load('d'))?.trials[0]).toEqual(completeTrial(1))
    await reader.close()
    await expect(backupStore(path, to)).rejects.toMatchObject({
      message: expect.stringContaining('there already'),
    })
  })
})
