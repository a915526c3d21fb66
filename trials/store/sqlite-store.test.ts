import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { Connection } from './connection.ts'
import { schemaVersion } from './database-schema.ts'
import { completeTrial } from './samples.contract.ts'
import { openStore } from './sqlite-store.ts'
import { storeContract } from './store.contract.ts'

const here = dirname(fileURLToPath(import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'tune-store-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let files = 0
const fresh = () => join(folder, `${++files}.db`)
const experiment = {
  id: 'e',
  name: 'e',
  createdAt: '2026-11-20T10:00:00.000Z',
  spec: {},
  provenance: 'simulated',
  seed: 1,
} as const

storeContract('the store on disk', () => openStore(fresh()))

describe('the file', () => {
  test('everything is there after reopening, in a folder it made', async () => {
    const path = join(folder, 'made', 'deep', 'x.db')
    const first = await openStore(path)
    await first.create(experiment)
    await first.append('e', completeTrial(1))
    await first.close()
    const second = await openStore(path)
    expect((await second.load('e'))?.trials).toEqual([completeTrial(1)])
    await second.close()
    await expect(second.list()).rejects.toMatchObject({ fault: 'closed' })
  })

  test('is readable with plain SQL', async () => {
    const path = fresh()
    const store = await openStore(path)
    await store.create(experiment)
    await store.append('e', completeTrial(1))
    await store.close()
    const connection = await Connection.open(path, 100)
    const rows = await connection.read((sql) =>
      sql.all(
        'SELECT t.state, t.capacity_rps, p.offered_rps, p.p99_ms FROM trials t JOIN load_points p ON p.trial_number = t.number LIMIT 1',
      ),
    )
    expect(rows).toEqual([{ state: 'complete', capacity_rps: 200, offered_rps: 100, p99_ms: 20 }])
    await connection.close()
  })

  test.each([
    [schemaVersion - 1, /the version of tune that wrote this one/],
    [schemaVersion + 1, /update tune/],
  ])('of version %i is refused and left as it was', async (version, hint) => {
    const path = fresh()
    await (await openStore(path)).close()
    const connection = await Connection.open(path, 100)
    await connection.runOutsideTransaction((sql) =>
      sql.exec(`ALTER TABLE trials ADD COLUMN note TEXT; PRAGMA user_version = ${version}`),
    )
    await connection.close()
    const before = readFileSync(path)
    await expect(openStore(path)).rejects.toMatchObject({
      fault: 'other-version',
      message: expect.stringMatching(
        new RegExp(`version ${version}, but .* version ${schemaVersion} only`),
      ),
      hint: expect.stringMatching(hint),
    })
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test("another program's database is refused and left as it was", async () => {
    const path = fresh()
    const connection = await Connection.open(path, 100)
    await connection.runOutsideTransaction((sql) => sql.exec('CREATE TABLE cats (name TEXT)'))
    await connection.close()
    await expect(openStore(path)).rejects.toMatchObject({
      fault: 'not-a-store',
      message: expect.stringContaining('cats'),
    })
  })

  test('a text file is refused', async () => {
    const path = fresh()
    writeFileSync(path, 'model: bert\n'.repeat(500))
    await expect(openStore(path)).rejects.toMatchObject({
      fault: 'no-database',
      hint: expect.stringContaining('--db'),
    })
  })

  test('what another machine runs is taken over only where something else says that it ended there', async () => {
    const path = fresh()
    const store = await openStore(path)
    await store.create(experiment)
    const other = await Connection.open(path, 50)
    await other.runOutsideTransaction((sql) =>
      sql.exec(`UPDATE experiments SET owner = json_set(owner, '$.host', 'elsewhere')`),
    )
    await other.close()
    await expect(store.claim('e')).rejects.toMatchObject({ fault: 'owned-elsewhere' })
    await store.claim('e', { fromOtherHosts: true })
    await store.append('e', completeTrial(1))
    await store.close()
  })

  test('a file locked by another connection is reported after the wait', async () => {
    const path = fresh()
    const store = await openStore(path, { busyTimeoutMs: 50 })
    await store.create(experiment)
    const other = await Connection.open(path, 50)
    await other.runOutsideTransaction((sql) => sql.exec('BEGIN EXCLUSIVE'))
    await expect(store.append('e', completeTrial(1))).rejects.toMatchObject({ fault: 'locked' })
    await other.runOutsideTransaction((sql) => sql.exec('COMMIT'))
    await store.append('e', completeTrial(1))
    await other.close()
    await store.close()
  })

  test('who opens a new file while another one writes its first waits for it', async () => {
    const path = fresh()
    const other = await Connection.open(path, 50)
    await other.runOutsideTransaction((sql) => sql.exec('BEGIN IMMEDIATE'))
    await expect(openStore(path, { busyTimeoutMs: 50 })).rejects.toMatchObject({ fault: 'locked' })
    const opened = openStore(path)
    setTimeout(() => other.runOutsideTransaction((sql) => sql.exec('COMMIT')), 50)
    const store = await opened
    await store.create(experiment)
    await other.close()
    await store.close()
  })

  test('a path that cannot be a file is refused', async () => {
    await expect(openStore(folder)).rejects.toMatchObject({ fault: 'cannot-open' })
    await expect(openStore('/dev/null/x.db')).rejects.toMatchObject({ fault: 'cannot-open' })
  })

  test('a commit is flushed: full synchronous mode, write-ahead log, foreign keys', async () => {
    const path = fresh()
    const store = await openStore(path)
    await store.create(experiment)
    const other = await Connection.open(path, 100)
    const [mode] = await other.read((sql) => sql.all('PRAGMA journal_mode'))
    expect(mode).toEqual({ journal_mode: 'wal' })
    await other.close()
    await store.close()
  })
})

/** A program with the store in a process of its own; prints a line per step. */
function program(source: string, args: string[] = [], shell?: string): ChildProcess {
  const node = [
    '--import',
    'tsx',
    '--input-type=module',
    '-e',
    `import { openStore } from '${here}/sqlite-store.ts'\n${source}`,
    ...args,
  ]
  const options = {
    cwd: join(here, '..', '..'),
    stdio: ['pipe', 'pipe', 'inherit'] as ('pipe' | 'inherit')[],
  }
  return shell === undefined
    ? spawn(process.execPath, node, options)
    : spawn(
        'unshare',
        ['-rm', 'sh', '-c', `${shell}\nexec "$@"`, 'sh', process.execPath, ...node],
        options,
      )
}
const output = async (child: ChildProcess): Promise<string> => {
  let text = ''
  child.stdout?.on('data', (data) => {
    text += data
  })
  await once(child, 'close')
  return text
}
const trialOf = (n: string) => `{ ...${JSON.stringify(completeTrial(0))}, number: ${n} }`

describe('two processes on one store', () => {
  const children: ChildProcess[] = []
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
  })
  const start = (source: string, args: string[]) => {
    const child = program(source, args)
    children.push(child)
    return child
  }

  test('write at the same time, each to its experiment, and nothing is lost or damaged', async () => {
    const path = fresh()
    const writer = `
      const [, path, id] = process.argv
      const store = await openStore(path)
      await store.create({ ...${JSON.stringify(experiment)}, id })
      for (let n = 1; n <= 40; n++) await store.append(id, ${trialOf('n')})
      await store.finish(id, 'done')
      await store.close()
      console.log('done')`
    const outputs = await Promise.all(['a', 'b'].map((id) => output(start(writer, [path, id]))))
    expect(outputs).toEqual(['done\n', 'done\n'])
    const store = await openStore(path)
    expect((await store.list()).map((e) => [e.id, e.trials, e.state])).toEqual([
      ['a', 40, 'done'],
      ['b', 40, 'done'],
    ])
    await store.close()
  })

  test('an experiment that a live process runs cannot be resumed; killed, it is interrupted with every finished trial, and can be', async () => {
    const path = fresh()
    const child = start(
      `const store = await openStore(process.argv[1])
       await store.create(${JSON.stringify(experiment)})
       for (let n = 1; ; n++) { await store.append('e', ${trialOf('n')}); console.log(n) }`,
      [path],
    )
    let durable = 0
    await new Promise<void>((resolve) => {
      child.stdout?.on('data', (data: Buffer) => {
        durable = Number(String(data).trim().split('\n').at(-1))
        if (durable >= 3) resolve()
      })
    })
    const store = await openStore(path)
    expect((await store.list())[0]?.state).toBe('running')
    await expect(store.claim('e')).rejects.toMatchObject({
      fault: 'owned-elsewhere',
      hint: expect.stringContaining(String(child.pid)),
    })
    await expect(store.append('e', completeTrial(9999))).rejects.toMatchObject({
      fault: 'owned-elsewhere',
    })
    await expect(store.finish('e', 'failed')).rejects.toMatchObject({ fault: 'owned-elsewhere' })
    const ended = once(child, 'close')
    child.kill('SIGKILL')
    await ended
    const left = await store.load('e')
    expect(left?.experiment.state).toBe('interrupted')
    expect(left?.trials.length).toBeGreaterThanOrEqual(durable)
    expect(left?.trials.map((t) => t.number)).toEqual(left?.trials.map((_, i) => i + 1))
    await store.claim('e')
    await store.append('e', completeTrial(9999))
    await store.close()
  })
})

const namespaces = spawnSync('unshare', ['-rm', 'true']).status === 0

describe.skipIf(!namespaces)('disks of its own (needs mount namespaces)', () => {
  const report = `
    const tell = (error) => console.log(JSON.stringify({ name: error.name, fault: error.fault, hint: error.hint !== undefined, message: error.message }))`

  test('a full disk loses the trial that did not fit and nothing else', async () => {
    const mount = join(folder, 'small')
    const child = program(
      `${report}
       import { rmSync, writeFileSync } from 'node:fs'
       const store = await openStore('${mount}/x.db')
       await store.create(${JSON.stringify(experiment)})
       await store.append('e', ${trialOf('1')})
       writeFileSync('${mount}/ballast', 'x')
       try { for (;;) writeFileSync('${mount}/ballast', 'x'.repeat(4096), { flag: 'a' }) } catch {}
       let n = 2
       try { for (; ; n++) await store.append('e', ${trialOf('n')}) } catch (error) { tell(error) }
       rmSync('${mount}/ballast')
       await store.append('e', ${trialOf('n')})
       await store.close()
       const again = await openStore('${mount}/x.db')
       console.log((await again.load('e')).trials.length === n)
       await again.close()`,
      [],
      `mkdir -p ${mount} && mount -t tmpfs -o size=400k tmpfs ${mount}`,
    )
    const [fault, kept] = (await output(child)).trim().split('\n')
    expect(JSON.parse(fault!)).toMatchObject({ name: 'StoreError', fault: 'disk-full', hint: true })
    expect(kept).toBe('true')
  })

  test('a read-only disk is refused, for a new file and for an old one', async () => {
    const mount = join(folder, 'frozen')
    const child = program(
      `${report}
       import { execFileSync } from 'node:child_process'
       const store = await openStore('${mount}/x.db')
       await store.create(${JSON.stringify(experiment)})
       await store.close()
       execFileSync('mount', ['-o', 'remount,ro', '${mount}'])
       for (const file of ['x.db', 'new.db']) await openStore('${mount}/' + file).then(() => console.log('opened'), tell)`,
      [],
      `mkdir -p ${mount} && mount -t tmpfs tmpfs ${mount}`,
    )
    const [old, fresh] = (await output(child))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(old).toMatchObject({ name: 'StoreError', fault: 'read-only', hint: true })
    expect(fresh).toMatchObject({ name: 'StoreError', fault: 'read-only', hint: true })
  })
})
