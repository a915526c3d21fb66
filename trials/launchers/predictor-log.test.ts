import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openLog } from './predictor-log.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tune-log-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

test('keeps at most twice the limit, the newest of it', () => {
  const log = openLog(folder, 1_000)
  for (let n = 0; n < 500; n++) log.write(Buffer.from(`line ${n}\n`), 'stdout')
  log.close()
  const files = readdirSync(folder)
  expect(files.sort()).toEqual(['predictor.log', 'predictor.log.1'])
  for (const file of files) expect(statSync(join(folder, file)).size).toBeLessThanOrEqual(1_000)
  expect(readFileSync(log.path, 'utf8')).toContain('line 499')
})

test('tells the last lines, of both streams', () => {
  const log = openLog(folder, 1_000)
  log.write(Buffer.from('one\ntwo\n'), 'stdout')
  log.write(Buffer.from('three\n'), 'stderr')
  expect(log.tail(2)).toBe('two\nthree')
  log.close()
})

test('hears whole lines, however they arrive, each stream for itself', () => {
  const lines: string[] = []
  const log = openLog(folder, 1_000, (line) => lines.push(line))
  log.write(Buffer.from('{"ready":'), 'stdout')
  log.write(Buffer.from('warning\n'), 'stderr')
  log.write(Buffer.from('true}\nnext'), 'stdout')
  log.close()
  expect(lines).toEqual(['warning', '{"ready":true}'])
})

test('a character cut between two chunks stays whole', () => {
  const log = openLog(folder, 1_000)
  const bytes = Buffer.from('größer\n')
  log.write(bytes.subarray(0, 3), 'stdout')
  log.write(bytes.subarray(3), 'stdout')
  expect(log.tail()).toBe('größer')
  log.close()
})

test('each log of a trial has a name of its own', () => {
  const logs = [1, 2, 3].map(() => openLog(folder, 1_000))
  for (const log of logs) log.close()
  expect(logs.map((log) => log.path)).toEqual(
    ['predictor.log', 'predictor-2.log', 'predictor-3.log'].map((name) => join(folder, name)),
  )
})

test('goes on without the file when the file cannot be kept, and says so', () => {
  const log = openLog(folder, 10)
  log.write(Buffer.from('before!\n'), 'stdout')
  rmSync(folder, { recursive: true })
  log.write(Buffer.from('after the loss\n'), 'stdout')
  expect(log.tail()).toMatch(/the log ends here: ENOENT.*after the loss/s)
  log.close()
})
