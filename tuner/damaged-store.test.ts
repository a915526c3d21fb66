/**
 * The commands on stores that are damaged, cannot be written, or are being written by another
 * process.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Connection } from '../trials/store/connection.ts'
import { openStore } from '../trials/store/index.ts'
import { completeTrial } from '../trials/store/samples.contract.ts'
import { CliBox, simulatedSearch } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

const simulated = simulatedSearch('--no-confirm', '--max-trials', '3', '--json')
/** One process for all commands: what they leave and say is what this is about. */
const tune = new WarmCli()
afterAll(() => tune.end())

/** With one experiment, which every test has a copy of. */
const sample = new CliBox()
let box: CliBox
let db: string
let id: string

beforeAll(async () => {
  expect((await tune.run(sample, simulated)).code).toBe(0)
  id = (await sample.stored()).experiment.id
})
beforeEach(() => {
  box = new CliBox()
  cpSync(sample.folder, box.folder, { recursive: true })
  db = join(box.folder, '.tune', 'tune.db')
})
afterEach(() => box.dispose())
afterAll(() => sample.dispose())

/** A second experiment, of which trial 2 is damaged. */
async function damage(): Promise<void> {
  const spec = await record()
  const store = await openStore(db)
  await store.create({
    id: 'other',
    name: 'other',
    createdAt: '2020-01-01T00:00:00.000Z',
    spec,
    seed: 1,
    provenance: 'simulated',
  })
  for (const n of [1, 2, 3]) await store.append('other', completeTrial(n))
  await store.finish('other', 'done')
  await store.close()
  const connection = await Connection.open(db, 1000)
  await connection.runOutsideTransaction((sql) =>
    sql.exec(`UPDATE trials SET trial = '{"broken' WHERE experiment_id = 'other' AND number = 2`),
  )
  await connection.close()
}
async function record(): Promise<unknown> {
  const store = await openStore(db)
  const found = await store.load(id)
  await store.close()
  return found?.experiment.spec
}

describe('a damaged row', () => {
  test('is named, and every command goes on with the rest', async () => {
    await damage()
    for (const args of [
      ['list'],
      ['show', id],
      ['show', 'other'],
      ['report', id, '--out', 'r.html'],
      simulated,
    ]) {
      const { code, stderr } = await tune.run(box, args)
      expect([args[0], code, /stack|SyntaxError|SQLITE/.test(stderr)], stderr).toEqual([
        args[0],
        0,
        false,
      ])
    }
    const { stderr } = await tune.run(box, ['show', 'other'])
    expect(stderr).toContain('trial 2 of experiment other')
    expect(stderr).toContain('tune store backup')
  })

  test('is found by check, and a backup is sound without it', async () => {
    await damage()
    const check = await tune.run(box, ['store', 'check'])
    expect([check.code, check.stdout.includes('trial 2 of experiment other')]).toEqual([1, true])
    const backup = await tune.run(box, ['store', 'backup', 'copy.db', '--json'])
    expect(backup.code).toBe(1)
    expect(JSON.parse(backup.stdout)).toMatchObject({
      complete: false,
      experiments: 2,
      damage: [{ where: 'trial 2 of experiment other' }],
    })
    expect((await tune.run(box, ['store', 'check', '--db', 'copy.db'])).code).toBe(0)
    expect(
      JSON.parse((await tune.run(box, ['list', '--json', '--db', 'copy.db'])).stdout),
    ).toHaveLength(2)
    const again = await tune.run(box, ['store', 'backup', 'copy.db'])
    expect([again.code, again.stderr.includes('already exists')]).toEqual([1, true])
  })
})

describe('a damaged file', () => {
  test.each([
    ['its header is', 0, 20],
    ['a page is', 4096, 8192],
    ['half of it is', 3 * 4096 + 100, undefined],
  ])(
    'of which %s garbage: what can be read is read, and nothing is written',
    async (_, from, to) => {
      const bytes = readFileSync(db).fill(0xa5, from, to)
      writeFileSync(db, bytes)
      for (const args of [['list'], ['show', id], ['store', 'check'], simulated, ['resume', id]]) {
        const { code, stderr, stdout } = await tune.run(box, args)
        expect(stderr + stdout).toMatch(/damaged/)
        expect(stderr, args.join(' ')).not.toMatch(/newer|^\s+at /m)
        if (args[0] === 'resume' || args === simulated) {
          expect(code).toBe(1)
          expect(stderr).toContain('tune store backup')
        }
        expect(readFileSync(db).equals(bytes)).toBe(true)
        expect(readdirSync(join(db, '..')).filter((name) => name.startsWith('tune.db'))).toEqual([
          'tune.db',
        ])
      }
    },
  )

  test('is told as damage where the header says another version, and its copy goes on', async () => {
    const bytes = readFileSync(db)
    bytes.writeUInt32BE(4_000, 60)
    writeFileSync(db, bytes)
    const refused = await tune.run(box, simulated)
    expect([refused.code, refused.stderr.includes('damaged')]).toEqual([1, true])
    expect((await tune.run(box, ['store', 'backup', 'copy.db'])).stdout).toContain('1 experiments')
    const { code, stderr } = await tune.run(box, [...simulated, '--db', 'copy.db'])
    expect(code, stderr).toBe(0)
    expect(
      JSON.parse((await tune.run(box, ['list', '--json', '--db', 'copy.db'])).stdout),
    ).toHaveLength(2)
  })
})

test('the store and its folder are for their owner alone', () => {
  db = join(sample.folder, '.tune', 'tune.db')
  expect(statSync(db).mode & 0o777).toBe(0o600)
  expect(statSync(join(db, '..')).mode & 0o777).toBe(0o700)
})

describe('reading', () => {
  test('goes on while another process holds the write lock', async () => {
    const writer = await Connection.open(db, 1000)
    await writer.runOutsideTransaction((sql) =>
      sql.exec(`BEGIN IMMEDIATE; UPDATE experiments SET name = 'changed'`),
    )
    for (const args of [
      ['list'],
      ['show', id],
      ['report', id, '--out', 'r.html'],
      ['store', 'check'],
    ]) {
      const { code, stdout, stderr } = await tune.run(box, args)
      expect([args[0], code], stderr).toEqual([args[0], 0])
      expect(stdout).not.toContain('changed')
    }
    await writer.runOutsideTransaction((sql) => sql.exec('ROLLBACK'))
    await writer.close()
  })

  const namespaces = spawnSync('unshare', ['-rm', 'true']).status === 0

  test.skipIf(!namespaces).each([
    ['closed properly', ''],
    ['left with its log by a crash', 'log'],
  ])(
    'works on a disk that cannot be written, of a store that was %s (needs mount namespaces)',
    async (_, log) => {
      const cli = join(import.meta.dirname, '../dist/tuner/cli.js')
      const elsewhere = new CliBox()
      const leave = `import { openStore } from '${join(import.meta.dirname, '../dist/trials/store/index.js')}';
      const store = await openStore(process.argv[1]);
      await store.claim('${id}');
      process.kill(process.pid, 'SIGKILL')`
      const script = `
      ${log && `node --input-type=module -e "${leave.replaceAll('"', '\\"').replaceAll('\n', ' ')}" ${db}`}
      rm -f ${db}-shm ${log ? '' : `${db}-wal`}
      mount --bind ${box.folder} ${box.folder} && mount -o remount,ro,bind ${box.folder} && cd ${box.folder} || exit 9
      ls ${box.folder}/.tune
      for command in "show ${id}" "store check"; do node ${cli} $command > /dev/null || exit 8; done
      node ${cli} dashboard --port 0 > ${elsewhere.folder}/url 2> /dev/null & page=$!
      until grep -qs http ${elsewhere.folder}/url; do kill -0 $page || exit 7; done
      node -e "fetch(new URL('/api/experiments', require('fs').readFileSync('${elsewhere.folder}/url', 'utf8').trim())).then((a) => a.text()).then(console.log)"
      kill $page`
      const done = spawnSync('unshare', ['-rm', 'sh', '-c', script], { encoding: 'utf8' })
      expect(done.stderr.replace('Killed\n', '')).toBe('')
      expect(done.status).toBe(0)
      expect(done.stdout.includes('-wal')).toBe(log !== '')
      expect(done.stdout).toContain(`"id":"${id}"`)
      elsewhere.dispose()
    },
  )
})
